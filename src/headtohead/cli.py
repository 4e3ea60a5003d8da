"""The commands. A few lines each: they read arguments, call the library and print."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headtohead import __version__

if TYPE_CHECKING:
    from rich.console import Console

app = typer.Typer(
    name="h2h",
    help="Does this change to the transformer really help, by how much, and at what cost?",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
lists = typer.Typer(help="What there is: parts; parameters of a model.", no_args_is_help=True)
app.add_typer(lists, name="list")

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]
Settings = Annotated[
    list[str] | None, typer.Option("--set", help="A setting, such as model.position=Rope. Repeatable.")
]


UsageError: Any = typer.BadParameter.__bases__[0]  # click's, under whatever name typer brings it along


def main() -> None:
    """Run a command; errors of the user's are one line and exit code 2."""
    from headtohead.errors import InputError

    try:
        sys.exit(app(standalone_mode=False))
    except InputError as error:
        print(f"h2h: {error}", file=sys.stderr)
        sys.exit(2)
    except UsageError as error:
        message = error.format_message().rstrip(".")
        if message:  # none where the help was printed instead
            print(f"h2h: {message}; see {getattr(error.ctx, 'command_path', 'h2h')} --help", file=sys.stderr)
        sys.exit(2)
    except (KeyboardInterrupt, typer.Abort):
        print("h2h: stopped", file=sys.stderr)
        sys.exit(130)
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
