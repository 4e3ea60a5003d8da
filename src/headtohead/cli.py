"""The commands. A few lines each: they read arguments, call the library and print."""

from __future__ import annotations

import dataclasses
import json
import signal
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from headtohead import __version__

STOPPED = "h2h: stopped; give the same command again to go on"

try:
    import typer
    from typer.core import TyperGroup
except KeyboardInterrupt:  # they take the longest to load, and nobody else is there yet to catch it
    print(STOPPED, file=sys.stderr)
    sys.exit(130)

if TYPE_CHECKING:
    from rich.console import Console


class Interrupted(Exception):  # noqa: N818
    """Ctrl-C that nobody obeyed politely. Of a KeyboardInterrupt typer makes an exit code and no word."""


@contextmanager
def _interruptible() -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt:
        raise Interrupted from None


class Commands(TyperGroup):
    def make_context(self, *given: Any, **options: Any) -> Any:
        with _interruptible():
            return super().make_context(*given, **options)

    def invoke(self, ctx: Any) -> Any:
        with _interruptible():
            return super().invoke(ctx)


app = typer.Typer(
    name="h2h",
    cls=Commands,
    help="Does this change to the transformer really help, by how much, and at what cost?",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
lists = typer.Typer(help="What there is: parts, corpora, runs; parameters of a model.", no_args_is_help=True)
app.add_typer(lists, name="list")

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]
Settings = Annotated[
    list[str] | None, typer.Option("--set", help="A setting, such as model.position=Rope. Repeatable.")
]


UsageError: Any = typer.BadParameter.__bases__[0]  # click's, under whatever name typer brings it along


def main() -> None:
    """Run a command; errors of the user's are one line and exit code 2."""
    from headtohead.errors import OUT_OF_MEMORY, InputError, Unavailable, is_out_of_memory

    try:
        sys.exit(app(standalone_mode=False))
    except InputError as error:
        print(f"h2h: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
    except UsageError as error:
        message = error.format_message().rstrip(".")
        if message:  # none where the help was printed instead
            print(f"h2h: {message}; see {getattr(error.ctx, 'command_path', 'h2h')} --help", file=sys.stderr)
        sys.exit(2)
    except (KeyboardInterrupt, Interrupted, typer.Abort):
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # a third Ctrl-C has nothing left to stop
        print(STOPPED, file=sys.stderr)
        sys.exit(130)
    except (MemoryError, RuntimeError) as error:
        if not is_out_of_memory(error):
            raise
        print(f"h2h: {OUT_OF_MEMORY}", file=sys.stderr)
        sys.exit(Unavailable.exit_code)
    except BrokenPipeError:  # `h2h … | head`
        sys.stderr.close()
        sys.exit(1)


@app.callback(invoke_without_command=True)
def version(show: Annotated[bool, typer.Option("--version", help="Print the version.")] = False) -> None:
    if show:
        print(__version__)
        raise typer.Exit


@app.command()
def audit(
    what: Annotated[
        str | None, typer.Argument(help="A part (Rope, 'Local(4)'), a recipe.py, or file.py:Class.")
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="Every part, and many legal models made of them.")] = False,
    causal: Annotated[bool, typer.Option("--causal", help="It must not read later tokens.")] = False,
    relative: Annotated[bool, typer.Option("--relative", help="Positions must be relative.")] = False,
    window: Annotated[int | None, typer.Option(min=1, help="Attention must show exactly this many positions.")] = None,
    vocab: Annotated[int | None, typer.Option(min=3, help="Vocabulary of the module; seen from it by default.")] = None,
    block: Annotated[int | None, typer.Option(min=1, help="Longest text the module takes.")] = None,
    pad: Annotated[int, typer.Option(help="The id of padding.")] = 0,
    models: Annotated[int, typer.Option(min=1, help="With --all: how many models to draw.")] = 200,
    seed: Annotated[int, typer.Option(help="With --all: which models.")] = 0,
    jobs: Annotated[int | None, typer.Option(min=1, help="Processes; one a core by default.")] = None,
    as_json: AsJson = False,
) -> None:
    """Prove that a part, a recipe's models, or any torch module of yours is what it says. Exit 1 if it is not.

    A module of yours maps token ids (B, T) to logits (B, T, V) or (B, classes) and is built with no arguments, or with
    vocab and block. A mask argument named keep, mask or attention_mask is true at real tokens; one named
    key_padding_mask, padding_mask, pad_mask or src_key_padding_mask is true at padding.
    """
    import torch

    torch.set_num_threads(1)
    from headtohead.audit import Claims, audit_named

    if everything or what is None:
        if what is not None:
            raise typer.BadParameter("give a name or --all, not both")
        _audit_all(models, seed, jobs, as_json)
        return
    reports = audit_named(what, Claims(causal, relative, window, vocab, block, pad))
    if as_json:
        _print_json([r.to_json() for r in reports])
    else:
        for report in reports:
            report.show(_console())
    raise typer.Exit(0 if all(r.ok for r in reports) else 1)


