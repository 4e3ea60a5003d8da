"""Every command of every page parses, and every page's commands are executed in a test.

The pages of test_docs, test_tutorial, test_add_a_part and test_course_report are executed there, word for word or
smaller. This file executes the commands of all other pages, on texts and models small enough for two minutes.
"""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path

import pytest

from headtohead.cli import main
from helpers.checkpoints import WORDS, saved
from helpers.docs import ROOT, understood

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
TESTS = [*sorted((ROOT / "tests").rglob("test_*.py"))]
NOT_SHELL = {"python", "json", "toml", "text"}


def commands(page: Path) -> list[str]:
    """The lines that begin with h2h, in blocks with a fence and in indented blocks, without the remark behind them."""
    found: list[str] = []
    fence: str | None = None
    for line in page.read_text(encoding="utf-8").splitlines():
        if mark := re.match(r"```(\w*)", line):
            fence = None if fence is not None else mark[1]
        elif fence not in NOT_SHELL and (fence is not None or line.startswith("    ")):
            typed = line.strip().removeprefix("$ ").removeprefix("./run ")
            found += [re.split(r"\s+# |  +", typed)[0]] if typed.startswith("h2h ") else []
    return found


WITH_COMMANDS = [page for page in PAGES if commands(page)]


@pytest.mark.parametrize("page", WITH_COMMANDS, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_command_of_a_page_parses(page: Path) -> None:
    for line in commands(page):
        if not set(line) & set("|<>&;$*~…") and not line.startswith("h2h --"):  # the program's own options end it
            understood(line)


@pytest.mark.parametrize("page", WITH_COMMANDS, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_page_with_commands_is_executed_in_a_test(page: Path) -> None:
    """A new page with commands is executed where the other pages of its kind are."""
    name = page.relative_to(ROOT).as_posix()
    if page.parent.name == "tutorial" or page.name in ("audit.md", "model.md") or name in EXECUTED_HERE:
        return  # test_tutorial has all pages of the tutorial, test_docs has the output that these two pages show
    texts = "".join(test.read_text(encoding="utf-8") for test in TESTS if test != Path(__file__))
    assert f'"{page.stem}"' in texts or f"{page.stem}.md" in texts, f"no test executes the commands of {name}"


# -- the pages that no other file executes -----------------------------------------------------------------------------

EXECUTED_HERE = [
    "README.md",
    "docs/explanation/equivalents.md",
    "docs/explanation/integrity.md",
    "docs/explanation/security.md",
    "docs/explanation/studies.md",
    "docs/how-to/pretrained.md",
    "docs/how-to/reproduce.md",
    "docs/how-to/serve.md",
    "docs/how-to/teach.md",
]
ELSEWHERE = {  # by the start of the command: the test that has it
    "h2h serve": "tests/cli/test_serve.py",
    "h2h reproduce": "tests/cli/test_reproduce.py",
    "h2h demo": "tests/examples/test_wheel.py",
}
SMALL = "--jobs 1 " + " ".join(
    f"--set {setting}"
    for setting in ("model.width=16", "model.layers=1", "model.heads=2", "evaluate.train=8", "evaluate.windows=8")
)
SIZES = {
    r"^h2h run (published/\S+|pretrained)": "h2h run small.py",
    r"^h2h run demo": "h2h run small.py",
    r"^h2h run small.py --scales 1,4": "h2h run small.py --scales 1,2",
    r"^h2h run lm": f"h2h run lm --data story.txt --seeds 2 --set train.steps=4 {SMALL}",
    r"^h2h plan (published/no_position|heads\.py) --effect": "h2h plan small.py --effect",
    r"^h2h plan heads\.py --lock": "h2h plan unrun.py --lock",
    r"^h2h train lm --data shakespeare (.*) --steps 1000": rf"h2h train lm --data story.txt \1 --steps 5 {SMALL}",
    r"^h2h train classifier --data reviews.csv --seeds 4": f"h2h train classifier --data films.csv --epochs 1 {SMALL}",
    r"--tokens 200": "--tokens 3",
    r"^h2h finetune(?: --model minilm)?(?: --data \S+)?": "h2h finetune --model bert --data films.csv --epochs 1",
    r"--over train\.batch=16,32,64 --over \S+ --over train\.epochs=2,3": "--over train.batch=16,32",
    r"--seeds 6": "--seeds 2",
    r"--set data\.limit=500": "--set data.limit=40",
    r"AdamW\(lr=1e-4\),Adagrad\(lr=1e-4\),SGD\(lr=1e-4, momentum=0\),": "AdamW(lr=1e-4),",
    r"^h2h search lm (.*) --trials 20": rf"h2h search lm --data story.txt \1 --trials 2 --set train.steps=4 {SMALL}",
    r"^h2h attend minilm": "h2h attend bert",
    r"^h2h audit \./gpt2": "h2h audit ./gpt2",
    r"^h2h verify positions": "h2h verify small",
    r"^h2h verify 3fa1": "h2h verify latest",
    r"^h2h trust (RUN|recipes/published/mine\.py)": "h2h trust small.py --yes",
    r"^h2h report demo": "h2h report small",
    r"^h2h audit (my_model.py:TinyGPT|theirs.py:Model)": "h2h audit tiny_lm.py:TinyLM",
}
CODES = {"h2h audit 'Reweight(over=sequence)'": 1, "h2h audit my_model.py": 1, "h2h audit theirs.py": 1}
STUDY = """
from headtohead import Arm, EvalSpec, Files, ModelSpec, Study, TrainSpec

control = Arm(
    data=Arm.of("lm", Files(path="story.txt")).data,
    model=ModelSpec(width=16, layers=1, heads=2),
    train=TrainSpec(steps=4),
    evaluate=EvalSpec(train=8, windows=8),
)
small = Study(
    question="Does it matter?", control=control, vary={"model.norm": ["LayerNorm", "RMSNorm"]}, seeds=2, name="NAME"
)
"""


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the files that the pages name, small."""
    import random

    folder = tmp_path_factory.mktemp("desk")
    draw = random.Random(0)
    sentences = [" ".join(draw.choices(WORDS, k=9)) + "." for _ in range(300)]
    (folder / "story.txt").write_text("\n".join(sentences), encoding="utf-8")
    films = (f"{'great' if n % 2 else 'poor'} {sentence},{n % 2}" for n, sentence in enumerate(sentences[:80]))
    (folder / "films.csv").write_text("text,label\n" + "\n".join(films) + "\n", encoding="utf-8")
    losses = (
        f"{arm},{seed},{3 + seed / 10 + shift}" for arm, shift in (("control", 0), ("new", 0.1)) for seed in range(6)
    )
    (folder / "results.csv").write_text("arm,seed,loss\n" + "\n".join(losses) + "\n", encoding="utf-8")
    (folder / "tiny_lm.py").write_text((ROOT / "docs/tutorial/bugs/tiny_lm.py").read_text(), encoding="utf-8")
    for name in ("small", "unrun"):
        (folder / f"{name}.py").write_text(STUDY.replace("NAME", name), encoding="utf-8")
    saved(folder, "bert")
    saved(folder, "gpt2")
    return folder


def small(line: str) -> str:
    for pattern, size in SIZES.items():
        line = re.sub(pattern, size, line)
    return line


@pytest.mark.slow
@pytest.mark.parametrize("page", EXECUTED_HERE)
def test_commands_of_a_page_run(page: str, desk: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADTOHEAD_HOME", str(desk / "h2h-results"))
    monkeypatch.setenv("HEADTOHEAD_CACHE", str(desk / "cache"))
    monkeypatch.chdir(desk)
    for line in ["h2h run small.py", "h2h train lm --data story.txt --steps 2", *commands(ROOT / page)]:
        if not line.startswith(tuple(ELSEWHERE)):
            expected = next((code for start, code in CODES.items() if line.startswith(start)), 0)
            typed = small(line).replace("my-model", str(tmp_path / "my-model"))
            monkeypatch.setattr(sys, "argv", shlex.split(typed))
            with pytest.raises(SystemExit) as ended:
                main()
            assert int(ended.value.code or 0) == expected, typed


def test_commands_that_other_files_execute_are_there() -> None:
    for start, file in ELSEWHERE.items():
        assert f'"{start.split()[1]}"' in (ROOT / file).read_text(encoding="utf-8"), file
