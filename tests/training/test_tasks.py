"""Warnings about the data and about models that read later tokens."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from headtohead import Arm, Files, RunSpec
from headtohead.errors import InputError, Unavailable
from headtohead.run.events import Started
from headtohead.training.arm import run_specs
from headtohead.training.tasks import task_of
from helpers.runs import SMALL, run_on, train, trained_record


@pytest.mark.parametrize("part", ["model.pattern=Full", "model.fusion=Reweight(over=sequence)"])
def test_language_model_that_sees_future_tokens_warns(part: str, text: Path, home: Path) -> None:
    started = train(run_on(text, "train.steps=1", part), home)[0]
    assert isinstance(started, Started)
    assert any("its losses mean nothing" in w for w in started.warnings)


def test_test_data_seen_in_training_gives_a_warning(text: Path, home: Path) -> None:
    spec = run_on(text, "train.steps=1", f"data.corpus.test=Held(path='{text}')", "data.validation=0")
    made = trained_record(spec, home)
    assert made.result is not None
    assert any("of the test set's runs of 12 tokens are in the training data too" in w for w in made.result.warnings)


@pytest.mark.parametrize(("strange", "warned"), [(30, True), (2, False)])
def test_unseen_held_out_words_give_a_warning(
    strange: int, warned: bool, table: Path, home: Path, tmp_path: Path
) -> None:
    rows = [f"word{n} good times,up" if n < strange else "good 3 times,up" for n in range(40)]
    (tmp_path / "test.csv").write_text("\n".join(["text,label", *rows]) + "\n")
    arm = Arm.of("classifier", Files(path=str(table))).settings([*SMALL, "tokenizer=Word", "train.steps=1"])
    arm = arm.set("data.corpus.test", f"Held(path='{tmp_path}/test.csv')")
    started = train(RunSpec(arm=arm).resolved(), home)[0]
    assert isinstance(started, Started)
    assert warned is any("% of the test set's tokens are unknown" in w for w in started.warnings)


def test_a_sound_run_gives_no_warning(tmp_path: Path, home: Path) -> None:
    draw = np.random.default_rng(0)
    (tmp_path / "random.txt").write_text("".join(map(chr, draw.integers(97, 123, 4000))))
    started = train(run_on(tmp_path / "random.txt", "train.steps=1"), home)[0]
    assert isinstance(started, Started)
    assert started.warnings == []


@pytest.mark.parametrize(
    "setting",
    [
        *("model.width=1000000000", "model.layers=1000000000", "model.block=1000000000", "train.batch=1000000000"),
        *("evaluate.snapshots=1000000000", "train.steps=1000000000000000", "model.heads=1000000000"),
    ],
)
def test_numbers_that_cannot_work_are_refused_at_once(setting: str, text: Path) -> None:
    with pytest.raises(InputError) as error:
        run_on(text, setting)
    assert "\n" not in str(error.value)


def test_a_model_beyond_the_memory_is_refused(text: Path, home: Path) -> None:  # noqa: ARG001
    spec = run_on(text, "model.width=65536", "model.layers=10000")
    with pytest.raises(Unavailable, match=r"training needs at least [\d,]+ GiB and this machine has"):
        task_of(spec.resolved().arm)


def test_too_many_seeds_are_refused(text: Path, home: Path) -> None:  # noqa: ARG001
    with pytest.raises(InputError, match="more than 10,000 seeds"):
        run_specs(run_on(text).arm, range(10**12), "cpu", 1)
