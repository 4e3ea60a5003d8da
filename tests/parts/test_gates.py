"""The output gate against its equation, for texts, packed texts and one token of each text."""

import pytest
import torch

from headtohead import InputError, LanguageModel, OutputGate
from headtohead.parts.sequence.mask import Mask
from headtohead.parts.sequence.packing import Packing
from helpers.models import SMALL, VOCAB, close, language_model, stirred, text

B, T, H, d, D = 2, 5, SMALL.heads, SMALL.dims.head_width, SMALL.width


def mask_of(keep: torch.Tensor | None = None) -> Mask:
    i = torch.arange(T)
    packing = None if keep is None else Packing.of(keep)
    allowed = torch.ones(1, 1, T, T, dtype=torch.bool)
    return Mask.of(allowed, i.view(1, 1, T, 1), i.view(1, 1, 1, T), keep, packing)


def values() -> tuple[torch.Tensor, torch.Tensor]:
    draw = torch.Generator().manual_seed(0)
    return (torch.randn(shape, generator=draw, dtype=torch.float64) for shape in ((B, H, T, d), (B, T, D)))


@pytest.mark.parametrize("gate", [OutputGate(), OutputGate(per="head"), OutputGate(reads=3)], ids=str)
@torch.no_grad()
def test_gates_match_their_equation(gate):
    module, (o, x) = stirred(gate.build(SMALL.layer(0, VOCAB))), values()
    out, w = module(o, x, mask_of()), module.project.weight
    assert w.shape == (H * d if gate.per == "element" else H, gate.reads or D)
    for b in range(B):
        for t in range(T):
            for h in range(H):
                for n in range(d):
                    row = h * d + n if gate.per == "element" else h
                    z = sum(float(w[row, m] * x[b, t, m]) for m in range(gate.reads or D))
                    expected = o[b, h, t, n] / (1 + torch.exp(torch.tensor(-z, dtype=torch.float64)))
                    close(out[b, h, t, n], expected)


@torch.no_grad()
def test_packed_texts_and_single_tokens_have_the_same_gates():
    module, (o, x) = stirred(OutputGate().build(SMALL.layer(0, VOCAB))), values()
    keep = torch.tensor([[1, 1, 1, 1, 1], [0, 0, 1, 1, 1]]).bool()
    mask, expected = mask_of(keep), module(o, x, mask_of())
    packed = module(o, mask.packing.pack(x), mask).transpose(1, 2)
    close(packed[keep], expected.transpose(1, 2)[keep])
    for t in range(T):
        close(module(o[:, :, t : t + 1], x[:, t], mask_of()), expected[:, :, t : t + 1])


def test_a_closed_gate_leaves_the_bias_of_the_output_alone():
    model = language_model(SMALL.set("gate", OutputGate(per="head")).set("biases.out", False))
    said: list[torch.Tensor] = []
    before = model.trunk.blocks[0].attention.gate.project.weight.clone()
    hook = model.trunk.blocks[0].attention.register_forward_hook(lambda _m, _given, out: said.append(out))
    with torch.no_grad():
        model(text(1))
        model.trunk.blocks[0].attention.gate.project.weight.zero_()
        model(text(1))
        model.trunk.blocks[0].attention.gate.project.weight.copy_(before)
    hook.remove()
    assert (said[0] - said[1]).abs().max() > 1e-3


def test_a_gate_cannot_read_more_than_the_width():
    with pytest.raises(InputError, match="reads 17 numbers of x, and the width of the model is 16") as error:
        LanguageModel(SMALL.set("gate", OutputGate(reads=17)), VOCAB)
    assert "\n" not in str(error.value)


def test_mixers_without_a_gate_refuse_it():
    with pytest.raises(InputError, match=r"LinearAttention does not use model\.gate"):
        SMALL.set("mixer", "LinearAttention").set("gate", OutputGate())
