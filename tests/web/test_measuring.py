"""What arms cost, measured in a thread: counted as the runs themselves count, remembered, and limited."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from headtohead import Arm
from headtohead.web.measuring import Answer, Measurer, Recent, Wish, is_large
from helpers.runs import run_on, trained_record


def known(measurer: Measurer, *wishes: Wish) -> Answer:
    """The answer when everything is measured."""
    until = time.monotonic() + 120
    while (answer := measurer.ask(wishes)).done < answer.of:
        assert time.monotonic() < until, answer
        time.sleep(0.02)
    return answer


def test_figures_are_those_of_the_run(text: Path, home: Path):
    spec = run_on(text, "train.steps=2")
    result = trained_record(spec, home).require_result()
    measurer = Measurer(home)
    data, size = measurer.data(spec.arm), measurer.size(spec.arm, "it")
    answer = known(measurer, data, size, measurer.timing(spec.arm, "it"))
    found = answer.values[size.key]
    assert answer.errors == {}
    assert (found["parameters"], found["flops"]) == (result.parameters, result.flops_per_step)
    assert answer.values[data.key]["sets"]["train"]["tokens"] == result.data["sets"]["train"]["tokens"]
    assert answer.values[data.key]["vocabulary"] == result.data["vocabulary"]


def test_a_model_that_sees_the_future_is_named(text: Path, home: Path):
    arm = run_on(text, "model.pattern=Full").arm
    measurer = Measurer(home)
    audit, size = measurer.audit(arm, "Full"), measurer.size(arm, "Full")
    answer = known(measurer, audit, size)
    assert "future-tokens" in [one["check"] for one in answer.values[audit.key]["broken"]]
    assert "shows the model the tokens" in answer.values[size.key]["warnings"][0]
    assert list((home / "audits").iterdir())  # kept for the study


def test_large_models_are_counted_and_not_built(text: Path, home: Path):
    arm = run_on(text, "model.width=4096", "model.layers=24").arm
    measurer = Measurer(home)
    size, audit, timing = measurer.size(arm, "it"), measurer.audit(arm, "it"), measurer.timing(arm, "it")
    answer = known(measurer, size, audit, timing)
    assert answer.values[size.key]["parameters"] > 10**9
    assert answer.values[size.key]["flops"] is None
    assert "not audited in the page" in answer.errors[audit.key]
    assert "not timed in the page" in answer.errors[timing.key]
    deep = measurer.size(run_on(text, "model.layers=100000").arm, "it")
    assert "not counted in the page" in known(measurer, deep).errors[deep.key]
    assert is_large(Arm().set("train.batch", 10**6), 1000)
    assert not is_large(Arm(), 300_000)


def test_a_corpus_that_is_not_here_is_not_downloaded(home: Path):
    arm = Arm.of("classifier").set("data.corpus", "MovieReviews")
    measurer = Measurer(home)
    data = measurer.data(arm)
    assert "is not here yet: downloaded at first use" in known(measurer, data).errors[data.key]


def test_the_newest_question_is_answered_first(tmp_path: Path):
    order: list[str] = []
    go = threading.Event()
    measurer = Measurer(tmp_path)

    def wish(name: str) -> Wish:
        return Wish(name, f"measuring {name}", lambda: (go.wait(60), order.append(name)))

    first = measurer.ask([wish("a"), wish("b")])
    assert (first.done, first.of) == (0, 2)
    time.sleep(0.3)
    measurer.ask([wish("c"), wish("d")])
    go.set()
    known(measurer, *map(wish, "cd"))
    known(measurer, *map(wish, "abcd"))
    assert set(order) == set("abcd")
    assert order.index("c") < order.index("b")


def test_what_is_known_is_not_measured_again(tmp_path: Path):
    counted: list[int] = []
    measurer = Measurer(tmp_path)
    good = Wish("good", "counting", lambda: counted.append(1))
    bad = Wish("bad", "dividing", lambda: 1 / 0)
    for _ in range(3):
        answer = known(measurer, good, bad)
    assert counted == [1]
    assert "ZeroDivisionError" in answer.errors["bad"]
    measurer.stop()


@pytest.mark.parametrize("most", [1, 3])
def test_the_last_results_are_kept(most: int):
    made: list[str] = []
    recent = Recent(most)
    for key in ("a", "a", "b", "c", "d", "d"):
        assert recent(key, lambda key=key: made.append(key) or key) == key  # type: ignore[misc]
    assert made == ["a", "b", "c", "d"]
    recent("a", lambda: made.append("again"))
    assert made[-1] == "again"
