"""Mamba-2: whole models. Their blocks have no feed-forward layer, so ours gets one that writes zeros."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from headtohead import LanguageModel, Mlp, ModelSpec, NoPosition, RMSNorm, parse
from headtohead.pretrained.architectures import NO_BIASES, Weights, take
from helpers.comparing import DIFFERENT, SAME, difference, randomised, texts

from .copying import filled

transformers = pytest.importorskip("transformers")

VOCAB, BLOCK, LAYERS, WIDTH = 61, 80, 2, 32
HEADS, HEAD_WIDTH, STATE = 4, 16, 6


def tiny(groups: int) -> Any:
    config = transformers.Mamba2Config(
        vocab_size=VOCAB,
        hidden_size=WIDTH,
        num_hidden_layers=LAYERS,
        num_heads=HEADS,
        head_dim=HEAD_WIDTH,
        state_size=STATE,
        n_groups=groups,
        conv_kernel=3,
        chunk_size=16,
        pad_token_id=0,
    )
    return randomised(transformers.Mamba2ForCausalLM(config))


def spec_of(groups: int) -> ModelSpec:
    return ModelSpec(
        width=WIDTH,
        heads=HEADS,
        layers=LAYERS,
        block=BLOCK,
        biases=NO_BIASES,
        position=NoPosition(),
        mixer=parse("Mamba2").set("state", STATE).set("groups", groups).set("kernel", 3),
        norm=RMSNorm(eps=1e-5),
        feedforward=Mlp(hidden=1, bias=False),
    )


def weights_of(theirs: Weights, groups: int) -> Weights:
    names = {"trunk.tokens": "backbone.embeddings", "trunk.last": "backbone.norm_f", "head": "lm_head"}
    ours = {}
    values, keys = HEADS * HEAD_WIDTH, groups * STATE
    for n in range(LAYERS):
        block, layer = f"trunk.blocks.{n}", f"backbone.layers.{n}"
        attention, mixer = f"{block}.attention", f"{layer}.mixer"
        names |= {
            f"{block}.around_attention.norm": f"{layer}.norm",
            f"{attention}.norm": f"{mixer}.norm",
            f"{attention}.out": f"{mixer}.out_proj",
        }
        z, v, k, q, dt = theirs[f"{mixer}.in_proj.weight"].split([values, values, keys, keys, HEADS])
        for name, part in {"q": q, "k": k, "v": v, "z": z, "dt": dt}.items():
            ours[f"{attention}.{name}.weight"] = part
        for kind in ("weight", "bias"):
            v, k, q = theirs[f"{mixer}.conv1d.{kind}"].split([values, keys, keys])
            ours[f"{attention}.convolve.{kind}"] = torch.cat([q, k, v]).flatten(1 if kind == "weight" else 0)
        ours |= {
            f"{attention}.decay.log_rate": theirs[f"{mixer}.A_log"],
            f"{attention}.decay.bias": theirs[f"{mixer}.dt_bias"],
            f"{attention}.skip": theirs[f"{mixer}.D"],
            f"{block}.around_feedforward.norm.weight": torch.ones(WIDTH),
            f"{block}.feedforward.up.weight": torch.zeros(1, WIDTH),
            f"{block}.feedforward.down.weight": torch.zeros(WIDTH, 1),
        }
    return take(theirs, names) | ours


def both(groups: int, **changed: float) -> tuple[Any, LanguageModel]:
    with torch.random.fork_rng():
        torch.manual_seed(0)  # of initial steps, which are drawn and then changed
        theirs, spec = tiny(groups), spec_of(groups)
    for name, value in changed.items():
        spec = spec.set(f"mixer.{name}", value)
    return theirs, filled(LanguageModel(spec, VOCAB), weights_of(theirs.state_dict(), groups))


@pytest.mark.parametrize("groups", [1, 2, 4])
def test_logits_are_equal(groups):
    theirs, ours = both(groups)
    ids, _ = texts(VOCAB, [BLOCK, BLOCK])  # longer than a chunk
    assert difference(ours, lambda: theirs(ids, use_cache=False).logits, ids) <= SAME


@pytest.mark.parametrize("pad", ["right", "left"])
def test_logits_are_equal_with_padding(pad):
    theirs, ours = both(groups=2)
    ids, keep = texts(VOCAB, [30, 13, 2], pad=pad)
    expected = lambda: theirs(ids, attention_mask=keep.long(), use_cache=False).logits
    assert difference(ours, expected, ids, keep, at=keep) <= SAME


def test_a_changed_part_is_noticed():
    theirs, ours = both(2, eps=1e-1)
    ids, _ = texts(VOCAB, [30, 30])
    assert difference(ours, lambda: theirs(ids, use_cache=False).logits, ids) > DIFFERENT
