"""Claims are judged by paired comparisons of stored runs; here of results written by hand: the answer is known."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from torch import nn

from headtohead import Arm, Files, Learned, NoPosition, Reweight, Rope, Study, stats
from headtohead.claims import (
    Alike,
    Audited,
    AuditedModule,
    Better,
    Claim,
    Closer,
    Interaction,
    Moves,
    Near,
    Not,
    NotBetter,
    Shown,
    Sooner,
)
from headtohead.claims.comparisons import level_at, steps_to
from headtohead.claims.ledger import Judged, summary
from headtohead.claims.published_figures import row_of
from headtohead.errors import InputError
from headtohead.outcome.outcome import Outcome, load_outcome

SEEDS = range(10)
NOISE = np.random.default_rng(0).normal(size=(4, 10))
STUDY = Study(
    question="?",
    control=Arm(),
    vary={"model.position": [Learned(), Rope(), NoPosition()]},
    seeds=10,
    metric="validation/loss",
    margin=0.05,
)

Store = Callable[..., Callable[[Study], Outcome]]


@pytest.fixture
def stored(tmp_path: Path) -> Store:
    """A store with these losses, and whatever else is said of each arm."""

    def make(arms: dict[str, list[float]], more: dict[str, dict[str, list[float]]] | None = None, margin=0.05, **said):
        more = more or {}
        for n, (arm, losses) in enumerate(arms.items()):
            for seed, loss in enumerate(losses):
                folder = tmp_path / "runs" / f"{n:08x}{seed:08x}"
                folder.mkdir(parents=True)
                diverged = not math.isfinite(loss)
                result = {
                    "status": "diverged" if diverged else "complete",
                    "ended": "diverged at step 3",
                    "steps": 10,
                    "parameters": 5,
                    "values": {} if diverged else {"validation/loss": loss, "validation/accuracy": loss},
                    "data": {"sets": {"validation": {"bytes": 3}}, "tests": []},
                }
                own = {name: values[seed] for name, values in more.get(arm, {}).items()}
                looks = [{"step": s, "validation/loss": loss + own.get("late", 0) / s} for s in (1, 2, 4)]
                (folder / "run.json").write_text("{}")
                (folder / "result.json").write_text(json.dumps(result))
                (folder / "measures.json").write_text(json.dumps({"recipe": own}))
                (folder / "metrics.jsonl").write_text("".join(json.dumps(look) + "\n" for look in looks))
        rows = [
            {"name": arm, "differs": {}, "spec": {}, "runs": {str(s): f"{n:08x}{s:08x}" for s in SEEDS}}
            for n, arm in enumerate(arms)
        ]
        study = {
            "format": 1,
            "id": "x",
            "name": "tiny",
            "question": "?",
            "command": "h2h run",
            "metric": "validation/loss",
        }
        study |= {"better": "lower", "margin": margin, "vary": ["model.position"], "seeds": list(SEEDS)}
        study |= {"tables": [{"title": "", "arms": rows}], "again": {}, "tuning": [], "corpus": "here", **said}
        folder = tmp_path / "studies" / "tiny"
        folder.mkdir(parents=True)
        (folder / "study.json").write_text(json.dumps(study))
        outcome = load_outcome(folder)
        return lambda _: outcome

    return make


def near(mean: float, n: int = 0, sd: float = 0.01) -> list[float]:
    return [float(x) for x in mean + sd * NOISE[n]]


@pytest.mark.parametrize(
    ("rope", "word"), [(2.8, "holds"), (3.2, "does not hold"), (3.0, "does not hold")], ids=["better", "worse", "same"]
)
def test_better_is_judged_by_the_paired_difference(stored, rope, word):
    """No difference that matters is decided the other way, too: the claim was that it is better."""
    found = Better(STUDY, "Rope").judge(stored({"Learned": near(3), "Rope": near(rope, 1)}))
    assert found.word == word
    v = stats.compare(near(3), near(rope, 1), 0.05)
    assert found.verdict.difference == pytest.approx(v.difference)
    assert len(found.runs) == 20


def test_a_sure_gain_within_the_margin_is_better(stored):
    outcomes = stored({"Learned": near(3), "Rope": [x - 0.03 for x in near(3)]})
    assert Better(STUDY, "Rope").judge(outcomes).word == "holds"
    assert Alike(STUDY, "Rope").judge(outcomes).word == "holds"


def test_better_is_corrected_for_every_arm_of_the_study(stored):
    losses = {"Learned": near(3), "Rope": near(2.99, 1, 0.02), "NoPosition": near(3.01, 2, 0.02)}
    found = Better(STUDY, "Rope").judge(stored(losses))
    alone = stats.compare(losses["Learned"], losses["Rope"], 0.05)
    assert found.verdict.p_alone == pytest.approx(alone.p)
    assert found.verdict.p > found.verdict.p_alone


def test_better_than_another_arm_and_by_another_figure(stored):
    outcomes = stored({"Learned": near(3), "Rope": near(2.8, 1), "NoPosition": near(2.9, 2)})
    assert Better(STUDY, "Rope", than="NoPosition").judge(outcomes).word == "holds"
    assert Better(STUDY, "NoPosition", than="Rope").judge(outcomes).word == "does not hold"
    # accuracy is better where it is higher, and here it is the loss's own number
    assert Better(STUDY, "Rope", value="validation/accuracy").judge(outcomes).word == "does not hold"


@pytest.mark.parametrize(
    ("shift", "sd", "word"),
    [
        (0.0, 0.005, "holds"),
        (0.03, 0.003, "holds"),  # certain, and still within the margin
        (0.2, 0.01, "does not hold"),
        (0.05, 0.02, "unresolved"),
        (0.0, 0.5, "unresolved"),
    ],
    ids=["same", "small", "large", "at the edge", "noisy"],
)
def test_alike_is_judged_by_equivalence(stored, shift, sd, word):
    control = near(3)
    rope = [c + shift + sd * x for c, x in zip(control, NOISE[1], strict=True)]
    assert Alike(STUDY, "Rope").judge(stored({"Learned": control, "Rope": rope})).word == word


def test_moves_pairs_two_figures_of_the_same_runs(stored):
    more = {"Learned": {"entropy/before": near(2), "entropy/after": [x - 0.1 for x in near(2)]}}
    outcomes = stored({"Learned": near(3), "Rope": near(3)}, more)
    found = Moves(STUDY, "control", "entropy/before", "entropy/after").judge(outcomes)
    assert found.word == "holds"
    assert found.verdict.difference == pytest.approx(-0.1)
    assert Moves(STUDY, "control", "entropy/after", "entropy/before").judge(outcomes).word == "does not hold"


@pytest.mark.parametrize(
    ("loss", "word"), [(3.0, "holds"), (4.0, "holds"), (2.5, "does not hold"), (2.95, "unresolved")]
)
def test_not_better_than_frequencies(stored, loss, word):
    more = {"Rope": {"frequencies/loss": [3.0] * 10}}
    outcomes = stored({"Learned": near(1), "Rope": near(loss, 1, 0.02)}, more)
    assert NotBetter(STUDY, "Rope", than="frequencies/loss", margin=0.05).judge(outcomes).word == word


@pytest.mark.parametrize("gone", [10, 9, 5])
def test_diverged_runs_count_as_having_learned_nothing(stored, gone):
    losses = [math.nan] * gone + near(3, 1, 0.01)[gone:]
    outcomes = stored({"Learned": near(3), "Rope": losses}, {"Rope": {"frequencies/loss": [3.0] * 10}})
    found = NotBetter(STUDY, "Rope", than="frequencies/loss", margin=0.05).judge(outcomes)
    assert found.word == "holds"
    assert found.verdict.pairs == 10
    assert f"{gone} of 10 runs diverged" in found.effect


def test_an_arm_is_not_better_by_its_surviving_runs(stored):
    losses = [math.nan] * 3 + near(2.5, 1)[3:]
    outcomes = stored({"Learned": near(3), "Rope": losses, "NoPosition": near(2.5, 2)}, margin=None)
    found = Better(STUDY, "Rope").judge(outcomes)
    assert found.word == "unresolved"
    assert found.effect.endswith("; 3 of 10 runs of Rope diverged")
    assert "runs of" not in Better(STUDY, "NoPosition").judge(outcomes).effect
    assert Better(STUDY, "Rope", than="NoPosition").judge(outcomes).word == "unresolved"
    assert Better(STUDY, "NoPosition").judge(outcomes).word == "holds"
    (note,) = [n for n in outcomes(STUDY).verdicts.notes if "diverged" in n]
    assert note.startswith("Rope or the control diverged or collapsed where the other did not, in 3 of 10 pairs")


@pytest.mark.parametrize(
    ("value", "word"), [(0.5, "holds"), (0.52, "holds"), (0.7, "does not hold"), (0.55, "unresolved")]
)
def test_near_is_judged_by_the_interval(stored, value, word):
    outcomes = stored({"Learned": near(0.9), "Rope": near(value, 1, 0.01)})
    assert Near(STUDY, "Rope", "validation/accuracy", 0.5, within=0.05).judge(outcomes).word == word


@pytest.mark.parametrize(
    ("late", "steps", "word"),
    [(0.1, 1.0, "holds"), (2.0, 4.0, "does not hold"), (1.0, 3.4, "unresolved")],
    ids=["at once", "never", "as soon"],
)
def test_sooner_compares_steps_to_the_level_of_the_control(stored, late, steps, word):
    """The control comes from 1 above its loss to a quarter above it; nine tenths of that way are done at step 3.4."""
    more = {"Learned": {"late": [1.0] * 10}, "Rope": {"late": [late] * 10}}
    found = Sooner(STUDY, "Rope", "validation/loss").judge(stored({"Learned": near(3), "Rope": near(3)}, more))
    assert found.says.startswith("Rope against Learned, steps to nine tenths of the control's way")
    assert found.verdict.difference == pytest.approx(steps - 3.4, abs=1e-9)
    assert found.effect.split()[0] == f"{steps - 3.4:+.0f}".replace("-", "−")  # whole steps are told
    assert found.word == word


@pytest.mark.parametrize(
    ("way", "better", "level", "steps"),
    [
        ([(0, 6.0), (10, 5.0), (20, 5.0)], "lower", 5.1, 9),
        ([(0, 6.0), (10, 5.5), (20, 5.0)], "lower", 5.1, 18),
        ([(0, 0.3), (10, 0.9), (20, 0.8)], "higher", 0.75, 10 * 0.45 / 0.6),  # it overshoots
        ([(0, 0.4), (10, 0.55), (20, 0.39)], "higher", math.nan, math.nan),  # nothing is gained
        ([(0, 1.0), (10, 1.0)], "lower", math.nan, math.nan),
        ([(0, 1.0)], "lower", math.nan, math.nan),
    ],
)
def test_steps_to_a_share_of_the_way(way, better, level, steps):
    assert level_at(way, 0.9, better) == pytest.approx(level, nan_ok=True)
    assert steps_to(way, level_at(way, 0.9, better), better) == pytest.approx(steps, nan_ok=True)


def test_nothing_is_concluded_from_surviving_runs(stored):
    """Four of ten diverged; the others would decide everything."""
    losses = [math.nan] * 4 + near(2.5, 1)[4:]
    figures = {"a/loss": near(2.5, 2), "b/loss": near(3, 3), "late": [0.1] * 10}
    more = {"Learned": {"a/loss": near(3), "b/loss": near(3, 3), "late": [1.0] * 10}, "Rope": figures}
    outcomes = stored({"Learned": near(3), "Rope": losses}, more, margin=None)
    for evidence in (
        Closer(STUDY, "Rope", "Learned", own="a/loss", other="b/loss"),
        Moves(STUDY, "Rope", "b/loss", "a/loss"),
        Sooner(STUDY, "Rope", "validation/loss"),
        Near(STUDY, "Rope", "validation/accuracy", 2.5, within=0.2),
        Interaction("?", STUDY, ("Learned", "Rope"), ("Learned", "Learned"), value="a/loss"),
    ):
        assert evidence.judge(outcomes).word == "unresolved", evidence


def test_closer_compares_the_gap_between_two_values(stored):
    own = {
        "Learned": {"a/loss": near(3), "b/loss": near(2.5, 1)},
        "Rope": {"a/loss": near(2, 2), "b/loss": near(2.5, 3)},
    }
    outcomes = stored({"Learned": near(3), "Rope": near(3, 1)}, own)
    found = Closer(STUDY, "Rope", "Learned", own="a/loss", other="b/loss").judge(outcomes)
    assert found.word == "holds"
    assert found.verdict.difference == pytest.approx(-1, abs=0.2)
    assert Closer(STUDY, "Learned", "Rope", own="a/loss", other="b/loss").judge(outcomes).word == "does not hold"


def test_not_inverts_evidence(stored):
    outcomes = stored({"Learned": near(3), "Rope": near(2.8, 1), "NoPosition": near(3, 2, 0.5)}, margin=None)
    assert Not(Better(STUDY, "Rope"), "useless").judge(outcomes).word == "does not hold"
    assert Not(Better(STUDY, "NoPosition"), "useless").judge(outcomes).word == "unresolved"
    found = Not(Better(STUDY, "Learned", than="Rope"), "useless").judge(outcomes)
    assert (found.word, found.says) == ("holds", "useless: Learned against Rope, validation/loss")


def test_the_same_runs_are_not_counted_twice(stored):
    outcomes = stored({"Learned": near(3), "Rope": near(2.8, 1)}, margin=None)
    _, found, _ = Claim("001.1", Better(STUDY, "Rope"), Better(STUDY, "Rope", table="shared")).judged(outcomes)
    assert len(found) == 1


def test_interaction_is_a_difference_of_differences(stored):
    arms = {"a": near(3), "b": near(2.5, 1), "c": near(3, 2), "d": near(3.1, 3)}
    found = Interaction("more", STUDY, ("a", "b"), ("c", "d")).judge(stored(arms))
    d = np.array(arms["b"]) - arms["a"] - (np.array(arms["d"]) - arms["c"])
    assert found.word == "holds"
    assert found.verdict.difference == pytest.approx(d.mean())


def test_interaction_works_on_another_metric(stored):
    arms = {name: near(3, n) for n, name in enumerate("abcd")}
    other = {
        name: {"train/loss": near(value, n)} for n, (name, value) in enumerate({"a": 2, "b": 1, "c": 2, "d": 3}.items())
    }
    found = Interaction("more", STUDY, ("a", "b"), ("c", "d"), value="train/loss").judge(stored(arms, other))
    assert found.word == "holds"
    assert found.verdict.difference == pytest.approx(-2, abs=0.2)
    assert "train/loss" in found.says


def test_a_claim_needs_all_its_evidence(stored):
    outcomes = stored({"Learned": near(3), "Rope": near(2.8, 1), "NoPosition": near(3.2, 2)}, margin=None)
    good, bad = Better(STUDY, "Rope"), Better(STUDY, "NoPosition")
    assert Claim("001.1", good).judged(outcomes)[0] == "holds"
    assert Claim("001.1", good, bad).judged(outcomes)[0] == "does not hold"
    assert Claim("001.1", good, also=(bad,)).judged(outcomes)[0] == "holds"


def test_failed_evidence_is_corrected_for_its_number(stored):
    """By itself worse with p 0.02; one of four that all should hold, it may be chance."""
    worse = [c + 0.01 + 0.018 * x for c, x in zip(near(3), NOISE[3], strict=True)]
    outcomes = stored({"Learned": near(3), "Rope": near(2.8, 1), "NoPosition": worse}, margin=None)
    against = Better(STUDY, "NoPosition", than="control")
    p = against.judge(outcomes).verdict.p
    assert 0.0125 < p <= 0.05
    assert against.judge(outcomes).word == "does not hold"
    good = [Better(STUDY, "Rope"), Better(STUDY, "Rope", than="NoPosition"), Not(Better(STUDY, "Learned", "Rope"), "")]
    assert Claim("000.1", against).judged(outcomes)[0] == "does not hold"
    assert Claim("000.1", against, *good).judged(outcomes)[0] == "unresolved"


def test_an_absent_table_is_named(stored):
    outcomes = stored({"Learned": near(3), "Rope": near(2.8, 1)})
    outcome = outcomes(STUDY)
    tables = tuple(dataclasses.replace(outcome.record.tables[0], title=title) for title in ("own best", "shared"))
    object.__setattr__(outcome, "record", dataclasses.replace(outcome.record, tables=tables))
    with pytest.raises(InputError, match="has no table 'shard'"):
        Better(STUDY, "Rope", table="shard").judge(outcomes)


def test_a_claim_is_unresolved_if_any_evidence_is(stored):
    outcomes = stored({"Learned": near(3), "Rope": near(2.8, 1), "NoPosition": near(3, 2, 0.5)}, margin=None)
    assert Claim("001.1", Better(STUDY, "Rope"), Better(STUDY, "NoPosition")).judged(outcomes)[0] == "unresolved"


@pytest.mark.parametrize(
    ("other", "word"),
    [(2.9, "holds"), (3.2, "holds in part"), (None, "unresolved")],
    ids=["both hold", "one fails", "one open"],
)
def test_a_claim_is_judged_part_by_part(stored, other, word):
    last = near(3, 2, 0.5) if other is None else near(other, 2)
    outcomes = stored({"Learned": near(3), "Rope": near(2.8, 1), "NoPosition": last}, margin=None)
    parts = {"of one": (Better(STUDY, "Rope"),), "of the other": (Better(STUDY, "NoPosition"),)}
    claim = Claim("001.1", parts=parts)
    assert len(claim.evidence) == 2
    found, findings, _ = claim.judged(outcomes)
    assert found == word
    assert [f.says.partition(":")[0] for f in findings] == list(parts)
    only = Claim("001.1", parts={"of the other": parts["of the other"]})
    assert only.judged(outcomes)[0] == {"holds in part": "does not hold"}.get(word, word)


def test_parts_that_hold_in_part_are_counted():
    words = ["holds", "holds in part", "does not hold", "unresolved"]
    claims = [Judged(Claim(f"001.{n}"), "", word, [], [], {}, {}, {}) for n, word in enumerate(words)]
    assert summary(claims) == "Of 4 claims 1 holds, 1 holds in part, 1 does not, 1 is unresolved."
    assert summary(claims[:1]) == "Of 1 claim 1 holds, 0 do not, 0 are unresolved."


@pytest.mark.parametrize(("published", "said"), [(-0.2, "compatible"), (-0.5, "excluded"), (0.0, "excluded")])
def test_a_published_difference_is_compatible_or_excluded(stored, published, said):
    outcomes = stored({"Learned": near(3), "Rope": near(2.8, 1)}, margin=None)
    found = Better(STUDY, "Rope", published=published).judge(outcomes)
    assert found.effect.endswith(f" is {said}")
    assert "published" not in Better(STUDY, "Rope").judge(outcomes).effect


def test_an_absent_arm_is_named(stored):
    with pytest.raises(InputError, match=r"has no arm 'Ropes'.*Rope"):
        Better(STUDY, "Ropes").judge(stored({"Learned": near(3), "Rope": near(3)}))


@pytest.mark.parametrize(("published", "mark"), [(3.0, "matches"), (3.01, "matches"), (2.9, "worse"), (3.2, "better")])
def test_a_published_value_is_compared_with_the_range_of_runs(stored, published, mark):
    shown = Shown("doc000.x", STUDY, "Learned", "validation/loss")
    row = row_of(shown, {"doc000": {"x": published}}, stored({"Learned": near(3), "Rope": near(3)}))
    assert (row.mark, row.runs) == (mark, 10)
    assert row.low == min(near(3))


def test_incomparable_values_give_a_reason(stored):
    shown = Shown("doc000.x", STUDY, "Learned", "validation/loss", unlike="another corpus")
    row = row_of(shown, {"doc000": {"x": 3.0}}, stored({"Learned": near(3), "Rope": near(3)}))
    assert (row.mark, row.why) == ("not comparable", "another corpus")


def test_evidence_reads_the_best_and_first_evaluation(stored):
    outcomes = stored({"Learned": near(3), "Rope": near(3)}, {"Learned": {"late": [1.0] * 10}})
    take = {
        t: row_of(Shown("d.x", STUDY, "Learned", "validation/loss", take=t), {"d": {"x": 1}}, outcomes).mean
        for t in ("first", "best")
    }
    assert take["first"] == pytest.approx(np.mean(near(3)) + 1)
    assert take["best"] == pytest.approx(np.mean(near(3)) + 0.25)


@pytest.mark.usefixtures("home")
def test_an_audit_is_evidence():
    arm = Arm.of("lm", Files(path="here")).settings(["model.width=16", "model.heads=2", "model.layers=1"])
    whole = Audited("model.fusion", Reweight(over="sequence"), arm).judge(lambda _: pytest.fail("no run is needed"))
    assert whole.word == "does not hold"
    assert "future" in whole.says
    token = Audited("model.fusion", Reweight(over="token"), arm).judge(lambda _: pytest.fail("no run is needed"))
    assert token.word == "holds"
    assert "nothing wrong found" in token.says


class Listed(nn.Module):
    """A hidden layer that torch does not know of."""

    def __init__(self, keep: bool = False) -> None:
        super().__init__()
        self.embed, self.out = nn.Embedding(23, 8), nn.Linear(8, 3)
        self.hidden = nn.ModuleList([nn.Linear(8, 8)]) if keep else [nn.Linear(8, 8)]

    def forward(self, ids):
        return self.out(self.hidden[0](self.embed(ids)).mean(dim=1))


@pytest.mark.parametrize(("module", "word"), [(Listed, "does not hold"), (partial(Listed, keep=True), "holds")])
def test_one_check_of_a_module_is_evidence(module, word):
    found = AuditedModule(module, "a list", check="registered").judge(lambda _: pytest.fail("no run is needed"))
    assert found.word == word
    assert found.says.startswith("audit of a list: ")
    assert ("hidden[0].weight" in found.says) == (word == "does not hold")


def test_any_metric_is_corrected_for_the_other_arms(stored):
    """As the study's metric is: one of several arms may stand out by chance, by any figure."""
    wide = {"other/loss": list(5 + NOISE[0])}
    more = {
        "Learned": {"other/loss": [5.0] * 10},
        "Rope": {"other/loss": list(4.7 + 0.4 * NOISE[1])},
        "NoPosition": wide,
    }
    outcomes = stored({arm: [4.0] * 10 for arm in ("Learned", "Rope", "NoPosition")}, more)
    v = Better(STUDY, "Rope", value="other/loss").judge(outcomes).verdict
    values = {arm: one["other/loss"] for arm, one in more.items()}
    base = values.pop("Learned")
    assert v == stats.compare_all(base, values, 0.05, better="lower")["Rope"]
    single = stats.compare(base, values["Rope"], 0.05, better="lower")
    assert v.high - v.low > single.high - single.low
    alone = Better(STUDY, "Rope", than="NoPosition", value="other/loss").judge(outcomes).verdict
    assert alone == stats.compare(values["NoPosition"], values["Rope"], 0.05, better="lower")
