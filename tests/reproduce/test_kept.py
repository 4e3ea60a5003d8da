"""Results kept in one file give the same verdicts as the store they came from."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest

from headtohead import Arm, Files, RunSpec
from headtohead.data.corpora import Held
from headtohead.errors import InputError
from headtohead.reproduce import by_familiarity, entropy, frequencies, kept, other_future, weight_on
from headtohead.reproduce.evidence import measures_of
from headtohead.reproduce.run import measured
from headtohead.store import Record
from runs.small import SMALL, train
from study.small import study


def test_the_verdicts_are_the_same(outcome, tmp_path):
    for _ in measured(outcome, "tiny", entropy):
        pass
    file = tmp_path / "kept" / "tiny.json"
    kept.write(outcome, file)
    back = kept.unpacked(file, tmp_path / "room")
    ours, theirs = outcome.to_json()[0], back.to_json()[0]
    for said in (ours, theirs):  # item by item nothing is kept
        said["notes"] = []
        for arm in said["arms"]:
            arm["items"] = arm["items_agree"] = None
    assert theirs == ours
    run = outcome.all_rows[0].run
    record = Record(tmp_path / "room" / "runs" / run)
    assert record.result == Record(outcome.home / "runs" / run).result
    assert measures_of(record) == measures_of(Record(outcome.home / "runs" / run))
    assert [look["step"] for look in record.metrics] == [0, 3, 6]
    assert kept.differences(kept.read(file), kept.read(file)) == (0, 24)


def test_a_changed_bit_is_noticed(outcome, tmp_path):
    file = tmp_path / "tiny.json"
    kept.write(outcome, file)
    stored = kept.read(file)
    run = next(iter(stored["runs"]))
    stored["runs"][run]["result"]["values"]["validation/loss"] += 1e-15
    assert kept.differences(kept.read(file), stored) == (1, 24)


def test_measures_are_taken_once(outcome):
    calls = []

    def measure(record):
        calls.append(record.id)
        return {"here/value": 1.0}

    for _ in range(2):
        assert list(measured(outcome, "tiny", measure))[-1] == 1.0
    assert len(calls) == len(set(calls)) == 24
    assert list(measured(outcome, "other", lambda _: {"there/value": 2.0}))
    found = measures_of(Record(outcome.home / "runs" / calls[0]))
    assert found == {"here/value": 1.0, "there/value": 2.0}


def test_measures_are_taken_again_by_other_code(outcome):
    (first, *_) = [row.run for row in outcome.all_rows]
    for number in (1.0, 2.0):  # the same source, another number within
        list(measured(outcome, "tiny", (lambda n: lambda _: {"here/value": n})(number)))
        assert measures_of(Record(outcome.home / "runs" / first)) == {"here/value": number}


def test_another_future_matters_to_none_but_those_who_read_it(home, text):
    found = {}
    for fusion in ("Concat", "Reweight(over=sequence,by=norm)"):
        arm = Arm.of("lm", Files(path=str(text))).settings([*SMALL, f"model.fusion={fusion}", "train.steps=3"])
        spec = RunSpec(arm=arm).resolved()
        train(spec, home)
        found[fusion] = other_future(Record(home / "runs" / spec.id))
    causal, reads = found.values()
    assert causal["other/loss"] == pytest.approx(causal["own/loss"], abs=1e-6)
    assert abs(reads["other/loss"] - reads["own/loss"]) > 1e-5


def test_entropy_is_that_of_the_evolution(outcome):
    from headtohead.inspect.evolution import TEXTS, Evolution, evolution
    from headtohead.tasks import work_on

    record = Record(outcome.home / "runs" / outcome.all_rows[0].run)
    found = entropy(record)
    *_, whole = evolution([record], lambda t: work_on(t.spec.arm).some("validation", TEXTS))
    assert isinstance(whole, Evolution)
    means = whole.values["entropy"].mean(axis=(1, 2, 3))
    assert [found["entropy/before"], found["entropy/3"], found["entropy/after"]] == pytest.approx(list(means))


def test_frequencies_by_definition(outcome):
    """The mean of −log of each token's share of the training text, one added to every count."""
    import math
    from collections import Counter

    from headtohead.arm import read_run
    from headtohead.tasks import work_on

    record = Record(outcome.home / "runs" / outcome.all_rows[0].run)
    data = work_on(read_run(record.spec).arm).data
    counts = Counter(data.train.tokens.tolist())
    total = sum(counts.values()) + data.vocabulary.size
    losses = [-math.log((counts[t] + 1) / total) for t in data.held["validation"].tokens.tolist()]
    assert frequencies("validation")(record)["frequencies/loss"] == pytest.approx(sum(losses) / len(losses))


