"""Every address with hostile values, and random requests: no traceback, no file outside the store, nothing executed."""

from __future__ import annotations

import hashlib
import inspect
import json
import random
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from starlette.routing import Route

from headtohead.web.app import make_app
from headtohead.web.bench import Bench
from headtohead.web.security import Access, Guard
from helpers.web import Process, start_process

RANDOM, SLOW_RANDOM = 300, 5_000
FIELDS = {  # of functions that take them as **fields
    "inside": ("study", "arm", "seed", "step", "operations", "text", "layer", "head", "region", "set", "tokens"),
    "compose": ("task", "data", "settings", "vary", "seeds", "max_pairs", "metric", "margin", "effect"),
}
PATHS = [
    "../../../../../../etc/passwd",
    "/etc/passwd",
    "..\\..\\..\\etc\\passwd",
    "%2e%2e%2f%2e%2e%2fetc%2fpasswd",
    "%252e%252e%252fetc%252fpasswd",
    "file:///etc/passwd",
    "file:///etc/#/../passwd",
    "http:///#/../../../../etc/passwd",
    "....//....//etc/passwd",
    "../home-secret/secret.txt",
    "~root/.bashrc",
    "/proc/self/environ",
    "tiny/../../../secret.txt",
    ".",
    "..",
    "",
    "\x00/etc/passwd",
]
SECRET = "the secret beside the store"
KNOWN = (200, 400, 404, 405, 413)


def addresses(folder: Path) -> dict[str, tuple[tuple[str, ...], bool]]:
    """Every address of the server with its fields, and whether it takes POST."""
    app = make_app(Bench(folder, Access("x" * 40, 1)))
    assert isinstance(app, Guard)
    found = {}
    for route in app.app.routes:  # type: ignore[attr-defined]
        if not isinstance(route, Route) or not route.path.startswith("/api/"):
            continue
        work = inspect.getclosurevars(route.endpoint).nonlocals["checked"]
        fields = [name for name in inspect.signature(work).parameters if name not in ("tell", "stop")]
        known = [name for name in fields if name not in ("given", "chosen")]
        if len(known) < len(fields):
            known += FIELDS.get(route.path.split("/")[2], ("puzzle", "query", "keys", "part"))
        found[route.path] = tuple(dict.fromkeys(known)), "POST" in (route.methods or ())
    return found


