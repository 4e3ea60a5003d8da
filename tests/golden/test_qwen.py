"""Qwen3 (normed queries and keys) and the attention layers of Qwen3-Next (an output gate, partly rotated heads)."""

import pytest
import torch

from headtohead import LanguageModel, ModelSpec, OutputGate, RMSNorm, Rope
from headtohead.pretrained.architectures import Weights, llama_names, llama_spec, llama_weights, take
from helpers.comparing import DIFFERENT, SAME, counted, difference, parameters, randomised, texts

from .copying import bare, filled

transformers = pytest.importorskip("transformers")

VOCAB = 61
SIZES = {
    "vocab_size": VOCAB,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "max_position_embeddings": 40,
}


# -- Qwen3 ------------------------------------------------------------------------------------------------------------


def qwen3():
    return randomised(transformers.Qwen3ForCausalLM(transformers.Qwen3Config(**SIZES)))


def qk_norms(spec: ModelSpec) -> dict[str, str]:
    return {
        f"trunk.blocks.{n}.attention.{part}_norm": f"layers.{n}.self_attn.{part}_norm"
        for n in range(spec.layers)
        for part in "qk"
    }


def ours_of_qwen3(theirs) -> LanguageModel:
    spec = llama_spec(theirs.config.to_dict()).set("qk_norm", RMSNorm(eps=theirs.config.rms_norm_eps))
    weights = bare(theirs, "model.")
    return filled(LanguageModel(spec, VOCAB), llama_weights(weights, spec) | take(weights, qk_norms(spec)))


def test_qwen3_logits_are_equal():
    theirs = qwen3()
    ours, (ids, keep) = ours_of_qwen3(theirs), texts(VOCAB, [40, 13])
    assert parameters(ours) == parameters(theirs)
    expected = lambda: theirs(ids, attention_mask=keep.long()).logits
    assert difference(ours, expected, ids, keep, at=keep) <= SAME


# -- Qwen3-Next, attention layers only --------------------------------------------------------------------------------


def qwen3_next(**settings):
    config = transformers.Qwen3NextConfig(
        **SIZES, layer_types=["full_attention"] * 3, num_experts=0, mlp_only_layers=[0, 1, 2], **settings
    )
    return randomised(transformers.Qwen3NextForCausalLM(config))


def next_spec(config) -> ModelSpec:
    table = config.rope_parameters
    plain = llama_spec({**config.to_dict(), "rope_parameters": {"rope_theta": table["rope_theta"]}})
    return (
        plain.set("position", Rope(theta=table["rope_theta"], fraction=table["partial_rotary_factor"]))
        .set("qk_norm", RMSNorm(eps=config.rms_norm_eps))
        .set("gate", OutputGate())
    )


def next_weights(theirs: Weights, spec: ModelSpec) -> Weights:
    """Their gains are centred at zero, and their queries and gates come from one projection, head by head."""
    names = llama_names(spec) | qk_norms(spec)
    ours = take(theirs, names)
    ours |= {f"{name}.weight": 1 + ours[f"{name}.weight"] for name in names if "norm" in name or name == "trunk.last"}
    for n in range(spec.layers):
        attention = f"trunk.blocks.{n}.attention"
        both = ours[f"{attention}.q.weight"].unflatten(0, (spec.heads, 2, -1))  # (H, 2, d, D)
        ours[f"{attention}.q.weight"] = both[:, 0].flatten(0, 1)
        ours[f"{attention}.gate.project.weight"] = both[:, 1].flatten(0, 1)
    return ours


def ours_of_next(theirs, spec: ModelSpec | None = None) -> LanguageModel:
    spec = spec or next_spec(theirs.config)
    model, weights = LanguageModel(spec, VOCAB), next_weights(bare(theirs, "model."), next_spec(theirs.config))
    return filled(model, {name: weights[name] for name in model.state_dict()})


def test_qwen3_next_logits_are_equal():
    theirs = qwen3_next()
    ours, (ids, _) = ours_of_next(theirs), texts(VOCAB, [40, 40])
    assert parameters(ours) == parameters(theirs)
    assert difference(ours, lambda: theirs(ids).logits, ids) <= SAME


@pytest.mark.parametrize("pad", ["right", "left"])
def test_qwen3_next_logits_are_equal_with_padding(pad):
    theirs = qwen3_next()
    ids, keep = texts(VOCAB, [30, 13, 2], pad=pad)
    expected = lambda: theirs(ids, attention_mask=keep.long(), position_ids=counted(keep)).logits
    assert difference(ours_of_next(theirs), expected, ids, keep, at=keep) <= SAME


@torch.no_grad()
def test_qwen3_next_logits_are_equal_token_by_token():
    theirs = qwen3_next()
    ours, (ids, _) = ours_of_next(theirs), texts(VOCAB, [20])
    cache = ours.new_cache()
    out = torch.cat([ours(ids[:, n : n + 1], cache=cache) for n in range(20)], dim=1)
    assert (out - theirs(ids).logits).abs().max() <= SAME


@pytest.mark.parametrize(("path", "value"), [("gate", "NoGate"), ("qk_norm", "NoNorm"), ("position.fraction", 1.0)])
def test_a_changed_part_of_qwen3_next_is_noticed(path, value):
    theirs = qwen3_next()
    ids, _ = texts(VOCAB, [40, 40])
    other = ours_of_next(theirs, next_spec(theirs.config).set(path, value))
    assert difference(other, lambda: theirs(ids).logits, ids) > DIFFERENT
