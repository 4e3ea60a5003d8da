"""The tutorial: every command of its pages runs, and the tool that a solution names finds the bug that was planted.

Most pages train for minutes: they are walked with --slow. The ordinary suite reads every command of theirs without
carrying it out, and finds the bugs on a small text.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from headtohead.run.doctor import processor
from helpers.docs import ROOT, blocks, understood
from helpers.docs import walk as walk_line
from helpers.terminal import Done, h2h

TUTORIAL = ROOT / "docs" / "tutorial"
BUGS = TUTORIAL / "bugs"
PAGES = sorted(TUTORIAL.glob("[0-9]-*.md"))
EXERCISES = PAGES[-1]
TEXT = "The people of our union and the Congress"
WRITTEN_ON = "AMD EPYC"


@pytest.fixture
def desk(tmp_path, tmp_path_factory, monkeypatch) -> Path:
    """A reader's folder: the bugs where the pages name them, an empty store, a small text. Corpora are read once."""
    monkeypatch.setenv("HEADTOHEAD_CACHE", str(tmp_path_factory.getbasetemp().parent / "docs-cache"))
    monkeypatch.setenv("HEADTOHEAD_HOME", str(tmp_path / "h2h-results"))
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.chdir(tmp_path)
    shutil.copytree(BUGS, tmp_path / "docs" / "tutorial" / "bugs", ignore=shutil.ignore_patterns("__pycache__"))
    lines = (
        f"{TEXT} met the {a} and the {b}" for a in ("old", "new", "first") for b in ("law", "year", "house", "sea")
    )
    (tmp_path / "small.txt").write_text("\n".join([*lines] * 20), encoding="utf-8")
    return tmp_path


# -- the pages ---------------------------------------------------------------------------------------------------------


class Command(NamedTuple):
    line: str
    code: int  # that it exits with


def commands(text: str) -> list[Command]:
    split = (line.partition(" # exits with ") for line in text.splitlines())
    return [Command(line, int(code or 0)) for line, _, code in split]


def named(text: str) -> str | None:
    """The file that a program on a page is to be saved as."""
    found = re.match(r"# (\S+\.py)\n", text)
    return found[1] if found else None


def walk(page: Path, desk: Path, changed: Callable[[str], str]) -> str:
    """The page's commands in their order, with the files that earlier pages had the reader write; what they print."""
    for earlier in PAGES[: PAGES.index(page) + 1]:
        for kind, text in blocks(earlier):
            if kind == "python":
                (desk / str(named(text))).write_text(text, encoding="utf-8")
    typed = commands("".join(text for kind, text in blocks(page) if kind == "sh"))
    return "\n".join(walk_line(changed(c.line), desk, dict(os.environ), c.code) for c in typed)


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_command_runs(page: Path, desk: Path, tmp_path_factory, monkeypatch) -> None:
    """Word for word; one page after the other, as a reader would, finds what the last one trained."""
    monkeypatch.setenv("HEADTOHEAD_HOME", str(tmp_path_factory.getbasetemp() / "tutorial-results"))
    monkeypatch.setenv("COLUMNS", "200")
    printed = walk(page, desk, lambda line: line)
    if processor() != WRITTEN_ON:
        pytest.skip(f"the commands ran; what the page shows is from another machine: {WRITTEN_ON}")
    shown = "\n".join(re.findall(r"^ {4}.*$", page.read_text(encoding="utf-8"), re.MULTILINE))
    figures = set(re.findall(r"[−+]?\d+\.\d{3,}", shown))
    assert {figure for figure in figures if figure not in printed} == set()