def files_of(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


@pytest.fixture(scope="module")
def place(store: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a store and a secret beside it."""
    folder = tmp_path_factory.mktemp("place")
    shutil.copytree(store, folder / "home")
    (folder / "home-secret").mkdir()
    for path in (folder / "secret.txt", folder / "home-secret" / "secret.txt"):
        path.write_text(SECRET)
    return folder


@pytest.fixture(scope="module")
def started(place: Path) -> Iterator[Process]:
    process = start_process(place / "home", place / "user")
    yield process
    process.kill()


def check(process: Process, path: str, answer: tuple[int, Any, dict[str, str]]) -> None:
    status, said, headers = answer
    assert status in KNOWN, (path, status, said)
    text = said.decode(errors="replace") if isinstance(said, bytes) else json.dumps(said)
    assert "root:x:" not in text, path
    assert SECRET not in text, path
    assert "Traceback" not in text, path
    assert process.served.token not in text, path
    assert "default-src 'none'" in headers["content-security-policy"]
    if status != 200:
        assert "html" not in headers.get("content-type", "")
        if isinstance(said, dict):
            assert "\n" not in said["error"]


def is_clean(process: Process, place: Path, before: dict[str, str]) -> None:
    assert process.process.poll() is None
    assert process.printed.read_text() == ""
    now = files_of(place)
    own = ("home/", "user/")  # the store, and the server's own folders, which hold its token and caches
    assert {name: s for name, s in now.items() if not name.startswith(own)} == {
        name: s for name, s in before.items() if not name.startswith(own)
    }
    written = {name for name in now.keys() - before.keys() if name.startswith("home/")}
    assert all(name.startswith(("home/audits/", "home/jobs/", "home/uploads/", "home/studies/")) for name in written)


def test_every_parameter_of_every_address_refuses_paths(started: Process, place: Path):
    before, server = files_of(place), started.served
    asked = 0
    for path, (fields, takes_post) in addresses(place / "empty").items():
        for field in fields:
            for value in PATHS:
                if path.endswith("/upload"):
                    answer = server.request(
                        f"{path}?{urlencode({'name': value + '.txt'})}",
                        b"the king",
                        headers={"content-type": "application/octet-stream"},
                    )
                else:
                    others = {name: "x" for name in fields if name != field} if path.startswith("/api/curves") else {}
                    given = {**others, field: value}
                    answer = server.request(path, given) if takes_post else server.request(f"{path}?{urlencode(given)}")
                check(started, path, answer)
                asked += 1
    assert asked > 500
    for value in PATHS:
        check(started, "/static", server.request("/static/" + value.replace("\x00", "%00").replace("\\", "%5c")))
    is_clean(started, place, before)


@pytest.mark.parametrize("count", [RANDOM, pytest.param(SLOW_RANDOM, marks=pytest.mark.slow)])
def test_random_requests(started: Process, place: Path, count: int):
    before, draw = files_of(place), random.Random(count)
    known = addresses(place / "empty")
    letters = "abc0189/.%?&=#[]{}\"'<>\\ \t;:é\u202e\u0000🙂"

    def value(depth: int = 0) -> Any:
        kind = draw.randrange(11 if depth < 2 else 8)
        if kind == 8:
            return [value(depth + 1) for _ in range(draw.randrange(4))]
        if kind > 8:
            return {draw.choice(["x", "model.width", "train.steps", "../x"]): value(depth + 1) for _ in range(2)}
        plain = [None, True, -1, 1e308, 10**30, "".join(draw.choices(letters, k=draw.randrange(40)))]
        return [*plain, draw.choice(PATHS), "<script>alert(1)</script>"][kind]

    for _ in range(count):
        path, (fields, takes_post) = draw.choice([*known.items()])
        chosen = draw.sample([*fields, "other"], draw.randrange(len(fields) + 1))
        given = {field: value() for field in chosen}
        how = draw.random()
        if how < 0.1:
            raw = json.dumps(given).encode()
            cut = bytes(draw.choices(range(256), k=9)) + raw[draw.randrange(len(raw)) :]
            answer = started.served.request(path, cut)
        elif how < 0.2:
            answer = started.served.request(path, given, headers={"content-type": draw.choice(["text/html", "x", ""])})
        elif takes_post and how < 0.8:
            answer = started.served.request(path, given)
        else:
            answer = started.served.request(f"{path}?{urlencode({k: str(v) for k, v in given.items()})}")
        check(started, path, answer)
    is_clean(started, place, before)


@pytest.mark.parametrize("name", ["x.exe", "x.html", "x.svg", "x", ".txt/../../x", "x.py", "a" * 300 + ".zip"])
def test_uploads_of_other_kinds_are_refused(started: Process, place: Path, name: str):
    before = files_of(place)
    headers = {"content-type": "application/octet-stream"}
    query = urlencode({"name": name})
    answer = started.served.request(f"/api/compose/upload?{query}", b"<script>1</script>", headers=headers)
    assert answer[0] == 400, answer
    is_clean(started, place, before)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("x.txt", b""),
        ("x.txt", b"\xff\xfe\x00"),
        ("x.csv", b'"' * 1000),
        ("x.csv", b"\x00" * 1000),
        ("x.jsonl", b"[" * 100_000),
        ("x.jsonl", b'{"text": 1e999}\n'),
        ("x.tsv", b"a\tb\n" + b"\t" * 5000),
        ("x.csv", b"text,label\n" + b"=cmd|calc,x\n" * 3),
    ],
)
def test_malformed_uploads_get_a_sentence(started: Process, name: str, content: bytes):
    headers = {"content-type": "application/octet-stream"}
    path = f"/api/compose/upload?{urlencode({'name': name})}"
    answer = started.served.request(path, content, headers=headers)
    check(started, path, answer)
    if answer[0] == 200:
        for task in ("lm", "classifier"):
            shown = f"/api/compose/preview?{urlencode({'data': answer[1]['data'], 'task': task})}"
            check(started, shown, started.served.request(shown))
    assert started.printed.read_text() == ""


def test_an_upload_that_is_too_large_is_refused_without_being_read(started: Process):
    headers = {"content-type": "application/octet-stream", "content-length": str(2**40)}
    assert started.served.request("/api/compose/upload?name=x.txt", b"x", headers=headers)[0] == 413
