"""Sequential studies from an empty store: decided arms are not trained further, and an interruption changes nothing."""

from __future__ import annotations

import dataclasses
import math
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from headtohead.outcome.outcome import load_outcome
from headtohead.run import store
from headtohead.run.events import Analysed, Finished, Started
from headtohead.run.executors.execution import Execution
from headtohead.run.studies import read_study
from headtohead.stats import Design, compare
from headtohead.study.analyses import HOPELESS, analyse, chance_of_verdict, note_analysis, was_shown
from headtohead.study.execution import folder_of, train_study
from headtohead.study.study import Study
from helpers.corpora import write_text
from helpers.runs import SMALL, events_of
from helpers.stores import stored
from helpers.studies import QUICK, carried, control, sequential, shown
from helpers.terminal import h2h, start, until

DESIGN = {"analyses": [6, 8, 10, 14, 20], "reserve": 0.1, "rule": "flips", "alpha": 0.05}


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Study, Path, list]]:
    """The sequential study, its store, and the events of training it."""
    folder = tmp_path_factory.mktemp("sequential")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HEADTOHEAD_CACHE", str(folder / "cache"))
        made, events = sequential(write_text(folder)), []
        for event in train_study(made, Execution(jobs=1, device="cpu"), home=folder / "home"):
            events.append(event)
            if isinstance(event, Analysed):
                note_analysis(event)
        yield made, folder / "home", events


@pytest.fixture
def copied(trained: tuple[Study, Path, list], home: Path) -> tuple[Study, Path]:
    """The study in a store that a test may change."""
    shutil.copytree(trained[1], home)
    return trained[0], home


def without_times(outcome) -> list:
    tables = store.plain([outcome.table(title).to_json() for title in outcome.titles])
    for table in tables:
        for row in (*table["arms"], table["noise_floor"] or {}, table["chaos_floor"] or {}):
            row.pop("extra_time", None)
            row.pop("worth", None)  # at equal seconds
    return tables


def analyses(events: list) -> list[Analysed]:
    """The analyses without the forecast of the time that is left, which is measured."""
    return [dataclasses.replace(event, seconds_left=None, folder="") for event in events_of(Analysed, events)]


def delete(home: Path, arm: str, *seeds: int) -> None:
    runs = next(a.runs for a in read_study(home / "studies" / "sequential").arms if a.name == arm)
    for seed in seeds:
        shutil.rmtree(home / "runs" / runs[seed])


def history(home: Path) -> list[tuple[int, dict[str, int], dict[str, str]]]:
    return [(a.number, a.pairs, a.verdicts) for a in read_study(home / "studies" / "sequential").history]


# -- which arms are trained --------------------------------------------------------------------------------------------


def test_a_decided_arm_is_not_trained_further(trained: tuple[Study, Path, list]):
    made, home, events = trained
    first, second = events_of(Analysed, events)
    assert (first.number, first.of, first.pairs, first.decided, first.open) == (1, 2, 6, {"fast": "better"}, ("null",))
    assert first.next_pairs == 8
    assert first.seconds_left is not None
    assert 0 < first.seconds_left < 600
    assert (second.number, second.pairs, second.decided, second.open) == (2, 8, {"fast": "better"}, ())
    assert second.stopped == {"null": "this was the last analysis"}
    assert second.next_pairs is second.seconds_left is None
    assert second.spent == pytest.approx(0.045)
    assert len(events_of(Started, events)) == 6 + 8 + 8  # fast, null, control
    arms = {arm.name: list(arm.runs) for arm in read_study(folder_of(made, home)).arms}
    assert list(map(len, arms.values())) == [8, 6, 8]
    verdicts = load_outcome(folder_of(made, home)).verdicts
    assert (verdicts["fast"].verdict.verdict, verdicts["fast"].verdict.pairs) == ("better", 6)
    assert (verdicts["null"].verdict.verdict, verdicts["null"].verdict.pairs) == ("unresolved", 8)
    assert (verdicts["fast"].verdict.analysis, verdicts["null"].verdict.analysis) == (1, 2)


