"""The ledger in a real browser, without a network."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from helpers.web import expect, open_page, served

SLOW = 300_000  # milliseconds: the first time, all stored results are judged


@pytest.fixture(scope="module")
def server(store: Path):
    with served(store) as found:
        yield found


@pytest.mark.parametrize(("width", "dark"), [(1200, False), (390, True)])
def test_claims_are_filtered_and_lead_to_their_own_address(server, browser, width, dark):
    with open_page(browser, f"{server.url}#/ledger", width, dark=dark) as page:
        page.locator(".claim").first.wait_for(timeout=SLOW)
        everything = page.locator(".claim").count()
        assert everything >= 10
        assert page.locator(".claim svg.interval").count() > 5
        page.get_by_label("Verdict").select_option("does not hold")
        assert 0 < page.locator(".claim").count() < everything
        assert "verdict=does+not+hold" in page.evaluate("location.href")
        page.get_by_label("Verdict").select_option("")
        page.get_by_label("Report").select_option("001")
        page.get_by_label("Search").fill("sinusoidal beat learned ones")
        expect(page.locator(".claim")).to_have_count(1)
        page.reload()
        page.locator(".claim").first.wait_for()
        expect(page.locator(".claim")).to_have_count(1)
        page.locator(".claim a").click()
        page.get_by_text("The comparison").first.wait_for()
        assert "#/ledger/001.1" in page.evaluate("location.href")
        assert page.locator("[data-figure^=claim-]").first.evaluate("e => e.figureData.rows[0].length") == 9
        expect(page.locator("table").last).to_contain_text("h2h run published/", use_inner_text=True)
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_published_figures_stand_beside_measured_ones(server, browser):
    with open_page(browser, f"{server.url}#/ledger?view=figures&report=001", 390) as page:
        page.locator(".report").wait_for(timeout=SLOW)
        expect(page.locator(".report")).to_have_count(1)
        expect(page.locator("svg.strip")).to_have_attribute(
            "aria-label", re.compile("comparable published figures lie")
        )
        expect(page.locator(".report")).to_contain_text("matches", use_inner_text=True)
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_a_claim_that_does_not_exist(server, browser):
    with open_page(browser, f"{server.url}#/ledger/999.9") as page:
        page.get_by_text("There is no claim '999.9'").wait_for(timeout=SLOW)
