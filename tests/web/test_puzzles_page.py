"""The puzzles in a real browser, without a network."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from headtohead.puzzles import puzzle
from helpers.web import expect, open_page, served

SLOW = 120_000  # milliseconds: the first check in a model loads torch

# answers that are neither right nor trivial, by puzzle
ANSWERS = {
    "select": {"query": [2.0, 1.5, -0.3]},
    "identity": {"query": [[3, 1, 2], [0.4, -1, 2], [5, 5, -5], [0, 0, 1]]},
    "average": {"query": [0.1, -0.2, 0.3]},
    "average-two": {"query": [4, 3, 0.5]},
    "third-key": {"key": [0.4, 0.7, 0.2]},
    "unit-key": {"key": [0.6, 0.8, 0.0]},
    "weights": {"query": [-1, 0.5, 2]},
    "previous": {"shift": 1.2, "scale": 9},
    "first": {"score": 4.2},
    "copy": {"scale": 6},
    "majority": {"tilt": 0.3},
    "induction": {"scale": [3, 2.5]},
    "rotary": {"angle": [2.5, 0.4], "scale": 12},
    "linear": {"slope": 0.7},
}


@pytest.fixture(scope="module")
def server(store: Path):
    with served(store) as found:
        yield found


def test_the_page_computes_what_the_models_give(server, browser):
    """For every puzzle: the weights, the distance and the accuracy of one answer."""
    with open_page(browser, server.url) as page:
        for name, answer in ANSWERS.items():
            ours = puzzle(name)
            expected = ours.measure(ours.read(answer))
            status, posed, _ = server.request(f"/api/puzzles/one?which={name}")
            assert status == 200
            code = "async ([p, a]) => { const m = await import(location.origin + '/static/puzzle_math.js'); const r = "
            code += "m.measure(p, a); return [r.weights, r.target, r.distance, r.accuracy ?? null, r.fault || '']; }"
            weights, target, distance, accuracy, fault = page.evaluate(code, [posed, answer])
            np.testing.assert_allclose(weights, expected.weights, atol=1e-5, err_msg=name)
            np.testing.assert_allclose(target, expected.target, atol=1e-5, err_msg=name)
            assert distance == pytest.approx(expected.distance, abs=1e-5), name
            assert accuracy == (None if expected.accuracy is None else pytest.approx(expected.accuracy)), name
            assert fault == expected.fault


@pytest.mark.parametrize(("width", "dark"), [(1200, False), (390, True)])
@pytest.mark.parametrize("name", list(ANSWERS))
def test_every_puzzle_is_shown(server, browser, name, width, dark):
    with open_page(browser, f"{server.url}#/puzzles/{name}", width, dark=dark) as page:
        page.locator(".meter").wait_for(timeout=SLOW)
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        assert page.locator("[data-figure]").first.evaluate("e => e.figureData.rows.length > 0")
        expect(page.locator(".puzzlelist [aria-current]")).to_have_count(1)


def test_dragging_the_query_changes_the_weights(server, browser):
    with open_page(browser, f"{server.url}#/puzzles/select") as page:
        knob = page.locator("[data-vector=q] .knob")
        knob.wait_for()
        before, box = page.locator(".meter").inner_text(), knob.bounding_box()
        page.mouse.move(box["x"] + 6, box["y"] + 6)
        page.mouse.down()
        page.mouse.move(box["x"] + 6, box["y"] - 60, steps=5)
        page.mouse.up()
        assert page.locator(".meter").inner_text() != before
        moved = page.get_by_label("query, z").input_value()
        assert float(moved) > -0.5  # it was drawn upwards
        assert "query=" in page.evaluate("location.href")
        page.reload()
        page.locator(".meter").wait_for()
        assert float(page.get_by_label("query, z").input_value()) == pytest.approx(float(moved), abs=0.01)


def test_a_puzzle_is_solved_by_keyboard_and_remembered(server, browser):
    with open_page(browser, f"{server.url}#/puzzles/average") as page:
        for axis in "xyz":
            page.get_by_label(f"query, {axis}").fill("0")
        page.get_by_role("button", name="Check").press("Enter")
        page.get_by_text("Right: the weights equal the target exactly.").wait_for(timeout=SLOW)
        page.get_by_text("The model's weights equal those of the page.").wait_for()
        expect(page.locator(".lead")).to_contain_text("1 of 14 solved", use_inner_text=True)
        page.reload()
        page.locator(".puzzlelist .solved").wait_for()
        assert json.loads(page.evaluate("localStorage['h2h-puzzles']"))["average"]["solved"]
        page.locator("[data-vector=q]").focus()
        page.keyboard.press("ArrowUp")
        expect(page.get_by_label("query, z")).not_to_have_value("0")


def test_hints_come_one_by_one_then_the_explanation(server, browser):
    with open_page(browser, f"{server.url}#/puzzles/unit-key", 390) as page:
        page.get_by_role("button", name="Hint").click()
        expect(page.locator(".hints li")).to_have_count(1)
        page.get_by_role("button", name="Another hint").click()
        expect(page.locator(".hints li")).to_have_count(2)
        page.get_by_role("button", name="Explain").click()
        page.get_by_text("Cauchy–Schwarz").first.wait_for()
        page.get_by_role("button", name="Try this answer").click(timeout=SLOW)
        page.get_by_role("button", name="Check").click()
        page.get_by_text("As near as possible:").wait_for(timeout=SLOW)
        expect(page.locator(".lead")).to_contain_text("1 of 14 solved", use_inner_text=True)


def test_keys_can_be_moved_which_changes_the_question(server, browser):
    with open_page(browser, f"{server.url}#/puzzles/select") as page:
        expect(page.get_by_label("k0, x")).to_be_disabled()
        page.get_by_label("Let me move the keys too").check()
        page.get_by_label("k0, x").fill("3")
        assert "given-keys=3" in page.evaluate("location.href")
        page.get_by_label("query, x").fill("9")
        page.get_by_role("button", name="Check").click()
        page.get_by_text("The model's weights equal those of the page.").wait_for(timeout=SLOW)
        page.reload()
        page.get_by_text("You changed the question.").wait_for()
        expect(page.get_by_label("k0, x")).to_have_value("3")
        expect(page.locator(".lead")).to_contain_text("0 of 14 solved", use_inner_text=True)


def test_a_question_with_settings_can_be_changed(server, browser):
    with open_page(browser, f"{server.url}#/puzzles/rotary") as page:
        page.get_by_label("back", exact=True).fill("7")
        page.get_by_role("button", name="Ask this").click()
        page.get_by_text("attends to the token 7 back").wait_for(timeout=SLOW)
        expect(page.get_by_label("back", exact=True)).to_have_value("7")


def test_the_explanation_has_only_text_and_its_button(store, browser):
    with served(store) as server, open_page(browser, f"{server.url}#/puzzles/select") as page:
        page.get_by_role("button", name="Explain").click()
        page.get_by_role("button", name="Try this answer").wait_for()
        expect(page.locator(".explained")).not_to_contain_text("[object")
