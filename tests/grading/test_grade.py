"""Points for submissions that are right, wrong in one place, or hostile."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from headtohead.errors import InputError
from headtohead.grading.formats import as_csv, gradescope, page
from headtohead.grading.grade import IMPORTS, Grade, grade, grade_class
from headtohead.grading.rubric import Rubric, read_rubric
from headtohead.grading.submission import read_submission
from headtohead.sandbox import Limits, Nursery
from helpers.grading import small_rubric
from helpers.terminal import h2h, start

COURSE = Path(__file__).parents[2] / "src/headtohead/course"
CLASSIFIER, DECODER = "classifier.py", "decoder.py"
FORGED = """
import sys, json, torch
torch.allclose = torch.equal = lambda *a, **k: True
print(json.dumps({"score": 100}))
open("results.json", "w").write('{"score": 100}')
"""


@pytest.fixture(scope="module")
def rubric() -> Rubric:
    """The rubric of the course without the parts that train or need transformers."""
    read = read_rubric(COURSE)
    parts = [replace(p, items=tuple(i for i in p.items if i.kind != "figure")) for p in read.parts]
    return replace(read, parts=tuple(p for p in parts if p.name != "finetune"), imports=())


@pytest.fixture(scope="module")
def nursery() -> Iterator[Nursery]:
    with Nursery(IMPORTS) as made:
        yield made


@pytest.fixture
def graded(tmp_path: Path, rubric: Rubric, nursery: Nursery):
    def run(part: str, *changes: tuple[str, str], file: str = "", text: str = "", seconds: float = 60) -> Grade:
        folder = tmp_path / "submission"
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(COURSE / "solution", folder)
        file = file or f"{part}.py"
        source = text or (folder / file).read_text()
        for old, new in changes:
            assert old in source
            source = source.replace(old, new)
        (folder / file).write_text(source)
        only = replace(rubric, parts=tuple(p for p in rubric.parts if p.name == part), limits=Limits(seconds=seconds))
        return grade(folder, only, nursery)

    return run


def lost(grade: Grade) -> dict[str, str]:
    return {item.name: " ".join(item.says) for item in grade.items if item.points < item.out_of}


@pytest.mark.parametrize("part", ["classifier", "decoder", "exploration", "puzzles"])
def test_the_solution_has_all_points(part: str, graded) -> None:
    file = "puzzles.toml" if part == "puzzles" else ""
    assert lost(graded(part, file=file)) == {}


@pytest.mark.parametrize("part", ["classifier", "decoder"])
def test_heads_in_the_last_place_are_the_same_architecture(part: str, graded) -> None:
    """A model whose heads lie in the last place of each row; the decoder also has a layer `out` that has no heads."""
    split = "x.unflatten(-1, (self.heads, -1)).transpose(1, 2)", "x.unflatten(-1, (-1, self.heads)).permute(0, 3, 1, 2)"
    joined = "(weights @ v).transpose(1, 2).flatten(2)", "(weights @ v).permute(0, 2, 3, 1).flatten(2)"
    assert lost(graded(part, split, joined)) == {}


@pytest.mark.parametrize(
    ("part", "old", "new", "name", "says"),
    [
        (
            "classifier",
            "x = x + self.attention(self.norm1(x), hidden)",
            "x = self.attention(self.norm1(x), hidden)",
            "equals the solution",
            "with the reference's weights its outputs differ",
        ),
        ("classifier", " / math.sqrt(q.shape[-1])", "", "equals the solution", "outputs differ"),
        (
            "classifier",
            "mean = (x * real).sum(dim=1) / real.sum(dim=1).clamp(min=1)",
            "mean = x.mean(dim=1)",
            "equals the solution",
            "outputs differ",
        ),
        ("classifier", "x = block(x, hidden)", "x = block(x)", "equals the solution", "outputs differ"),
        (
            "classifier",
            "nn.ModuleList(Block(width, heads) for _ in range(layers))",
            "nn.ModuleList([Block(width, heads)] * layers)",
            "parameters",
            "parameters instead of",
        ),
        ("classifier", "real = mask[..., None]", "real = torch.ones_like(mask)[..., None]", "audit", "padding"),
        (
            "decoder",
            "later = torch.arange(all_, device=x.device) >",
            "later = -1 + torch.arange(all_) >",
            "audit",
            "saw",
        ),
        ("decoder", 'before = cache.get("length", 0)', "before = 0", "cache", "position"),
        ("decoder", "ids[:, -model.block :]", "ids[:, : model.block]", "generate", "beyond the longest text"),
        ("exploration", "torch.arange(1, heads + 1)", "torch.arange(heads, 0, -1)", "alibi", "instead of"),
        ("exploration", "[first * cos - second * sin,", "[first * cos + second * sin,", "rotate", "instead of"),
    ],
)
def test_a_bug_costs_points_and_is_explained(part: str, old: str, new: str, name: str, says: str, graded) -> None:
    missing = lost(graded(part, (old, new)))
    assert says in missing[name], missing


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("def f(:", "SyntaxError"),
        ("import not_a_package", "No module named 'not_a_package'"),
        ("import sys; sys.exit(0)", "SystemExit"),
        ("import os; os._exit(0)", "exit code 0"),
        ("while True: pass", "did not end within 3 seconds"),
        ("x = bytearray(2**40)", "GB of memory"),
        ("class Net: pass", "there is no 'Classifier'"),
        ("class Classifier: pass", "has no argument 'vocab'"),
        (FORGED + "import torch\nfrom torch import nn\nclass Classifier(nn.Module):\n    pass", "argument 'vocab'"),
    ],
)
def test_code_that_fails_gets_no_points_and_one_line(text: str, says: str, graded) -> None:
    found = graded("classifier", text=text, seconds=3)
    assert found.points == 0
    assert all(says in " ".join(item.says) for item in found.items[:2]), found.items[0]
    assert all("\n" not in line for item in found.items for line in item.says)


@pytest.mark.parametrize(
    "changes",
    [
        [
            ("mask=None", "key_padding_mask=None"),
            ("        if mask is None", "        mask = ~key_padding_mask\n        if mask is None"),
        ],
        [("mask = mask.bool()", "mask = (1 - mask) == 0")],  # refuses masks of type bool
    ],
)
def test_masks_of_other_names_and_types_are_understood(changes, graded) -> None:
    assert "equals the solution" not in lost(graded("classifier", *changes))


def test_replaced_functions_void_the_audit(graded) -> None:
    found = graded("classifier", ("import torch\n", "import torch\ntorch.allclose = lambda *a, **k: True\n"))
    assert "replaced torch.allclose" in lost(found)["audit"]


def test_the_class_goes_on_and_equal_work_has_equal_points(tmp_path: Path, rubric: Rubric) -> None:
    only = replace(rubric, parts=tuple(p for p in rubric.parts if p.name in ("exploration", "puzzles")))
    for name in ("a", "b", "c"):
        shutil.copytree(COURSE / "solution", tmp_path / name)
    (tmp_path / "b" / "exploration.py").write_text("import os, signal\nos.kill(os.getppid(), signal.SIGKILL)")
    (tmp_path / "b" / "puzzles.toml").write_bytes(b"\xff\xfe\x00")
    (tmp_path / "d").mkdir()
    grades = list(grade_class([tmp_path / n for n in "abcd"], only, jobs=2))
    assert [g.points for g in grades] == [24, 0, 24, 0]
    assert "exploration.py is missing" in grades[3].items[0].says
    first, third = ([(i.name, i.points, i.says) for i in g.items] for g in (grades[0], grades[2]))
    assert first == third

    values = json.loads(gradescope(grades[1]))
    assert values["score"] == 0
    assert {t["visibility"] for t in values["tests"]} == {"visible"}
    assert sum(t["max_score"] for t in values["tests"]) == 24
    assert as_csv(grades).splitlines()[1].startswith("a,24,24,")
    assert page(grades, "<class>").count("<tr>") == 5
    assert "&lt;class&gt;" in page(grades, "<class>")


def test_the_command_grades_and_refuses_in_one_line(tmp_path: Path) -> None:
    text = '[[part]]\nname = "puzzles"\nfile = "puzzles.toml"\n[[part.check]]\nkind = "attention"\npoints = 3\n'
    text += "keys = [[1, 0], [0, 1]]\nvalues = [10, 20]\nanswers = { a = 20, b = 15 }\n"
    (tmp_path / "rubric.toml").write_text(text)
    (tmp_path / "s").mkdir()
    (tmp_path / "s" / "puzzles.toml").write_text("a = [0.0, 9.0]\nb = [1.0, 0.0]")
    done = h2h("grade", f"{tmp_path}/s", "--rubric", f"{tmp_path}", "--out", f"{tmp_path}/results.json", "--json")
    assert done.code == 0
    assert done.json["points"] == 1.5
    assert json.loads((tmp_path / "results.json").read_text())["score"] == 1.5
    for arguments, says in (
        (("none", "--rubric", f"{tmp_path}"), "no submission none"),
        ((f"{tmp_path}/s", "--rubric", f"{tmp_path}/x.toml"), "no rubric"),
        ((f"{tmp_path}", "--rubric", f"{tmp_path}", "--class", "--out", "x"), "--out is for one submission"),
    ):
        refused = h2h("grade", *arguments)
        assert refused.code == 2
        assert says in refused.err


def test_a_stopped_class_tells_and_keeps_what_is_finished(tmp_path: Path) -> None:
    """Ada and Cleo are finished; Ben's file never ends, and the user presses Ctrl-C."""
    rubric = small_rubric(tmp_path)
    handed, csv, html = tmp_path / "handed", tmp_path / "points.csv", tmp_path / "points.html"
    for name in ("ada", "ben", "cleo"):
        shutil.copytree(COURSE / "solution", handed / name)
    (handed / "ben" / "exploration.py").write_text("while True: pass")
    command = start("grade", "--class", handed, "--rubric", rubric, "--csv", csv, "--html", html, "--jobs", 2)
    deadline = time.monotonic() + 100
    while not csv.exists() or len(csv.read_text().splitlines()) < 3:
        assert time.monotonic() < deadline, command.files.with_suffix(".err").read_text()
        time.sleep(0.1)
    command.send(signal.SIGINT)
    done = command.wait()
    assert done.code == 130
    told = done.err.splitlines()
    assert re.fullmatch(r"1 of 3  ada: 14 of 14 points, \d+ s", told[0])
    assert told[1].startswith("2 of 3  cleo: 14 of 14 points")
    assert told[2:] == [f"h2h: stopped after 2 of 3 submissions. Their points are in {csv} and {html}."]
    assert [row.partition(",")[0] for row in csv.read_text().splitlines()] == ["submission", "ada", "cleo"]
    assert "cleo" in html.read_text()


