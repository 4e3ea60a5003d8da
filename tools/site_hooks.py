"""What mkdocs calls while it builds the site: see site_pages.py for pages and links."""

from __future__ import annotations

import re
from typing import Any

from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

import site_pages
from site_pages import ROOT, navigation, with_site_links

API = re.compile(r"^<!-- api: (.+?) -->$", re.MULTILINE | re.DOTALL)
ICON = ROOT / "src" / "headtohead" / "web" / "static" / "icon.svg"


def on_files(files: Files, config: Any) -> Files:
    """Add pages and put all pages in the navigation."""
    for place, content in site_pages.added_pages().items():
        files.append(File.generated(config, place, content=content()))
    files.append(File.generated(config, "assets/favicon.svg", abs_src_path=str(ICON)))
    config.nav = navigation(file.src_uri for file in files.documentation_pages())
    return files


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    """Prepare a page of docs/. Pages that were added are prepared already."""
    if page.file.src_uri == "README.md":
        page.meta["hide"] = ["navigation"]  # the first page has its links in its text
    if page.file.generated_by is None:
        markdown = with_site_links(markdown, f"docs/{page.file.src_uri}")
    markdown = markdown.replace("<details>", '<details markdown="1">')
    return API.sub(lambda found: "\n".join(f"::: headtohead.{name}\n" for name in found[1].split()), markdown)