def _audit_all(models: int, seed: int, workers: int | None, as_json: bool) -> None:
    import os

    from rich.progress import track

    from headtohead.audit import sample

    todo = sample.jobs(models, seed)
    found = sample.audit_many(todo, workers or os.cpu_count() or 1)
    console = _console(stderr=True)
    reports = list(
        track(found, total=len(todo), description="auditing", console=console, disable=not console.is_terminal)
    )
    reports.sort(key=lambda r: (r.ok, r.subject))
    bad = [r for r in reports if not r.ok]
    if as_json:
        _print_json({"ok": not bad, "audited": len(reports), "seed": seed, "reports": [r.to_json() for r in reports]})
    else:
        for report in bad:
            report.show(_console())
        total = sum(r.count("proved") for r in reports)
        what = f"{len(todo) - models} parts and {models} models (seed {seed})"
        print(f"{what}: {total} properties proved, {len(bad)} subjects broken")
    raise typer.Exit(1 if bad else 0)


class TaskName(StrEnum):
    lm = "lm"
    classifier = "classifier"


@app.command()
def train(
    context: typer.Context,
    task: Annotated[TaskName | None, typer.Argument(help="lm (language model) or classifier.")] = None,
    data: Annotated[
        str | None, typer.Option(help="A corpus (h2h list corpora), or a file of yours: .txt .tsv .csv .jsonl .parquet")
    ] = None,
    validation: Annotated[str | None, typer.Option(help="A file of yours for validation.")] = None,
    test: Annotated[str | None, typer.Option(help="A file of yours for testing.")] = None,
    text: Annotated[str | None, typer.Option(help="The text's column, if it is not found.")] = None,
    label: Annotated[str | None, typer.Option(help="The label's column, if it is not found.")] = None,
    arm: Annotated[str | None, typer.Option(help="An arm of a Python file: recipes/documents.py:decoder_run")] = None,
    settings: Settings = None,
    steps: Annotated[int | None, typer.Option(min=1, help="Updates; short for --set train.steps=N")] = None,
    epochs: Annotated[int | None, typer.Option(min=1, help="Passes; short for --set train.epochs=N")] = None,
    seed: Annotated[int, typer.Option(min=0, help="The first seed.")] = 0,
    seeds: Annotated[int, typer.Option(min=1, help="How many seeds, one run each.")] = 1,
    jobs: Annotated[int | None, typer.Option(min=1, help="Runs side by side; one a core by default.")] = None,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda or mps.")] = "auto",
    threads: Annotated[int, typer.Option(min=1, help="Of each run; more than one changes the last digits.")] = 1,
    log_to: Annotated[str | None, typer.Option(help="trackio, tensorboard or wandb, on this machine.")] = None,
    save_every: Annotated[float, typer.Option(min=0, help="Seconds between checkpoints.")] = 30.0,
    resume: Annotated[str | None, typer.Option(help="Go on with a run that was stopped.")] = None,
    as_json: AsJson = False,
) -> None:
    """Train one model: h2h train lm --data shakespeare --set model.position=Rope --steps 1000

    The same command again goes on where it was stopped, or shows what is in the store.
    """
    from headtohead import commands, screen

    if resume is not None:
        _only(context, ("resume", "log_to", "save_every", "as_json"), "--resume goes on with a run's own settings")
        specs = [commands.resumed(resume)]
    elif task is None and arm is None:
        raise typer.BadParameter("say what to train: h2h train lm, h2h train classifier, or --arm FILE.py:NAME")
    elif task is not None and arm is not None:
        raise typer.BadParameter(f"{task} and --arm both say what to train: give one of them")
    else:
        changes = [*(settings or []), *commands.length(steps, epochs, settings or [])]
        if arm is not None:
            of_data = ("data", "validation", "test", "text", "label")
            _only(context, context.params.keys() - set(of_data), "an arm has its own data, changed by --set data.…")
            chosen = commands.arm_in(arm, changes)
        else:
            chosen = commands.arm_for(task, data, validation, test, text, label, changes)
        specs = commands.runs_of(chosen, range(seed, seed + seeds), device, threads)
    console = _console(stderr=True)
    seeds_of = {spec.id: spec.seed for spec in specs}
    ended = screen.follow(commands.execute_all(specs, jobs, save_every, log_to), console, len(specs))
    ended = commands.by_seed(ended, seeds_of)
    there = sum(getattr(event, "already", False) for event in ended)
    if log_to is not None and there:
        said = f"h2h: {there} of {len(specs)} runs were in the store already: nothing of them was logged to {log_to}"
        print(said, file=sys.stderr)
    if as_json:
        _print_json([commands.summary(event, seeds_of) for event in ended])
    else:
        screen.show_end(ended, _console(), seeds_of)
    raise typer.Exit(commands.exit_code(ended))


