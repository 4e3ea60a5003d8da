"""Which runs a study takes: every arm with every seed, and the control against itself."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from headtohead.pretrained.start import Fresh, Perturbed
from headtohead.run.events import Cell
from headtohead.study.study import Study, Variant
from headtohead.training.arm import Arm, RunSpec, run_specs

FLOORS = {"again": "control, new run", "chaos": "control, perturbed"}  # as on the screen
Point = dict[str, object]  # the settings that tuning chose, by field path


@dataclass(frozen=True)
class ArmRuns:
    """An arm of a table and its runs by seed."""

    variant: Variant
    runs: dict[int, RunSpec]


@dataclass(frozen=True)
class Layout:
    """The runs of a study, table by table; a tuned study has two tables."""

    tables: list[tuple[str, list[ArmRuns]]]
    floors: dict[str, dict[int, RunSpec]]  # the control against itself, by kind and seed

    @property
    def control(self) -> ArmRuns:
        return self.tables[0][1][0]

    def cells(self) -> list[Cell]:
        """One cell per run, named as on the screen. An arm of a later table is listed only where its runs are new."""
        cells: list[Cell] = []
        for number, (title, arms) in enumerate(self.tables):
            mark = f" ({title})" if title and number else ""
            known = {cell.id for cell in cells}
            for arm in arms:
                if not mark or any(spec.id not in known for spec in arm.runs.values()):
                    name = arm.variant.name
                    cells += [Cell(name + mark, seed, spec.id, name) for seed, spec in arm.runs.items()]
        control = self.control.variant.name
        floors = [(kind, seed, spec) for kind, runs in self.floors.items() for seed, spec in runs.items()]
        return cells + [Cell(FLOORS[kind], seed, spec.id, control) for kind, seed, spec in floors]

    def in_order(self) -> list[RunSpec]:
        """Every run once, all arms of a seed before the next seed."""
        return by_seed([arm.runs for _, arms in self.tables for arm in arms] + list(self.floors.values()))

    def without_floors(self) -> Layout:
        return Layout(self.tables, {})

    def part(self, pairs: dict[str, int]) -> Layout:
        """Only the first pairs of each arm, by its name. The control and the floors have as many as the longest arm."""
        most = max(pairs.values(), default=0)
        seeds = list(self.control.runs)[:most]
        tables = [
            (title, [ArmRuns(a.variant, _first(a.runs, pairs.get(a.variant.name, most))) for a in arms])
            for title, arms in self.tables
        ]
        return Layout(
            tables, {kind: {s: r for s, r in runs.items() if s in seeds} for kind, runs in self.floors.items()}
        )


def _first(runs: dict[int, RunSpec], count: int) -> dict[int, RunSpec]:
    return dict(list(runs.items())[:count])


def layout_of(study: Study, chosen: dict[str, Point], device: str, threads: int) -> Layout:
    """All runs that a study may come to train; `chosen` holds the settings that tuning chose for each arm."""
    tables = [
        (title, [ArmRuns(v, run_specs(v.arm, study.all_seeds, device, threads)) for v in variants])
        for title, variants in tables_of(study, chosen)
    ]
    control = tables[0][1][0].variant.arm
    floors = {
        kind: run_specs(arm, study.floors[kind], device, threads)
        for kind, arm in floors_of(control).items()
        if kind in study.floors
    }
    return Layout(tables, floors)


def floors_of(control: Arm) -> dict[str, Arm]:
    """The control against itself: with reshuffled batches, and with perturbed weights where they start at random."""
    found = {"again": reshuffled(control)}
    return found | ({"chaos": control.set("start", Perturbed())} if isinstance(control.start, Fresh) else {})


def tables_of(study: Study, chosen: dict[str, Point]) -> list[tuple[str, list[Variant]]]:
    """The arms of each table. A tuned study compares arms at their own best settings, and at the control's."""
    if not chosen:
        return [("", list(study.variants))]
    control = study.variants[0].name
    return [
        (title, [dataclasses.replace(v, arm=at_point(v.arm, chosen[whose(v)])) for v in study.variants])
        for title, whose in (("own best", lambda v: v.name), ("shared", lambda _: control))
    ]


def at_point(arm: Arm, point: Point) -> Arm:
    for path, value in point.items():
        arm = arm.set(path, value)
    return arm


def reshuffled(control: Arm) -> Arm:
    """The same arm with reshuffled batches: it shows how much results differ by chance."""
    return control.set("train.order", control.train.order + 1)


def by_seed(arms: list[dict[int, RunSpec]]) -> list[RunSpec]:
    """All arms of a seed before the next seed, so that finished runs form pairs and are timed side by side."""
    seeds = list(dict.fromkeys(seed for specs in arms for seed in specs))
    ordered = [specs[seed] for seed in seeds for specs in arms if seed in specs]
    return list({spec.id: spec for spec in ordered}.values())
