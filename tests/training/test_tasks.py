"""Warnings about the data and about models that read later tokens."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from headtohead import Arm, Files, RunSpec
from headtohead.run.events import Started
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