def _only(context: typer.Context, allowed: Iterable[str], reason: str) -> None:
    """Refuse what was typed and would be ignored."""
    from headtohead.errors import InputError

    for parameter in context.command.params:
        source = context.get_parameter_source(parameter.name or "")
        if source is not None and source.name == "COMMANDLINE" and parameter.name not in allowed:
            option = parameter.opts[0].startswith("-")
            raise InputError(f"{reason}: leave out {parameter.opts[0] if option else context.params[parameter.name]}")


Jobs = Annotated[int | None, typer.Option(min=1, help="Runs side by side; one a core by default.")]
On = Annotated[str, typer.Option("--on", help="local, ray, or ray:ADDRESS of a running cluster.")]


@app.command()
def run(
    recipe: Annotated[str, typer.Argument(help="A recipe's file or name, or lm or classifier with --vary.")],
    vary: Annotated[list[str] | None, typer.Option(help="FIELD=VALUE,VALUE,… to compare. Repeatable.")] = None,
    data: Annotated[str | None, typer.Option(help="With --vary: a corpus, or a file of yours.")] = None,
    settings: Settings = None,
    seeds: Annotated[int | None, typer.Option(min=1, help="Pairs; six or more for a verdict.")] = None,
    metric: Annotated[str | None, typer.Option(help="SET/FIGURE, such as test/loss or obama/perplexity.")] = None,
    margin: Annotated[str | None, typer.Option(help="A difference too small to matter: 0.01 or 1%.")] = None,
    jobs: Jobs = None,
    on: On = "local",
    effect: Annotated[str | None, typer.Option(help="Plan first, and take the pairs that see it: 0.01 or 1%.")] = None,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda or mps.")] = "auto",
    threads: Annotated[int, typer.Option(min=1, help="Of each run; more than one changes the last digits.")] = 1,
    save_every: Annotated[float, typer.Option(min=0, help="Seconds between checkpoints.")] = 30.0,
    as_json: AsJson = False,
) -> None:
    """Run a study, or go on with it: h2h run lm --vary model.position=Learned,Rope,Alibi --seeds 6

    Runs that are in the store are used, not trained again. The same command goes on where it was stopped.
    """
    from headtohead import study_commands

    study = study_commands.study_for(
        recipe, vary=vary, data=data, settings=settings or [], seeds=seeds, metric=metric, margin=margin
    )
    if effect is not None:
        forecast = _planned(study, effect, jobs)
        if forecast.pairs is None:
            raise typer.BadParameter("no number of pairs sees so small an effect: ask for a larger one")
        study = dataclasses.replace(study, seeds=forecast.pairs)
    _carry(study, jobs, on, device, threads, save_every, as_json)


