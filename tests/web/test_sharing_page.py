"""Saving from a real browser: figures as PNG, SVG and CSV, and pages as one HTML file that opens without a server."""

from __future__ import annotations

import csv
import io
import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import pytest

from helpers.web import TOKEN, expect, open_page, served

PAGES = {
    "board": "[role=row]",
    "study/tiny": "svg.figure path.line",
    "compose": ".compose h2",
    "inside/tiny": "button.head canvas",
    "audit?part=Local": ".tokengrid",
    "puzzles": "h1",
    "ledger": "h1",
}


@pytest.fixture(scope="module")
def server(store: Path):
    with served(store) as found:
        yield found


def saved(page: Any, button: Any, folder: Path) -> Path:
    with page.expect_download() as started:
        button.click()
    file = folder / started.value.suggested_filename
    started.value.save_as(file)
    return file


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [1200, 390])
def test_a_figure_is_saved_as_png_svg_and_csv(server, browser, tmp_path, width, dark):
    with open_page(browser, f"{server.url}#/study/tiny", width, dark=dark) as page:
        page.locator("[data-figure=learning-curves] path.line").first.wait_for()
        group = page.get_by_role("group", name="Save figure learning-curves")
        png = saved(page, group.get_by_role("button", name="as PNG"), tmp_path)
        assert png.name == "tiny-learning-curves.png"
        assert png.read_bytes().startswith(b"\x89PNG")
        assert page.evaluate(IS_DRAWN, list(png.read_bytes())) > 10
        svg = saved(page, group.get_by_role("button", name="as SVG"), tmp_path)
        root = ElementTree.fromstring(svg.read_text(encoding="utf-8"))
        assert root.tag.endswith("svg")
        assert "class=" not in svg.read_text(encoding="utf-8")  # styles are attributes: other programs show the same
        table = saved(page, group.get_by_role("button", name="as CSV"), tmp_path)
        rows = list(csv.reader(io.StringIO(table.read_text(encoding="utf-8"))))
        assert rows[0][:3] == ["arm", "seed", "step"]
        assert len({row[0] for row in rows[1:]}) == 3
        forest = page.get_by_role("group", name="Save figure differences")
        svg = saved(page, forest.get_by_role("button", name="as SVG"), tmp_path)
        texts = "".join(ElementTree.fromstring(svg.read_text(encoding="utf-8")).itertext())
        assert "Rope" in texts
        page.get_by_text("Saved as tiny-differences.svg").wait_for()


IS_DRAWN = """async (bytes) => {
  const bitmap = await createImageBitmap(new Blob([new Uint8Array(bytes)], { type: "image/png" }));
  const canvas = new OffscreenCanvas(bitmap.width, bitmap.height).getContext("2d");
  canvas.drawImage(bitmap, 0, 0);
  const data = canvas.getImageData(0, 0, bitmap.width, bitmap.height).data;
  const colours = new Set();
  for (let n = 0; n < data.length; n += 4) colours.add(`${data[n]},${data[n + 1]},${data[n + 2]}`);
  return colours.size;
}"""


