"""A real server of the workbench in a thread, requests to it, and pages in a real browser without a network."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

TOKEN = "a-token-for-tests-that-is-long-enough"


def expect(locator: Any) -> Any:
    """Assertions that wait until they hold; playwright is imported when a page is tested."""
    from playwright.sync_api import expect

    expect.set_options(timeout=60_000)  # in milliseconds: a busy machine is slow, not wrong
    return expect(locator)


@dataclass(frozen=True)
class Served:
    port: int
    token: str = TOKEN

    @property
    def url(self) -> str:
        """The address that `h2h serve` would print."""
        return f"http://127.0.0.1:{self.port}/?token={self.token}"

    @property
    def cookie(self) -> str:
        from headtohead.web.security import Access, session

        return f"h2h-{self.port}={session(Access(self.token, self.port))}"

    def request(
        self,
        path: str,
        body: Any = None,
        *,
        method: str = "",
        headers: dict[str, str] | None = None,
        cookie: bool = True,
    ) -> tuple[int, Any, dict[str, str]]:
        """Status, JSON or bytes, and headers of an answer."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        given = {"cookie": self.cookie} if cookie else {}
        if body is not None:
            given |= {"x-h2h": "1", "content-type": "application/json"}
        data = json.dumps(body) if body is not None and not isinstance(body, bytes) else body
        with contextlib.closing(connection):
            connection.request(method or ("GET" if body is None else "POST"), path, data, given | (headers or {}))
            answer = connection.getresponse()
            content = answer.read()
        said = {name.lower(): value for name, value in answer.getheaders()}
        is_json = said.get("content-type", "").startswith("application/json") and content
        return answer.status, json.loads(content) if is_json else content, said


@contextlib.contextmanager
def served(home: Path, **options: Any) -> Iterator[Served]:
    """Serve a store on a free port of this machine until the block ends."""
    import uvicorn

    from headtohead.web.app import make_app
    from headtohead.web.bench import Bench
    from headtohead.web.security import Access
    from headtohead.web.server import _socket

    listening = _socket("127.0.0.1", 0)
    port = listening.getsockname()[1]
    allow_code = options.pop("allow_code", False)
    app = make_app(Bench(home, Access(TOKEN, port, **options), allow_code))
    server = uvicorn.Server(uvicorn.Config(app, log_level="error", timeout_graceful_shutdown=1, ws="none"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()
    try:
        while not server.started:
            time.sleep(0.01)
        yield Served(port)
    finally:
        server.should_exit = True
        thread.join(10)
        listening.close()


@dataclass
class Process:
    """`h2h serve` in a process of its own."""

    process: subprocess.Popen[str]
    served: Served
    printed: Path  # what it wrote to its standard error

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        if self.process.stdout is not None:
            self.process.stdout.close()


def start_process(home: Path, folder: Path, *options: str) -> Process:
    """Start `h2h serve` on a store, with everything that it writes elsewhere below `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    places = {"HOME": "home", "XDG_STATE_HOME": "state", "XDG_CONFIG_HOME": "config"}
    for place in places.values():
        (folder / place).mkdir(exist_ok=True)
    environment = os.environ | {name: str(folder / place) for name, place in places.items()}
    environment |= {"HEADTOHEAD_HOME": str(home), "PYTHONUNBUFFERED": "1"}
    printed = folder / "stderr.txt"
    with printed.open("a") as errors:
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "headtohead.cli", "serve", *options],
            env=environment,
            cwd=folder,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        )
    assert process.stdout is not None
    said = process.stdout.readline()
    found = re.search(r"http://127.0.0.1:(\d+)/\?token=(\S+)", said)
    assert found is not None, said + printed.read_text()
    return Process(process, Served(int(found[1]), found[2]), printed)


@contextlib.contextmanager
def open_page(browser: Any, url: str, width: int = 1200, height: int = 800, dark: bool = False) -> Iterator[Any]:
    """A page of a real browser. A request that leaves the server, an error in a script and a violation of the
    page's policy fail the test."""
    origin = "/".join(url.split("/")[:3])
    context = browser.new_context(
        viewport={"width": width, "height": height}, color_scheme="dark" if dark else "light", reduced_motion="reduce"
    )
    context.set_default_timeout(60_000)  # in milliseconds
    trouble: list[str] = []
    page = context.new_page()

    def check(request: Any) -> None:
        if not request.url.startswith((origin, "data:", "blob:")):
            trouble.append(f"left the server: {request.url}")

    page.on("request", check)
    page.on("pageerror", lambda error: trouble.append(f"error: {error}"))
    page.on("console", lambda line: trouble.append(f"console: {line.text}") if line.type == "error" else None)
    try:
        page.goto(url)
        yield page
        assert not trouble, trouble
    finally:
        context.close()
