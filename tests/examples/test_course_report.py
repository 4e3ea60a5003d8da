"""docs/how-to/course-report.md: every command runs, on texts and models small enough for a minute.

The commands are those of the page. Replaced are sizes (steps, epochs, seeds, width, layers) and the texts that do
not come with the project.
"""

from __future__ import annotations

import random
import re
import shlex
import sys
from pathlib import Path

import pytest
from PIL import Image

from headtohead.cli import main
from helpers.checkpoints import WORDS, saved
from helpers.docs import ROOT, blocks

PAGE = ROOT / "docs" / "how-to" / "course-report.md"
SIZES = {
    r"train\.epochs=15": "train.epochs=2",
    r"train\.epochs=2,5": "train.epochs=1,2",
    r"--epochs \d+": "--epochs 1",
    r"train\.steps=\d+": "train.steps=4",
    r"evaluate\.every=100": "evaluate.every=2",
    r"--every 100": "--every 2",
    r"--every 500": "--every 4",
    r"--every 5$": "--every 1",
    r"--seeds 6": "--seeds 2",
    r"train\.batch=64 ": "train.batch=8 ",
    r"train\.batch=64,128": "train.batch=8,16",
    r"model\.width=128": "model.width=16",
    r"model\.layers=2": "model.layers=1",
    r"--data shakespeare": "--data story.txt",
    r"vocab=500": "vocab=300",
    r"lm-shakespeare": "lm-story",
    r"h2h run lm --set": "h2h run lm --data story.txt --set",
    r"lm-sotu": "lm-story",
    r"--data movie-reviews": "--model bert --data films.csv",
    r"minilm-classifier-movie-reviews": "bert-classifier-films",
    r"recipes/published/padding.py": "recipes/published/padding.py --set train.epochs=1",
    r"--tokens 18": "--tokens 3",
    r"--layer 3": "--layer 0",
    r"^h2h (run|train|finetune) ": r"h2h \1 --jobs 1 ",
}
SMALL = ["model.width=16", "model.layers=1", "model.feedforward.hidden=16", "evaluate.train=8", "evaluate.windows=8"]


def small(line: str) -> str:
    for pattern, size in SIZES.items():
        line = re.sub(pattern, size, line)
    if line.startswith(("h2h run", "h2h train")):
        own = [setting for setting in SMALL if f"{setting.partition('=')[0]}=" not in line and "Mlp" not in line]
        line += "".join(f" --set {setting}" for setting in own)
    return line


@pytest.fixture
def desk(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A student's folder: speeches of a few sentences, a play, labelled films, a tiny checkpoint and the recipes."""
    monkeypatch.setenv("HEADTOHEAD_HOME", str(tmp_path / "h2h-results"))
    monkeypatch.setenv("HEADTOHEAD_CACHE", str(tmp_path_factory.getbasetemp().parent / "docs-cache"))
    monkeypatch.setenv("HEADTOHEAD_DATA", str(tmp_path / "course"))
    monkeypatch.chdir(tmp_path)
    draw = random.Random(0)
    sentences = [" ".join(draw.choices(WORDS, k=9)) + "." for _ in range(300)]
    speeches = tmp_path / "course" / "speeches"
    speeches.mkdir(parents=True)
    for name in ("train_LM", "test_LM_obama", "test_LM_wbush", "test_LM_hbush"):
        (speeches / f"{name}.txt").write_text("\n".join(draw.sample(sentences, 100)))
    for name, count in (("train", 48), ("test", 24)):
        labelled = (f"{n % 3}\t{sentence}" for n, sentence in enumerate(draw.sample(sentences, count)))
        (speeches / f"{name}_CLS.tsv").write_text("\n".join(labelled) + "\n")
    (tmp_path / "story.txt").write_text("\n".join(sentences))
    films = (f"{'great' if n % 2 else 'poor'} {sentence},{n % 2}" for n, sentence in enumerate(sentences[:60]))
    (tmp_path / "films.csv").write_text("text,label\n" + "\n".join(films) + "\n")
    saved(tmp_path, "bert")
    (tmp_path / "recipes").symlink_to(ROOT / "recipes")
    return tmp_path


def typed(line: str, monkeypatch: pytest.MonkeyPatch) -> int:
    """The command in this process, which is quick; its exit code."""
    monkeypatch.setattr(sys, "argv", shlex.split(line))
    with pytest.raises(SystemExit) as ended:
        main()
    return int(ended.value.code or 0)


@pytest.mark.slow  # a minute; .ci/run runs it
def test_every_command_of_the_page_runs(desk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written: set[str] = set()
    for kind, text in blocks(PAGE):
        if kind == "python":
            exec(compile(text, PAGE.name, "exec"), {})
        for line in text.splitlines() if kind == "sh" else []:
            line, _, code = line.partition(" # exits with ")
            assert typed(small(line), monkeypatch) == int(code or 0), line
            written |= set(re.findall(r"--out (\S+)", line))
    assert len(written) > 30
    for name in written:
        path = desk / name
        assert path.stat().st_size > 100
        if path.suffix == ".png":
            with Image.open(path) as image:
                assert min(image.size) > 300
    for folder in ("window", "encoder"):
        names = {path.name for path in (desk / folder).iterdir()}
        assert {"forest.png", "forest.pdf", "curves.png", "table.tex", "figures.tex"} <= names


def test_the_page_names_the_settings_that_reports_need() -> None:
    page = PAGE.read_text(encoding="utf-8")
    for setting in ("tokenizer=Word", "evaluate.watch_test=true", "evaluate.along=none", "evaluate.snapshots"):
        assert f"| `{setting}" in page
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", page):
        assert (PAGE.parent / target).exists(), target
