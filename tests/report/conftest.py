"""The same store and small texts as for runs, and a browser."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from runs.conftest import home, table, text  # noqa: F401

Open = Callable[..., Any]


@pytest.fixture
def opened(browser: Any, tmp_path: Path) -> Iterator[Open]:
    """Opens a page; at the end nothing may have left it and nothing may have been complained of."""
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
