"""The workbench from Python: a server in a separate process, so that this one goes on and needs no main guard."""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from html import escape
from pathlib import Path
from secrets import token_hex
from types import TracebackType
from urllib.parse import urlsplit

from headtohead.errors import InputError, Unavailable

LOCAL = ("http://localhost:*", "http://127.0.0.1:*")


class Served:
    """A running server. `url` opens it; in a notebook its value is the page."""

    def __init__(self, process: subprocess.Popen[str], url: str, hub: str = "") -> None:
        self.process, self.url = process, url
        self._hub = hub  # the path of JupyterHub's proxy

    def stop(self) -> None:
        """End the server. Studies that its pages started go on."""
        if self.process.stdin is not None:
            with contextlib.suppress(OSError):
                self.process.stdin.close()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        if self.process.stdout is not None:
            self.process.stdout.close()

    @property
    def running(self) -> bool:
        return self.process.poll() is None

    def __enter__(self) -> Served:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def __repr__(self) -> str:
        return f"Served({self.url})" if self.running else "Served(stopped)"

    def _repr_html_(self) -> str:
        """The page in a frame. The browser sends the server's cookie only if the frame has the host name of the
        notebook, so a script takes that name: localhost and 127.0.0.1 are the same machine and different sites."""
        if not self.running:
            return "<p>The server has ended: call serve() again.</p>"
        name, parts = f"h2h-{token_hex(4)}", urlsplit(self.url)
        url = f"{self._hub}?{parts.query}#{parts.fragment}" if self._hub else self.url
        here = json.dumps(url).replace("<", "\\u003c")
        return (
            f'<iframe id="{name}" title="headtohead" width="100%" height="720" style="border: 1px solid gray"></iframe>'
            f'<p><a id="{name}-link" href="{escape(url)}" target="_blank">Open in a new tab</a></p>'
            f"<script>(() => {{ const url = new URL({here}, location.href); "
            'if (["localhost", "127.0.0.1"].includes(location.hostname)) url.hostname = location.hostname; '
            f'document.getElementById("{name}").src = document.getElementById("{name}-link").href = url.href; '
            "})();</script>"
        )


def serve(
    home: Path,
    page: str = "",
    *,
    port: int | None = None,
    read_only: bool = False,
    allow_hosts: Sequence[str] = (),
    frames: Sequence[str] | None = None,
) -> Served:
    """Start `h2h serve` for a store and wait until it answers. `page` is the part of the address after #.

    `allow_hosts` names other hosts under which the server is reached, such as that of JupyterHub. `frames` are the
    sites that may show the pages in a frame: by default the notebooks of this machine where this is a notebook, and
    none elsewhere.
    """
    if frames is None:
        frames = LOCAL if "ipykernel" in sys.modules else ()
    command = [sys.executable, "-P", "-m", "headtohead.cli", "serve", "--for-parent"]
    command += ["--port", str(port)] if port is not None else []
    command += ["--read-only"] if read_only else []
    for option, values in (("--allow-host", allow_hosts), ("--allow-frame", frames)):
        for value in values:
            command += [option, value]
    with tempfile.TemporaryFile("w+") as errors:  # a pipe that is not read would stop the server when it is full
        process = subprocess.Popen(
            command,
            env=os.environ | {"HEADTOHEAD_HOME": str(home), "PYTHONUNBUFFERED": "1"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            start_new_session=True,  # Ctrl-C in this process is not meant for the server
        )
        assert process.stdout is not None
        found = re.search(r"http://\S+$", process.stdout.readline().rstrip())
        if found is None:
            Served(process, "").stop()
            errors.seek(0)
            said = " ".join(errors.read().split()).removeprefix("h2h: ") or "h2h serve did not start"
            raise (InputError if process.returncode == 2 else Unavailable)(said)
    hub = os.environ.get("JUPYTERHUB_SERVICE_PREFIX", "")
    url = found[0]
    path = f"{hub.rstrip('/')}/proxy/{urlsplit(url).port}/" if hub else ""
    return Served(process, f"{url}#{page}" if page else url, path)
