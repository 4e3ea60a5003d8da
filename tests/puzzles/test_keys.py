"""Puzzles 1 to 6 and 14: solutions, checks, and puzzles without an answer."""

import numpy as np
import pytest

from headtohead.errors import InputError
from headtohead.puzzles import ALL, puzzle

INSIDE = "0.3,0.3;1,0;0,1;0,0"  # the first key is a mix of the others
KEYED = [1, 2, 3, 4, 5, 6, 14]


def test_every_puzzle_is_complete():
    assert list(ALL) == list(range(1, 15))
    for number, kind in ALL.items():
        p = puzzle(number)
        assert type(p) is kind
        assert type(puzzle(kind.name)) is kind
        assert p.statement != p.explanation
        assert len(p.explanation) > 200
        assert all("such as" in help for help in p.asks.values())
        p.to_json()


@pytest.mark.parametrize("number", [n for n in KEYED if n != 6])
def test_solver_satisfies_checker(number):
    answer = puzzle(number).solve()
    assert answer.ok
    checked = puzzle(number).check(**answer.found.answer)
    assert checked.ok
    assert checked.distance == answer.distance
    typed = {
        n: ";".join(",".join(f"{x:.4f}" for x in r) for r in np.atleast_2d(v)) for n, v in answer.found.answer.items()
    }
    assert puzzle(number).check(**typed).ok


@pytest.mark.parametrize(
    ("number", "answer", "ok"),
    [
        (1, {"query": "44.6093,28.4705,31.0986"}, True),
        (1, {"query": "-44,-28,-31"}, False),
        (1, {"query": [4.4, 2.8, 3.1]}, True),  # a tenth of the length: 0.04 elsewhere
        (1, {"query": [2.2, 1.4, 1.5]}, False),
        (2, {"query": "47,65,60;64,50,-59;-3,-48,-88;43,-83,35"}, True),  # Q = 100·K
        (2, {"query": "47,65,60;64,50,-59;-3,-48,-88;-43,83,-35"}, False),  # one row of four is wrong
        (3, {"query": "0,0,0"}, True),
        (3, {"query": "1,2,3"}, False),
        (4, {"query": "9.2789,9.0141,0.1893"}, True),
        (4, {"query": "44.6093,28.4705,31.0986"}, False),
        (5, {"key": "0.47,0.65,0.6"}, True),
        (5, {"key": "0,0,0"}, False),
        (14, {"query": "-0.7978,0.957,0.0071"}, True),
        (14, {"query": "0,0,0"}, False),
    ],
)
def test_checker_separates_right_from_wrong_answers(number, answer, ok):
    assert puzzle(number).check(**answer).ok is ok


def test_check_compares_with_within():
    p = puzzle(4)
    published = [1.1499, 4.1566, -0.1848]
    assert not p.check(query=published).ok
    assert p.check(0.06, query=published).ok


@pytest.mark.parametrize("number", [1, 2])
def test_impossible_selection_says_why_and_how_far(number):
    answer = puzzle(number, keys=INSIDE).solve()
    assert not answer.ok
    assert answer.kind == "impossible"
    assert "k0 = 0.3·k1 + 0.3·k2 + 0.4·k3" in answer.found.reason
    assert answer.distance == pytest.approx(0.7482, abs=1e-4)


def test_least_squares_may_not_select_where_a_query_exists():
    """Scores are 100 times a column of a projection: another key can score higher. The solver then searches on."""
    keys = np.array([[1.0, 0.0], [2.0, 5.0], [2.0, -5.0]])
    scores = keys @ np.linalg.lstsq(keys, np.array([100.0, 0, 0]), rcond=None)[0]
    assert scores.argmin() == 0
    answer = puzzle(1, keys=keys).solve()
    assert answer.ok
    assert answer.found.answer["query"][0] < 0
    assert "linear programming" in answer.found.method
    assert "least squares" in puzzle(1).solve().found.method


def test_average_of_two_needs_an_edge():
    answer = puzzle(4, keys="0,0;1,1;1,0;0,1").solve()
    assert answer.kind == "impossible"
    assert "0.5·k2 + 0.5·k3 = 0.5·k0 + 0.5·k1" in answer.found.reason
    assert 0.3 < answer.distance < 0.5


