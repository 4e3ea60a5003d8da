"""Warnings about the data and about models that read later tokens."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from headtohead import Arm, Copying, Files, Induction, Mqar, Parity, RunSpec, Spec, Synthetic, verify
from headtohead.errors import InputError, Unavailable
from headtohead.run.events import Started
from headtohead.training.arm import run_specs
from headtohead.training.arms import arm_for
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


# -- generated examples ------------------------------------------------------------------------------------------------

TINY = Mqar(pairs=2, length=8, keys=4, values=4, tested=64)
QUICK = ["model.width=32", "train.steps=200", "evaluate.every=200"]


def test_examples_are_windows_and_only_answers_count() -> None:
    task = task_of(Arm.of("lm", TINY).settings(["train.batch=5"]))
    batch = task.batch(0, 0)
    assert batch.ids.shape == batch.targets.shape == (5, 8)
    assert ((batch.targets >= 0).sum(axis=1) == 2).all()
    names = task.vocabulary.names()
    example = [names[i] for i in batch.ids[0]]
    pairs = dict(zip(example[0:4:2], example[1:4:2], strict=True))
    for symbol, target in zip(example, batch.targets[0].tolist(), strict=True):
        if target >= 0:
            assert names[target] == pairs[symbol]
    model = task.build(0)
    losses = task.evaluate_batch(model, batch, "cpu")
    assert losses.shape == (10,)
    assert float(task.loss(model, batch, "cpu").detach()) == pytest.approx(float(losses.mean().detach()), rel=1e-5)


def test_batches_depend_on_corpus_seed_and_step_alone() -> None:
    one, other = (task_of(Arm.of("lm", TINY).settings([s])) for s in ("model.width=64", "model.position=Alibi"))
    assert (one.batch(3, 5).ids == other.batch(3, 5).ids).all()
    assert (one.batch(3, 5).ids != one.batch(4, 5).ids).any()
    again = task_of(Arm.of("lm", TINY).settings(["train.order=1"]))
    assert (one.batch(3, 5).ids != again.batch(3, 5).ids).any()
    assert (one.data.held["test"].examples.ids == again.data.held["test"].examples.ids).all()


def test_fixed_examples_are_read_in_passes() -> None:
    settings = ["data.corpus.examples=40", "train.batch=16", "train.epochs=2"]
    task = task_of(Arm.of("lm", TINY).settings(settings))
    assert (task.steps_per_epoch, task.steps) == (3, 6)
    epochs = [np.concatenate([task.batch(0, 3 * e + n).ids for n in range(3)]) for e in range(2)]
    rows = [sorted(map(tuple, epoch.tolist())) for epoch in epochs]
    assert rows[0] == rows[1]
    assert len(set(rows[0])) == 40
    assert task.sets(tests=False) == ["train", "validation"]
    assert task_of(Arm.of("lm", TINY)).sets(tests=False) == ["validation"], "new examples are no set"


def test_easy_tasks_are_learned(home: Path) -> None:
    for corpus in (TINY, Induction(length=8, vocab=4, test_length=(), tested=64)):
        made = trained_record(RunSpec(arm=Arm.of("lm", corpus).settings(QUICK)).resolved(), home)
        assert made.result is not None
        assert made.result.warnings == [], "no false alarm about data, first batch or model"
        assert made.result.values["test/accuracy"] > 0.97
        assert made.result.values["test/exact_match"] > 0.9
        assert made.result.data["sets"]["test"]["optimum"] == {"accuracy": 1.0, "loss": 0.0}
        assert verify(home=home).is_sound


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        (["model.block=7"], "mqar has examples of 8 symbols and model.block is 7: set model.block=8"),
        (["tokenizer=Bpe"], "which Bpe() does not keep apart: set tokenizer=Symbols"),
        (["train.epochs=2"], "no epochs: set train.steps"),
        (["evaluate.stride=2"], "leave out evaluate.stride"),
        (["data.prepare=Lowercase"], "leave out data.prepare"),
        (["data.test=0.2"], "leave out data.test"),
        (["data.limit=5"], "leave out data.limit"),
        (["data.corpus.path=x"], "leave out data.corpus.path"),
    ],
)
def test_settings_that_do_not_fit_examples_are_refused(settings: list[str], says: str) -> None:
    with pytest.raises(InputError, match=re.escape(says)) as error:
        task_of(Arm.of("lm", TINY).settings(settings))
    assert "\n" not in str(error.value)


def test_other_tokenizers_that_keep_symbols_apart_are_allowed() -> None:
    task = task_of(Arm.of("lm", Parity()).settings(["tokenizer=Character"]))
    assert task.vocabulary.size == 4 + 1  # a space is a character of the symbols' list too


@pytest.mark.parametrize(("corpus", "warned"), [(Copying(length=4, test_length=()), True), (TINY, False)])
def test_examples_that_show_their_answers_need_a_causal_model(corpus: Synthetic, warned: bool) -> None:
    warnings = task_of(Arm.of("lm", corpus).settings(["model.pattern=Full"])).warnings()
    assert any("its losses mean nothing" in w for w in warnings) == warned


def test_longer_test_sets_reach_beyond_the_training_length() -> None:
    corpus = Copying(length=3, test_length=(6,), tested=20)
    arm = Arm.of("lm", corpus).settings(["model.position=Learned"])
    assert arm.model.block == 12
    task = task_of(arm)
    found = task.evaluate(task.build(0), "length_6", "cpu").values
    assert found["tokens"] == 20 * 6
    assert task.batch(0, 0).ids.shape[1] == 6


def test_a_class_of_the_users_file_is_a_corpus(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(REVERSED)
    arm = arm_for("lm", f"{tmp_path}/mine.py:Reversed", settings=["data.corpus.length=4", "data.corpus.vocab=5"])
    assert (arm.model.block, arm.data.corpus.name) == (8, "reversed")
    task = task_of(Spec.from_json(arm.to_json()))
    batch = task.batch(0, 0)
    assert (batch.targets[:, 4:] == batch.ids[:, 3::-1]).all()


REVERSED = '''
import numpy as np

from headtohead import Examples, Synthetic, knob


class Reversed(Synthetic):
    """Random symbols, then marks; the answers are the symbols from the last to the first."""

    equation = "x1 … xn > … >:  the answers are xn … x1"
    reference = "Graves et al. 2014"
    separates = "models that find a position counted from the end"

    length: int = knob(default=6, ge=1, help="symbols to reverse")
    vocab: int = knob(default=8, ge=2, help="different symbols")

    @property
    def symbols(self):
        return (">", *(f"a{n}" for n in range(self.vocab)))

    @property
    def choices(self):
        return self.vocab

    def draw(self, rng, count):
        found = Examples.blank(count, 2 * self.length)
        x = rng.integers(1, self.vocab + 1, (count, self.length))
        found.ids[:, : self.length] = x
        found.answers[:, self.length :] = x[:, ::-1]
        return found
'''
