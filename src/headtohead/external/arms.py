"""Decides which arm and which seed each run belongs to."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from headtohead.errors import InputError, nearest
from headtohead.external.sources import Source
from headtohead.external.values import Asked, RunLog, arm_and_seed, bare_name, split_name

CONTROLS = ("control", "baseline", "base", "default", "reference", "vanilla")
Named = tuple[str, str | None]  # arm and seed


def name_runs(found: Sequence[tuple[Source, RunLog]], asked: Asked) -> tuple[list[Named], list[str]]:
    """Arm and seed of each run, and where they come from in words.

    The arm is, in this order: the side of --against, the field named by --arm, the folder that holds several runs, the
    group that the program recorded, or the run's name without its seed.
    """
    groups = {run.group for _, run in found}
    if "" in groups or len(groups) < 2:  # groups tell arms apart only if every run has one
        found = [(source, replace(run, group="")) for source, run in found]
    named = [arm_and_seed(run, asked) for _, run in found]
    sides = {source.group for source, _ in found}
    folders = {source.given: source.container for source, _ in found}
    if len(sides) > 1:
        names = side_names([source for source, _ in found], [arm for arm, *_ in named])
        arms, arms_from = [names[source.group] for source, _ in found], "the sides of --against"
    elif asked.arm is None and len(folders) > 1 and all(folders.values()):
        arms, arms_from = [source.container for source, _ in found], "the folders"
    else:
        arms = [arm or source.container or run.name for (arm, *_), (source, run) in zip(named, found, strict=True)]
        arms_from = "their names" if named[0][2] == "its name" else named[0][2]
    seeds = [seed for _, seed, *_ in named]
    seeds_from = " and ".join(dict.fromkeys(text for _, seed, _, text in named if seed is not None))
    how = [f"arms from {arms_from}"]
    how.append(f"seeds from {seeds_from.replace('its name', 'their names')}" if seeds_from else "no seeds found")
    return list(zip(arms, seeds, strict=True)), how


def side_names(sources: Sequence[Source], arms: Sequence[str]) -> dict[int, str]:
    """A name for each side of --against: the arm that its runs share, its folder, or how its names begin."""
    names: dict[int, str] = {}
    for side in sorted({source.group for source in sources}):
        own = [(source, arm) for source, arm in zip(sources, arms, strict=True) if source.group == side]
        shared = {arm for _, arm in own}
        containers = {source.container for source, _ in own}
        if len(containers) == 1 and "" not in containers:
            name = containers.pop()
        elif len(shared) == 1:
            name = shared.pop()
        else:
            name = re.sub(r"[-_./=]*(seed|s)?[-_./=]*$", "", _beginning([bare_name(s.name) for s, _ in own]))
        names[side] = name or ("control" if side == 0 else f"variant {side}")
    if len(set(names.values())) < len(names):  # such as runs/a/seed* --against runs/b/seed*
        for side in names:
            given = next(source.given for source in sources if source.group == side)
            folder = split_name(bare_name(re.sub(r"[*?\[].*$", "", str(Path(given).parent))))[0]
            names[side] = Path(folder).name or names[side]
    if len(set(names.values())) < len(names):
        names = {side: f"{name} ({side + 1})" for side, name in names.items()}
    return names


def _beginning(names: Sequence[str]) -> str:
    """The letters that all names begin with."""
    first = min(names, key=len)
    return next((first[:n] for n in range(len(first), 0, -1) if all(name.startswith(first[:n]) for name in names)), "")


def find_control(arms: Sequence[str], asked: str | None) -> str:
    """The control: the arm that was asked for, one with a usual name, or the first."""
    if asked is not None:
        if asked not in arms:
            raise InputError(f"there is no arm '{asked}' for --control: {nearest(asked, arms)}")
        return asked
    by_lower = {arm.lower(): arm for arm in reversed(arms)}
    usual = next((by_lower[name] for name in CONTROLS if name in by_lower), None)
    begins = [arm for arm in arms if arm.lower().startswith(CONTROLS[:2])]
    return usual or (begins[0] if len(begins) == 1 else arms[0])
