"""Finds the files and folders that the user names, and recognises their format from the content."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from headtohead.data.stored_json import parsed
from headtohead.errors import InputError
from headtohead.external.values import ENDINGS

DEPTH = 6  # folders below the one that was named
HEAD = 65_536  # bytes that are enough to recognise a format
MOST_BYTES = 2**31

FORMATS = {  # kind → what the user reads
    "table": "table",
    "wandb export": "W&B export",
    "lm-eval": "lm-eval sample file",
    "trainer": "Trainer state",
    "tensorboard": "TensorBoard folder",
    "wandb": "W&B run folder",
    "log": "log file",
}


@dataclass(frozen=True)
class Source:
    """A file or folder of one format."""

    path: Path
    kind: str
    name: str  # from which arm and seed are read
    given: str  # the argument that led here
    group: int  # 0: before --against; 1, 2, …: after the first, second, … --against
    container: str = ""  # the folder that was named, where it holds several runs

    @property
    def shown(self) -> str:
        return str(self.path)


def find_sources(groups: Sequence[Sequence[str | Path]], is_log: bool) -> list[Source]:
    """Every run, table or log that the arguments name. Patterns with * are expanded; folders are searched for runs."""
    found: dict[tuple[Path, int], Source] = {}
    for number, arguments in enumerate(groups):
        for given in map(str, arguments):
            paths = _expanded(given)
            for path in paths:
                for source in _inside(path, given, number, is_log):
                    found.setdefault((source.path.resolve(), number), source)
    sources = list(found.values())
    if not sources:
        raise InputError("give a table, log files or folders of runs to compare; see h2h compare --help")
    both = {path for path, _ in found if sum((path, n) in found for n in range(len(groups))) > 1}
    if both:
        raise InputError(f"{min(both).name} is on both sides of --against: give each run once")
    kinds = {source.kind: source for source in sources}
    if len(kinds) > 1:
        (a, first), (b, second) = list(kinds.items())[:2]
        raise InputError(
            f"the formats differ: {first.shown} is a {FORMATS[a]}, {second.shown} a {FORMATS[b]}; "
            "give files of one format"
        )
    return sources


def _expanded(given: str) -> list[Path]:
    if os.path.lexists(given):
        return [Path(given)]
    if glob.has_magic(given):
        found = sorted(glob.glob(given))
        if not found:
            raise InputError(f"no file or folder matches '{given}'")
        return [Path(path) for path in found]
    raise InputError(f"there is no file or folder '{given}'")


def _inside(path: Path, given: str, group: int, is_log: bool) -> list[Source]:
    try:
        if not path.is_dir():
            return [Source(path, "log" if is_log else file_kind(path), path.name, given, group)]
        kind = _folder_kind(path)
        if kind is not None and not is_log:
            return [Source(path, kind, path.resolve().name, given, group)]
        folders = [] if is_log else list(_runs_below(path, DEPTH))
        if folders:
            return _several(path, folders, given, group)
        files = [f for f in sorted(path.rglob("*")) if f.suffix.lower() in ENDINGS and f.is_file()]
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror or error}") from None
    if not files:
        raise InputError(
            f"{path} holds no runs: it needs TensorBoard events, W&B runs, trainer_state.json, tables or logs"
        )
    return _several(path, [(f, "log" if is_log else file_kind(f)) for f in files], given, group)


def _several(folder: Path, found: Sequence[tuple[Path, str]], given: str, group: int) -> list[Source]:
    """Runs of a folder. The only run of a folder is named by the folder too, which may have the seed in its name."""
    name = folder.resolve().name
    if len(found) == 1:
        (path, kind) = found[0]
        return [Source(path, kind, f"{name}/{path.relative_to(folder).as_posix()}", given, group)]
    return [Source(p, kind, p.relative_to(folder).as_posix(), given, group, name) for p, kind in found]


def _runs_below(folder: Path, depth: int) -> Iterator[tuple[Path, str]]:
    for child in sorted(folder.iterdir()):
        if not child.is_dir() or child.is_symlink():  # W&B links its latest run
            continue
        kind = _folder_kind(child)
        if kind is not None:
            yield child, kind
        elif depth > 1:
            yield from _runs_below(child, depth - 1)


def _folder_kind(folder: Path) -> str | None:
    """The kind of run that a folder holds, or None."""
    names = [entry.name for entry in folder.iterdir()]
    if "trainer_state.json" in names or any(folder.glob("checkpoint-*/trainer_state.json")):
        return "trainer"
    if any(name.endswith(".wandb") for name in names):
        return "wandb"
    return "tensorboard" if any("tfevents" in name for name in names) else None


def file_kind(path: Path) -> str:
    """The format of a file, by its content."""
    if "tfevents" in path.name:
        return "tensorboard"
    if path.suffix == ".wandb":
        return "wandb"
    text = read_text(path, HEAD)
    first = text.lstrip()[:1]
    if first == "{":
        return _json_kind(path, text)
    if first == "[":
        return "table"
    head = text.splitlines()[0]
    if max(head.count(mark) for mark in ",\t;") == 0 and path.suffix.lower() not in (".csv", ".tsv"):
        return "log"
    if " - " in head and _cells(head)[0].lower() in ("step", "_step", "epoch", "relative time (process)", "wall time"):
        return "wandb export"
    if path.suffix.lower() in (".log", ".out", ".err") and not _is_table(text):
        return "log"
    return "table"


def _cells(line: str) -> list[str]:
    return [cell.strip().strip('"') for cell in line.split(",")]


def _is_table(text: str) -> bool:
    lines = text.splitlines()[:20]
    counts = {max(line.count(mark) for mark in ",\t;") for line in lines if line.strip()}
    return len(counts) == 1


def _json_kind(path: Path, head: str) -> str:
    """One object over several lines is a file of some program; one object per line is a table or lm-eval samples."""
    line = head.lstrip().splitlines()[0]
    try:
        row = parsed(line)
    except ValueError:
        row = None
    if isinstance(row, dict) and "log_history" not in row:
        if "doc_id" in row and {"doc_hash", "doc", "resps", "filtered_resps"} & row.keys():
            return "lm-eval"
        return "table"
    if '"log_history"' in head or path.name == "trainer_state.json":
        return "trainer"
    if '"results"' in head and ('"configs"' in head or '"lm_eval_version"' in read_text(path)):
        raise InputError(
            f"{path} holds averages over items: give the files samples_*.jsonl that lm_eval --log_samples writes"
        )
    return "table"


def read_text(path: Path, most: int | None = None) -> str:
    """The text of a file, without its byte order mark; `most` bytes of it."""
    try:
        if not path.is_file():
            raise InputError(f"{path} is neither a file nor a folder of runs")
        if path.stat().st_size > MOST_BYTES:
            raise InputError(f"{path} has more than 2 GB: write the metric of each run into a smaller file")
        with path.open("rb") as file:
            raw = file.read(most) if most else file.read()
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror or error}") from None
    if raw[:2] in (b"\xff\xfe", b"\xfe\xff"):
        try:
            text = (raw if len(raw) % 2 == 0 else raw[:-1]).decode("utf-16")
        except UnicodeDecodeError:
            raise InputError(f"{path} is not text: save it as UTF-8") from None
    elif b"\x00" in raw:
        raise InputError(
            f"{path} is a binary file: give a table, a log, or the folder that TensorBoard, W&B or Trainer wrote"
        )
    else:
        try:
            text = raw.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            if most is None or error.start < len(raw) - 4:  # not a letter cut in two
                raise InputError(f"{path} is not UTF-8 text (byte {error.start}): save it as UTF-8") from None
            text = raw[: error.start].decode("utf-8-sig")
    if not text.strip():
        raise InputError(f"{path} is empty: give a file with values")
    return text
