"""The board and the page of a study in a real browser, without a network."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from helpers.web import expect, open_page, served


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
        expect(row).to_contain_text("onerror", use_inner_text=True)  # the question is text, not a script
        assert page.title() != "hacked"
        expect(row.locator("svg.interval")).to_have_count(2)
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
        expect(page.get_by_label("Search")).to_have_value("rope")


def test_the_board_is_used_by_keyboard(server, browser):
    with open_page(browser, server.url) as page:
        page.locator("[role=row]").first.wait_for()
        page.locator("[role=grid]").focus()
        page.keyboard.press("ArrowDown")
        expect(page.locator("[role=row][aria-selected=true]")).to_have_count(1)
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
        page.locator("svg.figure[aria-label*='training tokens']").wait_for()
        assert "axis=tokens" in page.url
        page.locator(".legend button").first.focus()
        expect(page.locator("path.single")).to_have_count(6)  # every seed


def test_a_pointed_arm_keeps_its_seeds_when_redrawn(server, browser):
    with open_page(browser, f"{server.url}#/study/tiny") as page:
        page.locator(".legend button").first.focus()
        expect(page.locator("path.single")).to_have_count(6)
        first = page.locator("path.single").first.get_attribute("d")
        page.get_by_label("by", exact=True).evaluate(
            "e => { e.value = 'tokens'; e.dispatchEvent(new Event('change')); }"
        )
        page.locator("svg.figure[aria-label*='training tokens']").wait_for()
        expect(page.locator("path.single")).to_have_count(6)
        assert (
            page.evaluate("document.activeElement.dataset.arm")
            == page.locator(".legend button").first.inner_text().strip()
        )
        assert first
        page.evaluate("document.activeElement.blur()")
        expect(page.locator("path.single")).to_have_count(0)


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
        expect(page.locator("[role=row][aria-selected=true]")).to_have_attribute("id", "row-tiny1")


def test_an_empty_store_says_what_to_do(tmp_path: Path, browser):
    with served(tmp_path) as server, open_page(browser, server.url) as page:
        page.get_by_text("There are no studies yet").wait_for()


@pytest.mark.parametrize("width", [320, 390, 600, 700, 701, 1200])
@pytest.mark.parametrize("place", ["board", "study/tiny"])
def test_zero_of_the_axis_is_below_zero_of_the_intervals(store: Path, browser, width: int, place: str):
    with served(store) as server, open_page(browser, f"{server.url}#/{place}", width) as page:
        page.locator("svg.axis").first.wait_for()
        zeros = page.evaluate(
            """() => [document.querySelector("svg.interval .zero").getBoundingClientRect().x,
              ...[...document.querySelectorAll("svg.axis text")].filter(t => /^0( |$)/.test(t.textContent.trim()))
                .slice(0, 1).map(t => { const b = t.getBoundingClientRect(); return b.x + b.width / 2; })]"""
        )
        assert len(zeros) == 2
        assert abs(zeros[0] - zeros[1]) < 2


def test_a_read_only_page_offers_nothing_that_changes_the_store(store: Path, browser):
    with served(store, read_only=True) as server, open_page(browser, f"{server.url}#/study/tiny") as page:
        page.locator("svg.figure path.line").first.wait_for()
        for name in ("Continue", "Stop", "Analyse now …"):
            expect(page.get_by_role("button", name=name)).to_have_count(0)


def test_a_strange_address_is_no_error(store: Path, browser):
    with served(store) as server, open_page(browser, server.url) as page:
        page.locator("[role=row]").first.wait_for()
        page.evaluate("location.hash = '#/board/%zz'")
        page.locator("[role=row]").first.wait_for()
        expect(page.locator(".alarm")).to_have_count(0)
