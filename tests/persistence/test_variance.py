"""The decomposition: which runs it takes, the rule for the next run, and tiny real studies."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest

from headtohead import Arm, Files, InputError, Pretrained, RMSNorm, Study, decompose
from headtohead.outcome.outcome import load_outcome
from headtohead.parts.samplings import HalfOfText
from headtohead.persistence.components import Component
from headtohead.persistence.variance import design_of, next_run, rate_noise
from headtohead.pretrained.start import Fresh, FreshFrom, Perturbed
from headtohead.run.executors.execution import Execution
from headtohead.run.store import Record
from headtohead.study import tuning
from headtohead.study.execution import train_study
from helpers.runs import SMALL
from helpers.studies import study

ONE = Execution(jobs=1, device="cpu")
SOURCES = ("initial weights", "batch order", "weights × order", "numerical chaos", "training text")


def parts(pair: float, **others: float) -> list[Component]:
    made = [Component("batch order", pair, 0, 1, averages=True)]
    return made + [Component(name.replace("_", " "), sd, 0, 1, averages=False) for name, sd in others.items()]


ANY = Study("?", Arm(), {"model.norm": ["LayerNorm", "RMSNorm"]})


@pytest.mark.parametrize(
    ("found", "effect", "words"),
    [
        (parts(1.0, test_texts=0.1), 5.0, "one at another scale"),
        (parts(1.0, test_texts=0.3), 0.5, "go from 8 to 12 pairs"),
        (parts(1.0, test_texts=0.01), 0.5, "go from 8 to 32 pairs"),
        (parts(1.0), 0.5, "go from 8 to 32 pairs"),
        (parts(1.0, test_texts=0.5, training_text=0.4), 0.5, "more test texts: add test data"),
        (parts(1.0, test_texts=0.5, training_text=0.6), 0.5, "one on another or a larger training text"),
        (parts(1.0, test_texts=0.5, choice_of_rate=0.6), 0.5, "tuning with more seeds than 3"),
    ],
)
def test_the_next_run_reduces_the_largest_part(found, effect, words):
    assert words in next_run(found, effect, 8, ANY)
    assert words in next_run(found, -effect, 8, ANY)


def test_a_limited_evaluation_is_named():
    assert "evaluate.windows=50 limits it" in next_run(
        parts(1.0, test_texts=0.5), 0.5, 8, ANY.set("evaluate.windows=50")
    )


# -- the runs ----------------------------------------------------------------------------------------------------------


def test_each_run_varies_one_source(text):
    control, other = (study(text).control, study(text).control.set("model.norm", RMSNorm()))
    design = design_of((control, other), (0, 1, 2))
    assert list(design.crossed) == list(itertools.product((0, 1, 2), repeat=2))
    for (i, j), pair in design.crossed.items():
        assert [spec.seed for spec in pair] == [j, j]
        assert {str(spec.arm.start) for spec in pair} == {str(Fresh() if i == j else FreshFrom(seed=i))}
    for k, pair in design.chaos.items():
        assert [(spec.seed, spec.arm.start) for spec in pair] == [(k, Perturbed())] * 2
    for (k, half), pair in design.halves.items():
        assert [spec.arm.train.sampling for spec in pair] == [HalfOfText(draw=k, other=half)] * 2
        assert [spec.arm.start for spec in pair] == [Fresh()] * 2
    for pair in (*design.crossed.values(), *design.chaos.values(), *design.halves.values()):
        assert [d.path for d in pair[0].arm.diff(pair[1].arm)] == ["model.norm"]
    assert len({spec.id for _, spec in design.cells(("a", "b"))}) == 2 * (9 + 3 + 6)


def test_what_cannot_be_decomposed_is_refused(text):
    one = study(text, seeds=6)
    with pytest.raises(InputError, match="no arm 'Rop'"):
        decompose(one, "Rop", ONE, progress=False)
    with pytest.raises(InputError, match="from 2 to the 6 seeds"):
        decompose(one, None, ONE, levels=7, progress=False)
    with pytest.raises(InputError, match="random weights"):
        decompose(Study("?", Arm.of("classifier").set("start", Pretrained()), {"model.norm": ["LayerNorm", "RMSNorm"]}))
    with pytest.raises(InputError, match="other batches"):
        decompose(Study("?", one.control, {"train.sampling": ["RandomWindows", "ShuffledWindows"]}))


def test_a_tiny_study_from_runs_to_a_sentence(text, home, capsys):
    one = study(text, vary={"model.position": ["Learned", "Rope"]}, seeds=6)
    list(train_study(one, ONE, home=home))
    before = {f.parent.name for f in (home / "runs").glob("*/result.json")}
    found = decompose(one, None, ONE, levels=2, home=home)
    after = {f.parent.name for f in (home / "runs").glob("*/result.json")}
    assert found.runs == 2 * (4 + 2 + 4)
    assert len(after - before) == found.runs - 4, "the study's own pairs are not trained again"
    assert "forecast" in capsys.readouterr().err
    assert [c.source for c in found.components] == [*SOURCES, "test texts"]
    assert sum(c.share for c in found.components) == pytest.approx(1)
    assert 0 < found["numerical chaos"].sd < 1e-3, "six steps amplify a change of 1e-6 little"
    items = load_outcome(home / "studies" / "tiny-variance").verdicts["Rope"].items
    assert items.difference + 1.96 * found["test texts"].sd == pytest.approx(
        items.high, abs=0.2 * items.high - 0.2 * items.low
    )
    design = design_of((one.variants[0].arm, one.variants[1].arm), (0, 1))
    losses = [[Record.at(home, s.id).result.values["test/loss"] for s in pair] for pair in design.crossed.values()]
    assert found.effect == pytest.approx(sum(rope - learned for learned, rope in losses) / 4)
    lines = found.lines()
    assert lines[-1].endswith(".")
    assert "The most useful next run is" in str(found)
    assert max(map(len, lines)) <= 80
    assert found.to_json()["sd_of_pair"] == pytest.approx(found.sd_of_pair)
    again = decompose(one, "Rope", ONE, levels=2, home=home, progress=False)
    assert str(again) == str(found)


def test_a_classifier_is_decomposed_too(labelled, home):
    control = Arm.of("classifier", Files(path=str(labelled))).settings(
        [s for s in SMALL if "tokenizer" not in s] + ["train.steps=6"]
    )
    one = Study("?", control, {"model.norm": ["LayerNorm", "RMSNorm"]}, metric="test/loss", name="words")
    found = decompose(one, None, ONE, levels=2, home=home, progress=False)
    assert found["initial weights"].high > 0
    assert len(found.components) == 6


def test_noise_of_tuning_is_that_of_all_resamples(text, home: Path):
    one = study(
        text, vary={"model.position": ["Learned", "Rope"]}, seeds=2, tune={"train.order": [0, 1, 2]}
    )  # orders are equally good, so chance decides
    found = decompose(one, None, ONE, levels=2, home=home, progress=False)
    trials = tuning.trials_of(one, "cpu", 1)
    values = {
        (t.arm, t.number): [Record.at(home, s.id).result.values["validation/loss"] for s in t.runs.values()]
        for t in trials
    }
    differences = []
    for seeds in itertools.product(range(3), repeat=3):
        chosen = {}
        for arm in ("Learned", "Rope"):
            best = min((0, 1, 2), key=lambda n: sum(values[arm, n][s] for s in seeds))
            chosen[arm] = sum(values[arm, best]) / 3
        differences.append(chosen["Rope"] - chosen["Learned"])
    assert np.std(differences) > 0
    assert found["choice of rate"].sd == pytest.approx(np.std(differences), rel=1e-6)
    assert rate_noise(trials, one, home) == found["choice of rate"].sd
    assert "not tuned" not in str(found)
