"""Measures of trained models, by their definitions."""

from __future__ import annotations

import numpy as np
import pytest

from headtohead import Arm, Files, RunSpec
from headtohead.claims import by_familiarity, entropy, frequencies, other_future, weight_on
from headtohead.data.corpora import Held
from headtohead.run.store import Record
from helpers.runs import SMALL, train


def test_another_future_matters_only_to_models_that_read_it(home, text):
    found = {}
    for fusion in ("Concat", "Reweight(over=sequence,by=norm)"):
        arm = Arm.of("lm", Files(path=str(text))).settings([*SMALL, f"model.fusion={fusion}", "train.steps=3"])
        spec = RunSpec(arm=arm).resolved()
        train(spec, home)
        found[fusion] = other_future(Record(home / "runs" / spec.id))
    causal, reads = found.values()
    assert causal["other/loss"] == pytest.approx(causal["own/loss"], abs=1e-6)
    assert abs(reads["other/loss"] - reads["own/loss"]) > 1e-5


def test_entropy_matches_the_evolution(outcome):
    from headtohead.interpret.evolution import TEXTS, Evolution, evolution
    from headtohead.training.tasks import task_of

    record = Record(outcome.home / "runs" / outcome.all_rows[0].run)
    found = entropy(record)
    *_, whole = evolution([record], lambda t: task_of(t.spec.arm).sample("validation", TEXTS))
    assert isinstance(whole, Evolution)
    means = whole.values["entropy"].mean(axis=(1, 2, 3))
    assert [found["entropy/before"], found["entropy/3"], found["entropy/after"]] == pytest.approx(list(means))


def test_frequencies_match_their_definition(outcome):
    """The mean of −log of each token's share of the training text, one added to every count."""
    import math
    from collections import Counter

    from headtohead.training.arm import read_run
    from headtohead.training.tasks import task_of

    record = Record(outcome.home / "runs" / outcome.all_rows[0].run)
    data = task_of(read_run(record.spec).arm).data
    counts = Counter(data.train.tokens.tolist())
    total = sum(counts.values()) + data.vocabulary.size
    losses = [-math.log((counts[t] + 1) / total) for t in data.held["validation"].tokens.tolist()]
    assert frequencies("validation")(record)["frequencies/loss"] == pytest.approx(sum(losses) / len(losses))


def test_accuracy_is_split_by_sentences_seen_in_training(home, tmp_path):
    rows = [(f"a word {n} of {'peace' if n % 2 else 'war'}", "yes" if n % 2 else "no") for n in range(24)]
    for name, some in {"train": rows[:16], "test": rows[12:]}.items():  # four of twelve are in both
        lines = ["text\tlabel", *(f"{text}\t{label}" for text, label in some)]
        (tmp_path / f"{name}.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    corpus = Files(path=str(tmp_path / "train.tsv"), test=Held(path=str(tmp_path / "test.tsv")))
    arm = Arm.of("classifier", corpus).settings(
        ["model.width=8", "model.layers=1", "train.epochs=2", "train.batch=4", "data.validation=0"]
    )
    spec = RunSpec(arm=arm).resolved()
    train(spec, home)
    record = Record(home / "runs" / spec.id)
    items = record.items("test")
    right = (items["label"] == items["predicted"])[np.argsort(items["item"])]
    assert by_familiarity(record) == {
        "seen/accuracy": right[:4].mean(),
        "unseen/accuracy": right[4:].mean(),
        "unseen/sentences": 8,
    }


def test_weight_on_a_word_matches_its_definition(home, tmp_path):
    """Text by text, head by head: what the other words put on it, over what equal weights would."""
    import torch

    from headtohead.model.hooks import WEIGHTS, capture
    from headtohead.run.load import load_trained
    from headtohead.training.tasks import task_of

    rows = [(f"{'peace' if n % 2 else 'war'} and {'fill ' * (n % 4)}".strip(), str(n % 2)) for n in range(24)]
    lines = ["text\tlabel", *(f"{text}\t{label}" for text, label in rows)]
    (tmp_path / "train.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    arm = Arm.of("classifier", Files(path=str(tmp_path / "train.tsv"))).settings(
        ["model.width=8", "model.layers=2", "train.epochs=2", "train.batch=4", "data.validation=0.4", "data.test=0"]
    )
    spec = RunSpec(arm=arm).resolved()
    train(spec, home)
    record = Record(home / "runs" / spec.id)
    trained = load_trained(record)
    batch = task_of(arm).sample("validation", 256)
    word = int(trained.vocabulary.encode(["fill"])[0][0])
    ids, keep = torch.from_numpy(batch.ids), torch.from_numpy(batch.keep)
    with torch.inference_mode(), capture(trained.model, WEIGHTS) as seen:
        trained.model.trunk(ids, keep)
    ratios = []
    for (a,) in seen.values():  # (B, H, T, T)
        for b in range(len(ids)):
            real = [t for t in range(ids.shape[1]) if keep[b, t]]
            on = [t for t in real if ids[b, t] == word]
            asks = [t for t in real if ids[b, t] != word]
            for h in range(a.shape[1]) if on else ():
                mean = sum(float(a[b, h, i, j]) for i in asks for j in on) / len(asks)
                ratios.append(mean / (len(on) / len(real)))
    assert ratios
    found = weight_on("fill", "filling")(record)
    assert found["filling/after"] == pytest.approx(float(np.mean(ratios)), rel=1e-5)
    assert found["filling/before"] != found["filling/after"]
