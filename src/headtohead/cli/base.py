"""The commands. A few lines each: they read arguments, call the library and print."""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
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
lists = typer.Typer(
    help="What there is: parts, settings, corpora, recipes, runs, studies; parameters of a model.", no_args_is_help=True
)
app.add_typer(lists, name="list")

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]
ValidationFile = Annotated[str | None, typer.Option("--validation", help="A file of yours for validation.")]
TestFile = Annotated[str | None, typer.Option("--test", help="A file of yours for testing.")]
TextColumn = Annotated[str | None, typer.Option("--text", help="The text's column, if it is not found.")]
LabelColumn = Annotated[str | None, typer.Option("--label", help="The label's column, if it is not found.")]
ArmOfFile = Annotated[str | None, typer.Option("--arm", help="An arm of a Python file: FILE.py:NAME")]
Device = Annotated[str, typer.Option("--device", help="auto, cpu, cuda or mps.")]
SaveEvery = Annotated[float, typer.Option("--save-every", min=0, help="Seconds between checkpoints.")]
LogTo = Annotated[str | None, typer.Option("--log-to", help="trackio, tensorboard or wandb, on this machine.")]
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


def only(context: typer.Context, allowed: Iterable[str], reason: str) -> None:
    """Refuse what was typed and would be ignored."""
    from headtohead.errors import InputError

    for parameter in context.command.params:
        source = context.get_parameter_source(parameter.name or "")
        if source is not None and source.name == "COMMANDLINE" and parameter.name not in allowed:
            option = parameter.opts[0].startswith("-")
            raise InputError(f"{reason}: leave out {parameter.opts[0] if option else context.params[parameter.name]}")


def show_rows(rows: list[dict[str, Any]], as_json: bool, nothing: str) -> None:
    if as_json:
        print_json(rows)
        return
    from rich.table import Table

    table = Table(*(rows[0] if rows else []))
    for row in rows:
        table.add_row(*map(plain, row.values()))
    console().print(table if rows else nothing)


def text_or_sample(text: str | None, sample: str | None) -> str:
    """What was typed, or a sample's text."""
    from headtohead.errors import InputError

    if (text is None) == (sample is None):
        raise InputError(
            "give a text or --sample" + (", not both" if text is not None else ": short, beyond, normal …")
        )
    if sample is not None:
        from headtohead.samples import sample as sample_named

        return sample_named(sample)
    from headtohead.commands import given

    return given(text or "")


def followed(parts: Iterable[Any], what: str) -> Any:
    """The last of what comes; before it come shares of the work, for a bar."""
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    errors = console(stderr=True)
    found = None
    columns = (TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn())
    with Progress(*columns, console=errors, disable=not errors.is_terminal, transient=True) as bar:
        task = bar.add_task(what, total=1.0)
        for found in parts:
            if isinstance(found, float):
                bar.update(task, completed=found)
    return found


def saved(out: str | None, draw: Callable[[str], bytes]) -> None:
    """Write what `draw` makes of the file's ending, and say where."""
    if out is None:
        return
    from pathlib import Path

    from headtohead.errors import Unavailable
    from headtohead.store import write_whole

    path = Path(out)
    drawn = draw(path.suffix.removeprefix(".").lower())
    try:
        write_whole(path, drawn)
    except Unavailable:
        raise Unavailable(
            f"cannot write {path}: give --out a name in a folder of yours, with room on its disk"
        ) from None
    print(f"wrote {path}", file=sys.stderr)


def plain(text: Any) -> Any:
    from rich.text import Text

    return Text(str(text))


def console(stderr: bool = False) -> Console:
    from rich.console import Console

    return Console(stderr=stderr, highlight=False)


def print_json(value: Any) -> None:
    print(json.dumps(value, indent=2, ensure_ascii=False))
