"""docs/how-to/add-a-part.md: every program and command runs, with studies of two seeds and four steps."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import pytest

from headtohead import families, load_file
from helpers.docs import ROOT, blocks, run, walk
from helpers.registry import forgotten

PAGE = blocks(ROOT / "docs" / "how-to" / "add-a-part.md")
FILES = {name[1]: text for kind, text in PAGE if kind == "python" and (name := re.match(r"# (\S+\.py)\n", text))}
SIZES = {
    "h2h run lm": "h2h run lm --data story.txt --jobs 1",
    "h2h run classifier": "h2h run classifier --data films.csv --jobs 1",
    "--seeds 6": "--seeds 2",
    "model.width=32": "model.width=8 --set model.block=16",
    "train.steps=200": "train.steps=4",
}


def small(line: str) -> str:
    for size, smaller in SIZES.items():
        line = line.replace(size, smaller)
    return line


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with the files of the page, a text and labelled sentences."""
    for name, text in FILES.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    story = [f"the {a} {b} sees {n} birds" for n in range(40) for a in ("old", "red") for b in ("fox", "hen", "cat")]
    (tmp_path / "story.txt").write_text("\n".join(story), encoding="utf-8")
    films = [f"a {word} film number {n},{word}" for n in range(30) for word in ("great", "poor")]
    (tmp_path / "films.csv").write_text("text,label\n" + "\n".join(films) + "\n", encoding="utf-8")
    return tmp_path


def test_page_has_a_working_file_for_every_family(folder: Path) -> None:
    commands = "\n".join(text for kind, text in PAGE if kind == "sh")
    shown = set()
    with forgotten():
        before = {cls for named in families(of=None).values() for cls in named.values()}
        for name in FILES:
            load_file(folder / name)
        for family, named in {**families(), **families(of="train")}.items():
            new = [cls for cls in named.values() if cls not in before]
            shown |= {family for cls in new if f":{cls.__name__}" in commands}
    assert shown == {*families(), *families(of="train")} - {"start"}  # a start belongs to a checkpoint


@pytest.mark.slow  # a minute and a half; .ci/run runs it
def test_every_program_and_command_of_the_page_runs(folder: Path) -> None:
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    environment |= {"HEADTOHEAD_HOME": str(folder / "h2h-results"), "HEADTOHEAD_CACHE": str(folder / "cache")}
    lines = []
    for kind, text in PAGE:
        if kind == "python" and text not in FILES.values():
            run([sys.executable, "-W", "error", "-c", text], folder, environment, 0)
        elif kind == "sh":
            for line in map(small, text.splitlines()):
                command, _, code = line.partition(" # exits with ")
                walk(command, folder, environment, int(code or 0))
                lines.append(command)
    assert sum(line.startswith("h2h run") for line in lines) == sum(line.startswith("h2h audit") for line in lines) + 2
