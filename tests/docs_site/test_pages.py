"""Which pages the site has and in which order; pages that it makes of other files."""

from __future__ import annotations

import re
from typing import Any

import pytest

import site_pages
from helpers.docs import ROOT

DOCS = ROOT / "docs"


def leaves(entry: Any) -> list[str]:
    if isinstance(entry, str):
        return [entry]
    return [page for below in (entry.values() if isinstance(entry, dict) else entry) for page in leaves(below)]


def test_every_page_is_in_the_navigation(site) -> None:
    places = [
        file.relative_to(DOCS).with_suffix(".md").as_posix()
        for file in DOCS.rglob("*")
        if file.suffix in (".md", ".ipynb")
    ]
    shown = (site / "index.html").read_text(encoding="utf-8")
    linked = set(re.findall(r'href="([^"#]+\.html)" class="md-(?:nav|tabs)__link', shown))
    for place in [*places, "changelog.md"]:
        page = place.replace("README.md", "index.md").replace(".md", ".html")
        assert page in linked | {"index.html"}, f"{place} is not in the navigation of the site"


def test_a_new_page_or_folder_needs_no_entry() -> None:
    pages = [
        "README.md",
        "how-to/study.md",
        "how-to/new.md",
        "tutorial/2.md",
        "tutorial/README.md",
        "z/a/b.md",
        "claims.md",
        "new.md",
    ]
    found = site_pages.navigation([*pages, "repository/x.md"])
    assert sorted(leaves(found)) == sorted(pages)
    assert found == [
        {"Start": "README.md"},
        {"Tutorial": ["tutorial/README.md", "tutorial/2.md"]},
        {"How-to": [{"Studies": ["how-to/study.md"]}, {"More": ["how-to/new.md"]}]},
        {"Z": [{"A": ["z/a/b.md"]}]},
        "new.md",
        {"Claims": "claims.md"},
    ]


@pytest.mark.parametrize(
    ("page", "link", "leads"),
    [
        ("docs/log.md", "how-to/study.md#seeds", "how-to/study.md#seeds"),
        ("docs/how-to/study.md", "../log.md", "../log.md"),
        ("docs/README.md", "../CHANGELOG.md", "changelog.md"),
        ("docs/explanation/speed.md", "../../benchmarks/README.md#steps", "../repository/benchmarks/README.md#steps"),
        ("docs/log.md", "../pyproject.toml", "repository/pyproject.toml.md"),
        ("docs/log.md", "../tests/hostile", "repository/tests/hostile/README.md"),
        ("CHANGELOG.md", "docs/log.md", "log.md"),
        ("benchmarks/README.md", "../docs/log.md", "../../log.md"),
        ("docs/log.md", "https://example.org/x.md", "https://example.org/x.md"),
        ("docs/log.md", "no-such-file.md", "no-such-file.md"),
    ],
)
def test_links_of_a_git_host_become_links_of_the_site(page: str, link: str, leads: str) -> None:
    assert site_pages.with_site_links(f"a [b]({link}) `[b]({link})`", page) == f"a [b]({leads}) `[b]({link})`"


def test_files_that_pages_link_to_are_pages_of_the_site(site) -> None:
    added = site_pages.added_pages()
    assert {"changelog.md", "repository/benchmarks/README.md"} <= added.keys()
    for place in added:
        page = site / place.replace("README.md", "index.md")
        assert page.with_suffix(".html").is_file(), place


def test_a_notebook_becomes_a_page() -> None:
    cells = [
        {
            "cell_type": "code",
            "source": ["print(1)\n", "print(2)"],
            "outputs": [{"output_type": "stream", "text": ["1\n", "2\n"]}],
        },
        {"cell_type": "markdown", "source": "# Heads\n\nWhat they do."},
        {
            "cell_type": "code",
            "source": "show()",
            "outputs": [{"data": {"image/png": "aGk=", "text/plain": "<Figure>"}}],
        },
    ]
    page = site_pages.from_notebook({"cells": cells}, "heads.ipynb")
    assert page.startswith("# Heads\n\nWhat they do.\n\n[Download this notebook](heads.ipynb)")
    assert "````python\nprint(1)\nprint(2)\n````\n\n````text\n1\n2\n````" in page
    assert 'src="data:image/png;base64,aGk="' in page
    assert "<Figure>" not in page
