"""Every link of every page leads somewhere: on a Git host, where pages are Markdown, and on the site."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from helpers.docs import ROOT

PAGES = [ROOT / name for name in ("README.md", "CHANGELOG.md", "SECURITY.md", "benchmarks/README.md")]
PAGES += sorted((ROOT / "docs").rglob("*.md"))
CODE = re.compile(r"^(```|````).*?^\1$|`[^`\n]*`", re.MULTILINE | re.DOTALL)


# -- Markdown ----------------------------------------------------------------------------------------------------------


def anchors(page: Path) -> set[str]:
    """The anchors that a Git host gives the headings of a page, and those that are written as HTML."""
    text = page.read_text(encoding="utf-8")
    headings = re.findall(r"^#{1,6} +(.+?) *$", re.sub(r"^```.*?^```$", "", text, flags=re.M | re.S), re.MULTILINE)
    found: set[str] = set(re.findall(r'<\w+ (?:id|name)="([^"]+)"', text))
    for heading in headings:
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "").replace("*", "")
        slug = re.sub(r"[^\w\- ]", "", plain.lower()).replace(" ", "-")
        found.add(next(s for s in (slug, *(f"{slug}-{n}" for n in range(1, 99))) if s not in found))
    return found


def broken(page: Path) -> Iterator[str]:
    """Links of a Markdown page that lead nowhere, as a Git host reads them."""
    text = CODE.sub("", page.read_text(encoding="utf-8"))
    for link in re.findall(r"\]\(([^)\s]+)\)", text):
        if re.match(r"https?://|mailto:", link):
            continue
        path, _, anchor = link.partition("#")
        target = page.parent / path if path else page
        if not target.exists():
            yield f"{link}: no such file"
        elif anchor and anchor not in anchors(target):
            yield f"{link}: no such heading"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_of_a_page_lead_somewhere(page: Path) -> None:
    assert list(broken(page)) == []


def test_broken_links_are_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# A `b`: c?\n[x](#a-b-c) [x](#other) [x](no.md) `[x](code.md)` [x](page.md#a-b-c)\n")
    assert list(broken(page)) == ["#other: no such heading", "no.md: no such file"]


# -- the site ----------------------------------------------------------------------------------------------------------


class Links(HTMLParser):
    """Addresses, anchors and what a browser loads by itself."""

    def __init__(self) -> None:
        super().__init__()
        self.leads: list[str] = []
        self.loads: list[str] = []
        self.anchors: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.anchors |= {given[name] for name in ("id", "name") if name in given}
        if tag == "a" and "href" in given:
            self.leads.append(given["href"])
        self.loads += [given["src"]] if "src" in given else []
        self.loads += [given["href"]] if tag == "link" and "href" in given else []


def read(page: Path) -> Links:
    links = Links()
    links.feed(page.read_text(encoding="utf-8"))
    return links


def test_links_of_the_site_lead_somewhere(site: Path) -> None:
    pages = {page: read(page) for page in site.rglob("*.html") if page.name != "404.html"}
    assert len(pages) > 50
    wrong = []
    for page, links in pages.items():
        for link in (*links.leads, *links.loads):
            split = urlsplit(link)
            if split.scheme in ("http", "https", "mailto", "data"):
                continue
            target = (page.parent / unquote(split.path)).resolve() if split.path else page
            if not target.is_file():
                wrong.append(f"{page.relative_to(site)}: {link}")
            elif split.fragment and target.suffix == ".html":
                known = pages[target].anchors
                if split.fragment not in known and unquote(split.fragment) not in known:
                    wrong.append(f"{page.relative_to(site)}: {link} has no such anchor")
    assert wrong == []


def test_the_site_loads_nothing_from_elsewhere(site: Path) -> None:
    remote = [
        f"{page.relative_to(site)}: {load}"
        for page in site.rglob("*.html")
        for load in read(page).loads
        if re.match(r"(https?:)?//", load)
    ]
    styles = [
        file.name for file in site.rglob("*.css") if re.search(r"url\(['\"]?(https?:)?//|@import", file.read_text())
    ]
    assert (remote, styles) == ([], [])


def test_no_page_of_the_site_shows_markdown(site: Path) -> None:
    """A table or a list that the site's Markdown reads in another way than a Git host is left as text."""
    wrong = []
    for page in sorted(site.rglob("*.html")):
        text = re.sub(r"<(pre|code|script|style|svg)\b.*?</\1>", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
        text = re.sub(r"<!--.*?-->", "", text, flags=re.DOTALL)
        for found in re.findall(
            r"<p>(?:\||- |\d\. )[^<]{0,60}|\n(?:- |\d+\. )\w[^<\n]{0,60}|\]\([^)]{0,60}\)|:::.{0,40}|\|---", text
        ):
            wrong.append(f"{page.relative_to(site)}: {found.strip()}")
    assert wrong == []
