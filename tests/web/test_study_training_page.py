"""The page of a study while it is trained: what the reader does there stays, and buttons say what happens."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from headtohead.run import files
from headtohead.run.studies import read_study
from helpers.web import expect, open_page, served


@pytest.fixture
def home(store: Path, tmp_path: Path) -> Path:
    """A copy of the store in which the last run of the study is not there yet."""
    found = tmp_path / "home"
    shutil.copytree(store, found)
    run = last_run(found)
    (found / "runs" / run).rename(tmp_path / "last")
    return found


def last_run(home: Path) -> str:
    arm = read_study(home / "studies" / "tiny").tables[0].arms[-1]
    return arm.runs[max(arm.runs)]


def finish(home: Path) -> None:
    """The last run completes: its folder appears."""
    (home.parent / "last").rename(home / "runs" / last_run(home))
    study = home / "studies" / "tiny" / files.STUDY
    study.write_text(study.read_text())


def test_a_run_that_completes_resets_nothing(home: Path, browser: Any):
    with served(home) as server, open_page(browser, f"{server.url}#/study/tiny") as page:
        runs = page.locator("details", has=page.locator("summary", has_text="18 runs"))
        runs.locator("summary").click()
        runs.get_by_role("table").wait_for()
        page.get_by_label("Beginning of the samples").fill("the king")
        page.get_by_label("figure", exact=True).focus()
        finish(home)
        page.get_by_text("18 runs: 18 complete").wait_for()
        expect(runs.get_by_role("table")).to_be_visible()
        expect(page.get_by_label("Beginning of the samples")).to_have_value("the king")
        expect(page.get_by_label("figure", exact=True)).to_be_focused()


def test_continue_is_pressed_once(home: Path, browser: Any):
    with served(home) as server, open_page(browser, f"{server.url}#/audit") as page:
        asked = []

        def as_by_a_command(route: Any) -> None:
            route.fulfill(json=route.fetch().json() | {"command": "h2h run lm"})

        page.route(lambda url: "/api/study?" in url, as_by_a_command)

        def start(route: Any) -> None:
            asked.append(route)
            route.fulfill(json={})

        page.route("**/api/study/resume", start)
        page.evaluate("location.hash = '#/study/tiny'")
        expect(page.locator(".progress")).to_contain_text("1 run is not trained yet")
        page.get_by_role("button", name="Continue").evaluate("button => { button.click(); button.click(); }")
        page.get_by_text("Starting: the models are checked first.").wait_for()
        expect(page.locator(".progress")).not_to_contain_text("not trained yet")
        expect(page.locator(".toast.error")).to_have_count(0)
        assert len(asked) == 1


def test_before_the_first_pair_the_page_says_so(store: Path, browser: Any, tmp_path: Path):
    home = tmp_path / "home"
    shutil.copytree(store, home)
    for run in (home / "runs").iterdir():
        shutil.rmtree(run)
    with served(home) as server, open_page(browser, server.url) as page:
        row = page.locator("[role=row]").first
        expect(row).to_contain_text("the first pair is not finished", use_inner_text=True)
        expect(row.locator("svg.axis")).to_have_count(0)
        row.locator("a.question").click()
        page.get_by_text("The first pair is not finished").wait_for()
        expect(page.locator(".forest")).to_have_count(0)
