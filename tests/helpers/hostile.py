"""Hostile files and what must hold of every command that reads them: a canary that never runs, a file that never
changes, no traceback, no hang, an exit code that is documented."""

from __future__ import annotations

import io
import json
import os
import pickle
import random
import signal
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from headtohead.spec.statements import digest
from headtohead.spec.userfiles import copy_name
from helpers.registry import forgotten

SECONDS = 60  # after which a command counts as hanging
CODES = {0, 1, 2, 3}
BYSTANDER = b"this file must never change\n"


@dataclass
class Lab:
    """A folder with a canary, a bystander, and code and pickles that would touch both."""

    folder: Path
    counts: Counter[str] = field(default_factory=Counter)  # attempts by command

    @property
    def canary(self) -> Path:
        return self.folder / "canary"

    @property
    def bystander(self) -> Path:
        return self.folder / "bystander"

    def __post_init__(self) -> None:
        self.bystander.write_bytes(BYSTANDER)

    @property
    def payload(self) -> str:
        """Statements that leave a mark."""
        canary, bystander = (f"_p.Path({str(path)!r})" for path in (self.canary, self.bystander))
        return f"import pathlib as _p\n{canary}.touch()\n{bystander}.write_text('!')\n"

    def evil(self, name: str = "Evil", base: str = "Rope", before: str = "", after: str = "") -> str:
        """A file that defines a part and marks the canary when it is executed, and when the part is made."""
        return (
            f"from headtohead import {base}\n{self.payload}{before}\n\nclass {name}({base}):\n"
            f'    """Evil."""\n\n    def check(self):\n        {self.payload.strip().replace(chr(10), "; ")}\n{after}'
        )

    @property
    def trap(self) -> Any:
        """An object whose pickle makes the canary when it is read."""
        return _Touch(str(self.canary))

    def pickled(self) -> bytes:
        return pickle.dumps(self.trap)

    def check(self, what: str) -> None:
        assert not self.canary.exists(), f"{what}: the canary ran"
        assert self.bystander.read_bytes() == BYSTANDER, f"{what}: a file outside was changed"
        inside = [p for p in sys.path if p and Path(p).is_relative_to(self.folder)]
        assert not inside, f"{what}: {inside[0]} was put on sys.path"


class _Touch:
    def __init__(self, path: str) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return os.mkdir, (self.path,)


class Hang(BaseException):
    """A command took too long."""


@contextmanager
def limited(what: str) -> Iterator[None]:
    def stop(*_: object) -> None:
        raise Hang(f"{what}: hangs")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


Attempt = Callable[..., int]


@cache
def _command() -> Any:
    """The program, built once: typer would build it for every command, which takes longer than most commands."""
    from typer.main import get_command

    from headtohead.cli import app

    return get_command(app)


@pytest.fixture
def attempt(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Attempt:
    """Run `h2h …` in this process, as a process that has loaded nothing, and check what must hold."""
    from headtohead.cli import entry, main

    monkeypatch.setattr(entry, "app", _command())

    def run(lab: Lab, what: str, *arguments: object, codes: set[int] = CODES) -> int:
        typed = " ".join(map(str, arguments))
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"y\ny\ny\n"), encoding="utf-8"))
        monkeypatch.setattr(sys, "argv", ["h2h", *map(str, arguments)])
        capfd.readouterr()
        where = f"{what}: h2h {typed}"
        with forgotten(), limited(where):
            try:
                main()
            except SystemExit as exit:
                code = int(exit.code or 0)
            except Exception as error:  # a traceback for the user
                raise AssertionError(f"{where}: {type(error).__name__}: {error}") from error
        err = capfd.readouterr().err
        assert code in codes, f"{where}: exit code {code}: {err}"
        assert "Traceback" not in err, f"{where}: {err}"
        if code >= 2:
            assert sum(line.startswith("h2h: ") for line in err.splitlines()) >= 1, f"{where}: {err!r}"
        lab.check(where)
        lab.counts[str(arguments[0])] += 1
        return code

    return run


@pytest.fixture
def counted(counts: Counter[str]) -> Callable[[Lab], Lab]:
    """Report the attempts of a lab at the end of the tests."""

    def watched(lab: Lab) -> Lab:
        lab.counts = counts
        return lab

    return watched


# -- code in JSON ------------------------------------------------------------------------------------------------------

Json = Any


