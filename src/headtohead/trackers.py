"""Experiment trackers: a run's curves in Trackio, TensorBoard or Weights & Biases as well, always offline.

The run's own log stays the record; a tracker is a copy of it for looking at. It may fail, the run may not: the first
failure is said once and the tracker is given up.

| tracker     | below its folder      | look at it                                   | a step logged again on resume  |
|-------------|-----------------------|----------------------------------------------|--------------------------------|
| trackio     | `<project>.db`        | `TRACKIO_DIR=<folder> trackio show`          | both rows are kept             |
| tensorboard | `<run>/events.out.…`  | `tensorboard --logdir <folder>`              | the later one takes its place  |
| wandb       | `wandb/offline-run-…` | `wandb leet <folder>/wandb`, or `wandb sync` | both are kept, one a directory |
"""

from __future__ import annotations

import hashlib
import importlib
import json
import math
import os
import re
import sys
import threading
import time
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, ClassVar, final

from headtohead.errors import InputError, Unavailable, describe, nearest

Summary = Mapping[str, float | int | str]

SECONDS_UNWRITTEN = 2.0  # a row for Trackio waits for the first one logged so long after the last write


class Tracker(ABC):
    """One run's log elsewhere."""

    @abstractmethod
    def log(self, step: int, values: Mapping[str, float]) -> None:
        """Add what was measured at a step."""

    @abstractmethod
    def finish(self, summary: Summary) -> None:
        """Add the final results and close; nothing runs on in the background."""


def complain_as_warning(line: str) -> None:
    warnings.warn(line, stacklevel=4)  # the line that logged


def open_tracker(
    name: str,
    *,
    folder: Path,
    run: str,
    config: Mapping[str, Any],
    project: str = "headtohead",
    complain: Callable[[str], None] = complain_as_warning,
) -> Tracker:
    """The tracker of that name for one run, its files below `folder`. Opened again with the same run, it goes on.

    Only a name nobody knows and a library that is missing are raised, before anything is trained. Whatever fails from
    then on is one line to `complain`.
    """
    if name not in TRACKERS:
        raise InputError(f"there is no tracker '{name}': {nearest(name, TRACKERS)}")
    kind = TRACKERS[name]
    try:
        with warnings.catch_warnings():  # what a library says of its own dependencies is not the user's business
            warnings.simplefilter("ignore")
            for module in kind.modules:
                importlib.import_module(module)
    except ImportError as error:
        reason = " ".join(str(error).split())
        raise Unavailable(f"{name} cannot be imported ({reason}): pip install 'headtohead[track]'") from error
    return Careful(name, lambda: kind(folder.absolute(), run, config, project), complain)


@final
class Careful(Tracker):
    """A tracker that never raises.

    It is given up at its first failure rather than tried again: a lock that cannot be had or a process that is gone
    costs seconds at every attempt, and a run is not to wait for its copy.
    """

    def __init__(self, name: str, opening: Callable[[], Tracker], complain: Callable[[str], None]) -> None:
        self._name, self._complain = name, complain
        self._tracker: Tracker | None = None
        try:
            self._tracker = opening()
        except Exception as error:
            self._give_up("when it was opened", error)

    def log(self, step: int, values: Mapping[str, float]) -> None:
        try:
            if self._tracker is not None:
                self._tracker.log(step, {key: float(value) for key, value in values.items()})
        except Exception as error:
            self._give_up(f"at step {step}", error)

    def finish(self, summary: Summary) -> None:
        tracker, self._tracker = self._tracker, None
        try:
            if tracker is not None:
                tracker.finish(summary)
        except Exception as error:
            self._give_up("when it was closed", error)

    def _give_up(self, when: str, error: Exception) -> None:
        tracker, self._tracker = self._tracker, None
        if tracker is not None:
            with suppress(Exception):
                tracker.finish({})  # no process and no file stays open
        self._complain(f"{self._name} failed {when} and is left out from here on, the run goes on: {describe(error)}")


# -- trackio -----------------------------------------------------------------------------------------------------------


