"""What a study is made of, and what is wrong with some."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from headtohead import Alibi, Arm, InputError, Learned, Mqar, NoPosition, Rope, Study
from headtohead.spec import split_values
from helpers.studies import control, study


def asking(**given) -> Study:
    return Study(question="?", **{"control": Arm(), "vary": {"model.position": [Rope()]}} | given)


def test_the_control_is_always_there_and_first():
    made = asking(vary={"model.position": [Rope(), Alibi()]})
    assert [v.name for v in made.variants] == ["Learned", "Rope", "Alibi"]
    assert made.variants[0].arm == Arm()
    again = asking(vary={"model.position": [Rope(), Learned(), Alibi()]})
    assert [v.name for v in again.variants] == ["Learned", "Rope", "Alibi"]


def test_values_may_be_written_as_text():
    assert asking(vary={"model.position": ["Rope", "Alibi(slope=1)"]}).variants[2].arm == Arm().set(
        "model.position", Alibi(slope=1)
    )


def test_several_fields_make_a_factorial():
    made = asking(vary={"model.position": [Rope()], "train.batch": [8, 32]})
    assert [v.name for v in made.variants] == [
        "Learned, batch=16",
        "batch=8",
        "batch=32",
        "Rope",
        "Rope, batch=8",
        "Rope, batch=32",
    ]
    last = made.variants[-1]
    assert (last.arm.model.position, last.arm.train.batch) == (Rope(), 32)
    assert last.differs == {"model.position": "Rope", "train.batch": "32"}


def test_arms_may_be_given_whole():
    rope = Arm().set("model.position", Rope()).set("model.heads", 4)
    made = asking(arms={"rope and heads": rope}, vary=["model.position", "model.heads"])
    assert [v.name for v in made.variants] == ["Learned, heads=2", "rope and heads"]
    assert made.variants[1].differs == {"model.position": "Rope", "model.heads": "4"}


def test_settings_are_made_in_every_arm():
    made = asking(vary={"model.position": [Rope()]}).set("train.steps=7", "model.heads=1")
    assert {(v.arm.train.steps, v.arm.model.heads) for v in made.variants} == {(7, 1)}
    whole = asking(arms={"r": Arm().set("model.position", Rope())}, vary=["model.position"]).set("train.steps=7")
    assert {v.arm.train.steps for v in whole.variants} == {7}


BAD = {
    "one seed": ({"seeds": 1}, "needs at least 2 seeds, and 6 to decide anything, not 1"),
    "a seed twice": ({"seeds": [1, 2, 2]}, "different numbers"),
    "a negative seed": ({"seeds": [1, -2]}, "different numbers"),
    "nothing varied": ({"vary": {}}, "varies something"),
    "only the control": ({"vary": {"model.position": [Learned()]}}, "only values that the control has"),
    "an arm twice": ({"vary": {"model.position": [Rope(), Rope()]}}, "Rope twice"),
    "the same by text": ({"vary": {"model.position": [Rope(), "Rope()"]}}, "Rope twice"),
    "a field nobody knows": ({"vary": {"model.positoin": [Rope()]}}, "did you mean position"),
    "a place nobody knows": ({"vary": {"modle.position": [Rope()]}}, "did you mean model"),
    "the way it is measured": ({"vary": {"evaluate.stride": [1]}}, "evaluate is the same for all arms"),
    "a part of another family": ({"vary": {"model.position": ["LayerNorm"]}}, "must be a Position"),
    "a part nobody knows": ({"vary": {"model.position": ["Rop"]}}, "did you mean Rope"),
    "text for a list": ({"vary": {"model.position": "Rope"}}, "is a list of values"),
    "a metric without a set": ({"metric": "loss"}, "SET/FIGURE"),
    "a metric of the other task": ({"metric": "test/accuracy"}, "a language model has no 'accuracy'"),
    "a metric misspelt": ({"metric": "test/perplexety"}, "did you mean perplexity"),
    "perplexity across vocabularies": (
        {"vary": {"tokenizer": ["Byte", "Character"]}, "metric": "test/perplexity"},
        "use test/bits_per_byte",
    ),
    "loss across preparations": (
        {"vary": {"data.prepare": ["Lowercase"]}, "metric": "obama/loss"},
        "use obama/bits_per_byte",
    ),
    "a margin of nothing": ({"margin": 0}, "above zero"),
    "a margin of words": ({"margin": "little"}, "a number or a percentage"),
    "a name with a slash": ({"name": "a/b"}, "usable as a folder name"),
    "a control that is none": ({"control": "Learned"}, "is an Arm"),
    "tuned and varied": ({"vary": {"train.batch": [8]}, "tune": {"train.batch": [8, 16]}}, "varied and tuned"),
    "an undeclared field": (
        {"arms": {"mine": Arm().set("model.position", Rope()).set("train.batch", 8)}, "vary": ["model.position"]},
        "mine differs from the control in train.batch too",
    ),
    "an undeclared neighbour": (
        {"arms": {"mine": Arm().set("model.position", Rope())}, "vary": ["model.pos"]},
        "did you mean position",
    ),
    "two arms that are one": (
        {
            "arms": {"a": Arm().set("model.position", Rope()), "b": Arm().set("model.position", Rope())},
            "vary": ["model.position"],
        },
        "a and b are the same arm",
    ),
}


@pytest.mark.parametrize("what", BAD)
def test_a_senseless_study_is_one_line(what):
    given, said = BAD[what]
    with pytest.raises(InputError, match=said) as error:
        asking(**given)
    assert "\n" not in str(error.value)


def test_a_tokenizer_comparison_takes_bits_per_byte():
    assert asking(vary={"tokenizer": ["Byte"]}).measured == "test/bits_per_byte"
    assert asking().measured == "test/loss"
    assert (
        Study(question="?", control=Arm.of("classifier"), vary={"model.position": ["Rope"]}).measured == "test/accuracy"
    )


def test_the_family_ignores_arms_and_seeds(text: Path):
    one = study(text)
    assert one.id == study(text, seeds=9, vary={"model.position": [Rope()]}).id
    others = [
        study(text, "train.steps=7"),
        study(text, metric="validation/loss"),
        study(text, vary={"model.heads": [1]}),
    ]
    assert len({one.id, *(s.id for s in others)}) == 4


def test_values_are_split_at_commas_outside_parentheses():
    assert split_values("Learned, Rope(theta=500),Causal & Local(8)") == [
        "Learned",
        "Rope(theta=500)",
        "Causal & Local(8)",
    ]
    assert split_values("(1,2),[3,4]") == ["(1,2)", "[3,4]"]
    assert split_values(" , ") == []


def test_arms_start_from_the_same_weights_and_see_the_same_batches(text: Path):
    import numpy as np
    import torch

    from headtohead.training.tasks import task_of

    made = study(text, vary={"model.position": [Learned(), Rope(), NoPosition()], "train.optimizer.lr": [0.1]})
    tasks = [task_of(v.arm) for v in made.variants]
    first = tasks[0]
    weights = dict(first.build(3).named_parameters())
    for task in tasks[1:]:
        shared = [(p, weights[n]) for n, p in task.build(3).named_parameters() if n in weights]
        assert shared
        assert all(torch.equal(a, b) for a, b in shared)
        for step in (0, 5):
            assert np.array_equal(task.batch(3, step).ids, first.batch(3, step).ids)
    again = task_of(control(text, "train.order=1"))
    assert not np.array_equal(again.batch(3, 0).ids, first.batch(3, 0).ids)
    assert torch.equal(dict(again.build(3).named_parameters())["head.weight"], weights["head.weight"])


def test_other_files_and_tuning_seeds_are_other_studies(tmp_path):
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "mine.txt").write_text("One text.\n" * 100)
    here, there = (asking(control=control(tmp_path / f / "mine.txt")) for f in ("a", "b"))
    assert here.id != there.id
    tuned = dataclasses.replace(here, tune={"train.optimizer.lr": [1e-3, 1e-2]}, tuning_seeds=1)
    assert tuned.id not in (here.id, dataclasses.replace(tuned, tuning_seeds=2).id)


def test_an_empty_vary_mapping_is_refused(text):
    with pytest.raises(InputError, match=r"varies something.*vary=\(\)"):
        Study(question="?", control=control(text), vary={})


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"seeds": 6.0}, "whole numbers"),
        ({"seeds": "6"}, "whole numbers"),
        ({"seeds": ["a", "b"]}, "whole numbers"),
        ({"seeds": 0}, "at least 2 seeds"),
        ({"vary": None}, "vary names fields"),
        ({"vary": "model.heads"}, "vary names fields"),
        ({"arms": [3]}, "arms are named"),
        ({"arms": {"a": 3}}, "arms are named"),
        ({"arms": {3: Arm()}}, "line of text"),
        ({"arms": {" ": Arm()}}, "line of text"),
        ({"arms": {"a\nb": Arm()}}, "line of text"),
        ({"metric": 3}, "metric is a text"),
        ({"name": 3}, "name is a text"),
        ({"name": "\x00"}, "usable as a folder name"),
        ({"name": "x" * 400}, "usable as a folder name"),
        ({"tune": {"train.optimizer.lr": 1e-3}}, "tune names fields"),
        ({"tune": ["train.optimizer.lr"]}, "tune names fields"),
        ({"tune": {"train.optimizer.lr": []}}, "tune names fields"),
        ({"tune": {"train.optimizer.lr": [1e-3]}, "tuning_seeds": 0}, "tuning_seeds"),
        ({"tune": {"train.optimizer.lr": [1e-3]}, "seeds": [1_000_000, 5]}, "for tuning"),
    ],
)
def test_wrong_study_arguments_are_refused(given, says):
    with pytest.raises(InputError, match=says):
        Study(**{"question": "?", "control": Arm(), "vary": {"model.heads": [1, 2]}} | given)


def test_arm_names_of_numbers_are_short():
    made = Study(question="?", control=Arm(), vary={"train.optimizer.lr": [1e9, 0.0013, 1.0 / 3]})
    assert [v.name for v in made.variants][1:] == ["lr=1e+09", "lr=0.0013", "lr=0.3333333333333333"]


# -- synthetic tasks ---------------------------------------------------------------------------------------------------


def test_a_study_on_a_task_measures_accuracy() -> None:
    control = Arm.of("lm", Mqar(pairs=2, length=8))
    vary = {"model.layers": [2, 1]}
    assert Study(question="?", control=control, vary=vary).measured == "test/accuracy"
    assert Study(question="?", control=control, vary=vary, metric="test/loss").better == "lower"
    assert Study(question="?", control=control, vary=vary, metric="pairs_2/exact_match").better == "higher"
    with pytest.raises(InputError, match="has no 'perplexity'"):
        Study(question="?", control=control, vary=vary, metric="test/perplexity")
    harder = Study(question="?", control=control, vary={"data.corpus.pairs": [2, 1]}, metric="test/loss")
    assert harder.measured == "test/loss", "an answer is an answer, whatever the task's knobs"


def test_a_study_on_a_task_has_verdicts_and_intervals_over_examples(home: Path) -> None:
    task = Mqar(pairs=2, length=8, keys=4, values=4, tested=128)
    control = Arm.of("lm", task).settings(["model.width=16", "train.steps=3", "evaluate.along=16"])
    for metric in ("test/accuracy", "test/loss", "test/exact_match"):
        study = Study(question="?", control=control, vary={"model.layers": [2, 1]}, seeds=2, again=False, metric=metric)
        outcome = study.run(jobs=1, home=home, progress=False)
        (verdict,) = outcome.verdicts
        assert verdict.verdict.verdict == "unresolved"
        values = [row.value for row in outcome.all_rows if row.arm == verdict.arm]
        assert verdict.mean == pytest.approx(sum(values) / 2)
        assert verdict.items is not None
        assert verdict.items.items == 128
        best = {
            "test/accuracy": "best possible 100.00 %, guessing 25.00 %",
            "test/loss": "best possible 0.0000, guessing 1.3863",
        }
        assert outcome.verdicts.scope.endswith(best.get(metric, "seeds 0–1"))
