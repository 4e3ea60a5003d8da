"""Pages for everybody: axe finds no serious or critical issue on any page, at both widths and in both themes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from headtohead.figures.style import ARMS
from helpers.web import open_page, served

sync_playwright = pytest.importorskip(
    "axe_playwright_python.sync_playwright",
    reason="ACCESS IS NOT TESTED: axe is absent, get it with pip install axe-playwright-python",
)
PAGES = {
    "board": "[role=row]",
    "study/tiny": "svg.figure path.line",
    "compose": ".compose h2",
    "inside/tiny": "button.head canvas",
    "audit?part=Local": ".tokengrid",
    "puzzles": "[data-figure]",
    "ledger": ".ledger-page table, .ledger-page h2",
}

CONTRAST = """() => {
  const canvas = new OffscreenCanvas(1, 1).getContext("2d");
  const light = (colour) => {
    canvas.fillStyle = colour;
    canvas.fillRect(0, 0, 1, 1);
    const [r, g, b] = [...canvas.getImageData(0, 0, 1, 1).data].slice(0, 3).map((x) => x / 255)
      .map((x) => (x <= 0.04045 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const paper = light(getComputedStyle(document.body).backgroundColor);
  const probe = document.querySelector("path.line");
  return COLOURS.map((colour) => {
    probe.style.setProperty("stroke", `var(--arm-${colour.slice(1)}, ${colour})`);
    const [a, b] = [light(getComputedStyle(probe).stroke), paper].sort((x, y) => y - x);
    return (a + 0.05) / (b + 0.05);
  });
}"""


@pytest.fixture(scope="module")
def server(store: Path):
    with served(store) as found:
        yield found


@pytest.mark.parametrize("name", PAGES)
def test_axe_finds_nothing_serious(server, browser, name):
    axe = Path(sync_playwright.__file__).parent / "axe.min.js"
    found: list[str] = []
    for width in (1200, 390):
        for dark in (False, True):
            with open_page(browser, f"{server.url}#/{name}", width, dark=dark) as page:
                page.locator(PAGES[name]).first.wait_for(timeout=60_000)
                page.wait_for_timeout(500)
                page.evaluate(axe.read_text(encoding="utf-8"))  # not a script element: the page's policy forbids it
                for issue in page.evaluate("axe.run().then((result) => result.violations)"):
                    if issue["impact"] in ("serious", "critical"):
                        where = [f"{node['html'][:160]} {node['failureSummary'][:260]}" for node in issue["nodes"][:3]]
                        found.append(f"{width} {'dark' if dark else 'light'} {issue['id']}: {where}")
    assert not found, "\n".join(found)


@pytest.mark.parametrize("dark", [False, True])
def test_curves_stand_out_from_the_paper(server, browser, dark):
    """WCAG 1.4.11: figures need a contrast of 3."""
    with open_page(browser, f"{server.url}#/study/tiny", dark=dark) as page:
        page.locator("svg.figure path.line").first.wait_for()
        found = dict(zip(ARMS, page.evaluate(CONTRAST.replace("COLOURS", json.dumps(ARMS))), strict=True))
        assert {colour: value for colour, value in found.items() if value < 3} == {}


def test_axe_finds_nothing_serious_in_an_empty_store(tmp_path, browser):
    axe = Path(sync_playwright.__file__).parent / "axe.min.js"
    with served(tmp_path) as server, open_page(browser, server.url) as page:
        page.get_by_text("There are no studies yet").wait_for()
        page.evaluate(axe.read_text(encoding="utf-8"))
        issues = page.evaluate("axe.run().then((result) => result.violations)")
        assert [issue["id"] for issue in issues if issue["impact"] in ("serious", "critical")] == []
