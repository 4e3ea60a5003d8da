"""h2h list: what there is."""

from __future__ import annotations

from typing import Annotated

import typer

from headtohead.cli.base import AsJson, Settings, console, lists, plain, print_json, show_rows


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
        print_json(rows)
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
        print_json(rows)
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
        table.add_row(*map(plain, (row["run"][:8], row["state"], row["what"], row["result"])))
    if rows:
        console().print(table)


@lists.command("studies")
def list_studies(as_json: AsJson = False) -> None:
    """Every study in the store."""
    from headtohead import study_commands

    show_rows(study_commands.study_rows(), as_json, "there are no studies here yet: run one with `h2h demo`")


@lists.command("recipes")
def list_recipes(as_json: AsJson = False) -> None:
    """Every recipe of this folder: what it asks, its command and its usual run time."""
    from headtohead import study_commands

    rows = study_commands.recipe_rows()
    if as_json:
        print_json(rows)
        return
    wide = 2 + max(len(row["recipe"]) for row in rows)
    for row in rows:
        below = [row["command"] + (f" ({row['takes']})" if row["takes"] else ""), row["expected"]]
        print(f"{row['recipe']:<{wide}}{row['question']}" + "".join(f"\n{'':<{wide}}{line}" for line in below if line))


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
        print_json([entry.to_json() for entry in reference.parts()])
    elif markdown:
        print(reference.page(), end="")
    else:
        reference.show(console())


@lists.command("settings")
def list_settings(
    markdown: Annotated[bool, typer.Option("--markdown", help="Print the reference page.")] = False,
    as_json: AsJson = False,
) -> None:
    """Every setting that --set, --vary and --over can name: its type, its default and what it means."""
    from dataclasses import asdict

    from headtohead import reference

    found = reference.settings()
    if markdown:
        print(reference.settings_page(), end="")
    elif as_json:
        print_json([asdict(setting) for setting in found])
    else:
        wide = 2 + max(len(setting.name) for setting in found)
        for setting in found:
            print(f"{setting.name:<{wide}}{setting.default:<17}{setting.help}")


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
        print_json({"spec": spec.to_json(), **counted.to_json()})
        return
    print(f"{spec}, vocabulary {vocab:,}" + (f", {classes} classes" if classes else ""))
    print(counted)
