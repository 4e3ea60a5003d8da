"""How often each design errs, how often it finds an effect, and with how many pairs: the simulations of
tests/calibration with thousands of studies.

python benchmarks/measure/calibration.py [--jobs 2]          # seven minutes of CPU time
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import zlib
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

HERE = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(HERE.parent / "tests"))

from calibration import simulated as sim  # noqa: E402
from headtohead.stats import Design, sequential_design  # noqa: E402

STUDIES, FEWER = 2000, 1000
ARMS = (1, 4, 8)
EFFECTS = (0.5, 0.75, 1.0, 1.5, 2.0, 3.0)
OFFERED = {  # as studies use them: with a reserve for unplanned analyses
    "8 pairs": Design((8,)),
    "10 pairs": Design((10,)),
    "20 pairs": Design((20,)),
    "6/8/10": sequential_design(10),
    "6/8/10/14/20": sequential_design(20),
}
COLUMNS = list(sim.DESIGNS)
WITHOUT_T = [name for name in COLUMNS if "rule t" not in name]


@dataclass(frozen=True)
class Cell:
    """One simulation. `row` is its line in the table and `column` its design."""

    row: str
    column: str
    noise: str
    arms: int
    studies: int
    size: float = 0.0  # of the effect or the margin, in standard deviations of the differences

    @property
    def promised(self) -> bool:
        """Whether at most 5 % of these studies may err."""
        return self.row.startswith(("false", "missed", "equivalent"))


def cells() -> list[Cell]:
    """Every simulation, in the order of the table."""
    found = [Cell("false verdict", c, kind, k, STUDIES) for kind in sim.NOISES for c in COLUMNS for k in ARMS]
    for row in ("false verdict, look after every pair", "false verdict, seeds added", "false verdict, arms added"):
        several = ARMS[1:] if row.endswith("arms added") else ARMS
        found += [Cell(row, "8 pairs", kind, k, STUDIES) for kind in sim.NOISES for k in several]
    for kind in sim.NOISES:
        for c in ("8 pairs", "6/8/10", "6/8/10/14/20"):
            costly = c == "6/8/10/14/20"
            found += [Cell("missed by an interval", c, kind, k, FEWER if costly and k == 8 else STUDIES) for k in ARMS]
        found += [Cell("missed by an interval, look after every pair", "8 pairs", kind, k, STUDIES) for k in ARMS]
    for size in (1.0, 3.0):
        for c in ("8 pairs", "6/8/10", "6/8/10/14/20"):
            costly = c == "6/8/10/14/20"
            found += [
                Cell("equivalent at the margin", c, "normal", k, FEWER if costly else STUDIES, size) for k in ARMS
            ]
        row = "equivalent at the margin, look after every pair"
        found += [Cell(row, "8 pairs", "normal", k, STUDIES, size) for k in ARMS]
    found += [Cell("power", c, "normal", k, STUDIES, size) for size in EFFECTS for c in OFFERED for k in (1, 4)]
    found += [Cell("estimate", "6/8/10/14/20", "normal", 1, FEWER, size) for size in (0.5, 1.0, 2.0)]
    found += [Cell("skewed", c, kind, 1, STUDIES) for kind in sim.SKEWED for c in WITHOUT_T]
    return found


def measure(cell: Cell) -> dict[str, Any]:
    """Simulate one cell."""
    if cell.row == "skewed":
        design = sim.DESIGNS[cell.column]
        d = sim.SKEWED[cell.noise](np.random.default_rng(design.pairs), (cell.studies, design.pairs, 1))
        return {"percent": _percent((sim.decide(d, design).differs > 0).any(axis=1))}
    every_pair = cell.row.endswith(("every pair", "added"))
    n = (20 if "arms" in cell.row else sim.LOOKS) if every_pair else sim.DESIGNS[cell.column].pairs
    d = sim.noise(cell.noise, cell.studies, n, cell.arms, seed=zlib.crc32(cell.row.encode()))
    design = sim.DESIGNS[cell.column]
    match cell.row:
        case "false verdict":
            return {"percent": _percent((sim.decide(d, design).differs > 0).any(axis=1))}
        case "false verdict, look after every pair":
            return {"percent": _percent(sim.false_at_any_pair(d))}
        case "false verdict, seeds added":
            return {"percent": _percent(sim.false_with_more_seeds(d))}
        case "false verdict, arms added":
            return {"percent": _percent(sim.false_with_later_arms(d))}
        case "missed by an interval":
            truth = sim.MIXED[cell.arms]
            return {"percent": _percent(sim.decide(d + np.array(truth), design, truth).missed.any(axis=1))}
        case "missed by an interval, look after every pair":
            truth = sim.MIXED[cell.arms]
            planned = sim.decide(d[:, :8] + np.array(truth), sim.UNPLANNED, truth).missed.any(axis=1)
            return {"percent": _percent(planned | (sim.capitals(d)[:, -1] >= sim.needed(cell.arms)).any(axis=1))}
        case "equivalent at the margin":
            found = sim.decide(d + cell.size, design, margin=cell.size).equivalent > 0
            return {"percent": _percent(found.any(axis=1))}
        case "equivalent at the margin, look after every pair":
            return {"percent": _percent(sim.equivalent_at_any_pair(d + cell.size, cell.size))}
    design = OFFERED[cell.column]
    effect = np.array([cell.size] + [0.0] * (cell.arms - 1))
    found = sim.decide(d + effect, design, effect, estimate=cell.row == "estimate")
    if cell.row == "estimate":
        pairs = found.pairs(design)[:, 0]
        means = np.array([one[:p, 0].mean() for one, p in zip(d + effect, pairs, strict=True)])
        kept = {"estimate": found.estimate[:, 0], "plain": means}
        return {f"{name}_{what.__name__}": round(float(what(x)), 3) for name, x in kept.items() for what in AVERAGES}
    return {
        "percent": _percent(found.differs[:, 0] > 0),
        "pairs": round(float(found.pairs(design)[:, 0].mean()), 1),
    }


AVERAGES = (np.mean, np.median)


def _percent(found: np.ndarray) -> float:
    return round(100 * float(found.mean()), 2)


def rows(measured: Iterable[tuple[Cell, dict[str, Any]]]) -> list[list[str]]:
    """The lines of the table; a cell lists 1, 4 and 8 arms."""
    lines: dict[str, dict[str, list[str]]] = {}
    for cell, found in measured:
        name = _line(cell)
        said = f"{found['percent']:.1f}" if "percent" in found else ""
        if cell.row == "power":
            said = f"{found['percent']:.0f} ({found['pairs']:g})"
        if cell.row == "estimate":
            said = " / ".join(f"{found[key]:.2f}" for key in ("estimate_median", "estimate_mean", "plain_mean"))
        lines.setdefault(name, {}).setdefault(cell.column, []).append(said)
    return [[name, *(" / ".join(by_design.get(c, [])) for c in COLUMNS)] for name, by_design in lines.items()]


def _line(cell: Cell) -> str:
    arms = {"false verdict, arms added": "1 planned arm, then up to 4 / 8", "power": "1 / 4 arms"}
    match cell.row:
        case "power":
            return f"effects of {cell.size:g} sd found (mean number of pairs), 1 / 4 arms"
        case "estimate":
            return f"effect of {cell.size:g} sd: median and mean of the estimate, mean of the pairs"
        case "skewed":
            return f"false verdict, differences themselves skewed, {cell.noise}, 1 arm"
    if cell.row.startswith("equivalent"):
        return f"{cell.row.replace('the margin', f'a margin of {cell.size:g} sd')}, 1 / 4 / 8 arms"
    return f"{cell.row}, {cell.noise}, {arms.get(cell.row, '1 / 4 / 8 arms')}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=1)
    todo = cells()
    with ProcessPoolExecutor(parser.parse_args().jobs) as pool:
        measured = list(zip(todo, pool.map(measure, todo), strict=True))
    said = {
        "command": "python benchmarks/measure/calibration.py",
        "columns": [f"percent of simulated studies ({STUDIES:,} or {FEWER:,} each)", *COLUMNS],
        "rows": rows(measured),
        "cells": [asdict(cell) | found for cell, found in measured],
    }
    lines = [f"{json.dumps(name)}: {_lines(value)}" for name, value in said.items()]
    text = "{\n" + ",\n".join(lines) + "\n}\n"
    (HERE / "measured" / "calibration.json").write_text(text, encoding="utf-8")


def _lines(value: Any) -> str:
    """JSON with one line for each row."""
    if not isinstance(value, list):
        return json.dumps(value, ensure_ascii=False)
    return "[\n" + ",\n".join(" " + json.dumps(one, ensure_ascii=False) for one in value) + "\n]"


if __name__ == "__main__":
    main()
