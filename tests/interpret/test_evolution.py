"""Measures of heads that a model cannot have: commands, JSON and pictures say so and never show nan."""

from __future__ import annotations

import os
import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import numpy as np
import pytest
import torch

from headtohead import InputError, load_trained
from headtohead.data.batches import Batch
from headtohead.interpret import evolution as evolutions
from headtohead.interpret.evolution import MEASURES
from headtohead.model.hooks import WEIGHTS, capture, in_order, layers_with_weights
from headtohead.run import store
from headtohead.training.tasks import task_of
from helpers.corpora import write_text
from helpers.models import SMALL, as_if_trained
from helpers.studies import carried, study
from helpers.terminal import h2h

NAN = re.compile(r"\bnan\b", re.IGNORECASE)


def home_of(folder: Path, *settings: str) -> Path:
    """A study of two arms with snapshots."""
    given = ["model.heads=1", "model.layers=2", "evaluate.snapshots=3", *settings]
    carried(study(write_text(folder), *given, vary={"model.position": ["Learned", "Rope"]}, seeds=2), folder / "home")
    return folder / "home"


@pytest.fixture(scope="module")
def one_head(tmp_path_factory):
    return home_of(tmp_path_factory.mktemp("one"))


@pytest.fixture(scope="module")
def no_choice(tmp_path_factory):
    return home_of(tmp_path_factory.mktemp("none"), "model.pattern=Causal & Local(1)")


