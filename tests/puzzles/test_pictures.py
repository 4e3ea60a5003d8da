"""Pictures of puzzles."""

import numpy as np
import pytest

from headtohead.puzzles import ALL, puzzle
from headtohead.puzzles.pictures import _hull, save


@pytest.mark.parametrize("number", ALL)
def test_every_puzzle_has_a_picture(number):
    figure = puzzle(number).picture()
    assert len(figure.axes) >= 2
    assert ALL[number].title in figure.get_suptitle()


@pytest.mark.parametrize("number", [5, 13])  # points and bars, a map
def test_svg_keeps_text_and_repeats_to_the_byte(number, tmp_path):
    file = save(puzzle(number).picture(), tmp_path / "p.svg")
    text = file.read_text(encoding="utf-8")
    assert ALL[number].title in text
    assert "dc:date" not in text
    if number == 5:
        save(puzzle(number).picture(), tmp_path / "again.svg")
        assert (tmp_path / "again.svg").read_bytes() == file.read_bytes()


@pytest.mark.parametrize("keys", ["1;2;3", "0,0;0,0;0,0", "1,0;0,1;1,1;2,2;3,1", "1,2,3,4;4,3,2,1;0,0,0,1"])
@pytest.mark.parametrize("number", [1, 2, 5])
def test_unusual_keys_have_a_picture(number, keys):
    p = puzzle(number, keys=keys)
    answer = p.check(**{name: np.ones(value.shape) for name, value in p.solve().found.answer.items()})
    assert p.picture(answer).axes


def test_hull_keeps_only_corners():
    points = np.array([[0, 0], [2, 0], [1, 1], [2, 2], [0, 2], [1, 0]], dtype=float)
    assert sorted(_hull(points).tolist()) == [[0, 0], [0, 2], [2, 0], [2, 2]]
