"""h2h list: parts, settings, corpora, recipes, runs, studies, parameters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from headtohead.cli.approving import approve_for
from headtohead.cli.entry import STORE, app
from headtohead.cli.options import AsJson, Settings, Trust, only
from headtohead.cli.printing import console, in_columns, print_json, stacked

if TYPE_CHECKING:
    from headtohead.data.corpora import Corpus

lists = typer.Typer(help="Runs, studies, parts, recipes, corpora, settings, parameters.", no_args_is_help=True)
app.add_typer(lists, name="list", rich_help_panel=STORE)


@lists.command("corpora")
def list_corpora(as_json: AsJson = False) -> None:
    """List corpora: what each is, whether it is on this machine, and how to get it."""
    from headtohead.data.corpora import corpora
    from headtohead.display.reference import summary

    rows: list[dict[str, Any]] = [
        {"name": c.name, "for": ", ".join(c.tasks), "says": summary(type(c)), "here": not c.lacks()}
        | {"lacks": c.lacks(), **_limits(c)}
        for c in corpora()
    ]
    if as_json:
        print_json(rows)
        return
    for row in rows:
        state = f"for: {row['for']}; {'here' if row['here'] else row['lacks']}"
        if "separates" in row:
            best, guess = row["optimum"], row["guess"]
            state = f"best possible {best['accuracy']:.0%} and {best['loss']:.2f} nats per answer; "
            state += f"guessing {guess['accuracy']:.1%} and {guess['loss']:.2f}"
        stacked(row["name"], row["says"], *([f"separates {row['separates']}"] if "separates" in row else []), state)


def _limits(corpus: Corpus) -> dict[str, Any]:
    """What a synthetic task separates, and the results of the best answers and of guessing."""
    from headtohead.data.synthetic import Synthetic

    if not isinstance(corpus, Synthetic):
        return {}
    best, guess = corpus.limits()
    return {"separates": corpus.separates, "optimum": best._asdict(), "guess": guess._asdict()}


# Columns of `list runs` that shrink on a narrow screen: column and least width, in this order
NARROWER = [("differs", 22), ("corpus", 9), ("task", 6), ("differs", 16), ("state", 4), ("task", 4), ("corpus", 6)]
NARROWER += [("differs", 10), ("result", 8)]


@lists.command("runs")
def list_runs(
    study: Annotated[str | None, typer.Option(help="Only runs of this study.")] = None,
    where: Annotated[
        list[str] | None,
        typer.Option(
            help="Only runs with FIELD=VALUE: task=lm, state=complete, seed=3, model.position=Rope. Repeatable."
        ),
    ] = None,
    last: Annotated[int | None, typer.Option(min=1, help="Only the last N runs.")] = None,
    as_json: AsJson = False,
) -> None:
    """List runs in the store, one line each, the latest last.

    A line is cut with … where the terminal is too narrow; --json has everything.
    """
    from headtohead.display import run_list
    from headtohead.run import store

    found = run_list.runs(study, where or [], last)
    if as_json:
        print_json([one.row for one in found])
    elif found:
        head = ("run", "state", "task", "corpus", "seed", "differs", "result")
        in_columns(head, [one.cells for one in found], NARROWER)
    elif study is None and not where:
        print("the store has no runs yet: train one with `h2h train lm`")
    else:
        print(f"none of the {len(store.runs())} runs in the store matches; h2h list runs shows them all")


@lists.command("studies")
def list_studies(as_json: AsJson = False) -> None:
    """List studies in the store."""
    from headtohead.display import run_list

    rows = run_list.study_rows()
    if as_json:
        print_json(rows)
    elif rows:
        for row in rows:
            size = f"{row['arms']} arms, {row['seeds']} seeds, {row['metric']}" if row["arms"] else ""
            stacked(row["study"], row["question"], size)
    else:
        print("the store has no studies yet: run one with `h2h demo`")


@lists.command("recipes")
def list_recipes(as_json: AsJson = False) -> None:
    """List recipes: question, command and usual run time."""
    from headtohead.study.sources import recipe_rows

    rows = recipe_rows()
    if as_json:
        print_json(rows)
        return
    for row in rows:
        takes, expected = (row[name] and f"{name} {row[name]}" for name in ("takes", "expected"))
        stacked(row["recipe"], row["question"], row["command"], takes, expected)


@lists.command("parts")
def list_parts(
    files: Annotated[list[str] | None, typer.Argument(help="Python files with your own parts.")] = None,
    as_json: AsJson = False,
) -> None:
    """List parts: equation, knobs and reference. Your own files add their parts."""
    from headtohead.display import reference
    from headtohead.display.catalogue import catalogue

    if files:
        from headtohead.spec.userfiles import load_file

        for file in files:
            load_file(file)
        known = reference.parts()
    else:
        known = list(catalogue().parts)
    if as_json:
        print_json([entry.to_json() for entry in known])
    else:
        reference.show(known, console())


@lists.command("settings")
def list_settings(
    run: Annotated[
        str | None,
        typer.Argument(
            help="A run: its id, the beginning of its id, latest, or a study's arm. Shows its values, not the defaults."
        ),
    ] = None,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print a run's settings as a Markdown table.")] = False,
    as_json: AsJson = False,
) -> None:
    """List settings for --set, --vary and --over: type, default and meaning.

    With a run, list its values, for the table of hyperparameters in a report: h2h list settings latest
    """
    from dataclasses import asdict

    from headtohead.display.catalogue import catalogue

    if run is not None:
        from headtohead.display import parameters

        title, values = parameters.settings_of(run)
        _show_values(title, values, markdown, as_json)
        return
    found = catalogue().settings
    if markdown:
        raise typer.BadParameter("--markdown is for the settings of a run: h2h list settings latest --markdown")
    if as_json:
        print_json([asdict(setting) for setting in found])
    else:
        for s in found:
            stacked(f"{s.name} = {s.default}", s.help)


def _show_values(title: str, values: dict[str, str], markdown: bool, as_json: bool) -> None:
    from headtohead.report.text_table import TextTable

    if as_json:
        print_json({"name": title, "settings": values})
        return
    table = TextTable(title, ["setting", "value"], [list(pair) for pair in values.items()], left=(0, 1))
    print(table.markdown() if markdown else table.text(console().width), end="")


@lists.command("parameters")
def list_parameters(
    context: typer.Context,
    run: Annotated[
        str | None,
        typer.Argument(
            help="A run: its id, the beginning of its id, latest, or a study's arm such as positions/Rope@3. "
            "Or a checkpoint: a folder, minilm or hub:NAME. Without it, the default model with the settings below."
        ),
    ] = None,
    settings: Settings = None,
    vocab: Annotated[int, typer.Option(min=1, help="Size of the vocabulary.")] = 5755,
    classes: Annotated[
        int | None, typer.Option(min=2, help="Number of classes of a classifier; without it, a language model.")
    ] = None,
    trust: Trust = False,
    as_json: AsJson = False,
) -> None:
    """Count the parameters of a model, component by component.

    Example: h2h list parameters latest

    Without a run, count those of an untrained model: h2h list parameters --set model.position=Rope --vocab 500
    """
    from headtohead.display import parameters

    if run is not None:
        only(context, ("run", "trust", "as_json"), "a run has its own model")
        approve_for([run], trust)
        found = parameters.parameters_of(run)
    else:
        found = parameters.parameters_with(settings or [], vocab, classes)
    if as_json:
        print_json(found.to_json())
        return
    for line in found.lines():
        console().print(line, markup=False)
    print(found.counted)