NESTED = "select = " + "[" * 50_000


def test_no_submission_stops_the_class(tmp_path: Path, rubric: Rubric) -> None:
    """Files that are nested too deeply, archives that are damaged, logits of another shape after training."""
    handed = tmp_path / "handed"
    for name in ("ada", "ben", "eve"):
        shutil.copytree(COURSE / "solution", handed / name)
    (handed / "ben" / "puzzles.toml").write_text(NESTED)
    (handed / "carl.zip").write_bytes(b"PK\x05\x06" + b"\xff" * 18)
    last = "return self.out(self.norm(x)) if self.training else self.out(self.norm(x))[:, -1]"
    source = (handed / "eve" / "decoder.py").read_text()
    (handed / "eve" / "decoder.py").write_text(source.replace("return self.out(self.norm(x))", last))
    cheap = [replace(p, items=tuple(i for i in p.items if i.kind in ("attention", "generate"))) for p in rubric.parts]
    quick = replace(rubric, parts=tuple(p for p in cheap if p.items))
    found = {one.submission: one for one in grade_class(sorted(handed.iterdir()), quick)}
    assert found["ada"].points == found["ada"].out_of == 10
    assert "nested too deeply" in lost(found["ben"])["attention"]
    assert found["ben"].points == 4
    assert "cannot be unpacked" in found["carl.zip"].error
    assert found["eve"].points == 6


