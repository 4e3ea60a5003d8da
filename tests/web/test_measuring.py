"""Questions to the process that measures: answered with what is known, the newest first."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pytest

from headtohead.web.measuring import DIED, Answer, Measurer, Recent, Wish

# answers with the question; the question "die" ends it, "wait" waits for a file beside the store
ECHO = """
import json, os, sys, time
for line in sys.stdin:
    asked = line.strip()
    if asked == "die":
        os._exit(1)
    while asked == "wait" and not os.path.exists(sys.argv[1] + ".go"):
        time.sleep(0.01)
    with open(sys.argv[1] + ".order", "a") as file:
        print(asked, file=file)
    print(json.dumps([None, "wrong"] if asked == "bad" else [asked.upper(), ""]), flush=True)
"""


@pytest.fixture
def measurer(tmp_path: Path):
    made = Measurer(tmp_path / "home", (sys.executable, "-c", ECHO))
    yield made
    made.stop()


def wishes(*keys: str) -> list[Wish]:
    return [Wish(key, f"measuring {key}") for key in keys]


def known(measurer: Measurer, *keys: str) -> Answer:
    """The answer when everything is measured."""
    until = time.monotonic() + 60
    while (answer := measurer.ask(wishes(*keys))).done < answer.of:
        assert time.monotonic() < until, answer
        time.sleep(0.01)
    return answer


def order(measurer: Measurer) -> list[str]:
    return Path(f"{measurer.home.resolve()}.order").read_text().split()


def test_values_and_errors_are_remembered(measurer: Measurer):
    for _ in range(3):
        answer = known(measurer, "a", "bad", "b", "a")
    assert answer.values == {"a": "A", "b": "B"}
    assert answer.errors == {"bad": "wrong"}
    assert order(measurer) == ["a", "bad", "b"]


def test_the_newest_question_is_answered_first(measurer: Measurer):
    first = measurer.ask(wishes("wait", "b"))
    assert (first.done, first.of, first.now) == (0, 2, "measuring wait")
    while measurer._now is None:  # the first is being measured
        time.sleep(0.01)
    measurer.ask(wishes("c", "d"))
    Path(f"{measurer.home.resolve()}.go").touch()
    known(measurer, "c", "d")
    known(measurer, "b")
    assert order(measurer) == ["wait", "c", "d", "b"]


def test_a_process_that_dies_is_started_again(measurer: Measurer):
    assert known(measurer, "a", "die", "b").errors == {"die": DIED}
    assert order(measurer) == ["a", "b"]


def test_a_measurer_ends_at_once(measurer: Measurer):
    measurer.ask(wishes("wait"))
    start = time.monotonic()
    measurer.stop()
    assert time.monotonic() - start < 5
    assert measurer.ask(wishes("more")).done == 0


@pytest.mark.parametrize("most", [1, 3])
def test_the_last_results_are_kept(most: int):
    made: list[str] = []
    recent = Recent(most)
    for key in ("a", "a", "b", "c", "d", "d"):
        assert recent(key, lambda key=key: made.append(key) or key) == key  # type: ignore[misc]
    assert made == ["a", "b", "c", "d"]
    recent("a", lambda: made.append("again"))
    assert made[-1] == "again"
