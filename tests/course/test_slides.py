"""Slides: Markdown to one page, and the page in a browser."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from html.parser import HTMLParser

import pytest

from headtohead.course import pictures, slides
from helpers.grading import COURSE

SOURCE = (COURSE / "slides.md").read_text(encoding="utf-8")


def test_blocks_become_elements():
    text = (
        "# A <b>\n\nOne **bold** `x < **y**`\nline.\n\n    a\n      b\n\n- one\n  more\n- two\n\n| h |\n|---|\n| c |\n"
    )
    found = slides.slide(text, pictures.draw)
    assert "<h1>A &lt;b&gt;</h1>" in found
    assert "<p>One <strong>bold</strong> <code>x &lt; **y**</code> line.</p>" in found
    assert "<pre>a\n  b</pre>" in found
    assert "<ul><li>one\n  more\n</li><li>two</li></ul>" in found
    assert '<th scope="col">h</th>' in found
    assert "<td>c</td>" in found


def test_the_page_needs_nothing_else():
    page = slides.page(SOURCE, pictures.draw)
    assert not re.search(r'(?:src|href)="(?!#)', page)
    assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)", page)
    assert 15 <= page.count("<section") <= 20
    HTMLParser().feed(page)


def test_all_pictures_are_used_and_are_svg():
    named = re.findall(r"!\[.+\]\(pictures/(\w+)\.svg\)", SOURCE)
    assert sorted(named) == sorted(pictures.PICTURES)
    for name in named:
        ET.fromstring(pictures.draw(name))


@pytest.mark.parametrize("width", [390, 1280])
def test_keys_turn_pages_and_nothing_is_too_wide(opened, width):
    expect = pytest.importorskip("playwright.sync_api").expect
    page = opened(slides.page(SOURCE, pictures.draw), width, 800, reduced_motion="reduce")
    for key, shown in (("ArrowRight", 2), ("PageDown", 3), ("ArrowLeft", 2), ("End", 20), ("Home", 1)):
        page.keyboard.press(key)
        expect(page.locator("section").nth(shown - 1)).to_be_in_viewport(ratio=0.9)
        assert page.url.endswith(f"#{shown}")
    assert page.evaluate("document.documentElement.scrollWidth") == width
