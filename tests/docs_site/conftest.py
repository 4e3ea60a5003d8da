"""The documentation site, built once for all processes of the tests, and served from this machine."""

from __future__ import annotations

import functools
import http.server
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from filelock import FileLock

from helpers.docs import ROOT


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        """Print nothing."""


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the site. Its build is strict: a link that leads nowhere fails it."""
    for package in ("material", "mkdocstrings_handlers.python"):
        pytest.importorskip(
            package, reason="THE SITE IS NOT TESTED: mkdocs is absent, get it with pip install 'headtohead[docs]'"
        )
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    folder = shared / "site"
    with FileLock(shared / "site.lock"):
        if not folder.is_dir():
            config = ROOT / "tools" / "docs" / "mkdocs.yml"
            command = [sys.executable, "-m", "mkdocs", "build", "--strict", "-q", "-f", config, "-d", folder]
            environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
            built = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=300, check=False)
            assert built.returncode == 0, built.stderr
    return folder


@pytest.fixture(scope="session")
def address(site: Path) -> Iterator[str]:
    """The address of a server of the site."""
    handler = functools.partial(Quiet, directory=str(site))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()