def test_accuracy_on_sentences_that_training_has_seen_and_on_others(home, tmp_path):
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


def test_weight_on_a_word_by_definition(home, tmp_path):
    """Text by text, head by head: what the other words put on it, over what equal weights would."""
    import torch

    from headtohead.taps import WEIGHTS, capture
    from headtohead.tasks import work_on
    from headtohead.trained import load_trained

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
    batch = work_on(arm).some("validation", 256)
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


def test_a_torn_file_is_said_to_be_torn(tmp_path):
    file = tmp_path / "x.json"
    file.write_text('{"format": 1, "stu')
    with pytest.raises(InputError, match="torn"):
        kept.read(file)
    file.write_text(json.dumps({"format": 99}))
    with pytest.raises(InputError, match="newer version"):
        kept.read(file)


def _set(said, *path_and_value):
    *path, last, value = path_and_value
    for key in path:
        said = said[key]
    said[last] = value


@pytest.mark.parametrize(
    "damage",
    [
        lambda said, _: said.pop("study"),
        lambda said, _: said["study"].pop("tables"),
        lambda said, run: said["runs"].pop(run),
        lambda said, run: said["runs"][run].pop("result"),
        lambda said, run: said["runs"][run].pop("times"),
        lambda said, run: _set(said, "runs", run, "result", "values", "validation/loss", "4.2"),
        lambda said, run: _set(said, "runs", run, "data", 7),
        lambda said, _: _set(said, "runs", []),
        lambda said, run: _set(said, "runs", "f" * 16, said["runs"][run]),
    ],
)
def test_a_verdict_is_never_of_what_damage_has_left(damage, outcome, tmp_path):
    file = tmp_path / "tiny.json"
    kept.write(outcome, file)
    said = kept.read(file)
    damage(said, next(iter(said["runs"])))
    file.write_text(json.dumps(said))
    with pytest.raises(InputError, match="torn"):
        kept.read(file)


def test_results_of_another_version_of_the_recipe_are_refused(outcome, tmp_path):
    file = tmp_path / "kept" / "tiny.json"
    kept.write(outcome, file)
    told = study(Path(outcome.said["corpus"]), "evaluate.snapshots=3", seeds=6, metric="validation/loss", again=True)
    kept.check(file, told)
    assert kept.read(file)["study"]["name"] == "tiny"
    for other in (
        dataclasses.replace(told, seeds=7),
        dataclasses.replace(told, margin=0.1),
        dataclasses.replace(told, control=told.control.set("train.steps", 7)),
    ):
        with pytest.raises(InputError, match="another version of its recipe"):
            kept.check(file, other)


def test_of_a_tuned_study_all_but_what_was_tuned_is_compared(outcome, tmp_path):
    file = tmp_path / "kept" / "tiny.json"
    told = study(Path(outcome.said["corpus"]), "evaluate.snapshots=3", seeds=6, metric="validation/loss", again=True)
    told = dataclasses.replace(told, tune={"train.optimizer.lr": [1e-3, 1e-2]})
    outcome.said["id"] = told.id
    for arm in outcome.said["tables"][0]["arms"]:
        arm["spec"]["train"]["optimizer"]["lr"] = 0.5  # what tuning chose
    kept.write(outcome, file)
    kept.check(file, told)
    outcome.said["tables"][0]["arms"][1]["spec"]["train"]["batch"] = 5
    kept.write(outcome, file)
    with pytest.raises(InputError, match="another version"):
        kept.check(file, told)


def test_arms_that_were_dropped_are_left_behind(outcome, tmp_path):
    file = tmp_path / "kept" / "tiny.json"
    arms = outcome.said["tables"][0]["arms"]
    arms.append({**arms[1], "name": "gone", "dropped": True, "runs": {"0": "never-trained"}})
    kept.write(outcome, file)
    told = study(Path(outcome.said["corpus"]), "evaluate.snapshots=3", seeds=6, metric="validation/loss", again=True)
    kept.check(file, told)
    assert [arm["name"] for arm in kept.read(file)["study"]["tables"][0]["arms"]] == [v.name for v in told.variants]
