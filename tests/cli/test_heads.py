"""h2h heads."""

from __future__ import annotations

import numpy as np
import pytest

from headtohead.interpret.surgery import surgery
from headtohead.run import store
from helpers.terminal import h2h


def test_heads_json_pairs_effects_by_text_and_seed(snapshot_home, ids):
    said = h2h("heads", ids[0], "--items", 20, "--json", "--out", "h.png").json
    assert said["seeds"] == [0, 1]
    names = [e["operation"] for e in said["effects"]]
    assert names[:6] == [
        "silence 0.0",
        "silence 0.1",
        "silence 1.0",
        "silence 1.1",
        "silence layer 0",
        "silence layer 1",
    ]
    assert {"average", "shuffle", "shift", "reweight"} <= set(names)
    assert "concat" not in names
    *_, alone = surgery([store.find_run(ids[0], snapshot_home)], items=20)
    effect = next(e for e in said["effects"] if e["operation"] == "silence 1.0")
    assert effect["by_seed"][0] == pytest.approx(alone.effects[2].by_seed[0], abs=1e-9)
    assert effect["difference"] == pytest.approx(np.mean(effect["by_seed"]))
    assert effect["seeds"]["pairs"] == 2
    assert alone.effects[2].seeds is None


def test_heads_alone_prints_what_a_head_costs(ids):
    done = h2h("heads", ids[0], "--alone", "--items", 10)
    assert done.code == 0, done.err
    assert "silencing one head adds" in done.out
    assert h2h("heads", ids[0], "--set", "tset").code == 2
    assert h2h("heads", ids[0], "--out", "h.html").code == 2