def test_the_page_about_parts_runs_shortened(desk: Path) -> None:
    walk(PAGES[3], desk, lambda line: line.replace("--steps 300", "--steps 3 --data small.txt"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_commands_of_the_tutorial_parse(page: Path) -> None:
    found = [c.line for kind, text in blocks(page) if kind == "sh" for c in commands(text) if c.line.startswith("h2h ")]
    assert found
    for line in found:
        understood(line)


@pytest.mark.parametrize("page", [*PAGES, TUTORIAL / "README.md"], ids=lambda page: page.stem)
def test_links_and_pictures_of_the_tutorial_exist(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", page.read_text(encoding="utf-8")):
        assert (page.parent / target).exists(), target
    for picture in (ROOT / "docs" / "pictures" / "tutorial").iterdir():
        assert picture.stat().st_size < 150_000


# -- the planted bugs --------------------------------------------------------------------------------------------------


class Exercise(NamedTuple):
    file: str
    part: str
    check: str  # that breaks; of the audit or of the map
    wrong: str  # what stands in the file
    right: str  # what should
    options: tuple[str, ...] = ()  # of h2h audit; or which field of the model it is, for the map


def once(source: str, wrong: str, right: str) -> str:
    assert source.count(wrong) == 1
    return source.replace(wrong, right)


def versions(exercise: Exercise, desk: Path) -> Iterator[tuple[bool, Path]]:
    """The file as it is in the docs, and corrected."""
    source = (BUGS / exercise.file).read_text(encoding="utf-8")
    yield False, BUGS / exercise.file
    corrected = desk / exercise.file
    corrected.write_text(once(source, exercise.wrong, exercise.right), encoding="utf-8")
    yield True, corrected


def solution(part: str) -> str:
    section = EXERCISES.read_text(encoding="utf-8").partition(f". {part}\n")[2].partition("\n### ")[0]
    return " ".join(section.partition("<details>")[2].split())


def broken(done: Done) -> dict[str, str]:
    (report,) = done.json
    return {f["check"]: f["evidence"] for f in report["findings"] if f["status"] == "broken"}


AUDITED = [
    Exercise("lookback.py", "LookBack", "future-gradient", "back = j - i", "back = i - j", ("--causal",)),
    Exercise("places.py", "Places", "future-length", "order = i.amax(dim=-1, keepdim=True) - i", "order = i"),
    Exercise(
        "offsets.py", "Offsets", "window", "return b.masked_fill(offset.abs() > self.span, -torch.inf)", "return b"
    ),
    Exercise(
        "band.py",
        "Band",
        "window",
        "(i - j <= self.window) & (j - i <= self.window)",
        "(i - j < self.window) & (j - i < self.window)",
    ),
    Exercise("turning.py", "Turning", "cache", "angle = place * self.speeds", "angle = i * self.speeds"),
    Exercise("steady.py", "Steady", "future-tokens", "dim=(-2, -1)", "dim=-1"),
    Exercise(
        "average.py",
        "Average",
        "padding-right",
        "real.mean(dim=1)",
        "real.sum(dim=1) / keep.sum(dim=1, keepdim=True).clamp(min=1)",
    ),
    Exercise(
        "volumes.py",
        "Volumes",
        "registered",
        "[nn.Parameter(torch.ones(1)) for _ in range(heads)]",
        "nn.ParameterList(torch.ones(1) for _ in range(heads))",
    ),
    Exercise("waves.py", "Waves", "options", "dims.width, size=", "dims.width, base=self.base, size="),
    Exercise("tiny_lm.py", "TinyLM", "rows-sum", "softmax(dim=-2)", "softmax(dim=-1)", ("--causal",)),
]


@pytest.mark.parametrize("exercise", AUDITED, ids=lambda e: e.part)
def test_the_audit_finds_each_tutorial_bug_only(exercise: Exercise, desk: Path) -> None:
    assert f"*{exercise.check}*" in solution(exercise.part) or f"broken, {exercise.check}" in solution(exercise.part)
    for right, file in versions(exercise, desk):
        if right and exercise.part in {e.part for e in MAPPED}:
            continue  # the map shows that it is right, below
        done = h2h("audit", f"{file}:{exercise.part}", *exercise.options, "--json")
        found = broken(done)
        assert done.code == (0 if right else 1), done.err
        assert found == {} if right else exercise.check in found, found


MAPPED = [
    Exercise("nearness.py", "Nearness", "", "return self.strength", "return -self.strength", ("position",)),
    Exercise("slopes.py", "Slopes", "reach", "(8 * h / heads)", "(-8 * h / heads)", ("position",)),
    Exercise("lookback.py", "LookBack", "", "back = j - i", "back = i - j", ("pattern",)),
    Exercise("places.py", "Places", "prediction", "i.amax(dim=-1, keepdim=True) - i", "i", ("position",)),
    Exercise("offsets.py", "Offsets", "reach", ".masked_fill(offset.abs() > self.span, -torch.inf)", "", ("position",)),
]


@pytest.mark.parametrize("exercise", MAPPED, ids=lambda e: e.part)
def test_the_map_shows_each_tutorial_bug_only(exercise: Exercise, desk: Path) -> None:
    assert f"✗ {exercise.check}" in solution(exercise.part) or not exercise.check
    for right, file in versions(exercise, desk):
        part = f"model.{exercise.options[0]}={file}:{exercise.part}"
        trained = h2h("train", "lm", "--data", "small.txt", "--steps", 1, "--set", "model.layers=1", "--set", part)
        assert trained.code == 0, trained.err
        done = h2h("attend", "latest", TEXT, "--json")
        (maps,) = done.json
        found = {c["name"] for c in maps["checks"] if c["verdict"] == "broken"}
        assert found == (set() if right or not exercise.check else {exercise.check})
        assert done.code == (1 if found else 0)
        a = np.array(maps["weights"])[0, :, : maps["real"], : maps["real"]]  # (H, T, T)
        last = a[:, -1]
        if exercise.part == "Nearness":
            assert (last.argmax(axis=-1) == (len(last[0]) - 1 if right else 0)).all(), (
                "the picture: where rows are bright"
            )
        if exercise.part == "Slopes":
            assert (np.diagonal(a, axis1=1, axis2=2) > 0.999).all() != right
        if exercise.part == "LookBack":
            assert np.triu(a, 1).any() != right
            assert np.tril(a, -1).any() == right
            assert ("shows the model the tokens it is to predict" in trained.err) != right


def test_only_claims_that_are_made_are_proved(desk: Path) -> None:
    """What the solution of the first exercise says."""
    source = (BUGS / "nearness.py").read_text(encoding="utf-8")
    claimed = desk / "claimed.py"
    claimed.write_text(once(source, "relative = True", "relative = True\n    decays = True"), encoding="utf-8")
    assert broken(h2h("audit", f"{BUGS / 'nearness.py'}:Nearness", "--json")) == {}
    assert broken(h2h("audit", f"{claimed}:Nearness", "--json")).keys() == {"decay"}


def test_every_tutorial_bug_is_an_unspoilt_exercise() -> None:
    files = {f.name for f in BUGS.glob("*.py")}
    assert files == {e.file for e in (*AUDITED, *MAPPED)}
    assert len(files) >= 8
    page = EXERCISES.read_text(encoding="utf-8")
    for file in files:
        assert f"(bugs/{file})" in page
        assert not re.search(r"bug|wrong|mistake|should|oops", (BUGS / file).read_text(encoding="utf-8"), re.IGNORECASE)
