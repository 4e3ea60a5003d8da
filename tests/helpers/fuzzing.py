"""Malformed command lines, files, recipes and settings, drawn with a seed, and a way to run them in this process."""
# ruff: noqa: E501

from __future__ import annotations

import io
import json
import os
import random
import signal
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import typer

from headtohead.cli import app, main

SECONDS = 20.0  # of processor time that one command may take
PATIENCE = 10  # times as long may it take by the clock: other programs run too

# fmt: off
TEXTS = [
    *("", " ", "-", "--", "x", "None", "true", "[]", "{}", "()", "(", "[", ")", "=", "a=", "=b", "a=b", ",", ",,,", "@"),
    *("0", "1", "-1", "2", "1.5", "-0.0", "nan", "inf", "-inf", "1e309", "1e-320", "0x10", "1_000", "٣", "1,2,3", "3-1"),
    *("1000000000", "999999999999999999999999", "-9223372036854775809", "9" * 5000, "1" + "0" * 400, "1:2", "/", "."),
    *("x" * 5000, "../../../etc/passwd", "/dev/null", "/dev/zero", "/proc/self/mem", "..", "~", "~nobody", "a/b@c", "a/b@1"),
    *("\x1b[31mred", "\u202etxt", "é中文👩‍🔬", "\udcff", "a\nb", "\r", "\t", "'", '"', "$(id)", "%s%n", "*", "?", "{0}", "\\"),
    *("latest", "hub:", "hub:no/model", "file.py:", "no.py:Part", "ray:", "ray:x", "ray:127.0.0.1:1", "local", "stored"),
    *("lm", "classifier", "mine.txt", "mine.csv", "test/loss", "loss", "Rope", "Learned(", "Rope(theta=-1)", "Causal & 3"),
    *("Rope(theta=nan)", "Local(window=0)", "Local(window=1000000000)", "Causal & Causal", "__import__('os')"),
    *("Rope(" * 200 + ")" * 200, "(" * 2000, "-" * 3000 + "1", "[" * 500 + "]" * 500, "Causal" + " & Causal" * 3000),
]
JSON = [
    *("", "null", "1", '"x"', "[]", "{}", "{", "[1,", "NaN", "\ufeff{}", "\x00", '{"a":' * 3000 + "1" + "}" * 3000),
    *("[" * 100_000, "[" * 100_000 + "]" * 100_000, '{"format": 99}', '{"kind": 5}', '{"kind": [], "arm": {}}'),
    *('{"\\ud800": "\\udfff"}', '{"format": {}}', '{"format": 1}', '{"kind": "RunSpec"}', '{"kind": "Rope", "theta": {}}'),
]
STUDY = "from headtohead import *\nstudy = "
RECIPES = [
    *("", "x", "def", "raise ValueError('no')", "raise SystemExit(7)", "1/0", "import no_such_module", "\x00", "é" * 10),
    "class Bad(Exception):\n    def __str__(self): raise RuntimeError('inner')\nraise Bad()",
    "class Bad(ValueError):\n    def __str__(self): return 5\nraise Bad()",
    *("raise OSError(13, 'no', 'file')", "raise MemoryError", "def study(): raise KeyError('x')"),
    *(f"{STUDY}5", f"{STUDY}Study()", f"{STUDY}Study(question='q', control=5, vary={{}})"),
    f"{STUDY}Study('q', Arm.of('lm'), vary={{'model.position': []}})",
    f"{STUDY}Study('q', Arm.of('lm'), vary={{'model.position': ['Rope']}}, seeds=10**12)",
    f"{STUDY}Study('q', Arm.of('lm'), vary={{'model.nothing': [1]}}, seeds='a')",
    *("def f(): f()\nf()", "(" * 5000, "x = " + "[" * 300 + "]" * 300),
]
TABLES = [
    *("", "\n", "text", "text,label\n", "text,label\na,0\n", "text,label\na,0\na,1\n", "text,label\n,\n", "label,label\na,b\n"),
    *("text,label\n" + "a,0\n" * 50, "text,label\n" + "same,0\nsame,1\n" * 20, 'text,label\n"unclosed,0\n', "\x00\x01\x02"),
    *("text\tlabel\na\t0\n", "arm,seed,loss\na,0,x\n", "arm,seed,loss\na,0,nan\nb,0,inf\n", "arm,seed,loss\na,0,1\nb,0,2\n"),
    *("arm,seed,loss\n" + "".join(f"{a},{s},{s}\n" for a in "ab" for s in range(8)), "x" * 200_000, "中" * 5000),
    *('{"text": "a", "label": 0}\n', '{"text": 5}\n', "[1]\n", '{"text": ' + "[" * 50_000 + "}\n"),
]
# fmt: on