@app.command()
def plan(
    recipe: Annotated[str, typer.Argument(help="A recipe's file or name, or lm or classifier with --vary.")],
    effect: Annotated[str, typer.Option(help="The smallest difference worth seeing: 0.01 or 1%.")] = "1%",
    vary: Annotated[list[str] | None, typer.Option(help="FIELD=VALUE,VALUE,… to compare. Repeatable.")] = None,
    data: Annotated[str | None, typer.Option(help="With --vary: a corpus, or a file of yours.")] = None,
    settings: Settings = None,
    metric: Annotated[str | None, typer.Option(help="SET/FIGURE, such as test/loss or obama/perplexity.")] = None,
    jobs: Jobs = None,
    as_json: AsJson = False,
) -> None:
    """How many pairs and minutes a study takes: about a minute of trial runs, then a forecast.

    h2h run RECIPE --effect 1% plans and then runs with the pairs that takes.
    """
    from headtohead import study_commands

    study = study_commands.study_for(
        recipe, vary=vary, data=data, settings=settings or [], seeds=None, metric=metric, margin=None
    )
    forecast = _planned(study, effect, jobs, quiet=as_json)
    if as_json:
        _print_json(forecast.to_json())


def _planned(study: Any, effect: str, jobs: int | None, quiet: bool = False) -> Any:
    from headtohead import watch_study
    from headtohead.metrics import read_amount
    from headtohead.planning import Forecast
    from headtohead.planning import plan as planning

    read_amount(effect)  # say now, not after a minute
    found: list[Any] = []

    def events() -> Any:
        for event in planning(study, effect, jobs=jobs):
            if isinstance(event, Forecast):
                found.append(event)
            else:
                yield event

    watch_study.follow(events(), _console(stderr=True), study.measured)
    if not found:
        _console(stderr=True).print("stopped; give the same command again to go on", markup=False)
        raise typer.Exit(130)
    if not quiet:
        for line in found[0].lines():
            print(line)
    return found[0]


@app.command()
def demo(jobs: Jobs = None, on: On = "local", as_json: AsJson = False) -> None:
    """The default study on the embedded corpus: position encodings, six pairs, some minutes."""
    from headtohead import study_commands

    _carry(study_commands.recipe("demo"), jobs, on, "cpu", 1, 30.0, as_json)


def _carry(study: Any, jobs: int | None, on: str, device: str, threads: int, save_every: float, as_json: bool) -> None:
    from headtohead import watch_study
    from headtohead.carry import carry_out
    from headtohead.machine import check_threads
    from headtohead.outcome import load_outcome
    from headtohead.planning import how_it_went
    from headtohead.report.page import write_report
    from headtohead.runs import Options

    check_threads(threads)
    console = _console(stderr=True)
    options = Options(save_every=save_every)
    events = carry_out(study, jobs=jobs, on=on, device=device, threads=threads, options=options)
    start = time.monotonic()
    folder, fresh = watch_study.follow(events, console, study.measured)
    if folder is None:
        console.print("stopped, everything is saved; give the same command again to go on", markup=False)
        raise typer.Exit(130)
    outcome = load_outcome(Path(folder))
    path = write_report(outcome)
    if as_json:
        _print_json({"folder": folder, "report": str(path), "tables": outcome.to_json()})
    else:
        for title in outcome.titles:
            watch_study.show(outcome.verdicts(title), _console())
        for line in how_it_went(outcome.folder, (time.monotonic() - start) / 60, fresh):
            _console().print(line, markup=False, soft_wrap=True)
        _console().print(f"report: {path}", markup=False, soft_wrap=True)