def places(data: Json, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The path of every value in the JSON of a spec: of nested specs, and of knobs."""
    yield path
    if isinstance(data, dict):
        for key, value in data.items():
            if key not in ("kind", "file", "source"):
                yield from places(value, (*path, key))
    elif isinstance(data, list):
        for n, value in enumerate(data):
            yield from places(value, (*path, n))


def knobs_at(data: Json, path: tuple[Any, ...]) -> dict[str, Any] | None:
    """The knobs of the spec that the JSON has at the path; None if there is no spec."""
    for key in path:
        data = data[key]
    return {k: v for k, v in data.items() if k != "kind"} if isinstance(data, dict) and "kind" in data else None


def replaced(data: Json, path: tuple[Any, ...], value: Json) -> Json:
    """A copy of the JSON with another value at the path."""
    if not path:
        return value
    made = json.loads(json.dumps(data))
    at = made
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = value
    return made


@dataclass(frozen=True)
class Trick:
    """A way in which JSON names code."""

    name: str
    part: Json
    copies: dict[str, bytes] = field(default_factory=dict)  # for the folder code/
    links: dict[str, str] = field(default_factory=dict)  # symbolic links for the folder code/


def tricks(lab: Lab) -> list[Trick]:
    """Every way that is known. Files are written into the lab."""
    evil = lab.evil()
    right = digest(evil, "Evil")
    files = {"evil.py": evil, "recipes/evil.py": evil, "deep/er/evil.py": evil, "Evil": evil}
    for name, text in files.items():
        path = lab.folder / "cwd" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    outside = lab.folder / "evil.py"
    outside.write_text(evil)
    link, pipe = lab.folder / "cwd" / "link.py", lab.folder / "cwd" / "pipe.py"
    if not link.is_symlink():
        link.symlink_to(outside)
        os.mkfifo(pipe)
    text = evil.encode()
    sha = {copy_name(text): text}
    wrong = {"0" * 64 + ".py": text}
    named = {"kind": "Evil", "file": str(outside), "source": right}
    package = Path("recipes") / os.path.relpath(outside, _recipes())
    return [
        Trick("absolute path", named),
        Trick("wrong digest", {**named, "source": "0000"}),
        Trick("empty digest", {**named, "source": ""}),
        Trick("no digest", {"kind": "Evil", "file": str(outside)}),
        Trick("relative path", {**named, "file": "evil.py"}),
        Trick("path without ending", {**named, "file": "evil"}),
        Trick("path with a colon", {**named, "file": f"{outside}:Evil"}),
        Trick("upwards", {**named, "file": "../evil.py"}),
        Trick("symbolic link", {**named, "file": "link.py"}),
        Trick("recipe of the folder", {**named, "file": "recipes/evil.py"}),
        Trick("recipe upwards", {**named, "file": "recipes/../evil.py"}),
        Trick("out of the package", {**named, "file": package.as_posix()}),
        Trick("folder of the package", {**named, "file": f"{_recipes()}/../../../{os.path.relpath(outside, '/')}"}),
        Trick("pipe", {**named, "file": "pipe.py"}),
        Trick("device", {**named, "file": "/dev/zero"}),
        Trick("terminal", {**named, "file": "/dev/stdin"}),
        Trick("folder", {**named, "file": "."}),
        Trick("no path", {**named, "file": ""}),
        Trick("zero byte", {**named, "file": "evil\0.py"}),
        Trick("long path", {**named, "file": "e" * 5000}),
        Trick("half a letter", {**named, "file": "\ud800.py"}),
        Trick("escape", {**named, "file": "\x1b[2J\r\nevil.py"}),
        *(Trick(f"file {kind!r}", {**named, "file": kind}) for kind in (5, True, [], {}, ["evil.py"])),
        *(Trick(f"digest {kind!r}", {**named, "source": kind}) for kind in (5, True, [], {"kind": "Evil"})),
        Trick("code in the name", {**named, "kind": "__import__('os')"}),
        Trick("attribute as name", {**named, "kind": "_p"}),
        Trick("name of a built-in part", {**named, "kind": "Rope", "source": digest(evil, "Rope")}),
        Trick("copy", {**named, "file": None}, sha),
        Trick("copy and path", {**named, "file": "gone.py"}, sha),
        Trick("copy with a wrong name", {**named, "file": None}, wrong),
        Trick("path of the copy", {**named, "file": "home/runs/RUN/code/" + next(iter(sha))}, sha),
        Trick("copy as a link", {**named, "file": None}, links={next(iter(sha)): str(outside)}),
        Trick("copy of a device", {**named, "file": None}, links={"0" * 64 + ".py": "/dev/zero"}),
        Trick("copy of a pipe", {**named, "file": None}, links={"0" * 64 + ".py": str(pipe)}),
        Trick("two copies", {**named, "file": None}, {**wrong, **sha}),
        Trick("code in a knob", {"kind": "Rope", "theta": named}),
        Trick("code in a list", {"kind": "Rope", "theta": [[named], {"x": named}]}),
        Trick("code in an unknown knob", {"kind": "Rope", "nope": {"deeper": [named]}}),
        Trick("code in a pattern", {"kind": "And", "a": {"kind": "Causal"}, "b": named}),
    ]


def _recipes() -> Path:
    from headtohead.spec.userfiles import RECIPES

    return RECIPES.resolve()


def write_copies(trick: Trick, folder: Path) -> None:
    """Put the copies of a trick beside a run, and name the run in its path."""
    code = folder / "code"
    code.mkdir(exist_ok=True)
    for old in code.iterdir():
        old.unlink()
    for name, text in trick.copies.items():
        (code / name).write_bytes(text)
    for name, target in trick.links.items():
        (code / name).symlink_to(target)


def drawn(rng: random.Random, cases: list[Any], count: int) -> Iterator[Any]:
    """Every case once in a random order, and again until there are `count`."""
    while count > 0:
        batch = rng.sample(cases, len(cases))[:count]
        yield from batch
        count -= len(batch)
