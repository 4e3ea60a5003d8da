"""h2h serve: one process, this machine only, ended by Ctrl-C."""

from __future__ import annotations

import http.client
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from helpers.docs import ROOT
from helpers.terminal import Type, is_one_line


def get(port: int, path: str, headers: dict[str, str] | None = None) -> tuple[int, dict[str, str], bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        connection.request("GET", path, headers=headers or {})
        answer = connection.getresponse()
        return answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read()
    finally:
        connection.close()


@pytest.mark.usefixtures("home")
def test_a_server_is_opened_by_its_address_and_ended(tmp_path: Path):
    environment = os.environ | {"XDG_STATE_HOME": str(tmp_path / "state"), "PYTHONUNBUFFERED": "1"}
    command = [sys.executable, "-m", "headtohead.cli", "serve"]
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as server:
        try:
            assert server.stdout is not None
            found = re.search(r"http://127.0.0.1:(\d+)(/\?token=\S+)", server.stdout.readline())
            assert found is not None
            port = int(found[1])
            assert get(port, "/")[0] == 401
            status, said, _ = get(port, found[2])
            assert (status, said["location"]) == (303, "./")
            cookie = {"cookie": said["set-cookie"].partition(";")[0]}
            assert b"<title>headtohead</title>" in get(port, "/", cookie)[2]
            status, said, _ = get(port, "/static/app.js", cookie)
            assert (status, said["cache-control"]) == (200, "no-cache")
            assert get(port, "/static/app.js", cookie | {"if-none-match": said["etag"]})[0] == 304
        finally:
            server.send_signal(signal.SIGINT)
            _, printed = server.communicate(timeout=60)
    assert server.returncode == 0
    assert "Traceback" not in printed
    (token,) = (tmp_path / "state" / "headtohead").iterdir()
    assert token.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("options", [("--host", "0.0.0.0"), ("--host", "0.0.0.0", "--password", "short")])
def test_other_machines_need_a_password(options: tuple[str, ...], type_in: Type):
    is_one_line(type_in("serve", *options), "give a --password of 12 characters or more")


@pytest.mark.usefixtures("home")
def test_an_open_page_does_not_hold_the_server(tmp_path: Path):
    environment = os.environ | {"XDG_STATE_HOME": str(tmp_path / "state"), "PYTHONUNBUFFERED": "1"}
    command = [sys.executable, "-m", "headtohead.cli", "serve"]
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as server:
        try:
            assert server.stdout is not None
            found = re.search(r"http://127.0.0.1:(\d+)(/\?token=\S+)", server.stdout.readline())
            assert found is not None
            cookie = get(int(found[1]), found[2])[1]["set-cookie"].partition(";")[0]
            connection = http.client.HTTPConnection("127.0.0.1", int(found[1]), timeout=30)
            connection.request("GET", "/events", headers={"cookie": cookie})
            assert connection.getresponse().read(10)
        finally:
            server.send_signal(signal.SIGINT)
            _, printed = server.communicate(timeout=60)
            connection.close()
    assert (server.returncode, printed) == (0, "")


def test_its_page_names_real_options_and_small_pictures(type_in: Type):
    page = (ROOT / "docs" / "how-to" / "serve.md").read_text(encoding="utf-8")
    known = type_in("serve", "--help").out
    for option in set(re.findall(r"--[a-z]+[a-z-]*", page)):
        assert option in known
    for picture in re.findall(r"\((\.\./pictures/serve/[^)]+)\)", page):
        assert 1000 < (ROOT / "docs" / "how-to" / picture).stat().st_size < 250_000
