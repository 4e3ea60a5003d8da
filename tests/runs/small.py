"""Small runs, in this process and in processes of their own that can be signalled and killed."""

from __future__ import annotations

import json
import multiprocessing
import os
import resource
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from headtohead import Arm, Files, RunSpec, workers
from headtohead.runs import Event, Options, execute

H2H = str(Path(sys.prefix) / "bin" / "h2h")
SMALL = ["model.width=16", "model.layers=1", "model.block=16", "tokenizer=Byte", "train.batch=4"]
SMALL += ["evaluate.train=16", "evaluate.along=16"]  # most of a short run's time goes by looking at it
SMALL_OPTIONS = [part for setting in SMALL for part in ("--set", setting)]

RESULTS = ("model.safetensors", "metrics.jsonl", "result.json", "items.npz", "run.json", "tokenizer.json")


def run_on(path: Path, *settings: str, seed: int = 0) -> RunSpec:
    """A tiny language model on a text; later settings override."""
    return RunSpec(arm=Arm.of("lm", Files(path=str(path))).settings([*SMALL, *settings]), seed=seed).resolved()


def train(spec: RunSpec, home: Path, save_every: float = 1e9) -> list[Event]:
    return list(execute(spec, home, Options(save_every=save_every)))


def results(folder: Path) -> dict[str, Any]:
    """What must be the same bits whatever happened on the way."""
    files = [*(folder / name for name in RESULTS), *(folder / "snapshots").glob("*")]
    return {f.name: f.read_bytes() for f in files if f.exists()}


# -- commands in processes forked from one that has loaded torch already: as real as any, and there at once ------------

_SERVER = multiprocessing.get_context("forkserver")
workers.PRELOADED.extend(  # of this process's workers too, which are forked from the same one
    [
        "headtohead.commands",
        "headtohead.look_commands",
        "headtohead.report_commands",
        "headtohead.study_commands",
        "headtohead.screen",
        "headtohead.predict",
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


@dataclass
class Running:
    process: Any
    files: Path

    def send(self, number: int) -> None:
        os.kill(self.process.pid, number)

    def wait(self, seconds: float = 120) -> Done:
        self.process.join(seconds)
        assert self.process.exitcode is not None, "it hangs"
        out, err = (self.files.with_suffix(f".{name}").read_text() for name in ("out", "err"))
        return Done(self.process.exitcode, out, err)


def start(
    *arguments: object,
    largest: int | None = None,
    before: Callable[[], None] | None = None,
    folder: Path | None = None,
    environment: dict[str, str] | None = None,
) -> Running:
    """`h2h …` in a process of its own, here unless a folder is given; no file of it grows beyond `largest` bytes."""
    files = Path(tempfile.mkdtemp()) / "said"
    given = [*map(str, arguments)], environment or dict(os.environ), str(folder or Path.cwd()), str(files)
    process = _SERVER.Process(target=_command, args=(*given, largest, before))
    process.start()
    return Running(process, files)


def h2h(*arguments: object, **options: Any) -> Done:
    return start(*arguments, **options).wait()


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


# -- how far a run has come, seen from outside -------------------------------------------------------------------------


def until(condition: Callable[[], bool], seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it never came to that"
        time.sleep(0.001)


def reached(folder: Path) -> int:
    """The last step in metrics.jsonl, −1 before any."""
    try:
        lines = (folder / "metrics.jsonl").read_bytes().split(b"\n")[:-1]
        return int(json.loads(lines[-1])["step"]) if lines else -1
    except FileNotFoundError:
        return -1