@dataclass(frozen=True)
class Command:
    words: tuple[str, ...]
    arguments: tuple[tuple[str, bool], ...]  # name, whether several are taken
    options: tuple[tuple[str, bool], ...]  # name, whether it is a flag


def commands() -> list[Command]:
    """Every command of `h2h`, with all its arguments and options."""

    def walk(one: Any, words: tuple[str, ...]) -> Iterator[Command]:
        if hasattr(one, "commands"):
            for name, inner in one.commands.items():
                yield from walk(inner, (*words, name))
            return
        arguments = [p for p in one.params if p.param_type_name == "argument"]
        options = [p for p in one.params if p.param_type_name == "option"]
        yield Command(
            words,
            tuple((p.name, p.nargs != 1) for p in arguments),
            tuple((p.opts[-1], bool(getattr(p, "is_flag", False))) for p in options),
        )

    return list(walk(typer.main.get_command(app), ()))


class Hang(BaseException):
    """The command took too long. No `except Exception` catches it."""


@dataclass
class Ran:
    code: int | None  # None: it raised
    out: str
    err: str
    error: str = ""
    seconds: float = 0.0

    def problem(self) -> str:
        """What is wrong with how the command ended; empty if nothing."""
        if self.error:
            return self.error
        if self.code not in (0, 1, 2, 3):
            return f"exit code {self.code}"
        if "Traceback (most recent call last)" in self.out + self.err:
            return "a traceback is printed"
        if any(c in self.out + self.err for c in "\x1b\x9b\u202e\x07"):
            return "a control character is printed"
        if self.code in (2, 3):
            last = [line for line in self.err.splitlines() if line.startswith("h2h: ")]
            if len(last) < 1 and "Usage:" not in self.out + self.err:
                return f"no line says what is wrong: {self.err[-300:]!r}"
            if any(len(line) > 3000 for line in self.err.splitlines()):
                return "the message is longer than 3,000 characters"
        return ""


def run(arguments: list[str], seconds: float = SECONDS) -> Ran:
    """Run `h2h …` in this process, within a time."""
    streams = [io.TextIOWrapper(io.BytesIO(), encoding="utf-8", errors="strict") for _ in range(2)]
    before = sys.argv, sys.stdin, sys.stdout, sys.stderr
    sys.argv, sys.stdin = ["h2h", *arguments], io.TextIOWrapper(io.BytesIO(b""), encoding="utf-8")
    sys.stdout, sys.stderr = streams
    code, error, began = None, "", time.process_time()
    timers = {signal.ITIMER_PROF: signal.SIGPROF, signal.ITIMER_REAL: signal.SIGALRM}
    old = {number: signal.signal(number, _hang) for number in timers.values()}
    signal.setitimer(signal.ITIMER_PROF, seconds)
    signal.setitimer(signal.ITIMER_REAL, PATIENCE * seconds)
    try:
        main()
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else 0 if ended.code is None else -1
    except BaseException as raised:
        error = "".join(traceback.format_exception(raised))[-3000:]
    finally:
        for timer, number in timers.items():
            signal.setitimer(timer, 0)
            signal.signal(number, old[number])
        sys.argv, sys.stdin, sys.stdout, sys.stderr = before
    out, err = ("".join(s.buffer.getvalue().decode("utf-8", "replace")) for s in _flushed(streams))
    return Ran(code, out, err, error, time.process_time() - began)


def _flushed(streams: list[io.TextIOWrapper]) -> list[Any]:
    for stream in streams:
        stream.flush()
    return streams


def _hang(*_: object) -> None:
    raise Hang("it takes too long")


@dataclass
class Campaign:
    """Counts what was run, and keeps what went wrong."""

    codes: Counter[str] = field(default_factory=Counter)
    kinds: Counter[str] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)
    slowest: tuple[float, str] = (0.0, "")

    def try_(self, kind: str, arguments: list[str], about: str = "") -> Ran:
        done = run(arguments)
        self.kinds[kind] += 1
        self.codes[str(done.code)] += 1
        said = "h2h " + " ".join(repr(a[:80]) for a in arguments) + (f"   # {about}" if about else "")
        self.slowest = max(self.slowest, (done.seconds, said))
        if problem := done.problem():
            self.problems.append(f"{said}\n{problem}")
        return done

    def report(self) -> str:
        kinds = ", ".join(f"{n} {kind}" for kind, n in self.kinds.items())
        codes = ", ".join(f"{n} × {code}" for code, n in sorted(self.codes.items()))
        took, what = self.slowest
        return (
            f"{sum(self.kinds.values())} invocations ({kinds}); exit codes {codes}; {len(self.problems)} problems; "
            f"slowest {took:.1f} s: {what[:200]}"
        )


