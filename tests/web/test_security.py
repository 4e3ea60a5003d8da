"""Closed by default: token, host, origin, header, limits, policy."""

from __future__ import annotations

import json
import os
import random
import stat
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from urllib.parse import quote

import pytest

from headtohead.web.security import GUESS_SECONDS, LOOPBACK, MOST_BODY, Access, kept_token, session
from helpers.web import TOKEN, served, start_process

ADDRESSES = ["/", "/events", "/api/about", "/api/board", "/api/study?name=x", "/api/jobs", "/static/app.js"]


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with served(tmp_path_factory.mktemp("store")) as found:
        yield found


@pytest.mark.parametrize("path", ADDRESSES)
def test_nothing_is_shown_without_the_token(server, path):
    status, said, _ = server.request(path, cookie=False)
    assert status == 401
    assert "token" in said["error"]
    assert server.request(path, cookie=False, headers={"cookie": f"h2h-{server.port}=wrong"})[0] == 401


def test_the_token_becomes_a_cookie_that_other_sites_cannot_send(server):
    status, _, headers = server.request(f"/?token={TOKEN}&x=1", cookie=False)
    assert status == 303
    assert headers["location"] == "./?x=1"
    cookie = headers["set-cookie"]
    assert cookie.startswith(f"h2h-{server.port}={session(Access(TOKEN, server.port))}")
    assert "HttpOnly" in cookie
    assert "SameSite=Strict" in cookie
    assert TOKEN not in cookie
    assert server.request("/?token=wrong", cookie=False)[0] == 401


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "evil.example:80", "", "127.0.0.2"])
def test_a_name_that_points_here_is_refused(server, host):
    """DNS rebinding: a page of another site reaches this server under that site's name."""
    status, said, _ = server.request("/api/board", headers={"host": host})
    assert status == 421
    assert "answers to" in said["error"]


@pytest.mark.parametrize("host", LOOPBACK)
def test_the_names_of_this_machine_are_known(server, host):
    assert server.request("/api/about", headers={"host": f"{host}:{server.port}"})[0] == 200
    assert server.request("/api/about", headers={"host": host})[0] == 200


FOREIGN = ["http://evil.example", "null", "http://127.0.0.1:1", "https://127.0.0.1.evil.example"]


@pytest.mark.parametrize("origin", FOREIGN)
def test_pages_of_other_sites_change_nothing(server, origin):
    assert server.request("/api/jobs/stop", {"id": "0" * 12}, headers={"origin": origin})[0] == 403


@pytest.mark.parametrize("origin", FOREIGN)
@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_pages_of_other_sites_read_nothing(server, origin, method):
    for path in [*ADDRESSES, f"/?token={TOKEN}"]:
        status, _, headers = server.request(path, method=method, headers={"origin": origin})
        assert status == 403
        assert "set-cookie" not in headers


def test_the_pages_of_this_server_read(server):
    same = {"origin": f"http://127.0.0.1:{server.port}"}
    for path in ("/", "/api/about", "/static/app.js"):
        assert server.request(path, headers=same)[0] == server.request(path)[0] == 200


def test_a_form_of_another_site_cannot_set_the_header(server):
    given = {"content-type": "application/x-www-form-urlencoded"}
    status, said, _ = server.request("/api/jobs/stop", method="POST", headers=given)
    assert status == 403
    assert "x-h2h" in said["error"]
    same = {"origin": f"http://127.0.0.1:{server.port}"}
    assert server.request("/api/jobs/stop", {"id": "0" * 12}, headers=same)[0] == 400  # there is no such job


@pytest.mark.parametrize("method", ["PUT", "DELETE", "OPTIONS", "PATCH", "TRACE"])
def test_other_methods_are_refused_and_nothing_allows_other_origins(server, method):
    status, _, headers = server.request("/api/board", method=method, headers={"origin": "http://evil.example"})
    assert status == 405
    assert not any(name.startswith("access-control") for name in headers)


