"""A server that is killed loses nothing: the study goes on, and the page connects again by itself."""

from __future__ import annotations

import shutil
import time
from pathlib import Path
from typing import Any

from headtohead.outcome.outcome import load_outcome
from headtohead.web import jobs
from helpers.runs import SMALL
from helpers.web import Served, expect, open_page, served, start_process
from web.conftest import story

SLOW = 300_000  # milliseconds: the machine may be busy


def start_study(server: Served, text: Path) -> str:
    headers = {"content-type": "application/octet-stream"}
    kept = server.request("/api/compose/upload?name=mine.txt", text.read_bytes(), headers=headers)[1]["data"]
    settings = dict(setting.split("=", 1) for setting in (*SMALL, "train.steps=1500", "evaluate.every=500"))
    choice = {"data": kept, "settings": settings, "vary": {"train.optimizer.lr": "0.01"}, "seeds": "6"}
    status, answer, _ = server.request("/api/compose/run", choice)
    assert status == 200, answer
    return str(answer["study"])


def test_a_killed_server_loses_nothing(tmp_path: Path, browser: Any):
    home = tmp_path / "home"
    first = start_process(home, tmp_path / "user")
    port = str(first.served.port)
    second = None
    context = browser.new_context()
    try:
        name = start_study(first.served, story(tmp_path))
        page = context.new_page()
        page.set_default_timeout(SLOW)
        page.goto(f"{first.served.url}#/board")
        page.locator("[role=row]").wait_for()
        page.locator("[role=row] .live").wait_for()
        page.goto(f"http://127.0.0.1:{port}/#/study/{name}")
        page.locator(".bar-line", has_text="steps/s").first.wait_for()
        first.kill()
        page.get_by_text("connecting again").wait_for()
        (job,) = [job for job in jobs._all(home) if job.study == name]
        assert job.is_running  # the study goes on without a server
        second = start_process(home, tmp_path / "user", "--port", port)
        other = start_process(home, tmp_path / "other")  # two servers on one store
        try:
            page.locator("#connection", has_text="connecting").wait_for(state="hidden")
            until = time.monotonic() + SLOW / 1000
            while not (home / "studies" / name / "report.html").is_file():
                assert time.monotonic() < until
                time.sleep(0.2)
            page.get_by_text("18 runs: 18 complete").wait_for()
            page.locator(".bar-line").first.wait_for(state="hidden")
            both = [s.served.request(f"/api/study?name={name}")[1] for s in (second, other)]
            assert both[0] == both[1]
            assert [len(s.served.request("/api/board")[1]["rows"]) for s in (second, other)] == [1, 1]
        finally:
            other.kill()
        outcome = load_outcome(home / "studies" / name)
        assert {row.status for row in outcome.all_rows} == {"complete"}
        assert not list((home / "runs").glob("*/LOCK*.tmp"))
        assert all(s.printed.read_text() == "" for s in (first, second, other))
    finally:
        context.close()
        first.kill()
        if second is not None:
            second.kill()


def test_a_tab_in_the_background_reads_everything_again(store: Path, tmp_path: Path, browser: Any):
    home = tmp_path / "home"
    shutil.copytree(store, home)
    with served(home) as server, open_page(browser, server.url) as page:
        page.locator("[role=row]").first.wait_for()
        say = "now => { Object.defineProperty(document, 'visibilityState', { value: now, configurable: true }); "
        say += "document.dispatchEvent(new Event('visibilitychange')); }"
        page.evaluate(say, "hidden")
        shutil.copytree(home / "studies" / "tiny", home / "studies" / "other")
        time.sleep(2.5)  # the server has seen it
        expect(page.locator("[role=row]")).to_have_count(1)
        page.evaluate(say, "visible")
        page.locator("[role=row]").nth(1).wait_for()


def test_eight_tabs_of_one_browser_are_answered(store: Path, browser: Any):
    """A browser opens six connections to a server: tabs in the background must not keep them."""
    with served(store) as server:
        context = browser.new_context()
        for _ in range(8):
            page = context.new_page()
            page.goto(server.url)
            page.locator("[role=row]").first.wait_for()
            page.evaluate(
                "() => { Object.defineProperty(document, 'visibilityState', { value: 'hidden' }); "
                "document.dispatchEvent(new Event('visibilitychange')); }"
            )
        context.close()
