"""Puzzles 7 to 13 in headtohead's model: closed forms against computed attention."""

import itertools
import math

import numpy as np
import pytest

from headtohead.errors import InputError
from headtohead.puzzles import heads, puzzle


@pytest.mark.parametrize("number", [7, 8, 9, 10, 11, 12])
def test_solver_satisfies_checker(number):
    answer = puzzle(number).solve()
    assert answer.ok
    assert answer.distance <= 0.0011
    assert puzzle(number).check(**answer.found.answer).distance == answer.distance


@pytest.mark.parametrize(
    ("number", "answer", "ok"),
    [
        (7, {"shift": 1, "scale": 20}, True),
        (7, {"shift": 1, "scale": 2}, False),
        (7, {"shift": 2, "scale": 100}, False),
        (7, {"shift": -1, "scale": 100}, False),
        (7, {"shift": 1.3, "scale": 10000}, False),
        (8, {"score": 7.2}, True),
        (8, {"score": 7.0}, False),
        (9, {"scale": 34}, True),
        (9, {"scale": 3}, False),
        (10, {"tilt": 0.133}, True),
        (10, {"tilt": 0.134}, False),
        (10, {"tilt": -0.134}, False),
        (11, {"scale": "5,5"}, True),
        (11, {"scale": "0,11"}, False),
        (11, {"scale": "11,0"}, False),
        (12, {"angle": "3,0.03", "scale": 353}, True),
        (12, {"angle": "3,0.03", "scale": 20}, False),
        (12, {"angle": "4,0.04", "scale": 353}, False),
        (12, {"angle": "-3,-0.03", "scale": 353}, False),
        (13, {"slope": 0.2877}, False),
        (13, {"slope": 5}, False),
    ],
)
def test_checker_separates_right_from_wrong_answers(number, answer, ok):
    assert puzzle(number).check(**answer).ok is ok


def test_first_token_share_is_the_formula():
    for score in (0.0, 3.0, 7.0):
        assert puzzle(8).check(score=score).distance == pytest.approx(63 / (math.exp(score) + 63), abs=1e-12)


@pytest.mark.parametrize("length", [3, 15, 51])
def test_majority_bound_is_sharp(length):
    bound = math.log((length + 1) / (length - 1))
    for sign in (1, -1):
        assert puzzle(10, length=length).check(tilt=sign * bound * 0.99).ok
        assert not puzzle(10, length=length).check(tilt=sign * bound * 1.01).ok


def test_copy_share_is_softmax_of_cosines():
    scale, p = 5.0, puzzle(9)
    u = heads.names(16, 8).numpy()
    e = np.exp(scale * u @ u.T)
    share = np.diag(e) / (e.sum(axis=1) + 1)  # the asking token's own key scores 0
    assert p.check(scale=scale).distance == pytest.approx(1 - share.min(), abs=1e-12)


def test_copy_in_one_dimension_is_impossible():
    answer = puzzle(9, width=1).solve()
    assert answer.kind == "impossible"
    assert not answer.ok
    assert puzzle(9, width=1).check(scale=1e6).distance > 0.8


@pytest.mark.parametrize("given", [{"theta": 100}, {"width": 2}, {"width": 16}, {"back": 0}, {"back": 1}, {"back": 30}])
def test_rotary_can_pick_any_distance(given):
    p = puzzle(12, **given)
    answer = p.solve()
    assert answer.ok
    half = dict(answer.found.answer) | {"scale": answer.found.answer["scale"] / 4}
    assert not p.check(**half).ok  # the gap is as small as it says


def test_rotary_scores_are_what_the_model_computes():
    p, answer = puzzle(12), {"angle": np.array([2.0, 0.5]), "scale": np.array(1.3)}
    back = np.arange(p.block)
    expected = np.exp(p.scores(answer, back))
    assert np.allclose(p.measure(answer).weights[-1][::-1], expected / expected.sum(), atol=1e-9)


def test_previous_scores_are_near_what_the_model_computes():
    p, answer = puzzle(7), {"shift": np.array(1.4), "scale": np.array(0.5)}
    expected = np.exp(p.scores(answer, np.arange(p.block)))
    assert np.allclose(p.measure(answer).weights[-1][::-1], expected / expected.sum(), atol=0.03)  # tokens disturb


@pytest.mark.parametrize("back", [1, 3, 7])
def test_linear_bias_is_at_best_what_the_formula_says(back):
    answer = puzzle(13, back=back).solve()
    assert answer.kind == "impossible"
    best = back**back / (back + 1) ** (back + 1)
    assert 1 - answer.distance == pytest.approx(best, rel=0.05)
    slopes = np.geomspace(0.01, 5, 60)
    assert answer.distance <= min(puzzle(13, back=back).check(slope=s).distance for s in slopes[::3]) + 1e-9


def test_linear_bias_picks_its_own_token_only():
    assert puzzle(13, back=0).solve().ok
    weights = puzzle(13).check(slope=0.5).measured.weights[-1]
    assert (np.diff(weights) > 0).all()
    assert puzzle(13, back=0).check(slope=1.0).distance == pytest.approx(1 / math.e, abs=1e-9)


def test_induction_looks_after_the_earlier_token():
    model = heads.induction(11, 11, vocab=6, block=7)
    maps, logits = heads.run(model, np.array([[0, 3, 5, 2, 4, 5, 3]]))
    assert logits[0, 5].argmax() == 2  # 5 was followed by 2
    assert logits[0, 6].argmax() == 5  # 3 was followed by 5
    assert maps[0][0, 4, 3] > 0.99
    assert maps[1][0, 5, 3] > 0.99


def test_induction_is_checked_where_a_token_occurred_once():
    p = puzzle(11)
    ids = np.array([[0, 1, 2, 1, 1, 2]])
    assert list(p._asked(ids)) == [(0, 3, 2), (0, 5, 3)]  # not at 4: token 1 occurred twice before


def test_one_head_in_one_layer_cannot_do_induction():
    """Votes add up over places: no numbers g[place, token] get all four texts right; any three can be had."""
    from scipy.optimize import linprog

    texts, wanted = ["ABxC", "ACxB", "xBAC", "xCAB"], [1, -1, -1, 1]
    rows = np.zeros((4, 16))
    for n, text in enumerate(texts):
        assert text[text.index("A") + 1] == ("B" if wanted[n] > 0 else "C")
        for place, token in enumerate(text):
            rows[n, 4 * place + "ABCx".index(token)] = wanted[n]

    def possible(chosen):
        chosen = list(chosen)
        return linprog(np.zeros(16), A_ub=-rows[chosen], b_ub=-np.ones(len(chosen)), bounds=(None, None)).success

    assert not possible(range(4))
    assert all(possible(three) for three in itertools.combinations(range(4), 3))


@pytest.mark.parametrize(
    ("number", "given", "says"),
    [
        (10, {"length": 4}, "tie"),
        (12, {"theta": 1}, "theta"),
        (12, {"back": 31}, "back"),
        (13, {"back": -1}, "back"),
        (13, {"back": 1.5}, "whole"),
        (9, {"width": 0}, "width"),
    ],
)
def test_wrong_input_is_named(number, given, says):
    with pytest.raises(InputError, match=says):
        puzzle(number, **given)