@app.command()
def report(
    study: Annotated[str, typer.Argument(help="A study in the store, a recipe's file, or latest.")] = "latest",
    as_json: AsJson = False,
) -> None:
    """The self-contained HTML report of a study that has been run."""
    from headtohead import store
    from headtohead.outcome import find_study, load_outcome
    from headtohead.report.page import write_report

    if ".py" in study:
        from headtohead.study_commands import folder_named

        folder = folder_named(study)
    else:
        folder = find_study(study, store.home())
    outcome = load_outcome(folder)
    path = write_report(outcome)
    if as_json:
        _print_json({"folder": str(outcome.folder), "report": str(path), "tables": outcome.to_json()})
    else:
        print(f"report: {path}")


@app.command()
def score(
    run: Annotated[str, typer.Argument(help="A run: its id, the beginning of it, or latest.")],
    text: Annotated[str, typer.Argument(help="The text; - reads it from standard input.")],
    step: Annotated[int | None, typer.Option(help="The weights kept at this step.")] = None,
    as_json: AsJson = False,
) -> None:
    """Loss and perplexity of a text under a language model, token by token."""
    from headtohead import commands, predict

    scored = predict.score(commands.trained(run, step), commands.given(text))
    if as_json:
        _print_json(scored.to_json())
    else:
        scored.show(_console())


@app.command()
def classify(
    run: Annotated[str, typer.Argument(help="A run: its id, the beginning of it, or latest.")],
    texts: Annotated[list[str], typer.Argument(help="Texts; - reads one a line from standard input.")],
    step: Annotated[int | None, typer.Option(help="The weights kept at this step.")] = None,
    as_json: AsJson = False,
) -> None:
    """The label of each text and the probability of every class."""
    from headtohead import commands, predict

    given, blank = commands.given_lines(texts)
    found = predict.classify(commands.trained(run, step), given)
    if blank:
        lines = ", ".join(map(str, blank[:9])) + (" …" if len(blank) > 9 else "")
        print(f"h2h: blank lines of standard input are left out: {lines}", file=sys.stderr)
    if as_json:
        _print_json([f.to_json() for f in found])
    else:
        predict.show(found, _console())


@app.command()
def bench(
    task: Annotated[str, typer.Argument(help="decoder, classifier or all.")] = "all",
    rounds: Annotated[int, typer.Option(min=1, help="Interleaved rounds.")] = 20,
    steps: Annotated[int, typer.Option(min=1, help="Steps of each contender a round.")] = 10,
    only: Annotated[list[str] | None, typer.Option(help="Only these contenders. Repeatable.")] = None,
    folder: Annotated[str, typer.Option(help="Where the contenders are.")] = "benchmarks",
    out: Annotated[str | None, typer.Option(help="Write the figures there as JSON.")] = None,
    as_json: AsJson = False,
) -> None:
    """Training steps against peers: one process each, in turn, on the same batches."""
    from headtohead import commands

    results = commands.bench(task, folder, rounds, steps, only, out)
    if as_json:
        _print_json([r.to_json() for r in results])
    else:
        for result in results:
            result.show(_console())


@lists.command("corpora")
def list_corpora(as_json: AsJson = False) -> None:
    """Every corpus: what it is, whether it is here, and how to get it."""
    from headtohead.data.corpora import corpora
    from headtohead.reference import entry

    rows = [
        {"name": c.name, "for": ", ".join(c.tasks), "says": entry(type(c)).says, "here": not c.lacks()}
        | {"lacks": c.lacks()}
        for c in corpora()
    ]
    if as_json:
        _print_json(rows)
        return
    for row in rows:
        here = "here" if row["here"] else row["lacks"]
        print(f"{row['name']:<16}{row['says']}\n{'':<16}for: {row['for']}; {here}")


