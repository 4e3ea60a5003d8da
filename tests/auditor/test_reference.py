"""A module against a reference: other ways to write it are equal, other architectures are not."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch
from torch import nn

import headtohead as h2h
from headtohead.spec.userfiles import load_file

SOLUTION = Path(__file__).parents[2] / "src/headtohead/course/solution/classifier.py"
SIZES = {"vocab": 23, "block": 20, "width": 12, "heads": 3, "layers": 2, "hidden": 10}
solution = load_file(SOLUTION)


class Model(nn.Module):
    """The solution's architecture with other names, another order and fused queries, keys and values."""

    scale, residual, activation, fuse, pooled = "head", True, nn.ReLU, "thirds", "real"

    def __init__(self):
        super().__init__()
        w = SIZES["width"]
        self.head = nn.Sequential(nn.Linear(w, SIZES["hidden"]), nn.ReLU(), nn.Linear(SIZES["hidden"], 3))
        self.layers = nn.ModuleList()
        for _ in range(2):
            layer = nn.Module()
            layer.fc = nn.Sequential(nn.Linear(w, 4 * w), self.activation(), nn.Linear(4 * w, w))
            layer.ln_2, layer.ln_1 = nn.LayerNorm(w), nn.LayerNorm(w)
            layer.c_proj, layer.qkv = nn.Linear(w, w), nn.Linear(w, 3 * w, bias=False)
            self.layers.append(layer)
        self.wpe, self.wte = nn.Embedding(SIZES["block"], w), nn.Embedding(SIZES["vocab"], w)

    def forward(self, ids, mask=None):
        B, T = ids.shape
        x = self.wte(ids) + self.wpe.weight[:T]
        keep = torch.ones_like(ids) if mask is None else mask.long()
        for layer in self.layers:
            y = layer.qkv(layer.ln_1(x))
            if self.fuse == "thirds":
                q, k, v = (t.view(B, T, 3, 4).transpose(1, 2) for t in y.chunk(3, dim=-1))
            else:  # queries, keys and values of each head lie together
                q, k, v = y.view(B, T, 3, 3, 4).permute(3, 0, 2, 1, 4)
            scores = q @ k.mT / math.sqrt(4 if self.scale == "head" else 12)
            scores = scores.masked_fill(keep[:, None, None] == 0, -1e9)
            y = layer.c_proj((scores.softmax(-1) @ v).transpose(1, 2).reshape(B, T, 12))
            x = x + y if self.residual else y
            x = x + layer.fc(layer.ln_2(x))
        if self.pooled == "all":
            return self.head(x.mean(1))
        return self.head((x * keep[..., None]).sum(1) / keep.sum(1, keepdim=True).clamp(min=1))


def reference() -> nn.Module:
    return solution.Classifier(**SIZES)


def found(**changed: object) -> tuple[str, str]:
    cls = type("Changed", (Model,), changed)
    report = h2h.audit(cls, only=["state-dict"], reference=reference)
    finding = report.findings[-1]
    assert finding.check == "reference"
    return finding.status, finding.evidence


@pytest.mark.parametrize("fuse", ["thirds", "heads"])
def test_another_way_to_write_it_is_equal(fuse: str) -> None:
    assert found(fuse=fuse) == ("proved", "equal outputs with the reference's weights")


@pytest.mark.parametrize(
    "changed", [{"scale": "width"}, {"residual": False}, {"activation": nn.GELU}, {"pooled": "all"}]
)
def test_another_architecture_is_not_equal(changed: dict[str, object]) -> None:
    status, evidence = found(**changed)
    assert status == "broken"
    assert "its outputs differ by" in evidence


def test_shared_blocks_and_further_biases_are_told_apart() -> None:
    class Shared(Model):
        def __init__(self):
            super().__init__()
            self.layers = nn.ModuleList([self.layers[0]] * 2)

    class Biased(Model):
        def __init__(self):
            super().__init__()
            for layer in self.layers:
                layer.qkv = nn.Linear(12, 36)

    shared = h2h.audit(Shared, only=["state-dict"], reference=reference).findings[-1]
    assert shared.status == "broken"
    assert "parameters and the reference" in shared.evidence
    biased = h2h.audit(Biased, only=["state-dict"], reference=reference).findings[-1]
    assert (biased.status, "biases that the reference lacks" in biased.evidence) == ("proved", True)