def draw_command(draw: random.Random, known: list[Command], number: int, values: list[str]) -> list[str]:
    """A command line: every command and option in turn, with a few values that are not what they should be."""
    command = known[number % len(known)]
    words = list(command.words)
    for _, several in command.arguments:
        words += [
            draw.choice(values) for _ in range(draw.choice([0, 1, 1, 1, 2]) if several else draw.choice([0, 1, 1, 1]))
        ]
    if command.options:
        chosen = [command.options[number // len(known) % len(command.options)]]
        chosen += draw.sample(command.options, k=min(len(command.options), draw.choice([0, 0, 1, 2])))
        for name, flag in chosen:
            words += [name] if flag else [name, draw.choice(values)]
    if draw.random() < 0.05:
        words.insert(draw.randrange(len(words) + 1), draw.choice(["--nothing", "-q", "--help", "\u202e", "--json"]))
    return words


def damaged(draw: random.Random, content: bytes) -> bytes:
    """Bytes that are damaged: cut, flipped, or a JSON value exchanged for one of another type."""
    kind = draw.randrange(4)
    if kind == 0:
        return content[: draw.randrange(len(content) + 1)]
    if kind == 1 and content:
        at = draw.randrange(len(content))
        return content[:at] + bytes([draw.randrange(256)]) + content[at + 1 :]
    if kind == 2:
        return draw.choice(JSON).encode("utf-8", "surrogatepass")
    try:
        value = json.loads(content)
    except ValueError:
        return draw.randbytes(100)
    places = list(_places(value))
    if not places:
        return b"[]"
    holder, key = draw.choice(places)
    odd = [None, -1, 0, 1e308, 10**30, "x", "../../evil", "", [], {}, [[]], {"a": []}, True, "\x1b[31m", float("nan")]
    if draw.random() < 0.2:
        del holder[key]
    else:
        holder[key] = draw.choice(odd)
    return json.dumps(value).encode()


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    keys = value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    for key in list(keys):
        yield value, key
        yield from _places(value[key])


@contextmanager
def replaced(path: Path, content: bytes) -> Iterator[None]:
    """A file with other content for a while."""
    before = path.read_bytes()
    path.write_bytes(content)
    try:
        yield
    finally:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(before)


def without_long_training(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every command that trains stop its first run after one step, and time no other processes."""
    from headtohead.auditor.report import Report
    from headtohead.run.executors import execution
    from headtohead.run.forecast import BackgroundLoad
    from headtohead.run.session import Stop, execute

    def first_step(specs: list[Any], where: Path, options: Any = None, **_: Any) -> Iterator[Any]:
        for spec in specs[:1]:
            yield from execute(spec, where, options, Stop(asked=True))

    quick: Callable[..., Any] = lambda _, name, **__: Report(name, ())
    monkeypatch.setattr(execution, "execute_many", first_step)
    monkeypatch.setattr("headtohead.run.executors.ray.execute_on_ray", first_step)
    monkeypatch.setattr(BackgroundLoad, "train", lambda *_: None)
    monkeypatch.setattr("headtohead.study.workflow.audit_once", quick)
    monkeypatch.setattr("headtohead.report.models.audit_once", quick)
    for name, value in {
        "HF_HUB_OFFLINE": "1",
        "HF_DATASETS_OFFLINE": "1",
        "PIP_NO_INDEX": "1",
        "COLUMNS": "100",
    }.items():
        monkeypatch.setenv(name, value)


def write_files(folder: Path) -> list[str]:
    """Malformed files of every kind in a folder; their names."""
    names = []
    for n, text in enumerate(TABLES):
        for ending in ("csv", "tsv", "jsonl", "txt", "parquet"):
            names.append(f"table{n}.{ending}")
            (folder / names[-1]).write_text(text, encoding="utf-8", errors="surrogatepass")
    for n, text in enumerate(RECIPES):
        names.append(f"recipe{n}.py")
        (folder / names[-1]).write_text(text, encoding="utf-8")
    for n, text in enumerate(JSON):
        names.append(f"json{n}.json")
        (folder / names[-1]).write_text(text, encoding="utf-8", errors="surrogatepass")
    (folder / "empty").mkdir()
    (folder / "loop").symlink_to("loop")
    (folder / "dangling.txt").symlink_to("nowhere")
    (folder / "bytes.txt").write_bytes(bytes(range(256)) * 10)
    os.mkfifo(folder / "fifo.txt")
    return [*names, "empty", "loop", "dangling.txt", "bytes.txt", "fifo.txt"]
