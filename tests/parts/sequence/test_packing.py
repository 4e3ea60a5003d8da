"""Packing: a classifier that leaves padding out of its layers gives the outputs and gradients of one that does not."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from headtohead import Biases, Classifier, Full, Local, ModelSpec, Part, Reweight, RMSNorm, families
from headtohead.parts.sequence.packing import Packing
from headtohead.spec import alternatives, is_builtin
from helpers.models import CLASSES, SMALL, VOCAB, stirred, text

MATTER = ("position", "norm", "residual", "feedforward", "fusion", "pooling")
PARTS = [cls() for family in MATTER for cls in families()[family].values() if is_builtin(cls)]
PARTS = list(dict.fromkeys([*PARTS, *(other for part in PARTS for _knob, other in alternatives(part))]))
PARTS = [part for part in PARTS if getattr(part, "by_token", True)]  # others depend on the batch, and say so

LENGTHS = [5, 8, 1, 3]
RIGHT = torch.arange(8)[None] < torch.tensor(LENGTHS)[:, None]
MASKS = {
    "padding on the right": RIGHT,
    "padding on the left": RIGHT.flip(1),
    "padding on both sides and inside": torch.tensor(
        [[0, 1, 1, 0, 1, 0, 0, 1], [1] * 8, [0] * 7 + [1], [1, 0] * 4]
    ).bool(),
    "all rows full": torch.ones(4, 8, dtype=torch.bool),
    "nothing but padding": torch.zeros(4, 8, dtype=torch.bool),
    "a row of nothing but padding": RIGHT & torch.tensor([1, 0, 1, 1]).bool()[:, None],
}


def spec_with(part: Part) -> ModelSpec:
    return SMALL.set("pattern", Full()).set(part.family, part)


def run(model: Classifier, keep: Tensor, packs: bool) -> list[Tensor]:
    model.zero_grad()
    model.trunk.packs = packs
    torch.manual_seed(0)  # of a shuffle that is drawn anew
    ids = text(4, 8)
    logits = model(ids, keep)
    weights = torch.linspace(-1, 1, logits.numel(), dtype=logits.dtype).view_as(logits)
    (logits * weights).sum().backward()
    model.trunk.packs = False
    gradients = [p.grad for p in model.parameters()]
    return [logits.detach(), *(torch.zeros(1) if g is None else g.clone() for g in gradients)]


def same(ours: list[Tensor], theirs: list[Tensor]) -> None:
    for a, b in zip(ours, theirs, strict=True):
        assert a.isfinite().all()
        assert (a - b).abs().max() <= 1e-10 * max(1.0, b.abs().max())


@pytest.mark.parametrize("part", PARTS, ids=lambda p: f"{p.family}-{p}")
def test_a_packed_classifier_is_the_same_function(part):
    model = stirred(Classifier(spec_with(part), VOCAB, CLASSES))
    for keep in MASKS.values():
        same(run(model, keep, packs=True), run(model, keep, packs=False))


OTHERS = {
    "grouped keys with biases": SMALL.set("kv_heads", 2).set("biases", Biases(q=True, k=True, v=True)),
    "norms everywhere": SMALL.set("qk_norm", RMSNorm()).set("embedding_norm", RMSNorm()),
    "a local pattern": SMALL.set("pattern", Local(2)),
    "heads wider than the width": SMALL.set("head_width", 6),
    "over the sequence": SMALL.set("fusion", Reweight(over="sequence")),
}


@pytest.mark.parametrize("spec", OTHERS.values(), ids=OTHERS)
def test_a_packed_classifier_is_the_same_with_other_settings(spec):
    spec = spec if isinstance(spec.pattern, Local) else spec.set("pattern", Full())
    model = stirred(Classifier(spec, VOCAB, CLASSES))
    for keep in MASKS.values():
        same(run(model, keep, packs=True), run(model, keep, packs=False))


def test_packed_layers_see_no_padding():
    model = stirred(Classifier(SMALL.set("pattern", Full()), VOCAB, CLASSES))
    seen = []
    model.trunk.blocks[0].feedforward.register_forward_hook(lambda _m, args, _out: seen.append(args[0].shape))
    run(model, RIGHT, packs=True)
    run(model, RIGHT, packs=False)
    assert seen == [(sum(LENGTHS), 16), (4, 8, 16)]


def test_packing_and_spreading_are_inverse():
    packing = Packing.of(RIGHT)
    assert Packing.of(torch.ones(2, 3, dtype=torch.bool)) is None
    x = torch.randn(4, 8, 3, dtype=torch.float64, requires_grad=True)
    packed = packing.pack(x)
    assert torch.equal(packed, x[RIGHT])
    assert packing.spread(packed).shape == x.shape
    assert torch.equal(packing.spread(packed)[RIGHT], packed), "what stands at padding is nobody's business"
    assert torch.autograd.gradcheck(packing.pack, x)
    assert torch.autograd.gradcheck(lambda p: packing.spread(p)[RIGHT], packed.detach().requires_grad_())
    assert torch.autograd.gradcheck(lambda x: packing.spread(packing.pack(x))[RIGHT], x)
