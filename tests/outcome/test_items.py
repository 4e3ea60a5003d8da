"""Comparisons on test items: summaries against loops over the items, and the lines below the table."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from headtohead.outcome.items import Summary, compare_items, joined, summaries
from headtohead.outcome.outcome import Outcome, load_outcome
from headtohead.outcome.wording import lines_under
from headtohead.run.store import Record
from headtohead.stats import crossed, mcnemar, over_clusters
from headtohead.stats.clusters import MOST_GROUPS, MOST_STRETCHES, OUTSIDE, groups, stretches
from helpers.stores import stored

Items = dict[str, np.ndarray]


def text_items(seed: int, windows: int = 400, stride: int = 16, shift: float = 0.0) -> Items:
    """Overlapping windows of 32 tokens; the last one counts fewer."""
    tokens = np.full(windows, 32)
    tokens[-1] = 7
    loss = 3 + shift + np.random.default_rng(seed).normal(size=windows)
    return {"start": np.arange(windows) * stride, "tokens": tokens, "loss": loss}


def label_items(seed: int, texts: int = 300, wrong: float = 0.3) -> Items:
    make = np.random.default_rng(seed)
    label = np.arange(texts) * 3 // texts  # sorted by class
    predicted = np.where(make.random(texts) < wrong, (label + 1) % 3, label)
    return {"item": np.arange(texts), "label": label, "predicted": predicted, "loss": make.exponential(size=texts)}


def with_items(outcome: Outcome, items: Callable[[str, int], Items]) -> Outcome:
    """The outcome of the study after the items of its runs were replaced, by arm and seed."""
    for row in outcome.all_rows:
        path = outcome.home / "runs" / row.run / "items.npz"
        np.savez(path, **{f"test/{k}": v for k, v in items(row.arm, row.seed).items()})
    return load_outcome(outcome.folder)


# -- summaries ---------------------------------------------------------------------------------------------------------


def test_a_summary_holds_means_of_clusters_weighted_by_tokens():
    items = text_items(0)
    found = Summary.of(items)
    cluster = stretches(items["start"], items["tokens"])
    assert OUTSIDE in cluster
    assert len(found.weights) == len(found.losses) == MOST_STRETCHES
    for c in range(MOST_STRETCHES):
        rows = [n for n in range(400) if cluster[n] == c]
        tokens = sum(int(items["tokens"][n]) for n in rows)
        assert found.weights[c] == tokens
        assert found.losses[c] == pytest.approx(sum(items["loss"][n] * items["tokens"][n] for n in rows) / tokens)
    assert found.loss == pytest.approx(np.average(items["loss"], weights=items["tokens"])), "all windows count"
    assert (found.items, found.weight, found.right, found.rights) == (400, 399 * 32 + 7, None, None)


def test_a_summary_of_labelled_texts_has_loss_and_right_answers():
    items = label_items(0)
    found = Summary.of(items)
    cluster = groups(300)
    right = items["label"] == items["predicted"]
    assert found.weights.tolist() == [5] * MOST_GROUPS
    for c in (0, 17, MOST_GROUPS - 1):
        assert found.rights[c] == pytest.approx(right[cluster == c].mean())
        assert found.losses[c] == pytest.approx(items["loss"][cluster == c].mean())
    assert found.right == pytest.approx(right.mean())


DOCUMENTS = text_items(2) | {"document": np.arange(400) // 50}


@pytest.mark.parametrize("items", [text_items(1), label_items(1), DOCUMENTS], ids=["text", "labels", "documents"])
def test_a_kept_summary_is_small_and_the_same_to_single_precision(items: Items):
    found = Summary.of(items)
    text = json.dumps(found.to_json())
    back = Summary.from_json(json.loads(text))
    assert len(text) < 2000
    assert len(back.weights) <= 60
    assert (back.items, back.weight, back.loss, back.right) == (found.items, found.weight, found.loss, found.right)
    assert back.weights.tolist() == found.weights.tolist()
    assert back.losses.astype(np.float32).tolist() == found.losses.astype(np.float32).tolist()
    assert back.losses == pytest.approx(found.losses, rel=1e-7)
    assert back.answers is None
    assert back.documents == found.documents == (items is DOCUMENTS)
    assert joined([back]).losses == pytest.approx(joined([found]).losses, rel=1e-6)


def test_joined_texts_have_twelve_clusters_weighted_by_tokens():
    sets = [Summary.of(text_items(n, windows)) for n, windows in enumerate((400, 600, 250))]
    found = joined(sets)
    assert len(found.weights) == 12
    assert found.weights.sum() == pytest.approx(sum(s.weights.sum() for s in sets))
    assert found.loss == pytest.approx(np.average([s.loss for s in sets], weights=[s.weight for s in sets]))
    first = sets[0]
    merged = np.average(first.losses[:3], weights=first.weights[:3])
    assert (found.losses[0], found.weights[0]) == (pytest.approx(merged), first.weights[:3].sum())
    assert joined(sets[:1]).losses.tolist() == first.losses.tolist()


def test_joined_labelled_texts_stay_apart():
    sets = [Summary.of(label_items(n)) for n in range(2)]
    found = joined(sets)
    assert len(found.weights) == 2 * MOST_GROUPS
    assert found.right == pytest.approx((sets[0].right + sets[1].right) / 2)
    assert found.answers.tolist() == [*sets[0].answers, *sets[1].answers]


def in_documents(items: Items, length: int) -> Items:
    """The items of a text whose documents have `length` tokens."""
    first, last = items["start"] // length, (items["start"] + 31) // length
    return {**items, "document": np.where(first == last, first, OUTSIDE)}


def test_documents_are_clusters():
    items = in_documents(text_items(0), 900)  # 6,416 tokens: seven documents and a bit
    whole = Summary.of(items)
    found = joined([whole])
    assert found.documents
    assert len(found.weights) == 8
    for n in range(8):
        inside = items["document"] == n
        assert found.losses[n] == pytest.approx(np.average(items["loss"][inside], weights=items["tokens"][inside]))
    assert found.loss == whole.loss == Summary.of(text_items(0)).loss
    three = joined([whole] * 3)
    assert (len(three.weights), three.documents) == (24, True)
    mixed = joined([whole, Summary.of(text_items(2))])
    assert (len(mixed.weights), mixed.documents) == (8 + 6, False)


def test_many_documents_are_merged_with_their_neighbours():
    found = Summary.of(in_documents(text_items(0), 64))
    assert len(found.weights) == 36


def test_documents_are_named_below_the_table(home: Path):
    made = stored(home, {"Rope": -0.3})
    for length, text in (
        (900, "(same trained models, 400 texts in 8 documents): "),
        (4000, "the windows are from 2 documents, it needs 6; evaluate more windows"),
        (10**6, "the windows are from 1 document, it needs 6; evaluate more windows"),
    ):
        made = with_items(made, lambda arm, seed, n=length: in_documents(text_items(seed + (arm == "Rope")), n))
        (line,) = [line for line in lines_under(made.verdicts) if "resampled" in line or "no interval" in line]
        assert text in line


# -- comparisons -------------------------------------------------------------------------------------------------------


def rope_study(home: Path, **said: Any) -> Outcome:
    """Six pairs; Rope is better by 0.3 on every window, and each seed has a window noise of its own."""
    effect = {"Learned": 0.0, "Rope": -0.3, "control again": 0.0}
    made = stored(home, {"Rope": -0.3}, **said)
    number = {"Learned": 0, "Rope": 1, "control again": 2}
    return with_items(made, lambda arm, seed: text_items(100 * number[arm] + seed, shift=effect[arm]))


def test_runs_are_compared_by_their_clusters(home: Path):
    made = rope_study(home)
    row = made.verdicts["Rope"]
    control, rope = (
        [Summary.of(Record.at(home, r.run).items("test")) for r in made.rows["", arm]] for arm in ("Learned", "Rope")
    )
    d = np.stack([v.losses - c.losses for c, v in zip(control, rope, strict=True)])
    mean = float(np.mean([v.loss - c.loss for c, v in zip(control, rope, strict=True)]))
    assert row.items == over_clusters(d.mean(axis=0), control[0].weights, mean, 400)
    assert row.crossed == crossed(d, control[0].weights, mean)
    assert row.crossed.low < -0.3 < row.crossed.high
    assert row.crossed.high - row.crossed.low >= row.items.high - row.items.low
    assert (row.items_pairs, row.items_agree) == (6, None)


def test_the_lines_name_what_is_resampled(home: Path):
    made = rope_study(home)
    row = made.verdicts["Rope"]
    lines = [line for line in lines_under(made.verdicts) if line.startswith("Rope, ")]

    def text(found: Any) -> str:
        numbers = [f"{x:+.4f}".replace("-", "−") for x in (found.difference, found.low, found.high)]
        return "{} nats ({} … {})".format(*numbers)

    assert lines == [
        f"Rope, over other seeds and other test texts: {text(row.crossed)}",
        "Rope, if only the test texts were resampled (same trained models, 400 texts in 12 groups): " + text(row.items),
    ]
    said = json.loads(json.dumps(made.verdicts.to_json()))["arms"][0]
    assert said["crossed"]["seeds"] == 6
    assert said["items"]["clusters"] == 12


def test_a_short_text_gives_no_interval_and_says_so_once(home: Path):
    made = stored(home)  # 30 windows
    assert not made.verdicts["Rope"].items.has_interval
    lines = [line for line in lines_under(made.verdicts) if "test text" in line]
    assert lines == ["no interval over other test texts: the test text is too short, it needs 48 windows side by side"]
    assert made.to_json()["tables"][0]["arms"][0]["items"]["low"] is None


def test_few_pairs_give_no_crossed_interval(home: Path):
    row = rope_study(home, seeds=5).verdicts["Rope"]
    assert row.crossed is None
    assert row.items.has_interval


def test_classifiers_are_compared_by_right_answers(home: Path):
    made = stored(home, {"Rope": 0.1}, task="classifier")
    wrong = {"Learned": 0.3, "Rope": 0.1, "control again": 0.3}
    made = with_items(made, lambda arm, seed: label_items(seed + 50 * (arm == "Rope"), wrong=wrong[arm]))
    row = made.verdicts["Rope"]
    answers = [
        [Summary.of(Record.at(home, r.run).items("test")).answers for r in made.rows["", arm]]
        for arm in ("Learned", "Rope")
    ]
    pairs = list(zip(*answers, strict=True))
    assert row.items.difference == pytest.approx(np.mean([v.mean() - c.mean() for c, v in pairs]))
    assert row.items_agree == sum(mcnemar(c, v) <= 0.05 for c, v in pairs) > 0
    assert row.crossed.low > 0
    (line,) = [line for line in lines_under(made.verdicts) if "McNemar" in line]
    assert line.endswith(f"; McNemar p ≤ 0.05 in {row.items_agree} of 6 pairs")


def test_windows_of_other_places_cannot_be_paired(home: Path):
    made = stored(home, {"Rope": -0.3})
    made = with_items(made, lambda arm, seed: text_items(seed, 390 if arm == "Rope" else 400))
    assert made.verdicts["Rope"].items is made.verdicts["Rope"].crossed is None
    assert made.verdicts.notes == ()


def test_runs_are_read_once(home: Path, monkeypatch: pytest.MonkeyPatch):
    made = rope_study(home)
    read: list[str] = []
    real = Record.item_sets
    monkeypatch.setattr(Record, "item_sets", lambda self, names=None: read.append(self.id) or real(self, names))
    pairs = [(c.run, v.run) for c, v in zip(made.rows["", "Learned"], made.rows["", "Rope"], strict=True)]
    known: dict[str, Summary | None] = {}
    first = compare_items(home, "test/loss", pairs, known)
    assert compare_items(home, "test/loss", pairs, known) == first
    assert len(read) == len(set(read)) == 12


def test_no_pairs_give_no_result(home: Path):
    found = compare_items(home, "test/loss", [], {})
    assert (found.texts, found.crossed, found.pairs, found.trouble) == (None, None, 0, "")


def test_damaged_kept_items_are_reported(home: Path):
    made = rope_study(home)
    folder = home / "runs" / made.rows["", "Rope"][0].run
    (folder / "items.npz").unlink()
    kept = Summary.of(text_items(0)).to_json()
    for damaged in (
        {"test": {**kept, "losses": kept["losses"][1:]}},
        {"test": {**kept, "loss": "3"}},
        {"test": {k: v for k, v in kept.items() if k != "weights"}},
        {"test": {**kept, "rights": ["a"] * 12}},
        {"test": 5},
        [1],
    ):
        (folder / "clusters.json").write_text(json.dumps(damaged))
        again = load_outcome(made.folder)
        assert again.verdicts["Rope"].items is None
        assert len(again.verdicts.notes) == 1
        assert "clusters.json cannot be read" in again.verdicts.notes[0]
    (folder / "clusters.json").write_text(json.dumps({"test": kept}))
    assert summaries(Record.at(home, folder.name))["test"].loss == kept["loss"]
    assert math.isfinite(load_outcome(made.folder).verdicts["Rope"].items.low)
