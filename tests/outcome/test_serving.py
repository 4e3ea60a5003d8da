"""The workbench from Python: a server that ends with what started it."""

from __future__ import annotations

import http.client
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from headtohead import InputError
from headtohead.errors import Unavailable
from headtohead.outcome import serving
from headtohead.outcome.serving import serve

pytest.importorskip("uvicorn")


def answers(url: str) -> bool:
    parts = urlsplit(url)
    connection = http.client.HTTPConnection("127.0.0.1", parts.port, timeout=10)
    try:
        connection.request("GET", f"/?{parts.query}")
        return connection.getresponse().status == 303
    except OSError:
        return False
    finally:
        connection.close()


def test_a_server_ends_with_its_block(tmp_path: Path):
    with serve(tmp_path, "/study/tiny") as server:
        assert server.url.endswith("#/study/tiny")
        assert answers(server.url)
        assert server.running
    assert not server.running
    assert server.process.returncode == 0
    assert not answers(server.url)
    assert repr(server) == "Served(stopped)"
    assert "call serve() again" in server._repr_html_()
    server.stop()  # again: nothing happens


def test_a_killed_script_leaves_no_server(tmp_path: Path):
    script = tmp_path / "show.py"
    script.write_text(
        "import time\nfrom pathlib import Path\nfrom headtohead.outcome.serving import serve\n"
        f"server = serve(Path({str(tmp_path)!r}))\nprint(server.url, flush=True)\ntime.sleep(60)\n"
    )
    with subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE, text=True) as started:
        assert started.stdout is not None
        url = started.stdout.readline().strip()
        assert answers(url)
        started.send_signal(signal.SIGKILL)
    end = time.monotonic() + 20
    while answers(url) and time.monotonic() < end:
        time.sleep(0.1)
    assert not answers(url)


def test_every_server_has_its_own_token(tmp_path: Path):
    with serve(tmp_path) as one, serve(tmp_path) as two:
        tokens = [re.search("token=([^#]+)", server.url) for server in (one, two)]
        assert tokens[0] is not None
        assert tokens[1] is not None
        assert tokens[0][1] != tokens[1][1]


def test_wrong_options_are_told_in_one_sentence(tmp_path: Path):
    with pytest.raises(InputError, match="--allow-frame elsewhere is no site such as http://localhost:8888"):
        serve(tmp_path, frames=["elsewhere"])
    with serve(tmp_path) as server, pytest.raises(Unavailable, match="choose another --port"):
        serve(tmp_path, port=urlsplit(server.url).port)


def test_a_notebook_shows_the_page(tmp_path: Path, monkeypatch):
    with serve(tmp_path, "/study/x%3Cy") as server:
        shown = server._repr_html_()
        assert "<iframe" in shown
        assert server.url in shown
    monkeypatch.setenv("JUPYTERHUB_SERVICE_PREFIX", "/user/ann/")
    with serving.serve(tmp_path, allow_hosts=["hub.example.org"]) as server:
        port = urlsplit(server.url).port
        assert f'"/user/ann/proxy/{port}/?token=' in server._repr_html_()