@final
class Trackio(Tracker):
    """One SQLite database a project, written through Trackio's storage.

    `trackio.init` is not used: it asks huggingface.co who the user is whenever there is a token, obeys the environment
    when that names a Space, prints, and swallows errors. A run is known by its name, so it continues when opened again;
    rows are only ever added. There is no summary in Trackio: numbers become `summary/…`, one bar a run, and all of it
    joins the config, where the table of runs shows it.
    """

    modules = ("trackio", "trackio.sqlite_storage", "trackio.utils")
    _lock = threading.Lock()

    def __init__(self, folder: Path, run: str, config: Mapping[str, Any], project: str) -> None:
        from trackio.sqlite_storage import SQLiteStorage
        from trackio.utils import RESERVED_KEYS

        folder.mkdir(parents=True, exist_ok=True)
        self._folder, self._run, self._project = folder, run, project
        self._storage, self._reserved = SQLiteStorage, RESERVED_KEYS
        self._config = flatten(config)
        self._rows: list[tuple[int, str, dict[str, float]]] = []
        self._last_step = 0
        self._written = -math.inf

    def log(self, step: int, values: Mapping[str, float]) -> None:
        self._add(step, values)
        if time.monotonic() - self._written >= SECONDS_UNWRITTEN:  # a write takes 20 ms, too long for every step
            self._write(None if math.isfinite(self._written) else self._config)

    def finish(self, summary: Summary) -> None:
        if summary:
            numbers = {f"summary/{key}": value for key, value in summary.items() if not isinstance(value, str)}
            self._add(self._last_step, numbers)
        self._write({**self._config, **{f"summary.{key}": value for key, value in summary.items()}})

    def _add(self, step: int, values: Mapping[str, float]) -> None:
        """Names that Trackio needs for itself get the prefix that it would give them."""
        row = {f"__{key}" if key in self._reserved else key: value for key, value in values.items()}
        self._rows.append((step, datetime.now(UTC).isoformat(), row))
        self._last_step = step

    def _write(self, config: dict[str, Any] | None) -> None:
        if not self._rows:
            return
        steps, times, rows = (list(column) for column in zip(*self._rows, strict=True))
        with self._directory():
            self._storage.bulk_log(self._project, self._run, rows, steps, timestamps=times, config=config)
        self._rows.clear()
        self._written = time.monotonic()

    @contextmanager
    def _directory(self) -> Iterator[None]:
        """Trackio reads TRACKIO_DIR once, when imported: for a folder of one's own the constants have to be moved."""
        from trackio import sqlite_storage, utils

        with self._lock, environment({"TRACKIO_BUCKET_ID": None, "TRACKIO_DATASET_ID": None}):  # would be downloaded
            modules: tuple[Any, ...] = (sqlite_storage, utils)
            before = [module.TRACKIO_DIR for module in modules]
            for module in modules:
                module.TRACKIO_DIR = self._folder
            try:
                yield
            finally:
                for module, directory in zip(modules, before, strict=True):
                    module.TRACKIO_DIR = directory


# -- tensorboard -------------------------------------------------------------------------------------------------------


@final
class TensorBoard(Tracker):
    """Event files in a directory of the run's own, written with TensorBoard's records and without torch or TensorFlow.

    Each opening writes a new file that says at which step it starts, and TensorBoard drops from there on what earlier
    files hold. Values are kept in single precision. The config is a text and the run's hyperparameters; the summary is
    a text, and its numbers are curves of one point, `summary/…`.
    """

    modules = (
        "tensorboard",
        "tensorboard.compat.proto.event_pb2",
        "tensorboard.plugins.hparams.summary_v2",
        "tensorboard.plugins.text.summary_v2",
        "tensorboard.summary.writer.record_writer",
    )

    def __init__(self, folder: Path, run: str, config: Mapping[str, Any], project: str) -> None:
        from tensorboard.plugins.hparams.summary_v2 import hparams_pb
        from tensorboard.summary.writer.record_writer import RecordWriter

        directory = folder / file_name(run)
        directory.mkdir(parents=True, exist_ok=True)
        # read in the order of their names; not TensorBoard's EventFileWriter, whose thread dies with a traceback
        self._file = (directory / f"events.out.tfevents.{time.time_ns()}.{os.getpid()}").open("xb")
        self._records = RecordWriter(self._file)
        self._last_step: int | None = None
        self._write(0, file_version="brain.Event:2")
        hyperparameters = {key: "null" if value is None else value for key, value in flatten(config).items()}
        self._write(0, summary=hparams_pb(hyperparameters, trial_id=run))
        self._write_text(0, "config", config)

    def log(self, step: int, values: Mapping[str, float]) -> None:
        from tensorboard.compat.proto.event_pb2 import SessionLog

        if self._last_step is None:
            self._write(step, session_log=SessionLog(status=SessionLog.START))
        self._last_step = step
        self._write_numbers(step, values)

    def finish(self, summary: Summary) -> None:
        with self._file:
            if summary:
                step = self._last_step or 0
                numbers = {f"summary/{key}": value for key, value in summary.items() if not isinstance(value, str)}
                self._write_numbers(step, numbers)
                self._write_text(step, "summary", summary)

    def _write_numbers(self, step: int, values: Mapping[str, float]) -> None:
        from tensorboard.compat.proto.summary_pb2 import Summary as Scalars

        numbers = [Scalars.Value(tag=key, simple_value=value) for key, value in values.items()]
        self._write(step, summary=Scalars(value=numbers))

    def _write_text(self, step: int, tag: str, data: Mapping[str, Any]) -> None:
        from tensorboard.plugins.text.summary_v2 import text_pb

        self._write(step, summary=text_pb(tag, f"```json\n{json.dumps(dict(data), indent=2)}\n```"))

    def _write(self, step: int, **content: Any) -> None:
        from tensorboard.compat.proto.event_pb2 import Event

        self._records.write(Event(wall_time=time.time(), step=step, **content).SerializeToString())
        self._file.flush()