@pytest.mark.parametrize("name", PAGES)
def test_every_figure_of_every_page_is_saved(server, browser, tmp_path, name):
    with open_page(browser, f"{server.url}#/{name}") as page:
        page.locator(PAGES[name]).first.wait_for(timeout=60_000)
        page.wait_for_timeout(500)
        groups = page.locator(".save-figure:visible")
        assert page.locator("[data-figure]:visible").count() == groups.count()
        for n in range(groups.count()):
            svg = saved(page, groups.nth(n).get_by_role("button", name="as SVG"), tmp_path)
            ElementTree.fromstring(svg.read_text(encoding="utf-8"))
            png = saved(page, groups.nth(n).get_by_role("button", name="as PNG"), tmp_path)
            assert page.evaluate(IS_DRAWN, list(png.read_bytes())) > 1
            assert re.fullmatch(r"[\w.-]+\.png", png.name)


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_saved_as_one_file_that_needs_nothing(server, browser, tmp_path, name):
    with open_page(browser, f"{server.url}#/{name}", dark=name == "board") as page:
        page.locator(PAGES[name]).first.wait_for(timeout=60_000)
        page.wait_for_timeout(500)
        title = page.title()
        file = saved(page, page.get_by_role("button", name="Save page"), tmp_path)
    assert re.fullmatch(r"[\w-]+-\d{4}-\d\d-\d\d\.html", file.name)
    text = file.read_text(encoding="utf-8")
    assert TOKEN not in text
    assert server.cookie.partition("=")[2] not in text
    assert f":{server.port}/" not in text  # the bare number may occur among the figures of the page
    url = file.as_uri()
    with open_page(browser, url) as page:  # fails on any request, error or violation of the policy
        page.locator(PAGES[name].replace("canvas", "img")).first.wait_for(timeout=20_000)
        assert page.title() == title != "hacked"
        theme = "dark" if name == "board" else "light"
        assert page.evaluate("document.documentElement.dataset.theme") == theme
        expect(page.locator("#connection")).to_contain_text("saved 2", use_inner_text=True)
        expect(page.get_by_role("button", name="Save page")).to_have_count(0)
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_a_saved_study_still_answers_the_reader(server, browser, tmp_path):
    with open_page(browser, f"{server.url}#/study/tiny?axis=tokens&logY=1") as page:
        page.locator("svg.figure path.line").first.wait_for()
        file = saved(page, page.get_by_role("button", name="Save page"), tmp_path)
    with open_page(browser, file.as_uri(), 390) as page:
        page.get_by_text("training tokens").first.wait_for()  # the reader sees what was saved
        expect(page.get_by_label("log y")).to_be_checked()
        page.locator(".legend button").first.focus()
        expect(page.locator("path.single")).to_have_count(6)
        options = page.get_by_label("figure", exact=True).locator("option").all_inner_texts()
        for option in options:  # the curves of every figure are in the file
            page.get_by_label("figure", exact=True).select_option(option)
            page.locator("svg.figure path.line").first.wait_for()
        table = saved(page, page.get_by_role("button", name="Save figure learning-curves as CSV"), tmp_path)
        assert table.read_text(encoding="utf-8").startswith("arm,seed,step")
        expect(page.locator(".alarm")).to_have_count(0)


def test_saving_is_done_by_keyboard(server, browser):
    with open_page(browser, f"{server.url}#/study/tiny") as page:
        page.locator("svg.figure path.line").first.wait_for()
        page.get_by_role("button", name="Save page").focus()
        with page.expect_download():
            page.keyboard.press("Enter")
        page.get_by_role("button", name="Save figure differences as CSV").focus()
        with page.expect_download():
            page.keyboard.press("Space")


def test_verdicts_are_copied_as_markdown_and_latex(server, browser):
    with open_page(browser, f"{server.url}#/study/tiny") as page:
        page.context.grant_permissions(["clipboard-read", "clipboard-write"])
        for name, start in (("Markdown", "|"), ("LaTeX", "\\begin{tab")):
            page.get_by_role("button", name=f"Copy as {name}").click()
            page.get_by_text(f"Copied as {name}").wait_for()
            text = page.evaluate("navigator.clipboard.readText()")
            assert start in text
            assert "Rope" in text


def test_a_saved_picture_says_what_it_shows(server, browser, tmp_path):
    with open_page(browser, f"{server.url}#/study/tiny") as page:
        page.locator("svg.figure path.line").first.wait_for()
        for name, parts in (
            ("differences", ("Does it matter?", "Difference from Learned in test/loss", "Thin line")),
            ("learning-curves", ("Does it matter?", "Lines: means over the seeds")),
        ):
            file = saved(page, page.get_by_role("button", name=f"Save figure {name} as SVG"), tmp_path)
            text = " ".join(re.findall(r">([^<>]+)<", file.read_text(encoding="utf-8")))
            assert all(part in text for part in parts), text


def test_a_saved_board_has_no_links_that_fail(server, browser, tmp_path):
    with open_page(browser, server.url) as page:
        page.locator("[role=row]").first.wait_for()
        file = saved(page, page.get_by_role("button", name="Save page"), tmp_path)
    with open_page(browser, file.as_uri()) as page:
        page.locator("[role=row] .question").first.wait_for()
        expect(page.locator("a[href^='#/']")).to_have_count(0)
