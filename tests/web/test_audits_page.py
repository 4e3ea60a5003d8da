"""The audit page in a real browser, without a network."""

from __future__ import annotations

from pathlib import Path

import pytest

from helpers.web import open_page, served

SLOW = 120_000  # milliseconds: the first audit loads torch
LEAK = "Reweight(over%3Dsequence)"


@pytest.fixture(scope="module")
def server(store: Path):
    with served(store, allow_code=True) as found:
        yield found


def no_wider(page) -> bool:
    return page.evaluate("document.documentElement.scrollWidth <= innerWidth")


@pytest.mark.parametrize(("width", "dark"), [(1200, False), (390, True)])
def test_a_leaking_part_is_shown_on_the_grid(server, browser, width, dark):
    with open_page(browser, f"{server.url}#/audit?part={LEAK}", width, dark=dark) as page:
        page.locator(".finding.broken").first.wait_for(timeout=SLOW)
        assert "4 claims are broken" in page.locator(".verdict").inner_text()
        card = page.locator("#check-future-gradient")
        assert "position 0 saw position 1" in card.inner_text()
        assert "What this means" in card.inner_text()
        grid = page.locator("svg.tokengrid[role=img]")
        assert "output 0 sees token 1" in grid.get_attribute("aria-label")
        assert grid.locator(".leak").count() == 120
        page.locator("#check-future-length").get_by_role("button").click()
        assert grid.locator(".leak.among").count() == 1
        assert no_wider(page)


def test_a_part_is_chosen_by_keyboard(server, browser):
    with open_page(browser, f"{server.url}#/audit") as page:
        page.get_by_label("Family").select_option("pattern")
        page.get_by_label("Part", exact=True).select_option("Local")
        page.get_by_label("window").fill("4")
        page.get_by_label("window").press("Enter")
        page.locator(".finding").first.wait_for(timeout=SLOW)
        assert "nothing is broken" in page.locator(".verdict").inner_text()
        assert "part=Local" in page.evaluate("location.href")
        rows = page.locator("[data-figure=audit-grid]").evaluate("e => e.figureData.rows")
        assert len(rows) == 256
        page.reload()
        page.locator(".finding").first.wait_for(timeout=SLOW)
        assert page.get_by_role("textbox", name="window").input_value() == "4"


def test_the_model_of_an_arm_is_audited(server, browser):
    with open_page(browser, f"{server.url}#/audit?study=tiny") as page:
        page.get_by_role("button", name="Rope").click()
        page.locator(".finding").first.wait_for(timeout=SLOW)
        assert "run=" in page.evaluate("location.href")
        assert page.title() != "hacked"


def test_a_pasted_module_is_audited_and_stopped(server, browser):
    with open_page(browser, f"{server.url}#/audit?module=1", 390) as page:
        page.get_by_role("button", name="Audit the module").click()
        page.locator(".finding.broken").first.wait_for(timeout=SLOW)
        assert "Tiny: 3 claims are broken" in page.locator(".verdict").inner_text()
        assert no_wider(page)
        page.get_by_label("Source of the module").fill("import time\ntime.sleep(1000)")
        page.get_by_role("button", name="Audit the module").click()
        page.get_by_role("button", name="Stop").click()
        page.get_by_text("The audit was stopped").wait_for(timeout=SLOW)


def test_without_permission_the_page_says_how_to_get_it(store, browser):
    with served(store) as server, open_page(browser, f"{server.url}#/audit") as page:
        page.get_by_role("tab", name="A module of yours").click()
        page.get_by_text("h2h serve --allow-code").wait_for()
        assert page.locator("textarea").count() == 0
        page.keyboard.press("ArrowLeft")
        assert page.get_by_role("tab", name="A model of the store").get_attribute("aria-selected") == "true"
