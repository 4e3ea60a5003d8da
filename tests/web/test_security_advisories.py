"""Classes of published advisories of Jupyter and MLflow, tried here: docs/explanation/security.md lists them."""

from __future__ import annotations

import shutil
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from headtohead.web.security import Access, session
from helpers.web import Process, start_process


@pytest.fixture(scope="module")
def started(store: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    folder = tmp_path_factory.mktemp("advisories")
    shutil.copytree(store, folder / "home")
    process = start_process(folder / "home", folder / "user")
    yield process
    process.kill()


@pytest.mark.parametrize(
    "path",
    [
        "/?token={token}&next=//evil.example",
        "/?token={token}&url=https://evil.example",
        "//evil.example/?token={token}",
        "//evil.example/%2e%2e?token={token}",
        "/\\evil.example?token={token}",
        "/?token={token}&x=%0d%0aset-cookie:%20a=b",
    ],
)
def test_no_redirect_leads_elsewhere(started: Process, path: str):
    """CVE-2023-39968: an address of the server that sends the user, and the token, to another site."""
    status, _, headers = started.served.request(path.format(token=started.served.token), cookie=False)
    assert status in (303, 400, 401, 404)
    assert headers.get("location", "./").startswith("./")
    assert "evil.example" not in headers.get("location", "").partition("?")[0]
    assert started.served.token not in headers.get("location", "")
    assert "a=b" not in headers.get("set-cookie", "")


def test_secrets_are_in_no_log_and_no_answer(started: Process):
    """CVE-2026-86049: a token or a traceback in logs and answers."""
    server = started.served
    referer = {"referer": f"http://127.0.0.1:{server.port}/?token={server.token}"}
    for path in ("/api/study?name=x", "/nowhere", "/api/inside/head/look?arm=x&seed=0&text=x&layer=x&head=x", "/"):
        status, said, headers = server.request(path, headers=referer)
        assert status < 500
        assert server.token not in str(said)
        assert session(Access(server.token, server.port)) not in str(said)
        assert headers["referrer-policy"] == "no-referrer"
    assert started.printed.read_text() == ""


def test_web_sockets_are_not_answered(started: Process):
    """CVE-2024-28179: a web socket that asks for no password."""
    upgrade = {"connection": "Upgrade", "upgrade": "websocket", "sec-websocket-version": "13"}
    upgrade |= {"sec-websocket-key": "dGhlIHNhbXBsZSBub25jZQ=="}
    assert started.served.request("/events", cookie=False, headers=upgrade)[0] == 401
    assert started.served.request("/api/about", headers=upgrade)[0] in (200, 400, 404)


@pytest.mark.parametrize("path", ["/api/board", "/api/study?name=tiny", "/static/app.js", "/", "/nowhere"])
def test_pages_of_other_sites_cannot_include_answers(started: Process, path: str):
    """A script element of another site that reads an answer."""
    for cookie in (True, False):
        headers = started.served.request(path, cookie=cookie)[2]
        assert headers["cross-origin-resource-policy"] == "same-origin"
        assert headers["x-content-type-options"] == "nosniff"
        assert not any(name.startswith("access-control") for name in headers)


@pytest.mark.parametrize("text", ["<script>alert(1)</script>", "<svg onload=alert(1)>", "{{7654*321}}"])
def test_errors_are_never_html(started: Process, text: str):
    """Text of a request or a file that comes back as a page."""
    from urllib.parse import quote

    for path in (f"/api/study?name={quote(text)}", f"/{quote(text)}", f"/static/{quote(text)}"):
        _, said, headers = started.served.request(path)
        assert "html" not in headers.get("content-type", "")
        assert str(7654 * 321) not in str(said)


def test_another_password_ends_every_session(started: Process):
    """CVE-2026-40934: a cookie that is still valid after the password was changed."""
    assert session(Access("one password", 1, password="one password")) != session(Access("other", 1, password="other"))
    stolen = {"cookie": f"h2h-{started.served.port}={session(Access('before', started.served.port))}"}
    assert started.served.request("/api/about", cookie=False, headers=stolen)[0] == 401


@pytest.fixture
def listener() -> Iterator[tuple[int, list[bytes]]]:
    """A port of this machine that remembers who connects."""
    found: list[bytes] = []
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()

        def accept() -> None:
            while True:
                try:
                    connection, _ = listening.accept()
                except OSError:
                    return
                found.append(b"connected")
                connection.close()

        threading.Thread(target=accept, daemon=True).start()
        yield listening.getsockname()[1], found


def test_the_server_asks_no_address_that_a_request_names(started: Process, listener: tuple[int, list[bytes]]):
    """CVE-2026-2393: a server that is made to send requests."""
    port, connections = listener
    server, url = started.served, f"http://127.0.0.1:{port}/x"
    for field in ("data", "metric", "task"):
        assert server.request("/api/compose/look", {field: url})[0] in (200, 400)
    for path in ("data.corpus", "data.corpus.hub", "data.corpus.path", "start.checkpoint", "tokenizer"):
        assert server.request("/api/compose/look", {"settings": {path: url}, "vary": {path: url}})[0] in (200, 400)
    for path in ("/api/study?name=", "/api/audit?part=", "/api/compose/preview?task=lm&data="):
        assert server.request(path + url)[0] in (200, 400, 404)
    assert connections == []


def test_other_names_of_the_machine_are_refused(started: Process):
    """CVE-2025-14279: DNS rebinding."""
    status, _, _ = started.served.request("/api/board", headers={"host": f"evil.example:{started.served.port}"})
    assert status == 421