@pytest.fixture(autouse=True)
def home(one_head, monkeypatch, tmp_path):
    monkeypatch.setenv("HEADTOHEAD_HOME", str(one_head))
    monkeypatch.setenv("HEADTOHEAD_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    return one_head


def words(picture: str) -> list[str]:
    return ["".join(e.itertext()) for e in ElementTree.parse(picture).iter() if e.tag.endswith("}text")]


def test_evolution_of_one_head_has_no_overlap():
    done = h2h("attend", "latest", "--evolution", "--out", "lines.svg", environment={**os.environ, "COLUMNS": "200"})
    assert done.code == 0, done.err
    assert not NAN.search(done.out)
    assert re.search(r"overlap.*– .*does not apply: each layer has one head", done.out)
    assert any("overlap does not apply: each layer has one head" in line for line in words("lines.svg"))
    assert not any(NAN.search(line) for line in words("lines.svg"))


def test_evolution_of_one_head_as_json_has_null():
    said = h2h("attend", "latest", "--evolution", "--json")
    assert not NAN.search(said.out)
    assert said.json["values"]["overlap"] is None
    assert said.json["not_applicable"] == {"overlap": "each layer has one head"}
    assert np.array(said.json["values"]["entropy"]).shape == (3, 2, 2, 1)


def test_heads_of_one_head_says_what_does_not_apply():
    done = h2h("heads", "latest", "--out", "heads.svg")
    assert done.code == 0, done.err
    says = "averaging and rearranging heads does not apply: each layer has one head"
    assert says in done.out
    assert not NAN.search(done.out)
    assert any(says in line for line in words("heads.svg"))
    assert not any(NAN.search(line) for line in words("heads.svg"))
    said = h2h("heads", "latest", "--json")
    assert says in said.json["answer"]
    assert not NAN.search(said.out)


def test_report_of_one_head_shows_no_nan(home):
    assert h2h("report", "tiny").code == 0
    page = (home / "studies" / "tiny" / "report.html").read_text()
    shown = re.sub(r"<script.*?</script>", "", page, flags=re.DOTALL)
    assert "What heads do over training" in shown
    assert not NAN.search(shown)


def test_attention_to_one_token_has_no_measures(no_choice, monkeypatch):
    monkeypatch.setenv("HEADTOHEAD_HOME", str(no_choice))
    done = h2h("attend", "latest", "--evolution")
    assert done.code == 0, done.err
    assert not NAN.search(done.out)
    assert "whether attention sharpens does not apply: no token sees more than one token" in done.out
    said = h2h("attend", "latest", "--evolution", "--json").json
    assert said["values"] == dict.fromkeys(MEASURES)
    drawn = h2h("attend", "latest", "--evolution", "--out", "lines.svg")
    assert (drawn.code, drawn.err) == (2, "h2h: there is nothing to draw: no token sees more than one token\n")
    h2h("report", "tiny")
    page = (no_choice / "studies" / "tiny" / "report.html").read_text()
    assert "Left out: Learned: no token sees more than one token" in page


def test_evolution_measures_match_their_definitions(snapshot_home, ids):
    """Query by query, in plain Python."""
    trained = load_trained(store.find_run(ids[0], snapshot_home))
    task = task_of(trained.spec.arm)
    texts = task.sample(task.held_out(), 3)
    found = evolutions.measured(trained, texts)
    import torch

    from headtohead.model.hooks import WEIGHTS, capture

    with torch.inference_mode(), capture(trained.model, WEIGHTS) as seen:
        trained.model(torch.from_numpy(texts.ids))
    for layer, calls in enumerate(seen.values()):
        a = calls[0].double().numpy()  # (B, H, T, T)
        for h in range(2):
            rows = [(a[b, h, i], a[b, 1 - h, i], i) for b in range(len(a)) for i in range(1, a.shape[2])]
            expected = {
                "entropy": [-(r[r > 0] * np.log(r[r > 0])).sum() for r, _, _ in rows],
                "sharpness": [1 + (r[r > 0] * np.log(r[r > 0])).sum() / np.log(i + 1) for r, _, i in rows],
                "distance": [sum(w * abs(i - j) for j, w in enumerate(r)) for r, _, i in rows],
                "self": [r[i] for r, _, i in rows],
                "previous": [r[i - 1] for r, _, i in rows],
                "first": [r[0] for r, _, _ in rows],
                "overlap": [np.minimum(r, o).sum() for r, o, _ in rows],
            }
            for name, values in expected.items():
                assert found[name][layer, h] == pytest.approx(np.mean(values), abs=1e-5), name


# -- layers that differ ------------------------------------------------------------------------------------------------


def batch(trained):
    ids = np.stack([trained.vocabulary.encode([words])[0] for words in ("twelve bytes", "and 12 more:")])
    keep = np.ones_like(ids, dtype=bool)
    keep[1, 9:] = False
    return Batch(ids.astype(np.int64), ids.astype(np.int64), keep)


@pytest.mark.parametrize(
    "setting",
    [
        "mixer=LinearAttention + Attention",
        "pattern=(Causal & Local(3)) + Causal",
        "pattern=Causal & PerHead((Local(3), Causal))",
        "loops.times=2",
        "weighting=Sigmoid",
        "scores=TalkingHeads",
        "mixer=Differential",
    ],
)
def test_measures_follow_the_pattern_of_each_layer_and_head(setting):
    """Against the definition, query by query."""
    name, _, value = setting.partition("=")
    trained = as_if_trained(SMALL.set(name, value), stir=0.1)
    spec, texts = trained.spec.arm.model, batch(trained)
    found = evolutions.measured(trained, texts)
    layers = layers_with_weights(trained.model)
    with torch.no_grad(), capture(trained.model, WEIGHTS) as seen:
        trained.model.trunk(torch.from_numpy(texts.ids), torch.from_numpy(texts.keep))
    for row, ((_, n), a) in enumerate(zip(layers, in_order(trained.model, seen), strict=True)):
        patterns = spec.each("pattern")[n].by_head(spec.heads)
        for h in range(spec.heads):
            entropies, sharp, own = [], [], []
            for b in range(2):
                for i in np.flatnonzero(texts.keep[b]):
                    keys = [j for j in range(12) if texts.keep[b, j] and patterns[h % len(patterns)].allowed(i, j)]
                    if len(keys) > 1:
                        p = np.abs(a[b, h, i].double().numpy())
                        p = p / p.sum()
                        entropies.append(-sum(x * np.log(x) for x in p if x > 0))
                        sharp.append(1 - entropies[-1] / np.log(len(keys)))
                        own.append(p[i])
            assert found["entropy"][row, h] == pytest.approx(np.mean(entropies), abs=1e-5)
            assert found["sharpness"][row, h] == pytest.approx(np.mean(sharp), abs=1e-5)
            assert found["self"][row, h] == pytest.approx(np.mean(own), abs=1e-5)


def test_a_model_without_attention_has_no_measures():
    trained = as_if_trained(SMALL.set("mixer", "LinearAttention"))
    with pytest.raises(InputError, match="LinearAttention computes no attention weights"):
        evolutions.measured(trained, batch(trained))
