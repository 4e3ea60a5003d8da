"""The table in the docs: every promise holds in it, and the simulations give the same figures again."""

from __future__ import annotations

import json
import math
from dataclasses import fields
from pathlib import Path

import pytest

from measure import calibration

STORED = json.loads((Path(calibration.HERE) / "measured" / "calibration.json").read_text(encoding="utf-8"))
CELLS = [
    (calibration.Cell(**{f.name: cell[f.name] for f in fields(calibration.Cell)}), cell) for cell in STORED["cells"]
]


def above(cell: calibration.Cell, percent: float) -> float:
    """How far the share of errors is above 5 %, in standard errors."""
    return (percent / 100 - 0.05) / math.sqrt(0.05 * 0.95 / cell.studies)


def test_the_stored_cells_are_those_of_the_script():
    assert [cell for cell, _ in CELLS] == calibration.cells()
    assert STORED["rows"] == calibration.rows(CELLS)


# The rule t assumes normal noise. With several arms and the residuals of stored studies it errs in 6 to 8 % of the
# studies. Limits for independent arms do not mend it (6.5 % with eight arms).
EXCEEDED = {("6/8/10/14/20, rule t", "residuals of stored studies", arms) for arms in (4, 8)}


def test_no_cell_errs_more_often_than_promised():
    promised = [(cell, above(cell, found["percent"])) for cell, found in CELLS if cell.promised]
    assert len(promised) > 200
    assert {(cell.column, cell.noise, cell.arms) for cell, errors in promised if errors > 2} <= EXCEEDED
    assert all(errors < 4 for _, errors in promised)


def test_sequential_designs_need_fewer_pairs_for_effects_of_two_sd():
    found = {(cell.column, cell.arms, cell.size): one for cell, one in CELLS if cell.row == "power"}
    for arms in (1, 4):
        for size in (2.0, 3.0):
            assert found["6/8/10/14/20", arms, size]["pairs"] < 10
            assert found["6/8/10/14/20", arms, size]["percent"] >= found["8 pairs", arms, size]["percent"] - 2


@pytest.mark.slow
@pytest.mark.parametrize("number", range(0, len(CELLS), 6))
def test_the_simulations_give_the_stored_figures(number):
    cell, stored = CELLS[number]
    found = calibration.measure(cell)
    assert found == {name: pytest.approx(stored[name], abs=0.06) for name in found}
