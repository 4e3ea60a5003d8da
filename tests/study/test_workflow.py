"""One workflow: a study from the command line and from Python has the same runs, audits, verdicts and report;
each warning is shown once."""

from __future__ import annotations

import json
import re
from pathlib import Path

from headtohead.run.events import Cell, Stage, Started
from headtohead.study.recipes import load_study
from headtohead.study.workflow import StudyWarnings
from helpers.terminal import h2h

RECIPE = """
from headtohead import Arm, Files, Study

study = Study(
    question="Is Rope any good?",
    control=Arm.of("lm", Files(path="{text}")).settings(
        ["model.width=16", "model.layers=1", "model.block=16", "tokenizer=Byte", "train.batch=4", "train.steps=6"]
    ),
    vary={{"model.position": ["Learned", "Rope"]}},
    seeds=6,
    name="same",
    command="h2h run same.py",
)
"""
TIMES = re.compile(r"\d+(\.\d+)? ?(ms|s)\b|([+−]|\$-\$)\d+\.\d \\?%|not measurable")
RANGES = re.compile(r"\([^()]*(?:…|\\ldots)[^()]*\)")  # of times; ranges of verdicts are compared as JSON


def without_times(page: str) -> str:
    """The report without what differs between two executions of the same runs: times, drawings of times, dates."""
    page = re.sub(r"<svg.*?</svg>", "", page, flags=re.DOTALL)
    page = re.sub(
        r"<td>[−+\d.,e ]+( × \([^<]*\))?</td>", "", page
    )  # figures of cost; those of verdicts are compared as JSON
    page = RANGES.sub("", page)
    return TIMES.sub("", re.sub(r'"seconds":[^,}]*|20\d\d-\d\d-\d\dT[\d:+]*', "", page))


def test_a_study_is_the_same_by_command_and_by_python(text: Path, tmp_path: Path, monkeypatch):
    (tmp_path / "same.py").write_text(RECIPE.format(text=text))
    monkeypatch.setenv("HEADTOHEAD_HOME", str(tmp_path / "by-command"))
    done = h2h("run", "same.py", "--json", folder=tmp_path)
    assert done.code == 0, done.err
    monkeypatch.setenv("HEADTOHEAD_HOME", str(tmp_path / "by-python"))
    outcome = load_study("same.py").run(progress=False)
    there, here = tmp_path / "by-command", tmp_path / "by-python"
    assert {f.name for f in (here / "runs").iterdir()} == {f.name for f in (there / "runs").iterdir()}
    assert {f.name for f in (here / "audits").iterdir()} == {f.name for f in (there / "audits").iterdir()} != set()
    for audit in (here / "audits").iterdir():
        assert audit.read_bytes() == (there / "audits" / audit.name).read_bytes()
    records = [json.loads((base / "studies" / "same" / "study.json").read_text()) for base in (here, there)]
    assert _without(records[0], ("when", "checksum")) == _without(records[1], ("when", "checksum"))
    timed = ("extra_time", "worth", "report", "folder")
    mine = json.loads(json.dumps(outcome.to_json()))
    assert _without(mine, timed) == _without(done.json, timed)
    pages = [(base / "studies" / "same" / "report.html").read_text() for base in (here, there)]
    assert without_times(pages[0]) == without_times(pages[1])


def _without(value: object, names: tuple[str, ...]) -> object:
    if isinstance(value, dict):
        return {k: _without(v, names) for k, v in value.items() if k not in names}
    return [_without(v, names) for v in value] if isinstance(value, list) else value


DATA = "67.2% of the test set's texts are in the training data too"
CELLS = [
    Cell(arm, seed, f"{arm}-{seed}", variant)
    for arm, variant in (("Learned", "Learned"), ("[b]Sinusoidal", "[b]Sinusoidal"), ("control again", "Learned"))
    for seed in range(2)
]
LARGE = "position vectors are {} × as large as token vectors (rms 0.707 and {}), so the model hardly sees its tokens"


def started(run: str, *warnings: str, torn: str = "") -> Started:
    own = [torn] if torn else []
    return Started(run, 100, 0, 10, {}, [DATA, *warnings, *own], own)


EVENTS = [
    Stage("runs", CELLS, warnings=[DATA]),
    started("Learned-0"),
    started("[b]Sinusoidal-0", LARGE.format(35, 0.0204)),
    started("control again-0", "the first loss is 9.9"),
    started("Learned-1", "the first loss is 9.8", torn="checkpoint.safetensors was damaged"),
    started("[b]Sinusoidal-1", LARGE.format(36, 0.0199)),
]


def lines() -> list[str]:
    warned = StudyWarnings()
    return [line for event in EVENTS for line in warned.lines(event)]


def test_a_warning_is_shown_once_per_arm() -> None:
    assert lines() == [DATA, f"[b]Sinusoidal: {LARGE.format(35, 0.0204)}", "Learned: the first loss is 9.9"]


def test_a_warning_of_two_arms_is_shown_for_each() -> None:
    warned = StudyWarnings()
    warned.lines(EVENTS[0])
    both = [warned.lines(started(f"{arm}-0", "the first loss is 9.9")) for arm in ("Learned", "[b]Sinusoidal")]
    assert both == [["Learned: the first loss is 9.9"], ["[b]Sinusoidal: the first loss is 9.9"]]


def test_the_tuning_and_the_runs_share_their_warnings() -> None:
    warned = StudyWarnings()
    trial = Stage("tuning", [Cell("Learned, lr=0.1", 7, "trial", "Learned")], warnings=[DATA])
    assert warned.lines(trial) == [DATA]
    assert warned.lines(started("trial", "the first loss is 9.7")) == ["Learned: the first loss is 9.7"]
    assert warned.lines(EVENTS[0]) == []
    assert warned.lines(started("Learned-0", "the first loss is 9.9")) == []
