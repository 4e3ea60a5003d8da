"""Firefox without a driver: its own remote protocol (Marionette), which needs no package."""

from __future__ import annotations

import contextlib
import json
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest


class Firefox:
    def __init__(self, connection: socket.socket) -> None:
        self.connection, self.number = connection, 0
        self._read()  # its greeting

    def ask(self, command: str, **values: Any) -> Any:
        self.number += 1
        text = json.dumps([0, self.number, command, values]).encode()
        self.connection.sendall(b"%d:%s" % (len(text), text))
        _, _, error, value = self._read()
        assert error is None, error
        return value.get("value") if isinstance(value, dict) else value

    def open(self, url: str) -> None:
        self.ask("WebDriver:Navigate", url=url)

    def run(self, script: str) -> Any:
        return self.ask("WebDriver:ExecuteScript", script=f"return {script}", args=[])

    def wait(self, script: str, seconds: float = 30) -> Any:
        end = time.monotonic() + seconds
        while not (value := self.run(script)):
            assert time.monotonic() < end, f"{script} stays {value!r}: {self.run('document.body.innerText')[:500]}"
            time.sleep(0.1)
        return value

    def _read(self) -> Any:
        length = b""
        while (letter := self.connection.recv(1)) != b":":
            assert letter, "Firefox has ended"
            length += letter
        text = b""
        while len(text) < int(length):
            text += self.connection.recv(int(length) - len(text))
        return json.loads(text)


@contextlib.contextmanager
def started(folder: Path) -> Iterator[Firefox]:
    """Firefox without a window and with a new profile in `folder`."""
    program = next(filter(None, map(shutil.which, ("firefox-esr", "firefox"))), None)
    if program is None:
        pytest.skip("FIREFOX IS NOT TESTED: it is absent, get it with apt-get install firefox-esr")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    settings = {"marionette.port": port, "app.update.enabled": False, "network.captive-portal-service.enabled": False}
    (folder / "user.js").write_text("".join(f'user_pref("{k}", {json.dumps(v)});\n' for k, v in settings.items()))
    command = [program, "--headless", "--marionette", "--no-remote", "--profile", str(folder)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            with contextlib.closing(_connected(process, port)) as connection:
                firefox = Firefox(connection)
                firefox.ask("WebDriver:NewSession")
                yield firefox
        finally:
            process.terminate()


def _connected(process: subprocess.Popen[bytes], port: int) -> socket.socket:
    end = time.monotonic() + 60
    while True:
        try:
            return socket.create_connection(("127.0.0.1", port), timeout=60)
        except OSError:
            assert process.poll() is None, "Firefox did not start"
            assert time.monotonic() < end, "Firefox does not answer"
            time.sleep(0.2)