def test_the_study_ends_when_all_arms_are_decided(text: Path, home: Path):
    base = sequential(text)
    made = dataclasses.replace(base, arms={"fast": base.arms["fast"]}, vary=["train.optimizer.lr"], max_pairs=20)
    events = carried(made, home)
    assert len(events_of(Started, events)) == 12
    (only,) = events_of(Analysed, events)
    assert (only.number, only.of, only.decided, only.next_pairs) == (1, 5, {"fast": "better"}, None)


def test_the_same_command_trains_nothing_and_says_the_same(copied: tuple[Study, Path], trained):
    made, home = copied
    before = without_times(load_outcome(folder_of(made, home))), history(home)
    events = []
    for event in train_study(made, Execution(jobs=1, device="cpu"), home=home):
        events.append(event)
        if isinstance(event, Analysed):
            note_analysis(event)
    assert not events_of(Started, events)
    assert analyses(events) == analyses(trained[2])
    assert (without_times(load_outcome(folder_of(made, home))), history(home)) == before


def test_both_floors_of_a_sequential_study_are_short(text: Path, home: Path):
    base = sequential(text)
    made = dataclasses.replace(base, arms={"null": base.arms["null"]}, again=True, chaos=None, max_pairs=8)
    carried(made, home)
    record = read_study(folder_of(made, home))
    assert list(record.again) == list(range(6))
    assert list(record.chaos) == list(range(3))
    assert len(record.tables[0].control.runs) == 8
    verdicts = load_outcome(folder_of(made, home)).verdicts
    assert verdicts.noise is not None
    assert verdicts.chaos is not None
    assert (verdicts.noise.verdict.pairs, verdicts.chaos.verdict.pairs) == (6, 3)
    assert 0 <= verdicts.chaos.verdict.sd < verdicts.noise.verdict.sd / 10  # 1e-6 of the weights against new batches


# -- interruptions -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "lost", [{"null": [7]}, {"null": [6]}, {"sequential": [6], "null": [6, 7]}, {"null": [0]}], ids=str
)
def test_an_interrupted_study_continues_to_the_same_result(copied: tuple[Study, Path], trained, lost: dict):
    """A study that was killed between its analyses has some runs of the next one."""
    made, home = copied
    whole = without_times(load_outcome(folder_of(made, home)))
    names = {"sequential": made.variants[0].name}
    for arm, seeds in lost.items():
        delete(home, names.get(arm, arm), *seeds)
    events = carried(made, home)
    assert analyses(events) == analyses(trained[2])
    assert len(events_of(Started, events)) == sum(map(len, lost.values()))
    assert without_times(load_outcome(folder_of(made, home))) == whole


def test_a_planned_analysis_waits_for_all_its_runs(copied: tuple[Study, Path]):
    """Seven of eight pairs are no second analysis: it would be made twice, with different runs."""
    made, home = copied
    before = load_outcome(folder_of(made, home)).verdicts
    delete(home, "null", 7)
    verdicts = load_outcome(folder_of(made, home)).verdicts
    assert (verdicts["null"].verdict.analysis, verdicts["null"].verdict.pairs) == (1, 7)
    assert store.plain(verdicts["fast"].verdict.to_json()) == store.plain(before["fast"].verdict.to_json())
    delete(home, "null", 2)
    assert load_outcome(folder_of(made, home)).verdicts["null"].verdict.analysis == 0


def test_a_stop_between_analyses_is_continued(text: Path, home: Path, trained):
    made = sequential(text)
    events, seen = train_study(made, Execution(jobs=1, device="cpu"), home=home), []
    for event in events:
        seen.append(event)
        if len(events_of(Analysed, seen)) == 1 and isinstance(event, Finished) and not event.already:
            events.close()
            break
    rest = carried(made, home)
    assert len(events_of(Started, seen)) + len(events_of(Started, rest)) == 22
    figures = [
        [(row.arm, row.verdict) for row in load_outcome(folder_of(study, store_of)).verdicts]
        for study, store_of in ((made, home), trained[:2])
    ]
    assert figures[0] == figures[1]


