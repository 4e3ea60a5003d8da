"""A real browser for pages: Chromium through playwright. Tests that need it are skipped where it is absent."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

Open = Callable[..., Any]


@pytest.fixture(scope="session")
def chromium() -> str:
    """The path of the program."""
    found = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if found is None:
        pytest.skip("THE PAGE IS NOT TESTED: Chromium is absent, get it with apt-get install chromium")
    return found


@pytest.fixture(scope="session")
def browser(chromium: str) -> Iterator[Any]:
    sync_api = pytest.importorskip(
        "playwright.sync_api", reason="THE PAGE IS NOT TESTED: playwright is absent, get it with pip install playwright"
    )
    asyncio.events._set_running_loop(None)  # other tests may have left one, and playwright refuses to start beside it
    with sync_api.sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        yield launched
        launched.close()


@pytest.fixture
def opened(browser: Any, tmp_path: Path) -> Iterator[Open]:
    """Open a page. The test fails if the page asked for another address or logged an error."""
    wrong: list[str] = []
    contexts = []

    def go(html: str, width: int = 1280, height: int = 1600, **more: Any) -> Any:
        file = tmp_path / "page.html"
        file.write_text(html, encoding="utf-8")
        contexts.append(browser.new_context(viewport={"width": width, "height": height}, **more))
        tab = contexts[-1].new_page()
        own = (file.as_uri(), "data:image/svg+xml")
        tab.on("request", lambda r: None if r.url.startswith(own) else wrong.append(f"request: {r.url[:200]}"))
        tab.on("console", lambda m: wrong.append(f"console: {m.type} {m.text}"))
        tab.on("pageerror", lambda e: wrong.append(f"error: {e}"))
        tab.on("dialog", lambda d: wrong.append(f"dialog: {d.message}"))
        tab.set_default_timeout(10_000)
        tab.goto(file.as_uri())
        if more.get("java_script_enabled", True):
            tab.wait_for_selector("body[data-ready]", timeout=30_000)
        return tab

    yield go
    for context in contexts:
        context.close()
    assert wrong == []
