"""The program `h2h`: its commands in panels, its exit codes and Ctrl-C."""

from __future__ import annotations

import errno
import json
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Annotated, Any, NoReturn

from headtohead import __version__
from headtohead.cli.output import own_streams
from headtohead.errors import (
    OUT_OF_MEMORY,
    InputError,
    Unavailable,
    failure,
    is_out_of_memory,
    is_users,
    needs_package,
    refusal,
    shortened,
)

LONGEST = 2000  # characters of a message; a user may give a name of any length
STOPPED = "h2h: stopped. Type the same command again to continue."

try:
    import typer
    from typer.core import TyperGroup
except KeyboardInterrupt:  # these imports take the longest, and main() does not run yet
    print(STOPPED, file=sys.stderr)
    sys.exit(130)
except ModuleNotFoundError as error:
    print(f"h2h: {needs_package('the program h2h', error)}", file=sys.stderr)
    sys.exit(Unavailable.exit_code)

# Panels of `h2h --help`, in this order
ASK = "Ask"
TRAIN = "Train"
INSIDE = "Look inside"
TEACH = "Teach"
STORE = "Store"
MACHINE = "Machine"
PANELS = [ASK, TRAIN, INSIDE, TEACH, STORE, MACHINE]


class Interrupted(Exception):  # noqa: N818
    """Ctrl-C during a command. Typer would turn a KeyboardInterrupt into an exit code without a message."""


@contextmanager
def _interruptible() -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt:
        raise Interrupted from None


class Commands(TyperGroup):
    def list_commands(self, ctx: Any) -> list[str]:
        """Names of the commands, panel by panel: typer would put groups such as `list` last."""
        return sorted(
            self.commands, key=lambda name: PANELS.index(getattr(self.commands[name], "rich_help_panel", MACHINE))
        )

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
UsageError: Any = typer.BadParameter.__bases__[0]  # click's class: typer may bring its own copy of click


@contextmanager
def _safe_path() -> Iterator[None]:
    """Processes that are started here import nothing from the current folder: a file there may have the name of a
    module, such as multiprocessing.py."""
    before = os.environ.get("PYTHONSAFEPATH")
    os.environ["PYTHONSAFEPATH"] = "1"
    try:
        yield
    finally:  # a program that calls main() goes on as it was
        del os.environ["PYTHONSAFEPATH"]
        if before is not None:
            os.environ["PYTHONSAFEPATH"] = before


@own_streams()
def main() -> None:
    """Run a command. A user's mistake ends it with one line on standard error and exit code 2."""
    try:
        with _safe_path():
            sys.exit(app(standalone_mode=False))
    except InputError as error:
        _refuse(shortened(str(error), LONGEST), error.exit_code)
    except UsageError as error:
        message = error.format_message().rstrip(".")
        if message:  # empty if typer printed the help instead
            message = shortened(message, LONGEST)
            _refuse(f"{message}; see {getattr(error.ctx, 'command_path', 'h2h')} --help", 2)
        sys.exit(2)
    except (KeyboardInterrupt, Interrupted, typer.Abort):
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # ignore further Ctrl-C while the program ends
        print(STOPPED, file=sys.stderr)
        sys.exit(130)
    except BrokenPipeError:  # standard error was closed: `h2h … 2>&1 | head`
        sys.stderr.close()
        sys.exit(1)
    except Exception as error:  # our own errors are raised again, with their traceback
        if is_out_of_memory(error):
            _refuse(OUT_OF_MEMORY, Unavailable.exit_code)
        if isinstance(error, ModuleNotFoundError) and (lacking := needs_package("this command", error)):
            _refuse(str(lacking), Unavailable.exit_code)
        if not is_users(error):
            if not (why := refusal(error)):
                raise
            of_input = isinstance(error, OSError) and error.errno in (errno.ENAMETOOLONG, errno.ELOOP)
            _refuse(why, InputError.exit_code if of_input else Unavailable.exit_code)
        _refuse(failure(error), InputError.exit_code)


def _refuse(message: str, code: int) -> NoReturn:
    """End with a line on standard error and, with --json, the same as JSON on standard output."""
    if "--json" in sys.argv:
        with suppress(Exception):  # standard output may be what failed
            print(json.dumps({"ok": False, "error": message, "exit_code": code}))
            sys.stdout.flush()
    print(f"h2h: {message}", file=sys.stderr)
    sys.exit(code)


@app.callback(invoke_without_command=True)
def version(show: Annotated[bool, typer.Option("--version", help="Print the version.")] = False) -> None:
    if show:
        print(__version__)
        raise typer.Exit
