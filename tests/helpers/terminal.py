"""Commands as a user types them: in this process, and in processes that can be signalled and killed.

The fixture `type_in` runs a command in this process. `h2h` and `start` fork a process that has imported torch already,
so that a command starts at once. `imported_by` runs a new interpreter, to tell which modules a command imports.
"""

from __future__ import annotations

import io
import json
import multiprocessing
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from headtohead.run.executors import local as workers

H2H = str(Path(sys.prefix) / "bin" / "h2h")

_SERVER = multiprocessing.get_context("forkserver")
workers.PRELOADED.extend(  # this process's workers are forked from the same server
    [
        "headtohead.display.run_list",
        "headtohead.display.attention",
        "headtohead.display.scores",
        "headtohead.interpret.attend",
        "headtohead.report.models",
        "headtohead.study.workflow",
        "headtohead.display.training_screen",
        "rich.table",
        "torch._dynamo",
        "matplotlib.figure",
        "scipy.stats",
        "altair",
    ]
)
_SERVER.set_forkserver_preload(workers.PRELOADED)


class Done(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


Type = Callable[..., Done]


@pytest.fixture
def type_in(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Type:
    """Run `h2h …` in this process, which is quick."""
    from headtohead.cli import main

    def run(*arguments: object, stdin: str | bytes = "") -> Done:
        raw = stdin.encode() if isinstance(stdin, str) else stdin
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(raw), encoding="utf-8"))
        monkeypatch.setattr(sys, "argv", ["h2h", *map(str, arguments)])
        capfd.readouterr()
        with pytest.raises(SystemExit) as exit:
            main()
        out, err = capfd.readouterr()
        return Done(int(exit.value.code or 0), out, err)

    return run


@dataclass
class Running:
    process: Any
    files: Path

    def send(self, number: int) -> None:
        os.kill(self.process.pid, number)

    def wait(self, seconds: float = 120) -> Done:
        self.process.join(seconds)
        assert self.process.exitcode is not None, "the command hangs"
        out, err = (self.files.with_suffix(f".{name}").read_text() for name in ("out", "err"))
        return Done(self.process.exitcode, out, err)


def start(
    *arguments: object,
    largest: int | None = None,
    before: Callable[[], None] | None = None,
    folder: Path | None = None,
    environment: dict[str, str] | None = None,
) -> Running:
    """Start `h2h …` in a new process, in the current folder or in `folder`. No file may grow beyond `largest` bytes."""
    files = Path(tempfile.mkdtemp()) / "said"
    given = [*map(str, arguments)], environment or dict(os.environ), str(folder or Path.cwd()), str(files)
    process = _SERVER.Process(target=_command, args=(*given, largest, before))
    with workers._ignored_sigint():  # as the program starts the server: its workers ignore Ctrl-C from the start
        process.start()
    return Running(process, files)


def h2h(*arguments: object, **options: Any) -> Done:
    """Run `h2h …` in a new process to its end."""
    return start(*arguments, **options).wait()


def is_one_line(done: Done, says: str, code: int = 2) -> None:
    """Assert that the command failed with one line that says this."""
    assert done.code == code, done
    assert done.err.startswith("h2h: ")
    assert done.err.count("\n") == 1, done.err
    assert says in done.err
    assert done.out == ""


def refused(done: Done, *says: str) -> None:
    """Assert that the command failed with one line that says all of these."""
    assert done.code in (2, 3)
    assert len(done.err.strip().splitlines()) == 1, done.err
    for words in says:
        assert words in done.err


def _command(
    arguments: list[str],
    environment: dict[str, str],
    folder: str,
    files: str,
    largest: int | None,
    before: Callable[[], None] | None,
) -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    for number, name in ((1, "out"), (2, "err")):
        os.dup2(os.open(f"{files}.{name}", os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o644), number)
    if largest is not None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (largest, largest))
    if before is not None:
        before()
    from headtohead.cli import main

    sys.argv = ["h2h", *arguments]
    main()


_FRESH = """
import sys
from headtohead.cli import main
try:
    main()
finally:
    with open(FILE, "w") as file:
        print(*sys.modules, file=file)
"""


def imported_by(*arguments: object) -> tuple[Done, set[str]]:
    """Run `h2h …` in a new interpreter: what it printed, and the modules it had imported at its end."""
    modules = Path(tempfile.mkdtemp()) / "modules"
    code = _FRESH.replace("FILE", repr(str(modules)))
    ran = subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)], capture_output=True, text=True, check=False
    )
    return Done(ran.returncode, ran.stdout, ran.stderr), set(modules.read_text().split())


def until(condition: Callable[[], bool], seconds: float = 60) -> None:
    """Wait until the condition is true."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"not true after {seconds} s"
        time.sleep(0.001)
