"""A page that is left while it loads changes nothing: neither what is shown nor the address."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from helpers.web import Served, expect, open_page, served, start_process

CASES = [
    ("compose", "api/compose", "ledger", "Compose a study"),
    ("inside", "api/inside", "ledger", "Compare"),
    ("board", "api/board", "ledger", "Verdicts"),
    ("puzzles/average", "api/puzzles/one?which=average", "puzzles/select", "2. "),
]


@pytest.fixture(scope="module")
def server(store: Path) -> Iterator[Served]:
    with served(store) as found:
        yield found


@contextmanager
def held(page: Any, pattern: str) -> Iterator[list[Any]]:
    """Requests that wait until the block ends; then they are answered."""
    waiting: list[Any] = []
    page.route(lambda url: url.endswith(pattern), lambda route: waiting.append(route))
    yield waiting
    for route in waiting:
        with page.expect_response(lambda answer, url=route.request.url: answer.url == url):
            route.continue_()


def go(page: Any, hash: str) -> None:
    page.evaluate("hash => { location.hash = hash; }", f"#/{hash}")


@pytest.mark.parametrize(("left", "pattern", "shown", "text"), CASES)
def test_a_page_left_while_it_loads_draws_nothing(server: Served, browser: Any, left, pattern, shown, text):
    with open_page(browser, f"{server.url}#/audit") as page:
        page.get_by_role("heading", name="Audit").wait_for()
        with held(page, pattern) as waiting:
            go(page, left)
            while not waiting:
                page.wait_for_timeout(20)
            go(page, shown)
            page.locator("#main .claim, #main .ledger, #main .puzzle h2").first.wait_for(state="attached")
            at = page.url
        page.evaluate("() => new Promise(done => setTimeout(done, 0))")  # what waited for the answer has run
        expect(page.locator("#main")).not_to_contain_text(text)
        assert page.url == at
        assert f"#/{shown.split('?')[0]}" in at


def test_a_link_shows_its_page_after_a_restart(store: Path, tmp_path: Path, browser: Any):
    first = start_process(store, tmp_path / "user")
    context = browser.new_context()
    second = None
    try:
        page = context.new_page()
        page.set_default_timeout(60_000)
        page.goto(f"{first.served.url}#/board")
        page.locator("[role=row]").first.wait_for()
        for name in ("Puzzles", "Ledger", "Verdicts"):  # the browser keeps their scripts
            page.get_by_role("link", name=name, exact=True).click()
            page.get_by_role("heading", name=name, level=1).wait_for()
        first.kill()
        page.get_by_text("connecting again").wait_for()
        for name in ("Puzzles", "Verdicts", "Ledger"):
            page.get_by_role("link", name=name, exact=True).click()
            page.get_by_text("The server does not answer").first.wait_for()
        second = start_process(store, tmp_path / "user", "--port", str(first.served.port))
        expect(page.locator("#main .alarm")).to_have_count(0)  # the ledger is there again
        page.locator(".ledger-page h1").wait_for()
        expect(page).to_have_url(re.compile("#/ledger"))
        page.evaluate("history.replaceState(null, '', '#/board')")
        page.get_by_role("link", name="Verdicts", exact=True).click()  # its address is there already
        page.locator("[role=row]").first.wait_for()
    finally:
        context.close()
        first.kill()
        if second is not None:
            second.kill()


def test_an_address_of_no_page_is_named(server: Served, browser: Any):
    with open_page(browser, f"{server.url}#/nonsense") as page:
        page.get_by_text("There is no page 'nonsense': Verdicts is shown.").wait_for()
        page.locator("[role=row]").first.wait_for()
