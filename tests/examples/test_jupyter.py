"""The widget and the workbench in a real JupyterLab: a notebook is run by its menu, in Chromium, without a network."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import re
import secrets
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from helpers.notebooks import NOTEBOOKS, PARAMETERS, read
from helpers.web import expect

pytestmark = [
    pytest.mark.slow,
    *(
        pytest.mark.skipif(
            importlib.util.find_spec(name) is None, reason=f"{name} is not installed: pip install {name}"
        )
        for name in ("jupyterlab", "anywidget", "uvicorn", "nbformat")
    ),
]
SERVE = """
import headtohead as h2h
settings = ["model.width=16", "model.layers=1", "train.steps=3", "evaluate.windows=8", "tokenizer=Byte"]
control = h2h.Arm().settings(settings)
study = h2h.Study(question="Does the page open?", control=control, vary={"model.heads": [1, 2]}, seeds=2, name="here")
outcome = study.run(jobs=1, progress=False)
server = outcome.serve()
server
"""


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a short form of notebook 4, and a notebook that opens the workbench."""
    import nbformat

    folder = tmp_path_factory.mktemp("desk")
    (path,) = (path for path in NOTEBOOKS if path.name.startswith("4"))
    book = read(path)
    for cell in book.cells:
        cell.source = cell.source.replace(PARAMETERS, "QUICK = True")
    nbformat.write(book, folder / "look.ipynb")
    cells = [nbformat.v4.new_code_cell(SERVE.strip())]
    nbformat.write(nbformat.v4.new_notebook(cells=cells, metadata=book.metadata), folder / "serve.ipynb")
    return folder


@pytest.fixture(scope="module")
def lab(desk: Path) -> Iterator[str]:
    """The address of a JupyterLab on the folder, with its token."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    token = secrets.token_hex(8)
    places = (
        "JUPYTER_RUNTIME_DIR",
        "JUPYTER_CONFIG_DIR",
        "JUPYTERLAB_SETTINGS_DIR",
        "JUPYTERLAB_WORKSPACES_DIR",
        "HOME",
    )
    environment = os.environ | {name: str(desk / ".jupyter" / name.lower()) for name in places}
    environment |= {"HEADTOHEAD_HOME": str(desk / "results"), "HEADTOHEAD_CACHE": str(desk / "cache")}
    for name in places:
        Path(environment[name]).mkdir(parents=True, exist_ok=True)
    options = [f"--ServerApp.root_dir={desk}", f"--port={port}", f"--IdentityProvider.token={token}", "--allow-root"]
    command = [sys.executable, "-m", "jupyterlab", "--no-browser", *options]
    with (desk / "log.txt").open("w") as log:
        server = subprocess.Popen(command, env=environment, cwd=desk, stdout=log, stderr=log)
    try:
        _wait(f"http://127.0.0.1:{port}/api?token={token}", server, desk / "log.txt")
        yield f"http://127.0.0.1:{port}/lab/workspaces/NAME/tree/NAME.ipynb?token={token}"
    finally:
        server.terminate()
        server.wait(60)


def _wait(url: str, server: subprocess.Popen[bytes], log: Path) -> None:
    """Wait until a server answers: each attempt takes as long as the server lets it wait, or fails at once."""
    for _ in range(600):
        assert server.poll() is None, log.read_text()
        with contextlib.suppress(OSError), urllib.request.urlopen(url, timeout=60):
            return
        with contextlib.suppress(subprocess.TimeoutExpired):
            server.wait(0.1)
    raise AssertionError(log.read_text())


@contextlib.contextmanager
def notebook(browser: Any, lab: str, name: str) -> Iterator[Any]:
    """A notebook in JupyterLab, all of its cells started. A request to another machine fails the test."""
    context = browser.new_context(viewport={"width": 1280, "height": 1000})
    context.set_default_timeout(120_000)
    away: list[str] = []
    page = context.new_page()
    page.on(
        "request", lambda r: away.append(r.url) if re.match(r"https?://(?!127\.0\.0\.1|localhost)", r.url) else None
    )
    try:
        page.goto(lab.replace("NAME", name))
        expect(page.locator(".jp-Notebook .jp-Cell").first).to_be_visible(timeout=120_000)
        expect(page.locator("#jp-main-statusbar")).to_contain_text("Python 3 (ipykernel) | Idle", timeout=120_000)
        page.get_by_role("menuitem", name="Run", exact=True).click()
        page.get_by_role("menuitem", name=re.compile("^Run All Cells")).click()
        yield page
        assert away == []
    finally:
        context.close()


def test_the_widget_works_in_jupyterlab(browser: Any, lab: str):
    with notebook(browser, lab, "look") as page:
        widget = page.locator(".h2h-attention")
        expect(widget).to_be_visible(timeout=120_000)
        expect(widget).to_have_attribute("data-theme", "light")
        widget.get_by_role("radio", name="layer 1, head 1").click()
        widget.locator(".text button").nth(4).click()
        expect(widget.get_by_role("status")).to_contain_text("(4) looks at")
        after = page.locator(".jp-CodeCell", has_text="chosen = maps.head(").first
        expect(after.locator(".jp-OutputArea-output").first).to_be_visible(timeout=120_000)
        after.locator(".jp-InputArea-editor").click()
        page.keyboard.press("Control+Enter")
        expect(after.locator(".jp-OutputArea-output").first).to_contain_text("layer 1, head 1", timeout=120_000)
        page.get_by_role("menuitem", name="Settings", exact=True).click()
        labels = page.locator(".lm-Menu-itemLabel")
        labels.get_by_text("Theme", exact=True).hover()
        labels.get_by_text("JupyterLab Dark", exact=True).click()
        expect(widget).to_have_attribute("data-theme", "dark")


def test_the_workbench_opens_in_jupyterlab(browser: Any, lab: str):
    with notebook(browser, lab, "serve") as page:
        frame = page.frame_locator("iframe[title=headtohead]")
        expect(frame.get_by_role("heading", name="Does the page open?")).to_be_visible(timeout=120_000)
