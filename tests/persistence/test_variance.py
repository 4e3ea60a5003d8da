"""The decomposition: estimates on simulated noise of known size, the rule for the next run, and a tiny real study."""

from __future__ import annotations

import itertools
import math
from pathlib import Path

import numpy as np
import pytest

from headtohead import Arm, Files, InputError, Pretrained, RMSNorm, Study, decompose
from headtohead.outcome.outcome import load_outcome
from headtohead.parts.samplings import HalfOfText
from headtohead.persistence.variance import (
    Component,
    MeanSquare,
    combined,
    component,
    components,
    design_of,
    next_run,
    rate_noise,
    shared,
)
from headtohead.pretrained.start import Fresh, FreshFrom, Perturbed
from headtohead.run.executors.execution import Execution
from headtohead.run.store import Record
from headtohead.study import tuning
from headtohead.study.execution import train_study
from helpers.runs import SMALL
from helpers.studies import study

ONE = Execution(jobs=1, device="cpu")
SOURCES = ("initial weights", "batch order", "weights × order", "numerical chaos", "training text")


def simulated(random: np.random.Generator, levels: int, i: float, o: float, io: float, c: float, text: float):
    """Differences of a design whose sources have these sds."""
    weights = random.normal(0, i, levels)
    pairs = random.normal(0, io, (levels, levels))
    base = 7 + weights[:, None] + random.normal(0, o, levels)[None, :] + pairs
    crossed = base + random.normal(0, c, (levels, levels))
    chaos = np.diag(base) + random.normal(0, c, levels)
    batches = random.normal(0, math.hypot(o, io, c), (levels, 2))  # a half has batches of its own
    halves = 7 + weights[:, None] + batches + random.normal(0, text, levels)[:, None] * np.array([1, -1])
    return crossed, chaos, halves


@pytest.mark.parametrize(
    "sds",
    [(3.0, 2.0, 1.0, 0.5, 2.0), (0.0, 3.0, 1.0, 0.1, 0.0), (2.0, 0.0, 0.0, 1.0, 3.0), (0.0, 0.0, 0.0, 1.0, 0.0)],
)
def test_known_sources_are_found_on_average_and_covered(sds):
    random, levels, times = np.random.default_rng(0), 6, 600
    found = [components(*simulated(random, levels, *sds), None, None) for _ in range(times)]
    for n, (source, sd) in enumerate(zip(SOURCES, sds, strict=True)):
        measured = [f[n] for f in found]
        assert {m.source for m in measured} == {source}
        variances = np.array([m.sd**2 for m in measured])
        error = variances.std() / math.sqrt(times)
        # a variance that is never below zero is too large on average where the true one is small
        assert variances.mean() > sd**2 - 4 * error
        if sd >= 2:
            assert variances.mean() < 1.1 * sd**2 + 4 * error
        covered = np.mean([m.low - 1e-12 <= sd <= m.high for m in measured])
        assert covered > 0.92, source


def test_mean_squares_are_those_of_the_definition():
    random = np.random.default_rng(4)
    d, chaos, halves = simulated(random, 3, 5, 5, 1, 0.01, 9)
    found = {c.source: c.sd**2 for c in components(d, chaos, halves, (0.3, 50), 0.7)}
    mean = sum(d[i][j] for i in range(3) for j in range(3)) / 9
    row = [sum(d[i][j] for j in range(3)) / 3 for i in range(3)]
    column = [sum(d[i][j] for i in range(3)) / 3 for j in range(3)]
    e = sum((d[i][j] - row[i] - column[j] + mean) ** 2 for i in range(3) for j in range(3)) / 4
    assert found["initial weights"] == pytest.approx((3 * sum((r - mean) ** 2 for r in row) / 2 - e) / 3)
    order = (3 * sum((c - mean) ** 2 for c in column) / 2 - e) / 3
    assert found["batch order"] == pytest.approx(order)
    c = sum((chaos[k] - d[k][k]) ** 2 for k in range(3)) / 6
    assert found["numerical chaos"] == pytest.approx(c)
    assert found["weights × order"] == pytest.approx(e - c)
    text = sum((a - b) ** 2 for a, b in halves) / 12
    assert found["training text"] == pytest.approx(text - (order + e) / 2)
    assert found["test texts"] == pytest.approx(0.09)
    assert found["choice of rate"] == pytest.approx(0.49)


def test_interval_of_one_mean_square_is_that_of_chi_squared():
    random = np.random.default_rng(5)
    means = (2.0**2) * random.chisquare(4, 4000) / 4
    found = [component("x", MeanSquare(float(m), 4)) for m in means]
    assert np.mean([c.low <= 2 <= c.high for c in found]) == pytest.approx(0.95, abs=0.015)
    assert np.mean([c.low > 2 for c in found]) == pytest.approx(0.025, abs=0.01)


def test_interval_of_a_component_is_that_of_williams_and_tukey():
    from scipy.stats import chi2, f

    found = component("x", MeanSquare(9.0, 3), MeanSquare(1.0, 9), 4)
    assert found.sd**2 == pytest.approx((9 - 1) / 4)
    assert found.low**2 == pytest.approx((9 - f.ppf(0.975, 3, 9)) * 3 / chi2.ppf(0.975, 3) / 4)
    assert found.high**2 == pytest.approx((9 - f.ppf(0.025, 3, 9)) * 3 / chi2.ppf(0.025, 3) / 4)


def test_a_source_below_its_noise_is_zero_with_an_upper_limit():
    found = component("x", MeanSquare(1.0, 3), MeanSquare(2.0, 9))
    assert (found.sd, found.low) == (0, 0)
    assert found.high > 0


def test_degrees_of_freedom_of_a_sum():
    both = combined((0.5, MeanSquare(2.0, 3)), (0.5, MeanSquare(2.0, 3)))
    assert (both.value, both.df) == (2.0, 6)
    assert combined((1.0, MeanSquare(2.0, 3))).df == pytest.approx(3)


# -- shares and the next run -------------------------------------------------------------------------------------------


def parts(pair: float, **others: float) -> list[Component]:
    made = [Component("batch order", pair, 0, 1, averages=True)]
    return made + [Component(name.replace("_", " "), sd, 0, 1, averages=False) for name, sd in others.items()]


def test_pairs_average_only_their_sources():
    found = shared(parts(2.0, test_texts=1.0), 4)
    assert [c.share for c in found] == [0.5, 0.5]
    assert [c.share for c in shared(parts(2.0, test_texts=1.0), 400)] == pytest.approx([4 / 404, 400 / 404])
    assert [c.share for c in shared(parts(0.0), 4)] == [0.0]


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