@lists.command("runs")
def list_runs(as_json: AsJson = False) -> None:
    """Every run in the store, the latest last."""
    from headtohead import commands

    rows = commands.run_rows()
    if as_json:
        _print_json(rows)
        return
    if not rows:
        print("there are no runs here yet: train one with `h2h train lm`")
    if len(rows) > 100:  # a table of thousands takes its time, and nobody looks at it as one
        for row in rows:
            print(f"{row['run'][:8]}  {row['state']:<9} {row['what']}  {row['result']}")
        return
    from rich.table import Table

    table = Table("run", "state", "what", "result")
    for row in rows:
        table.add_row(*map(_plain, (row["run"][:8], row["state"], row["what"], row["result"])))
    if rows:
        _console().print(table)


@lists.command("studies")
def list_studies(as_json: AsJson = False) -> None:
    """Every study in the store."""
    from headtohead import study_commands

    _table(study_commands.study_rows(), as_json, "there are no studies here yet: run one with `h2h demo`")


@lists.command("recipes")
def list_recipes(as_json: AsJson = False) -> None:
    """Every recipe of this folder: what it asks, its command and its usual run time."""
    from headtohead import study_commands

    rows = study_commands.recipe_rows()
    if as_json:
        _print_json(rows)
        return
    for row in rows:
        below = [row["command"] + (f" ({row['takes']})" if row["takes"] else ""), row["expected"]]
        print(f"{row['recipe']:<16}{row['question']}" + "".join(f"\n{'':<16}{line}" for line in below if line))


def _table(rows: list[dict[str, Any]], as_json: bool, nothing: str) -> None:
    if as_json:
        _print_json(rows)
        return
    from rich.table import Table

    table = Table(*(rows[0] if rows else []))
    for row in rows:
        table.add_row(*map(_plain, row.values()))
    _console().print(table if rows else nothing)


@lists.command("parts")
def list_parts(
    files: Annotated[list[str] | None, typer.Argument(help="Python files with parts of your own.")] = None,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print the reference page.")] = False,
    as_json: AsJson = False,
) -> None:
    """Every part: its equation, its knobs and its reference; with your own files, theirs too."""
    from headtohead import reference
    from headtohead.userfiles import load_file

    for file in files or []:
        load_file(file)
    if as_json:
        _print_json([entry.to_json() for entry in reference.parts()])
    elif markdown:
        print(reference.page(), end="")
    else:
        reference.show(_console())


@lists.command("parameters")
def list_parameters(
    settings: Settings = None,
    vocab: Annotated[int, typer.Option(min=1, help="Vocabulary.")] = 5755,
    classes: Annotated[
        int | None, typer.Option(min=2, help="A classifier with so many classes, not a language model.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """The parameters of a model per component: h2h list parameters --set model.position=Rope --vocab 500"""
    from headtohead.count import breakdown
    from headtohead.errors import InputError
    from headtohead.model import ModelSpec

    spec = ModelSpec()
    for setting in settings or []:
        path, equals, value = setting.partition("=")
        if not equals or not path.startswith("model."):
            raise InputError(f"--set takes model.FIELD=VALUE, such as model.position=Rope, not '{setting}'")
        spec = spec.set(path.removeprefix("model."), value)
    counted = breakdown(spec, vocab, classes)
    if as_json:
        _print_json({"spec": spec.to_json(), **counted.to_json()})
        return
    print(f"{spec}, vocabulary {vocab:,}" + (f", {classes} classes" if classes else ""))
    print(counted)


@app.command()
def doctor(as_json: AsJson = False) -> None:
    """What this machine has, and what to do about what it lacks."""
    from headtohead.doctor import examine

    findings = examine()
    if as_json:
        _print_json([f._asdict() for f in findings])
        return
    from rich.table import Table

    table = Table("", "found", "what to do", title="This machine", title_justify="left")
    for f in findings:
        table.add_row(f.what, _plain(f.found), _plain(f.remedy))
    _console().print(table)


def _plain(text: Any) -> Any:
    from rich.text import Text

    return Text(str(text))


def _console(stderr: bool = False) -> Console:
    from rich.console import Console

    return Console(stderr=stderr, highlight=False)


def _print_json(value: Any) -> None:
    print(json.dumps(value, indent=2, ensure_ascii=False))