def test_third_key_depends_on_the_query():
    """No third key makes k0 and k1 score alike; with a query that does, the average comes within a millionth."""
    answer = puzzle(5).solve()
    assert answer.kind == "impossible"
    assert "3.131" in answer.found.reason
    tried = [puzzle(5).check(key=[0, y, 0]).distance for y in np.linspace(-2, 2, 401)]
    assert answer.distance <= min(tried)
    assert answer.distance == pytest.approx(min(tried), abs=1e-3)
    better = puzzle(5, query=puzzle(4).solve().found.answer["query"]).solve()
    assert better.kind == "in the limit"
    assert better.distance < 1e-6
    assert puzzle(5, keys="1,0;1,0;5,5", query="1,2").solve().kind == "exact"
    assert "another key scores" in puzzle(5, keys="1,0;1,0;5,5;9,0", query="1,2").solve().found.reason
    assert puzzle(5, query="0,0,0").solve().kind == "impossible"


def test_unit_key_must_have_length_one():
    checked = puzzle(6, query="20,80,-3").check(key="0.4,1.6,0")
    assert not checked.ok
    assert "length" in checked.says
    assert puzzle(6, query="20,80,-3").check(key="0.2425,0.9701,0").ok
    assert puzzle(6, keys="1,0;3,0;0,1", query="5,0").solve().kind == "impossible"  # k1 is longer than 1
    assert puzzle(6, query="0,0,0").solve().kind == "impossible"


def test_query_is_solved_for_the_users_keys():
    p = puzzle(5, keys="1,0;0,1;3,3;-1,-1")
    assert p.query.shape == (2,)
    assert p.solve().measured.weights.shape == (1, 4)


@pytest.mark.parametrize("number", KEYED)
@pytest.mark.parametrize("seed", range(3))
def test_random_keys_get_finite_weights_and_true_claims(number, seed):
    rng = np.random.default_rng(seed)
    n, d = int(rng.integers(3, 9)), int(rng.integers(1, 5))
    keys = np.round(rng.normal(size=(n, d)) * 10.0 ** rng.integers(-3, 4), int(rng.integers(0, 4)))
    keys[0, 0] = 1
    answer = puzzle(number, keys=keys).solve()
    assert np.isfinite(answer.measured.weights).all()
    if answer.kind == "exact":
        assert answer.distance < 1e-9
    if answer.kind == "in the limit" and number != 6:
        assert answer.distance < 1e-4


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: puzzle(1, keys=[[1, 2], [3]]), "rows of one length"),
        (lambda: puzzle(1, keys=[]), "empty"),
        (lambda: puzzle(1, keys=[[1, float("nan")], [1, 2]]), "not finite"),
        (lambda: puzzle(1, keys="1e7,0;0,1"), "beyond"),
        (lambda: puzzle(1, keys="1e-9,0;0,1e-9"), "nearer to 0"),
        (lambda: puzzle(1, keys="1e-300,0;0,1"), "nearer to 0"),
        (lambda: puzzle(4, keys="1,0;0,1"), "3 keys or more"),
        (lambda: puzzle(14, weights="1,1,1,1"), "sum to 4"),
        (lambda: puzzle(14, weights="-1,1,1,0"), "0 or more"),
        (lambda: puzzle(3, slope=1), "takes no --slope"),
        (lambda: puzzle(3, query="1,2,3"), "is the answer to puzzle 3"),
        (lambda: puzzle(3).check(), "asks for --query"),
        (lambda: puzzle(3).check(slope=3), "takes no --slope"),
        (lambda: puzzle(3).check(query=None), "--query"),
        (lambda: puzzle(3).check(query="1e101,0,0"), "beyond"),
        (lambda: puzzle(15), "no puzzle '15'"),
        (lambda: puzzle("inducton"), "did you mean induction"),
        (lambda: puzzle(""), "no puzzle"),
        (lambda: puzzle(3).check(query=[[[1, 2, 3]]]), "--query"),
        (lambda: puzzle(3).check(query=",".join(["1"] * 5000)), "5,000 numbers"),
    ],
)
def test_wrong_input_is_one_line(call, says):
    with pytest.raises(InputError, match=says) as error:
        call()
    assert "\n" not in str(error.value)
