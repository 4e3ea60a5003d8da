"""Folders of studies without a name, and names of arms that were superseded."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from headtohead import InputError
from headtohead.run.events import Finished, Stage, Started
from headtohead.run.executors.execution import Execution
from headtohead.run.studies import read_study
from headtohead.study.execution import folder_of, train_study
from headtohead.study.recipes import vary_in
from headtohead.study.study import Study
from helpers.runs import events_of
from helpers.studies import carried, control, study

LOG = """
from headtohead import Position, PositionHooks

class Log(Position):
    def build(self, dims):
        return LogHooks()

class LogHooks(PositionHooks):
    def bias(self, q, k, i, j):
        return -(1.0 + (i - j).abs()).log() * RATE
"""


def unnamed(text: Path, *settings: str, **given: object) -> Study:
    return study(text, *settings, **{"name": "", "seeds": 2, "vary": {"model.position": ["Rope"]}, **given})


def rated(text: Path, rate: float, **given: object) -> Study:
    Path("log.py").write_text(LOG.replace("RATE", str(rate)))
    return study(text, vary={"model.position": ["log.py:Log"]}, **{"seeds": 2, **given})


def arms(made: Study, home: Path) -> list[tuple[str, bool]]:
    return [(row.arm, row.dropped) for row in made.outcome(home).verdicts]


# -- folders -----------------------------------------------------------------------------------------------------------


def test_an_unnamed_study_is_named_after_what_it_varies(text: Path, home: Path):
    several = {"model.position": ["Rope"], "train.optimizer.lr": [0.01]}
    assert folder_of(unnamed(text), home).name == "lm-mine-position"
    assert folder_of(unnamed(text, vary=several), home).name == "lm-mine-position-lr"
    assert folder_of(unnamed(text, vary=()), home).name == "lm-mine"
    assert folder_of(study(text), home).name == "tiny"


def test_an_unnamed_study_has_the_folder_of_the_command_line(text: Path, home: Path):
    typed = vary_in(control(text), ["model.position=Rope"])
    assert folder_of(typed, home) == folder_of(unnamed(text), home)


def test_unnamed_studies_with_other_controls_have_other_folders(text: Path, home: Path):
    first, second = unnamed(text), unnamed(text, "model.width=8")
    carried(first, home)
    carried(second, home)
    assert folder_of(first, home).name == "lm-mine-position"
    assert folder_of(second, home).name == f"lm-mine-position-{second.id[:6]}"
    assert sorted(f.name for f in (home / "studies").iterdir()) == sorted(
        folder_of(made, home).name for made in (first, second)
    )
    assert arms(first, home) == arms(second, home) == [("Rope", False)]


def test_a_study_keeps_its_folder_when_another_is_deleted(text: Path, home: Path):
    first, second = unnamed(text), unnamed(text, "model.width=8")
    for made in (first, second):
        carried(made, home)
    own = folder_of(second, home)
    (folder_of(first, home) / "study.json").unlink()
    assert folder_of(second, home) == own


def test_an_unnamed_study_of_an_older_version_is_found(text: Path, home: Path):
    """Older versions kept all of them under the name study."""
    made = unnamed(text)
    carried(made, home)
    folder_of(made, home).rename(home / "studies" / "study")
    assert folder_of(made, home).name == "study"
    assert folder_of(unnamed(text, "model.width=8"), home).name == "lm-mine-position"


def test_an_odd_file_name_gives_a_valid_folder_name(text: Path, home: Path):
    odd = text.rename(text.with_name(".a\tb" + "c" * 150 + ".txt"))
    name = folder_of(unnamed(odd), home).name
    assert name.startswith("lm-a-bccc")
    assert len(name) == 100


# -- superseded arms ---------------------------------------------------------------------------------------------------


def test_superseded_arms_are_numbered_and_keep_their_numbers(text: Path, home: Path):
    for rate in (1, 2, 3):
        carried(rated(text, rate), home)
    last = rated(text, 4)
    carried(last, home)
    named = {row.arm: row.mean for row in last.outcome(home).verdicts}
    assert set(named) == {"Log", "Log (earlier version)", "Log (earlier version 2)", "Log (earlier version 3)"}
    means = [rated_mean(text, home, rate) for rate in (1, 2, 3, 4)]
    assert named["Log (earlier version)"] == pytest.approx(means[0])
    assert named["Log (earlier version 2)"] == pytest.approx(means[1])
    assert named["Log (earlier version 3)"] == pytest.approx(means[2])
    assert named["Log"] == pytest.approx(means[3])


def rated_mean(text: Path, home: Path, rate: float) -> float:
    alone = rated(text, rate, name=f"rate{rate}")
    carried(alone, home)
    return alone.outcome(home).verdicts["Log"].mean


def test_a_returning_arm_keeps_its_own_name(text: Path, home: Path):
    for rate in (1, 2, 1):
        carried(made := rated(text, rate), home)
    assert arms(made, home) == [("Log", False), ("Log (earlier version)", True)]


def test_a_dropped_arm_whose_name_is_free_keeps_it(text: Path, home: Path):
    for rate in (1, 2):
        carried(rated(text, rate), home)
    carried(made := study(text, vary={"model.position": ["Rope"]}, seeds=2), home)
    assert arms(made, home) == [("Rope", False), ("Log (earlier version)", True), ("Log", True)]


def test_marks_of_older_versions_are_replaced(text: Path, home: Path):
    """They wrote (before) once more whenever an arm was superseded: the longest name is the oldest arm."""
    for rate in (1, 2, 3):
        carried(rated(text, rate), home)
    file = folder_of(rated(text, 3), home) / "study.json"
    said = json.loads(file.read_text())
    oldest = said["tables"][0]["arms"][2]["runs"]
    for number, arm in zip((2, 1), said["tables"][0]["arms"][2:], strict=True):
        arm["name"] = "Log" + " (before)" * number
    file.write_text(json.dumps({k: v for k, v in said.items() if k != "checksum"}))
    carried(rated(text, 4), home)
    found = list(read_study(file.parent).arms)[1:]
    assert [arm.name for arm in found] == ["Log", *(f"Log (earlier version{n})" for n in ("", " 2", " 3"))]
    assert {str(seed): run for seed, run in found[1].runs.items()} == oldest


def test_a_superseded_arm_is_marked_once_on_the_screen(text: Path, home: Path):
    from io import StringIO

    from rich.console import Console

    from headtohead.display.study import show

    for rate in (1, 2):
        carried(made := rated(text, rate), home)
    screen = Console(file=StringIO(), width=200)
    show(made.outcome(home).verdicts, screen)
    assert "Log (earlier version)" in screen.file.getvalue()
    assert "(dropped)" not in screen.file.getvalue()


def test_every_arm_is_trained_with_every_seed(text: Path, home: Path):
    made = study(text, seeds=3, again=True)
    events = carried(made, home)
    cells = events_of(Stage, events)[0].cells
    assert [(c.arm, c.seed) for c in cells] == [
        (arm, seed) for arm in ("Learned", "Rope", "NoPosition", "control, new run") for seed in range(3)
    ]
    assert len({c.id for c in cells}) == 12
    assert len(events_of(Finished, events)) == 12
    frame = made.outcome(home).results()
    assert set(frame["status"]) == {"complete"}
    specs = {c.id: json.loads((home / "runs" / c.id / "run.json").read_text()) for c in cells}
    for c in cells:
        assert specs[c.id]["seed"] == c.seed
        assert specs[c.id]["arm"]["train"]["order"] == (1 if c.arm == "control, new run" else 0)


def test_stored_runs_are_not_trained_again(text: Path, home: Path):
    carried(study(text, seeds=2), home)
    again = carried(study(text, seeds=2), home, jobs=2)
    assert not events_of(Started, again)
    assert all(event.already for event in events_of(Finished, again))
    more = carried(study(text, seeds=3), home)
    assert len(events_of(Started, more)) == 3
    other = carried(study(text, seeds=3, name="other", vary={"model.position": ["Rope", "Alibi"]}), home)
    assert len(events_of(Started, other)) == 3  # only Alibi's: the control and Rope are shared


def test_another_study_of_the_same_name_gets_another_folder(text: Path, home: Path):
    one, two = study(text, seeds=2), study(text, seeds=2, metric="validation/loss")
    carried(one, home)
    carried(two, home)
    assert folder_of(one, home) != folder_of(two, home)
    assert two.outcome(home).verdicts.metric == "validation/loss"
    assert one.outcome(home).verdicts.metric == "test/loss"


def test_an_unknown_set_is_refused_before_training(text: Path, home: Path):
    with pytest.raises(InputError, match=r"no set 'obama'.*known: test, train, validation"):
        carried(study(text, metric="obama/loss"), home)
    assert not (home / "runs").exists()


def test_a_stopped_study_can_be_continued(text: Path, home: Path):
    made = study(text, seeds=2)
    events = train_study(made, Execution(jobs=1), home=home)
    for event in events:
        if isinstance(event, Finished):
            events.close()
            break
    time.sleep(0)
    rest = carried(made, home)
    assert sum(event.already for event in events_of(Finished, rest)) == 1
    assert set(made.outcome(home).results()["status"]) == {"complete"}
