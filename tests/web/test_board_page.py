"""The board and the page of a study in a real browser, without a network."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from helpers.web import open_page, served


@pytest.fixture(scope="module")
def server(store: Path):
    with served(store) as found:
        yield found


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [1200, 390])
def test_the_board_shows_verdicts_and_leads_to_the_study(server, browser, width, dark):
    with open_page(browser, server.url, width, dark=dark) as page:
        row = page.locator("[role=row]").first
        row.wait_for()
        assert page.evaluate("document.documentElement.dataset.theme") == ("dark" if dark else "light")
        assert "token" not in page.url
        assert "onerror" in row.inner_text()  # the question is text, not a script
        assert page.title() != "hacked"
        assert row.locator("svg.interval").count() == 2
        assert "Rope" in (row.locator("svg.interval").first.get_attribute("aria-label") or "")
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        row.locator("a.question").click()
        page.locator("h2", has_text="Learning curves").wait_for()
        page.locator("svg.figure path.line").first.wait_for()
        assert page.locator(".verdict").inner_text()
        assert page.title() != "hacked"
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_search_filters_and_the_address_keeps_it(server, browser):
    with open_page(browser, server.url) as page:
        page.locator("[role=row]").first.wait_for()
        page.get_by_label("Search").fill("no such study")
        page.get_by_text("No study matches").wait_for()
        assert "q=no+such" in page.url
        page.get_by_label("Search").fill("rope")
        page.locator("[role=row]").first.wait_for()
        again = page.url
        page.goto(again)
        page.locator("[role=row]").first.wait_for()
        assert page.get_by_label("Search").input_value() == "rope"


def test_the_board_is_used_by_keyboard(server, browser):
    with open_page(browser, server.url) as page:
        page.locator("[role=row]").first.wait_for()
        page.locator("[role=grid]").focus()
        page.keyboard.press("ArrowDown")
        assert page.locator("[role=row][aria-selected=true]").count() == 1
        page.keyboard.press("Enter")
        page.locator("h2", has_text="Learning curves").wait_for()


def test_curves_follow_the_choice_of_axis_and_figure(server, browser):
    with open_page(browser, f"{server.url}#/study/tiny") as page:
        line = page.locator("svg.figure path.line").first
        line.wait_for()
        before = line.get_attribute("d")
        page.get_by_label("log y").check()
        page.wait_for_function(
            "before => document.querySelector('svg.figure path.line')?.getAttribute('d') !== before", arg=before
        )
        page.get_by_label("by", exact=True).select_option("tokens")
        page.get_by_text("training tokens").first.wait_for()
        assert "axis=tokens" in page.url
        page.locator(".legend button").first.focus()
        assert page.locator("path.single").count() == 6  # every seed


def test_a_run_that_arrives_does_not_move_the_selection(store: Path, tmp_path: Path, browser):
    home = tmp_path / "home"
    shutil.copytree(store, home)
    for n in range(3):
        shutil.copytree(home / "studies" / "tiny", home / "studies" / f"tiny{n}")
        path = home / "studies" / f"tiny{n}" / "study.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), "name": f"tiny{n}"}))
    with served(home) as server, open_page(browser, server.url) as page:
        page.wait_for_function("() => document.querySelectorAll('[role=row]').length === 4")
        page.locator("#row-tiny1").click()
        order = page.evaluate("[...document.querySelectorAll('[role=row]')].map(r => r.id)")
        for result in (home / "runs").glob("*/result.json"):
            os.utime(result)
        page.locator("button.again:visible").wait_for(timeout=20_000)
        assert sorted(page.evaluate("[...document.querySelectorAll('[role=row]')].map(r => r.id)")) == sorted(order)
        assert page.locator("[role=row][aria-selected=true]").get_attribute("id") == "row-tiny1"


def test_an_empty_store_says_what_to_do(tmp_path: Path, browser):
    with served(tmp_path) as server, open_page(browser, server.url) as page:
        page.get_by_text("There are no studies yet").wait_for()
