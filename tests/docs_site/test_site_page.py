"""The site in a real browser: search, both widths, both themes, no request that leaves the site."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from helpers.web import expect, open_page

WIDTHS = [(1200, 800), (390, 844)]
SAMPLE = ["index.html", "how-to/compare.html", "reference/api/training-parts.html"]


@pytest.fixture(params=["http", "file"])
def start(request: pytest.FixtureRequest, site: Path) -> str:
    """The site from a server, and as files without one."""
    return site.as_uri() if request.param == "file" else request.getfixturevalue("address")


def test_search_finds_a_word_and_opens_a_page(start: str, browser: Any) -> None:
    with open_page(browser, f"{start}/index.html") as page:
        page.locator("input.md-search__input").click()
        expect(page.locator(".md-search-result__meta")).to_have_text("Type to start searching")
        page.locator("input.md-search__input").press_sequentially("sequential")
        found = page.locator(".md-search-result__link", has_text="equential").first
        expect(found).to_be_visible()
        found.click()
        page.wait_for_url(lambda url: "index.html" not in url)
        expect(page.locator("article h1")).to_be_visible()
        expect(page.locator("article mark").first).to_be_attached()


@pytest.mark.parametrize(("width", "height", "dark"), [(1200, 800, False), (390, 844, True)])
def test_the_first_page_shows_its_pictures(address: str, browser: Any, width: int, height: int, dark: bool) -> None:
    with open_page(browser, f"{address}/index.html", width, height, dark=dark) as page:
        for picture in ("verdict.png", "demo.svg"):
            shown = page.locator(f"img[src*='{picture}']")
            shown.scroll_into_view_if_needed()
            expect(shown).to_be_visible()
            page.wait_for_function("e => e.complete && e.naturalWidth > 300", arg=shown.element_handle())
            assert len(shown.get_attribute("alt") or "") > 60
        brightness = page.evaluate(
            "getComputedStyle(document.body).backgroundColor.match(/\\d+/g).slice(0, 3).reduce((a, b) => a + +b, 0)"
        )
        assert (brightness < 200) == dark
        for words in ("I am a student", "I am a teacher", "I am a researcher"):
            expect(page.get_by_text(words)).to_be_visible()


def test_the_theme_is_changed_by_a_button_and_kept(address: str, browser: Any) -> None:
    with open_page(browser, f"{address}/index.html") as page:
        page.locator("label[for=__palette_1]").click()
        expect(page.locator("body")).to_have_attribute("data-md-color-scheme", "slate")
        page.goto(f"{address}/log.html")
        expect(page.locator("body")).to_have_attribute("data-md-color-scheme", "slate")


def test_the_recording_rests_and_is_played_by_a_button(address: str, browser: Any) -> None:
    with open_page(browser, f"{address}/index.html") as page:  # with reduced motion
        picture, button = page.locator("img[src*='demo.svg']"), page.locator(".recording + button")
        expect(picture).to_have_attribute("src", "pictures/demo.svg#still")
        expect(button).to_have_text("Play the recording")
        button.click()
        expect(picture).to_have_attribute("src", "pictures/demo.svg?0")
        button.click()
        expect(picture).to_have_attribute("src", "pictures/demo.svg#still")


@pytest.mark.parametrize("places", [SAMPLE, pytest.param(None, marks=pytest.mark.slow)], ids=["some", "all"])
def test_no_page_scrolls_sideways_on_a_phone(site: Path, address: str, browser: Any, places: list[str] | None) -> None:
    wide = []
    with open_page(browser, f"{address}/index.html", 390, 844) as page:
        for place in places or sorted(file.relative_to(site).as_posix() for file in site.rglob("*.html")):
            page.goto(f"{address}/{place}", wait_until="domcontentloaded")
            if page.evaluate("document.documentElement.scrollWidth > innerWidth"):
                wide.append(place)
    assert wide == []


@pytest.mark.parametrize("place", SAMPLE)
def test_axe_finds_nothing_serious(address: str, browser: Any, place: str) -> None:
    axe = pytest.importorskip("axe_playwright_python", reason="ACCESS IS NOT TESTED: axe-playwright-python is absent")
    script = (Path(axe.__file__).parent / "axe.min.js").read_text(encoding="utf-8")
    found = []
    for (width, height), dark in zip(WIDTHS, (False, True), strict=True):
        with open_page(browser, f"{address}/{place}", width, height, dark=dark) as page:
            page.evaluate(script)
            for issue in page.evaluate("axe.run().then((result) => result.violations)"):
                if issue["impact"] in ("serious", "critical"):
                    where = [f"{node['html'][:160]} {node['failureSummary'][:260]}" for node in issue["nodes"][:3]]
                    found.append(f"{width} {issue['id']}: {where}")
    assert not found, "\n".join(found)