def test_every_answer_confines_the_page(server):
    for path in [*ADDRESSES[:1], *ADDRESSES[2:], "/nowhere"]:
        policy = server.request(path)[2]["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "script-src 'self'" in policy
        assert "unsafe" not in policy
        assert server.request(path)[2]["x-content-type-options"] == "nosniff"


def test_large_and_lying_bodies_are_refused(server):
    large = {"content-length": str(MOST_BODY + 1)}
    assert server.request("/api/jobs/stop", b"", headers=large)[0] == 413
    assert server.request("/api/jobs/stop", b"", headers={"content-length": "-1"})[0] in (400, 413)


@pytest.mark.parametrize(
    "body", [b"{", b"[]", b"3", b"\xff", b"[" * 100_000, b'{"id": 3}', b'{"other": 1}', b'{"id": "../x"}']
)
def test_malformed_requests_get_one_sentence(server, body):
    status, said, _ = server.request("/api/jobs/stop", body)
    assert status == 400
    assert "\n" not in said["error"]


NAMES = [
    "../../etc/passwd",
    "..%2f..%2fetc%2fpasswd",
    "/etc/passwd",
    "....//",
    "\x00",
    "a" * 5000,
    "%2e%2e",
    "con",
    "~root",
]


@pytest.mark.parametrize("name", NAMES)
def test_names_are_no_paths(server, name):
    assert server.request(f"/api/study?name={quote(name)}")[0] == 404
    assert server.request(f"/api/curves?name={quote(name)}&metric={quote(name)}")[0] == 404
    assert server.request(f"/static/{quote(name)}")[0] in (400, 404)
    assert server.request("/static/../app.py")[0] in (400, 404)
    assert server.request("/static/%2e%2e/security.py")[0] in (400, 404)


def test_read_only_servers_change_nothing(tmp_path: Path):
    with served(tmp_path, read_only=True) as server:
        status, said, _ = server.request("/api/jobs/stop", {"id": "0" * 12})
        assert status == 403
        assert "--read-only" in said["error"]
        assert server.request("/api/about")[1]["read_only"] is True


def test_random_requests_never_end_in_a_traceback(server):
    """1,000 random requests: every answer is a known status, and nothing is written outside the store."""
    draw = random.Random(0)
    pieces = [*ADDRESSES, "/api/study", "/api/curves", "/api/study/stop", "/api/study/resume", "/api/jobs/stop", "/x"]
    letters = "abc0189/.%?&=#[]{}\"'<>\\ \t;:é\u202e"
    for _ in range(1000):
        path = draw.choice(pieces) if draw.random() < 0.9 else "/" + "".join(draw.choices("abc/.-_~%25", k=12))
        if draw.random() < 0.6:
            path = path.partition("?")[0] + f"?name={quote(''.join(draw.choices(letters, k=draw.randrange(1, 40))))}"
        if path.startswith("/events"):
            continue
        values = [None, 3, [], {}, "x", "../" * draw.randrange(1, 9), "\u0000", 1e308, True]
        body = {draw.choice(["name", "id", "metric", "x"]): draw.choice(values)} if draw.random() < 0.5 else None
        status, said, _ = server.request(path, body)
        assert status in (200, 400, 404, 405), (path, body, status, said)


def test_the_token_is_kept_for_the_user_alone(tmp_path: Path):
    file = tmp_path / "state" / "serve.json"
    token = kept_token(file)
    assert len(token) >= 40
    assert kept_token(file) == token
    assert stat.S_IMODE(os.stat(file).st_mode) == 0o600
    for damaged in ("", "[]", '{"token": 3}', '{"token": "short"}'):
        file.write_text(damaged)
        assert len(kept_token(file)) >= 40
    assert json.loads(file.read_text())["token"] != token


@pytest.mark.parametrize("other", ['prefs={"theme":"dark"}', "a b=1", "=", ";;", 'x="unclosed'])
def test_cookies_of_other_programs_lock_nobody_out(server, other):
    for cookies in (f"{other}; {server.cookie}", f"{server.cookie}; {other}"):
        assert server.request("/api/about", cookie=False, headers={"cookie": cookies})[0] == 200


def test_a_server_on_all_addresses_knows_numbers_not_names(tmp_path):
    with served(tmp_path, any_address=True, password=PASSWORD) as server:
        for host in ("192.168.1.5:8765", "[fe80::1]:8765", "10.0.0.1"):
            assert server.request("/api/about", headers={"host": host})[0] == 401  # known, and asked for the password
        for host in ("evil.example:8765", "192.168.1.5.evil.example", "1.2.3"):
            assert server.request("/api/about", headers={"host": host})[0] == 421


PASSWORD = "correct horse & battery#1"


def test_the_password_is_asked_for_in_a_form(tmp_path, browser):
    with served(tmp_path, password=PASSWORD) as server:
        form = {"content-type": "application/x-www-form-urlencoded"}
        given = f"password={quote(PASSWORD)}".encode()
        for origin in ({}, {"origin": "http://evil.example"}, {"origin": "null"}):
            status, _, said = server.request("/enter", given, cookie=False, headers=form | origin)
            assert status == 403
            assert "set-cookie" not in said
        assert server.request(f"/?token={quote(PASSWORD)}", cookie=False)[0] == 401  # only the form takes it
        page = browser.new_context().new_page()
        page.goto(f"http://127.0.0.1:{server.port}/")
        page.get_by_label("Password").fill("wrong")
        page.get_by_role("button", name="Open").click()
        page.get_by_text("The password is wrong.").wait_for()
        page.get_by_label("Password").fill(PASSWORD)
        page.get_by_role("button", name="Open").click()
        page.get_by_role("heading", name="Verdicts").wait_for()
        page.context.close()


def test_passwords_cannot_be_guessed_quickly(tmp_path):
    with served(tmp_path, password=PASSWORD) as server, ThreadPoolExecutor(4) as guessers:
        headers = {"origin": f"http://127.0.0.1:{server.port}"}
        began = time.monotonic()
        guess = partial(server.request, "/enter", b"password=wrong", cookie=False, headers=headers)
        answers = list(guessers.map(lambda _: guess(), range(4)))
        assert [answer[0] for answer in answers] == [401] * 4
        assert time.monotonic() - began >= 4 * GUESS_SECONDS


def test_a_page_without_the_token_says_where_it_is(server):
    status, said, headers = server.request("/", cookie=False, headers={"accept": "text/html"})
    assert status == 401
    assert headers["content-type"].startswith("text/html")
    assert b"copy it from the terminal" in said
    assert b"<form" not in said


CANARIES = ("torch", "numpy", "json", "random", "multiprocessing", "headtohead")


def test_files_of_the_current_folder_are_not_executed(tmp_path):
    """CVE-2022-39286: `python -m` looks for modules in the current folder first."""
    folder = tmp_path / "here"
    folder.mkdir()
    for name in CANARIES:
        (folder / f"{name}.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'a').write('{name}')\n")
    process = start_process(tmp_path / "store", folder)
    try:
        server = process.served
        assert server.request("/api/compose")[0] == 200
        assert server.request("/api/compose/look", {"vary": {"model.position": "Rope"}})[0] == 200
        until = time.monotonic() + 120
        while server.request("/api/audit?part=Rope")[1].get("state") != "done":
            assert time.monotonic() < until
            time.sleep(0.2)
        small = {"model.width": "16", "train.steps": "1"}
        asked = {"settings": small, "vary": {"model.norm": "RMSNorm"}}
        status, said, _ = server.request("/api/compose/run", asked)
        assert status == 200, said
        job = said["job"]["id"]
        while not server.request(f"/api/jobs/one?id={job}")[1]["output"]:
            assert time.monotonic() < until
            time.sleep(0.2)
        server.request("/api/jobs/stop", {"id": job})
    finally:
        process.kill()
    assert not (tmp_path / "ran").exists(), (tmp_path / "ran").read_text()
