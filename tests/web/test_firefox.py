"""A smoke test in Firefox: the board, a study, and a study that was saved as one file."""

from __future__ import annotations

from pathlib import Path

from helpers.firefox import started
from helpers.web import open_page, served


def test_pages_work_in_firefox(store: Path, tmp_path: Path, browser):
    (tmp_path / "profile").mkdir()
    with served(store) as server, started(tmp_path / "profile") as firefox:
        assert "Firefox" in firefox.run("navigator.userAgent")
        firefox.open(server.url)
        firefox.wait("document.querySelectorAll('[role=row] svg.interval').length === 2")
        assert "token" not in firefox.run("location.href")
        assert "onerror" in firefox.run("document.querySelector('[role=row]').innerText")  # text, not a script
        firefox.wait("document.getElementById('connection').textContent === ''")  # connected
        firefox.run("document.querySelector('a.question').click()")
        firefox.wait("document.querySelectorAll('svg.figure path.line').length >= 3")
        assert firefox.run("document.querySelector('.verdict').innerText")
        assert firefox.run("document.title") == "tiny · headtohead"
        assert firefox.run("document.querySelectorAll('.save-figure').length") >= 2
        for name in ("compose", "inside", "audit", "puzzles", "ledger"):
            firefox.run(f"(location.hash = '#/{name}', 1)")
            firefox.wait("document.querySelector('main h1, main h2') !== null")
            assert not firefox.run("document.querySelector('main .alarm')?.innerText")
        with open_page(browser, f"{server.url}#/study/tiny") as page:
            page.locator("svg.figure path.line").first.wait_for()
            with page.expect_download() as download:
                page.get_by_role("button", name="Save page").click()
            file = tmp_path / download.value.suggested_filename
            download.value.save_as(file)
        firefox.open(file.as_uri())
        firefox.wait("document.querySelectorAll('svg.figure path.line').length >= 3")
        assert firefox.run("document.querySelectorAll('.alarm').length") == 0