# -- wandb -------------------------------------------------------------------------------------------------------------


@final
class Wandb(Tracker):
    """A directory a run, for `wandb sync` should the user ever want it; nobody is asked to log in.

    The user's WANDB_ variables are out of sight meanwhile, so none of them can put the run online, and the program
    that wandb starts ends with the last open tracker. Opened again, a run gets a second directory with the same run
    id, and `wandb sync` plays them one after the other. Within one opening wandb merges what has the same step, and
    drops a step lower than the last.
    """

    modules = ("wandb",)
    _open: ClassVar[int] = 0

    def __init__(self, folder: Path, run: str, config: Mapping[str, Any], project: str) -> None:
        import wandb

        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        settings = wandb.Settings(
            silent=True,
            console="off",
            disable_code=True,
            disable_git=True,
            sagemaker_disable=True,
            symlink=False,
            x_disable_machine_info=True,
            x_disable_meta=True,
            x_disable_stats=True,
            x_save_requirements=False,
        )
        Wandb._open += 1
        try:
            with self._offline(), _exit_hooks_kept():
                self._run = wandb.init(
                    project=project,
                    id=file_name(run),
                    name=run,
                    dir=str(folder),
                    config=dict(config),
                    mode="offline",
                    resume="allow",
                    reinit="create_new",  # leaves a run of the user's own, `wandb.run`, alone
                    settings=settings,
                )
        except BaseException:
            with suppress(Exception):
                self._leave()
            raise

    def log(self, step: int, values: Mapping[str, float]) -> None:
        self._run.log(dict(values), step=step)

    def finish(self, summary: Summary) -> None:
        try:
            with self._offline():
                self._run.log({}, commit=True)  # or the last step is written after the summary, over equal names
                self._run.summary.update(dict(summary))
                self._run.finish()
        finally:
            self._leave()

    def _leave(self) -> None:
        """End wandb's own program, unless somebody else still needs it."""
        import wandb

        Wandb._open -= 1
        if Wandb._open or wandb.run is not None:
            return
        try:
            with self._offline():
                wandb.teardown()
        except SystemExit as ended:
            raise RuntimeError(f"wandb-core ended with code {ended.code}") from ended

    @contextmanager
    def _offline(self) -> Iterator[None]:
        """What wandb is to see of the environment. WANDB_SERVICE, which it sets, must not reach child processes: they
        would talk to a program that ends with this run."""
        hidden: dict[str, str | None] = dict.fromkeys((key for key in os.environ if key.startswith("WANDB_")), None)
        ours = {
            "WANDB_SERVICE": None,
            "WANDB_MODE": "offline",
            "WANDB_SILENT": "true",
            "WANDB_ERROR_REPORTING": "false",
            "WANDB_CACHE_DIR": str(self._folder / "cache"),
        }
        with environment({**hidden, **ours}):
            yield


@contextmanager
def _exit_hooks_kept() -> Iterator[None]:
    """wandb puts itself before sys.exit and sys.excepthook at every start and never takes itself out again."""
    before = {name: getattr(sys, name) for name in ("exit", "excepthook")}
    try:
        yield
    finally:
        for name, hook in before.items():
            setattr(sys, name, hook)


TRACKERS: dict[str, type[Trackio] | type[TensorBoard] | type[Wandb]] = {
    "trackio": Trackio,
    "tensorboard": TensorBoard,
    "wandb": Wandb,
}


# -- names and surroundings --------------------------------------------------------------------------------------------


def flatten(config: Any, path: str = "") -> dict[str, Any]:
    """{"model": {"heads": 4}} as {"model.heads": 4}; items of a list are counted."""
    if isinstance(config, Mapping) and config:
        items: Any = config.items()
    elif isinstance(config, list | tuple) and config:
        items = enumerate(config)
    elif isinstance(config, str | int | float | None):
        return {path: config}
    else:
        return {path: json.dumps(config)} if path else {}
    flat: dict[str, Any] = {}
    for key, value in items:
        flat |= flatten(value, f"{path}.{key}" if path else str(key))
    return flat


def file_name(run: str) -> str:
    """The run's name where it can be a file's; what had to be replaced is told apart by a digest."""
    safe = re.sub(r"[^\w.=+-]+", "-", run, flags=re.ASCII).strip(".-")[:80]
    return safe if safe and safe == run else f"{safe}-{hashlib.sha256(run.encode()).hexdigest()[:8]}".strip("-")


@contextmanager
def environment(change: Mapping[str, str | None]) -> Iterator[None]:
    """These variables while the block lasts, None for not set; afterwards all of them as they were."""
    before = {key: os.environ.get(key) for key in change}
    _set_variables(change)
    try:
        yield
    finally:
        _set_variables(before)


def _set_variables(variables: Mapping[str, str | None]) -> None:
    for key, value in variables.items():
        if value is None:
            os.environ.pop(key, None)
        else:
            os.environ[key] = value