def test_a_fault_of_the_grader_costs_one_submission(tmp_path: Path, rubric: Rubric, monkeypatch) -> None:
    for name in ("ada", "ben"):
        shutil.copytree(COURSE / "solution", tmp_path / name)

    def fails(folder: Path) -> None:
        if folder.name == "ada":
            raise RecursionError("too deep")
        return read_submission(folder)

    monkeypatch.setattr(sys.modules["headtohead.grading.grade"], "read_submission", fails)
    only = replace(rubric, parts=tuple(p for p in rubric.parts if p.name == "puzzles"))
    ada, ben = grade_class([tmp_path / "ada", tmp_path / "ben"], only)
    assert "grade it by hand" in ada.error
    assert ben.points == 6


def test_a_solution_that_cannot_be_built_is_a_mistake_of_the_rubric(tmp_path: Path, rubric: Rubric, nursery) -> None:
    parts = [replace(p, arguments={**p.arguments, "heads": 0}) for p in rubric.parts if p.name == "decoder"]
    checks = [replace(p, items=tuple(i for i in p.items if i.kind == "reference")) for p in parts]
    shutil.copytree(COURSE / "solution", tmp_path / "ada")
    broken = [replace(p, reference=p.reference.replace("LanguageModel", "generate")) for p in checks]
    with pytest.raises(InputError, match="correct the rubric"):
        grade(tmp_path / "ada", replace(rubric, parts=tuple(broken)), nursery)


