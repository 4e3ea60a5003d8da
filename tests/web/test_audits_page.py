"""The audit page in a real browser, without a network."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from helpers.web import expect, open_page, served

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
        expect(page.locator(".verdict")).to_contain_text("4 claims are broken", use_inner_text=True)
        card = page.locator("#check-future-gradient")
        expect(card).to_contain_text("position 0 saw position 1", use_inner_text=True)
        expect(card).to_contain_text("What this means", use_inner_text=True)
        grid = page.locator("svg.tokengrid[role=img]")
        expect(grid).to_have_attribute("aria-label", re.compile("output 0 sees token 1"))
        expect(grid.locator(".leak")).to_have_count(120)
        page.locator("#check-future-length").get_by_role("button").click()
        expect(grid.locator(".leak.among")).to_have_count(1)
        assert no_wider(page)


def test_a_part_is_chosen_by_keyboard(server, browser):
    with open_page(browser, f"{server.url}#/audit") as page:
        page.get_by_label("Family").select_option("pattern")
        page.get_by_label("Part", exact=True).select_option("Local")
        page.get_by_label("window").fill("4")
        page.get_by_label("window").press("Enter")
        page.locator(".finding").first.wait_for(timeout=SLOW)
        expect(page.locator(".verdict")).to_contain_text("nothing is broken", use_inner_text=True)
        assert "part=Local" in page.evaluate("location.href")
        rows = page.locator("[data-figure=audit-grid]").evaluate("e => e.figureData.rows")
        assert len(rows) == 256
        page.reload()
        page.locator(".finding").first.wait_for(timeout=SLOW)
        expect(page.get_by_role("textbox", name="window")).to_have_value("4")


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
        expect(page.locator(".verdict")).to_contain_text("Tiny: 3 claims are broken", use_inner_text=True)
        assert no_wider(page)
        page.get_by_label("Source of the module").fill("import time\ntime.sleep(1000)")
        page.get_by_role("button", name="Audit the module").click()
        page.get_by_role("button", name="Stop").click()
        page.get_by_text("The audit was stopped").wait_for(timeout=SLOW)


def test_without_permission_the_page_says_how_to_get_it(store, browser):
    with served(store) as server, open_page(browser, f"{server.url}#/audit") as page:
        page.get_by_role("tab", name="A module of yours").click()
        page.get_by_text("h2h serve --allow-code").wait_for()
        expect(page.locator("textarea")).to_have_count(0)
        page.keyboard.press("ArrowLeft")
        expect(page.get_by_role("tab", name="A model of the store")).to_have_attribute("aria-selected", "true")


def test_an_audit_that_runs_can_always_be_stopped(server, browser):
    with open_page(browser, f"{server.url}#/audit?module=1") as page:
        start = page.get_by_role("button", name="Audit the module")
        source = page.get_by_label("Source of the module")
        source.fill("import time\ntime.sleep(1000)")
        start.click()
        page.get_by_role("button", name="Stop").wait_for()
        expect(start).to_be_disabled()
        source.press("Control+Enter")  # starts nothing while one is audited
        page.reload()
        page.get_by_role("button", name="Stop").wait_for()  # after a reload, too
        expect(page.get_by_role("button", name="Audit the module")).to_be_disabled()
        page.get_by_role("tab", name="A part").click()
        page.get_by_role("tab", name="A module of yours").click()
        page.get_by_role("button", name="Stop").click()
        page.get_by_text("The audit was stopped").wait_for(timeout=SLOW)
        expect(page.get_by_role("button", name="Audit the module")).to_be_enabled()


def test_a_second_module_shows_the_audit_that_runs(server, browser):
    context = browser.new_context()  # the browser logs the refusal as an error, so this is no page of open_page
    try:
        page = context.new_page()
        with page.expect_response("**/api/audit/module/running"):
            page.goto(f"{server.url}#/audit?module=1")
        source = page.get_by_label("Source of the module")
        status, _, _ = server.request("/api/audit/module", {"source": "import time\ntime.sleep(1000)"})
        assert status == 200
        source.press("Control+Enter")
        expect(page.locator(".alarm")).to_contain_text("Another module is being audited")
        page.get_by_role("button", name="Stop").click(timeout=SLOW)
        page.get_by_text("The audit was stopped").wait_for(timeout=SLOW)
    finally:
        context.close()
