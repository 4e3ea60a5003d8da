"""DiffLlama: the difference of two attention maps, with values that the two maps share."""

import pytest
import torch

from headtohead import Differential, LanguageModel, ModelSpec, RMSNorm
from headtohead.pretrained.architectures import Weights, llama_spec, llama_weights
from helpers.comparing import DIFFERENT, SAME, counted, difference, parameters, randomised, texts

from .copying import bare, filled

transformers = pytest.importorskip("transformers")

VOCAB = 61


def tiny(kv_heads: int, **settings):
    config = transformers.DiffLlamaConfig(
        vocab_size=VOCAB,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=3,
        num_attention_heads=4,
        num_key_value_heads=kv_heads,
        head_dim=8,
        max_position_embeddings=40,
        **settings,
    )
    return randomised(transformers.DiffLlamaForCausalLM(config))


def diffllama_spec(config) -> ModelSpec:
    mixer = Differential(norm=RMSNorm(eps=config.rms_norm_eps))
    return llama_spec({**config.to_dict(), "mlp_bias": False}).set("mixer", mixer)


def diffllama_weights(theirs: Weights, spec: ModelSpec) -> Weights:
    ours = llama_weights(theirs, spec)
    for n in range(spec.layers):
        attention, layer = f"trunk.blocks.{n}.attention", f"layers.{n}.self_attn"
        ours |= {f"{attention}.balance.{name}": theirs[f"{layer}.lambda_{name}"] for name in ("q1", "k1", "q2", "k2")}
        ours[f"{attention}.norm.weight"] = torch.ones(2 * spec.dims.head_width)  # their norm has no gain
    return ours


def ours_of(theirs, spec: ModelSpec | None = None) -> LanguageModel:
    spec = spec or diffllama_spec(theirs.config)
    return filled(LanguageModel(spec, VOCAB), diffllama_weights(bare(theirs, "model."), spec))


@pytest.mark.parametrize(
    ("kv_heads", "settings"),
    [
        pytest.param(4, {}, id="multi-head"),
        pytest.param(2, {}, id="grouped-query"),
        pytest.param(2, {"attention_bias": True}, id="biases"),
    ],
)
def test_logits_are_equal(kv_heads, settings):
    theirs = tiny(kv_heads, **settings)
    ours = ours_of(theirs)
    ids, _ = texts(VOCAB, [40, 40])
    assert parameters(ours) == parameters(theirs) + 3 * 2 * 8, "ours has the gains of three norms"
    assert difference(ours, lambda: theirs(ids).logits, ids) <= SAME


@pytest.mark.parametrize("pad", ["right", "left"])
def test_logits_are_equal_with_padding(pad):
    theirs = tiny(kv_heads=2)
    ids, keep = texts(VOCAB, [30, 13, 2], pad=pad)
    expected = lambda: theirs(ids, attention_mask=keep.long(), position_ids=counted(keep)).logits
    assert difference(ours_of(theirs), expected, ids, keep, at=keep) <= SAME


@pytest.mark.parametrize(
    ("path", "value"), [("mixer.start", 0.2), ("mixer.norm", "NoNorm"), ("position", "NoPosition")]
)
def test_a_changed_part_is_noticed(path, value):
    theirs = tiny(kv_heads=2)
    ids, _ = texts(VOCAB, [40, 40])
    spec = diffllama_spec(theirs.config).set(path, value)
    weights = diffllama_weights(bare(theirs, "model."), spec)
    model = LanguageModel(spec, VOCAB)
    other = filled(model, {name: weights[name] for name in model.state_dict()})
    assert difference(other, lambda: theirs(ids).logits, ids) > DIFFERENT
