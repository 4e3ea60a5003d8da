"""Proposals: every point of a grid once; ranges by TPE, which follows from seed and values."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from headtohead.search import Search
from helpers.searches import arm, points

LR = "train.optimizer.lr"
OVER = {LR: "1e-5..1e-1", "model.dropout": "0..0.5", "train.batch": "2..40"}


def near(best: float) -> Callable[[Any], float]:
    """A loss that is least at this learning rate."""
    return lambda point: (math.log10(point[LR]) - best) ** 2


def test_a_grid_has_every_combination_once(text: Path) -> None:
    over = {"train.batch": [2, 3, 4], LR: [0.1, 0.2], "model.position": ["Rope", "Alibi"], "train.clip": [None, 1.0]}
    found = points(Search(arm(text), over), lambda _: 0.0)
    assert sorted(map(str, (tuple(p.values()) for p in found))) == sorted(map(str, itertools.product(*over.values())))
    assert all(list(p) == list(over) for p in found)
    assert found == points(Search(arm(text), over), lambda _: 1.0)


def test_proposals_follow_from_seed_and_results(text: Path) -> None:
    def found(seed: int = 0, together: int = 4, best: float = -4) -> list[dict[str, Any]]:
        return points(Search(arm(text), OVER, trials=22, seed=seed, together=together), near(best))

    first = found()
    assert len(first) == 22
    assert first == found()
    assert first != found(seed=1)
    assert first != found(together=3)
    assert first[:12] == found(best=-2)[:12]  # ten are drawn before any figure matters
    assert first[12:] != found(best=-2)[12:]


def test_tpe_seeks_lower_loss_and_higher_accuracy(text: Path, table: Path) -> None:
    from headtohead import Arm, Files

    lm = Search(arm(text), OVER, trials=60, together=2)
    classifier = Search(Arm.of("classifier", Files(path=str(table))), OVER, trials=60, together=2)
    for search, figure in ((lm, near(-4)), (classifier, lambda p: -near(-4)(p))):
        late = points(search, figure)[30:]
        assert sum(abs(math.log10(p[LR]) + 4) < 0.7 for p in late) > 20, search.metric


def test_proposals_are_in_range_and_short(text: Path) -> None:
    found = points(Search(arm(text), OVER, trials=40), near(-1))
    assert all(1e-5 <= p[LR] <= 1e-1 and 0 <= p["model.dropout"] <= 0.5 for p in found)
    assert all(type(p["train.batch"]) is int and 2 <= p["train.batch"] <= 40 for p in found)
    assert all(float(f"{p[LR]:.2e}") == p[LR] for p in found)
    narrow = points(Search(arm(text), {"model.dropout": "0.1..0.1004"}, trials=12), lambda _: 0.0)
    assert len({p["model.dropout"] for p in narrow}) == 12


def test_no_point_is_proposed_twice(text: Path) -> None:
    found = points(Search(arm(text), {"train.batch": [2, 3, 4, 5, 6], "model.heads": [1, 2]}, trials=9), lambda _: 1.0)
    assert len({str(p) for p in found}) == 9


def test_a_narrow_range_gives_more_than_101_values(text: Path) -> None:
    """A hundred and one, from 0 to 0.1."""
    found = points(Search(arm(text), {"model.dropout": "0..0.1"}, trials=104, together=104), lambda _: 1.0)
    assert len({p["model.dropout"] for p in found}) == 104
    assert all(0 <= p["model.dropout"] <= 0.1 for p in found)


def test_a_repeated_proposal_is_replaced_by_a_random_point(text: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever Optuna's sampler may do."""
    from optuna.samplers import TPESampler

    monkeypatch.setattr(TPESampler, "sample_independent", lambda _self, _study, _trial, _name, space: space.choices[0])
    monkeypatch.setattr(TPESampler, "sample_relative", lambda *_: {})
    found = points(Search(arm(text), {"train.batch": [2, 3, 4], "model.heads": [1, 2]}, trials=5), lambda _: 1.0)
    assert len({str(p) for p in found}) == 5


def test_failed_trials_steer_the_next_proposals(text: Path) -> None:
    """The best rate lies at the edge of where runs diverge. Were those left out, nearly all proposals would diverge."""

    def figure(point: Any) -> float | None:
        return None if point[LR] > 1e-3 else near(-3)(point)

    late = points(Search(arm(text), {LR: "1e-5..1e-1"}, trials=60), figure)[20:]
    assert sum(p[LR] > 1e-3 for p in late) < 25
    points(Search(arm(text), OVER, trials=20), lambda _: None)


def test_optuna_prints_nothing_and_keeps_its_settings(text: Path, capfd: pytest.CaptureFixture[str]) -> None:
    import optuna

    before = optuna.logging.get_verbosity()
    points(Search(arm(text), OVER, trials=14), near(-4))
    points(Search(arm(text), {"train.batch": [2, 3]}), lambda _: 0.0)
    assert capfd.readouterr() == ("", "")
    assert optuna.logging.get_verbosity() == before
