"""The page Inside with values that it cannot use: it says so in its own words, once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from helpers.web import Served, expect, open_page, served


@pytest.fixture(scope="module")
def server(store: Path) -> Iterator[Served]:
    with served(store) as found:
        yield found


def test_an_arm_that_is_not_there_is_named(server: Served, browser: Any):
    with open_page(browser, f"{server.url}#/inside/tiny?left=zzz&seed=99") as page:
        page.get_by_text("There is no arm 'zzz' in this study: Learned is shown.").wait_for()
        page.get_by_text("There is no seed '99' in this study: 0 is shown.").wait_for()


def test_wrong_numbers_are_refused_before_generating(server: Served, browser: Any):
    with open_page(browser, f"{server.url}#/inside/tiny") as page:
        start = page.get_by_role("button", name="Generate")
        expect(start).to_be_enabled()
        tokens = page.get_by_label("tokens", exact=True)
        tokens.fill("-5")
        start.click()
        message = tokens.evaluate("e => e.validationMessage")
        assert message == "tokens: a whole number from 1 to 5,000"
        expect(page.locator(".alarm")).to_have_count(0)
        tokens.fill("3")
        start.click()
        expect(page.get_by_role("status").get_by_text("3 tokens", exact=True)).to_be_visible()