RECIPE = """
from headtohead import Arm, Files, Study
base = Arm.of("lm", Files(path="mine.txt")).settings({settings!r})
study = Study(
    question="?",
    control=base,
    vary=["train.order"],
    arms={{"null": base.set("train.order", 5)}},
    max_pairs=8,
    again=False,
    chaos=False,
    name="killed",
)
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
@pytest.mark.usefixtures("text")
def test_a_killed_study_continues(home: Path, number: int):
    Path("killed.py").write_text(RECIPE.format(settings=[*SMALL, *QUICK]))
    running = start("run", "killed.py", "--jobs", 1)
    until(lambda: len(list(home.glob("runs/*/result.json"))) >= 13)  # in the second analysis
    running.send(number)
    assert running.wait().code != 0
    kept = {path: path.stat().st_mtime_ns for path in home.glob("runs/*/result.json")}
    assert 13 <= len(kept) < 16
    done = h2h("run", "killed.py", "--jobs", 1, "--json")
    assert done.code == 0, done.err
    assert len(list(home.glob("runs/*/result.json"))) == 16
    assert all(path.stat().st_mtime_ns == when for path, when in kept.items())
    (row,) = done.json["tables"][0]["arms"]
    assert (row["pairs"], row["analysis"], row["analyses"]) == (8, 2, 2)
    found = read_study(home / "studies" / "killed")
    assert [(a.number, a.pairs) for a in found.history] == [(1, {"null": 6}), (2, {"null": 8})]


# -- reasons to stop ---------------------------------------------------------------------------------------------------


def test_a_budget_stops_with_its_reason_and_more_time_continues(text: Path, home: Path):
    made = sequential(text)
    events = carried(made, home, budget=0.001)
    (only,) = events_of(Analysed, events)
    assert only.open == ()
    assert only.next_pairs is only.seconds_left is None
    assert only.stopped == {"null": "the budget of 0 s does not allow 2 more pairs"}
    assert only.decided == {"fast": "better"}
    rest = carried(made, home, budget=3600)
    assert len(events_of(Started, rest)) == 4
    assert events_of(Analysed, rest)[-1].number == 2


@pytest.mark.parametrize("diverges", ["arm", "control"])
def test_an_arm_whose_runs_diverge_is_not_trained_to_the_end(text: Path, home: Path, diverges: str):
    base = control(text, *QUICK, f"train.optimizer.lr={1e30 if diverges == 'control' else 0.001}")
    arm = base.set("train.optimizer.lr", 0.001 if diverges == "control" else 1e30)
    made = sequential(text, control=base, arms={"other": arm}, vary=["train.optimizer.lr"])
    events = carried(made, home)
    (only,) = events_of(Analysed, events)
    whose = "its" if diverges == "arm" else "the control's"
    assert only.stopped == {"other": f"too many of {whose} runs diverged, collapsed or failed"}
    assert len(events_of(Started, events)) == 12
    assert load_outcome(folder_of(made, home)).verdicts["other"].verdict.verdict == "unresolved"


def test_a_third_of_lost_runs_is_not_too_many(home: Path):
    lost = {("Rope", seed): "diverged" for seed in (0, 1)}
    two = stored(home, {"Rope": 0.0}, lost=lost, name="two", design=DESIGN)
    assert analyse(two, futility=False, jobs=1, last=False).open == ("Rope",)
    three = stored(home, {"Rope": 0.0}, lost=lost | {("Rope", 2): "failed"}, name="three", design=DESIGN)
    assert set(analyse(three, futility=False, jobs=1, last=False).stopped) == {"Rope"}


def test_futility_stops_what_cannot_be_decided_and_nothing_else(home: Path):
    hopeless = stored(home, {"Rope": 0.0}, seeds=14, name="hopeless", design=DESIGN)
    found = analyse(hopeless, futility=True, jobs=1, last=False)
    assert found.stopped == {"Rope": "futility: its chance of a verdict is below 10 %"}
    assert analyse(hopeless, futility=False, jobs=1, last=False).open == ("Rope",)
    nearly = stored(home, {"Rope": 0.005}, seeds=14, name="nearly", design=DESIGN, noise=0.012)
    assert nearly.verdicts["Rope"].verdict.verdict == "unresolved"
    assert analyse(nearly, futility=True, jobs=1, last=False).open == ("Rope",)
    within = stored(home, {"Rope": 0.0}, seeds=14, name="within", design=DESIGN, margin=0.006)
    assert within.verdicts["Rope"].verdict.verdict == "unresolved"
    assert analyse(within, futility=True, jobs=1, last=False).open == ("Rope",)  # it will be equivalent


def test_the_chance_of_a_verdict_is_that_of_simulated_studies():
    """Brute force: draw the mean and the noise, continue the study pair by pair, and test at the end."""
    from scipy import stats as scipy_stats

    design, rng = Design((6, 8, 10, 14, 20), reserve=0.1), np.random.default_rng(1)
    for size in (0.0, 0.4, 0.8):
        d = rng.normal(size=10)
        d = (d - d.mean()) / d.std(ddof=1) + size
        v = compare(np.zeros(10), d, better="lower")
        hits = 0
        for _ in range(2000):
            sd = math.sqrt(9 * d.var(ddof=1) / rng.chisquare(9))
            mean = d.mean() + sd / math.sqrt(10) * rng.normal()
            whole = np.concatenate([d, rng.normal(mean, sd, size=10)])
            hits += scipy_stats.ttest_1samp(whole, 0).pvalue < 0.045
        assert chance_of_verdict(v, design) == pytest.approx(hits / 2000, abs=0.07)
    few = compare(np.zeros(4), rng.normal(size=4))
    assert chance_of_verdict(few, design) == 1.0  # unknown, so nothing is stopped
    assert chance_of_verdict(compare(np.zeros(20), rng.normal(size=20)), design) == 0.0  # no pairs are left
    assert 0 < HOPELESS < 0.2


def test_a_tuned_sequential_study_has_both_tables(text: Path, home: Path):
    base = control(text, *QUICK)
    made = sequential(
        text,
        control=base,
        arms={"null": base.set("train.order", 5)},
        vary=["train.order"],
        tune={"train.optimizer.lr": [0.001, 0.3]},
        tuning_seeds=1,
    )
    events = carried(made, home)
    assert [a.number for a in events_of(Analysed, events)] == [1, 2]
    outcome = load_outcome(folder_of(made, home))
    assert outcome.titles == ["own best", "shared"]
    assert [len(arm.runs) for arm in outcome.record.arms] == [8, 8, 8, 8]
    assert outcome.table("shared")["null"].verdict.verdict == "unresolved"
    again = carried(made, home)
    assert not events_of(Started, again)
    assert analyses(again) == analyses(events)


@pytest.mark.parametrize("decided", ["own best", "shared"])
def test_an_arm_that_is_open_in_one_table_is_trained_further(home: Path, decided: str):
    effects = {title: -0.3 if title == decided else 0.0 for title in ("own best", "shared")}
    first, second = (stored(home, {"Rope": effect}, name=title, design=DESIGN) for title, effect in effects.items())
    tables = tuple(
        dataclasses.replace(outcome.record.tables[0], title=title)
        for title, outcome in zip(effects, (first, second), strict=True)
    )
    outcome = dataclasses.replace(first, record=dataclasses.replace(first.record, tables=tables))
    assert outcome.table(decided)["Rope"].verdict.verdict == "better"
    assert analyse(outcome, futility=False, jobs=1, last=False).open == ("Rope",)


# -- what was shown ----------------------------------------------------------------------------------------------------


def test_each_shown_analysis_is_noted_once(copied: tuple[Study, Path]):
    made, home = copied
    first, second = history(home)
    assert first == (1, {"fast": 6, "null": 6}, {"fast": "better", "null": "unresolved"})
    assert second == (2, {"fast": 6, "null": 8}, {"fast": "better", "null": "unresolved"})
    shown(made, home)
    assert history(home) == [first, second]
    changed = dataclasses.replace(made, margin=1e-9)
    shown(changed, home)
    assert len(history(home)) == 4
    shown(changed, home)
    shown(made, home)
    assert len(history(home)) == 4


def test_verdicts_of_older_versions_were_shown(home: Path):
    assert not was_shown(None)
    old = stored(home, name="old").record
    assert was_shown(old)
    new = dataclasses.replace(old, design=Design((6,)))
    assert not was_shown(new)
    folder = home / "studies" / "old"
    note_analysis(analyse(load_outcome(folder), futility=False, jobs=1, last=True))
    assert was_shown(dataclasses.replace(read_study(folder), design=Design((6,))))


def test_analyses_of_the_control_alone_are_not_noted(text: Path, home: Path):
    alone = sequential(text, arms={}, vary=())
    outcome = shown(alone, home)
    assert len(outcome.record.seeds) == 6
    assert outcome.record.history == ()
