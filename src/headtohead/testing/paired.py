"""A small paired study of two commits: the same seeds at the base and at the head, in clean worktrees."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from headtohead.disk.writing import write_whole
from headtohead.errors import InputError
from headtohead.testing.changed import git

if TYPE_CHECKING:
    from headtohead.external.comparison import Comparison

CONTROL, VARIANT = "base", "head"
Hear = Callable[[str], object]


@dataclass(frozen=True)
class Asked:
    """What is trained at both commits: an arm of headtohead, or a command of yours that prints a figure."""

    arm: str = ""  # file.py:NAME
    command: str = ""  # with {seed}
    pattern: str = ""  # finds the figure in what the command prints; the last one counts
    metric: str = ""
    better: str | None = None
    seeds: int = 6
    margin: str | None = None
    minutes: float = 30  # for one command

    def __post_init__(self) -> None:
        if bool(self.arm) == bool(self.command):
            raise InputError("give --arm FILE.py:NAME or --command 'python train.py --seed {seed}'")
        if self.command and ("{seed}" not in self.command or not self.pattern):
            raise InputError("--command needs {seed} in it, and --pattern such as 'loss=([0-9.]+)'")
        if self.seeds < 6:
            raise InputError("a verdict needs 6 seeds or more: give --seeds 6")
        try:
            groups = re.compile(self.pattern).groups if self.pattern else 1
        except re.error as error:
            raise InputError(f"--pattern is no regular expression: {error}") from None
        if groups != 1:
            raise InputError("--pattern must have one pair of brackets, around the figure: 'loss=([0-9.]+)'")


def compare_commits(base: str, head: str, asked: Asked, hear: Hear = print, root: str | Path = ".") -> Comparison:
    """Train at both commits with the same seeds, and compare the figures in pairs."""
    from headtohead.external.comparison import compare_sources

    inside = git(["rev-parse", "--show-prefix"], root).strip()
    with tempfile.TemporaryDirectory(prefix="h2h-pull-") as made:
        rows: list[tuple[str, int, float]] = []
        metric = asked.metric
        for side, commit in ((CONTROL, base), (VARIANT, head)):
            with _worktree(commit, Path(made) / side, root) as tree:
                hear(f"{side}: {git(['log', '-1', '--format=%h %s', commit], root).strip()}")
                measured, metric = _measured(asked, tree / inside, Path(made) / f"{side}-store", metric, hear)
                rows += [(side, seed, value) for seed, value in measured]
        table = Path(made) / "figures.csv"
        lines = [f"arm,seed,{metric}", *(f"{side},{seed},{value!r}" for side, seed, value in rows)]
        write_whole(table, "\n".join(lines) + "\n")
        return compare_sources(
            [table],
            metric=metric,
            arm="arm",
            seed="seed",
            control=CONTROL,
            better=cast(Any, asked.better),
            margin=asked.margin,
        )


def is_same(found: Comparison) -> bool:
    """Whether both commits gave the same figures to the last digit: the change does not reach what was trained."""
    of = {arm: sorted((v.seed, v.value) for v in found.values if v.arm == arm) for arm in found.means}
    return of[CONTROL] == of[VARIANT]


@contextlib.contextmanager
def _worktree(commit: str, folder: Path, root: str | Path) -> Iterator[Path]:
    git(["worktree", "add", "--quiet", "--detach", str(folder), commit], root, "fetch the whole history")
    try:
        yield folder
    finally:
        git(["worktree", "remove", "--force", str(folder)], root)


def _measured(asked: Asked, folder: Path, store: Path, metric: str, hear: Hear) -> tuple[list[tuple[int, float]], str]:
    """The figure of each seed in one worktree, and the name of the metric."""
    if asked.command:
        return [(seed, _printed(asked, folder, seed, hear)) for seed in range(asked.seeds)], metric or "figure"
    train = ["-m", "headtohead.cli", "train", "--arm", asked.arm, "--seeds", str(asked.seeds), "--json"]
    out = _run([sys.executable, *train], folder, asked, {"HEADTOHEAD_HOME": str(store)})
    runs = json.loads(out)
    figures = runs[0].get("values", {})
    metric = metric or next((name for name in ("test/loss", "validation/loss") if name in figures), "")
    if any(metric not in run.get("values", {}) for run in runs):
        raise InputError(
            f"--metric {metric or 'NAME'}: the runs of {asked.arm} have {', '.join(figures) or 'no figures'}"
        )
    for run in runs:
        hear(f"  seed {run['seed']}: {metric} {run['values'][metric]:.6g}")
    return [(run["seed"], run["values"][metric]) for run in runs], metric


def _printed(asked: Asked, folder: Path, seed: int, hear: Hear) -> float:
    words = [word.replace("{seed}", str(seed)) for word in shlex.split(asked.command)]
    words[0] = sys.executable if words[0] in ("python", "python3") else words[0]
    out = _run(words, folder, asked, {})
    values = re.findall(asked.pattern, out)
    try:
        value = float(values[-1])
    except (IndexError, ValueError):
        raise InputError(f"seed {seed}: the command printed nothing that fits --pattern {asked.pattern}") from None
    hear(f"  seed {seed}: {value:.6g}")
    return value


def _run(words: list[str], folder: Path, asked: Asked, more: dict[str, str]) -> str:
    """Run a command in a worktree. The project is imported from there, also if it is installed."""
    before = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
    path = os.pathsep.join([str(folder / "src"), str(folder), *before])
    environment = {**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1", **more}
    shown = shlex.join(words)
    try:
        done = subprocess.run(
            words, cwd=folder, env=environment, capture_output=True, text=True, timeout=60 * asked.minutes, check=False
        )
    except subprocess.TimeoutExpired:
        raise InputError(
            f"it did not end within {asked.minutes:g} minutes: {shown}; train less, or --minutes N"
        ) from None
    except OSError as error:
        raise InputError(f"cannot run {shown}: {error.strerror}") from None
    if done.returncode:
        said = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise InputError(f"{shown} ended with exit code {done.returncode}: {said}")
    return done.stdout
