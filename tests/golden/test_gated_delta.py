"""Gated DeltaNet of Qwen3-Next and of OLMo Hybrid: models of such layers only, with gated silu and RMSNorm."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from headtohead import Gated, LanguageModel, ModelSpec, NoPosition, RMSNorm, parse
from headtohead.pretrained.architectures import NO_BIASES, Weights, take
from helpers.comparing import DIFFERENT, SAME, difference, parameters, randomised, texts

from .copying import filled

transformers = pytest.importorskip("transformers")

VOCAB, BLOCK, LAYERS = 61, 80, 2
HEADS, KEY_HEADS, DK, DV = 4, 2, 16, 32
EPS = 0.1  # large: norms of small vectors amplify the rounding of both models, to as much as 1e-4 for eps = 1e-5
SIZES = {
    "vocab_size": VOCAB,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_attention_heads": 2,
    "linear_num_key_heads": KEY_HEADS,
    "linear_num_value_heads": HEADS,
    "linear_key_head_dim": DK,
    "linear_value_head_dim": DV,
    "linear_conv_kernel_dim": 3,
}


def spec_of(negative: bool) -> ModelSpec:
    mixer = f"sharing={HEADS // KEY_HEADS}, expand={DV // DK}, kernel=3, negative={negative}"
    return ModelSpec(
        width=32,
        heads=HEADS,
        head_width=DK,
        layers=LAYERS,
        block=BLOCK,
        biases=NO_BIASES,
        position=NoPosition(),
        mixer=parse(f"GatedDelta({mixer}, eps={EPS})"),
        norm=RMSNorm(eps=EPS),
        feedforward=Gated(hidden=48),
    )


def shared_weights(theirs: Weights) -> Weights:
    """What both architectures name alike: all but the norms before the sublayers and the projections."""
    names = {"trunk.tokens": "model.embed_tokens", "trunk.last": "model.norm", "head": "lm_head"}
    ours = {}
    for n in range(LAYERS):
        block, layer = f"trunk.blocks.{n}", f"model.layers.{n}"
        names |= {f"{block}.feedforward.{part}": f"{layer}.mlp.{part}_proj" for part in ("gate", "up", "down")}
        names |= {
            f"{block}.around_attention.norm": f"{layer}.input_layernorm",
            f"{block}.around_feedforward.norm": f"{layer}.post_attention_layernorm",
        }
        ours |= {
            f"{block}.attention.convolve.weight": theirs[f"{layer}.linear_attn.conv1d.weight"].squeeze(1),
            f"{block}.attention.decay.log_rate": theirs[f"{layer}.linear_attn.A_log"],
            f"{block}.attention.decay.bias": theirs[f"{layer}.linear_attn.dt_bias"],
        }
    return take(theirs, names) | ours


# -- Qwen3-Next: projections joined key head by key head, norms around the gain 1 --------------------------------------


def tiny_qwen() -> Any:
    config = transformers.Qwen3NextConfig(
        **SIZES, num_hidden_layers=LAYERS, layer_types=["linear_attention"] * LAYERS, num_experts=0, rms_norm_eps=EPS
    )
    return randomised(transformers.Qwen3NextForCausalLM(config))


def qwen_weights(theirs: Weights) -> Weights:
    ours = shared_weights(theirs)
    for name in ours:
        if "norm" in name.split(".") or "last" in name.split("."):
            ours[name] = ours[name] + 1
    for n in range(LAYERS):
        attention, layer = f"trunk.blocks.{n}.attention", f"model.layers.{n}.linear_attn"
        share = HEADS // KEY_HEADS
        by_head = theirs[f"{layer}.in_proj_qkvz.weight"].unflatten(0, (KEY_HEADS, -1))
        for name, part in zip("qkvz", by_head.split([DK, DK, share * DV, share * DV], dim=1), strict=True):
            ours[f"{attention}.{name}.weight"] = part.flatten(0, 1)
        by_head = theirs[f"{layer}.in_proj_ba.weight"].unflatten(0, (KEY_HEADS, -1))
        for name, part in zip(("beta", "g"), by_head.split([share, share], dim=1), strict=True):
            ours[f"{attention}.{name}.weight"] = part.flatten(0, 1)
        ours[f"{attention}.norm.weight"] = theirs[f"{layer}.norm.weight"]
        ours[f"{attention}.out.weight"] = theirs[f"{layer}.out_proj.weight"]
    return ours


# -- OLMo Hybrid: separate projections, β up to 2 ----------------------------------------------------------------------


def tiny_olmo() -> Any:
    """Their last layer must be full attention; norms of zeros silence it."""
    config = transformers.OlmoHybridConfig(
        **SIZES,
        num_key_value_heads=2,
        num_hidden_layers=LAYERS + 1,
        layer_types=["linear_attention"] * LAYERS + ["full_attention"],
        rms_norm_eps=EPS,
        pad_token_id=0,
        eos_token_id=None,
    )
    theirs = randomised(transformers.OlmoHybridForCausalLM(config))
    *layers, last = theirs.model.layers
    for layer in layers:
        layer.linear_attn.o_norm.variance_epsilon = EPS  # not set by the config
    for norm in (last.post_attention_layernorm, last.post_feedforward_layernorm):
        norm.weight.data.zero_()
    return theirs


def olmo_weights(theirs: Weights) -> Weights:
    names = {}
    for n in range(LAYERS):
        attention, layer = f"trunk.blocks.{n}.attention", f"model.layers.{n}.linear_attn"
        parts = {"q": "q", "k": "k", "v": "v", "z": "g", "beta": "b", "g": "a", "out": "o"}
        names |= {f"{attention}.{ours}": f"{layer}.{part}_proj" for ours, part in parts.items()}
        names[f"{attention}.norm"] = f"{layer}.o_norm"
    return shared_weights(theirs) | take(theirs, names)


CASES = {
    "Qwen3-Next": (tiny_qwen, qwen_weights, spec_of(negative=False)),
    "OLMo Hybrid": (tiny_olmo, olmo_weights, spec_of(negative=True)),
}
each = pytest.mark.parametrize("case", CASES)


def both(case: str, changed: ModelSpec | None = None) -> tuple[Any, LanguageModel]:
    build, weights, spec = CASES[case]
    with torch.random.fork_rng():
        torch.manual_seed(0)  # of initial decays, which are drawn and then changed
        theirs = build()
    return theirs, filled(LanguageModel(changed or spec, VOCAB), weights(theirs.state_dict()))


@each
def test_logits_are_equal(case):
    theirs, ours = both(case)
    ids, _ = texts(VOCAB, [BLOCK, BLOCK])  # longer than a chunk
    assert difference(ours, lambda: theirs(ids, use_cache=False).logits, ids) <= SAME


def test_parameters_are_as_many():
    theirs, ours = both("Qwen3-Next")
    assert parameters(ours) == parameters(theirs)


@each
@pytest.mark.parametrize("pad", ["right", "left"])
def test_logits_are_equal_with_padding(case, pad):
    theirs, ours = both(case)
    ids, keep = texts(VOCAB, [30, 13, 2], pad=pad)
    expected = lambda: theirs(ids, attention_mask=keep.long(), use_cache=False).logits
    assert difference(ours, expected, ids, keep, at=keep) <= SAME


@each
@torch.no_grad()
def test_one_token_at_a_time_gives_their_logits(case):
    theirs, ours = both(case)
    ids, _ = texts(VOCAB, [20, 20])
    cache = ours.new_cache()
    steps: list[Tensor] = [ours(ids[:, :7], cache=cache), *(ours(ids[:, t : t + 1], cache=cache) for t in range(7, 20))]
    found = torch.stack([step[:, -1] for step in steps], dim=1)
    assert float((found - theirs(ids, use_cache=False).logits[:, 6:]).abs().max()) <= SAME


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("mixer.negative", True),
        ("mixer.eps", 1e-5),
        ("norm.eps", 1e-5),
        ("feedforward.activation", "relu"),
    ],
)
def test_a_changed_part_is_noticed(path, value):
    theirs, ours = both("Qwen3-Next", CASES["Qwen3-Next"][2].set(path, value))
    ids, _ = texts(VOCAB, [30, 30])
    assert difference(ours, lambda: theirs(ids, use_cache=False).logits, ids) > DIFFERENT