def test_names_that_are_no_text_and_files_of_windows_are_read(tmp_path: Path) -> None:
    """A folder whose name is not UTF-8 comes from an old archive; editors of Windows begin files with a mark."""
    (tmp_path / "rubric.toml").write_text(PUZZLES, encoding="utf-8-sig")
    folder = tmp_path / "handed" / os.fsdecode(b"M\xfcller")
    try:
        folder.mkdir(parents=True)
    except OSError:
        pytest.skip("this file system has names in UTF-8 only")
    (folder / "puzzles.toml").write_text("select = [0.0, 9.0]\n", encoding="utf-8-sig")
    places = ("--csv", f"{tmp_path}/points.csv", "--html", f"{tmp_path}/points.html")
    done = h2h("grade", "--class", f"{tmp_path}/handed", "--rubric", f"{tmp_path}", *places)
    assert done.code == 0, done.err
    assert "M\\udcfcller,6,6,6," in (tmp_path / "points.csv").read_text()
    assert "M\\udcfcller" in (tmp_path / "points.html").read_text()


PUZZLES = """
[[part]]
name = "puzzles"
file = "puzzles.toml"
check = [{ kind = "attention", points = 6, keys = [[1, 0], [0, 1]], values = [10, 20], answers = { select = 20 } }]
"""


def test_a_package_of_the_rubric_that_is_absent_costs_no_points(tmp_path: Path) -> None:
    """The machine lacks something, not the submission."""
    (tmp_path / "rubric.toml").write_text('imports = ["not_a_package"]\n' + PUZZLES)
    (tmp_path / "handed" / "ada").mkdir(parents=True)
    for what in (
        ("--class", f"{tmp_path}/handed"),
        (f"{tmp_path}/handed/ada",),
        (f"{tmp_path}/handed/ada", "--within", "60"),
    ):
        done = h2h("grade", *what, "--rubric", f"{tmp_path}")
        assert done.code == 3
        assert done.err.strip().endswith("imports not_a_package, which is not installed: pip install not_a_package")
