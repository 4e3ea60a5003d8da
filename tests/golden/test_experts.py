"""Mixture of experts: the whole Mixtral model, and the layers of OLMoE and DeepSeek-V3."""

import pytest
import torch

from headtohead import Experts, Gated, LanguageModel, Mlp, ModelSpec
from headtohead.pretrained.architectures import llama_names, llama_spec, take
from helpers.comparing import DIFFERENT, SAME, counted, difference, parameters, randomised, texts

from .copying import bare, filled

transformers = pytest.importorskip("transformers")

VOCAB, WIDTH, HIDDEN, EXPERTS = 61, 32, 24, 4


def mixtral(active: int = 2):
    config = transformers.MixtralConfig(
        vocab_size=VOCAB,
        hidden_size=WIDTH,
        intermediate_size=HIDDEN,
        num_hidden_layers=3,
        num_attention_heads=4,
        num_key_value_heads=2,
        num_local_experts=EXPERTS,
        num_experts_per_tok=active,
        max_position_embeddings=40,
        sliding_window=None,
    )
    return randomised(transformers.MixtralForCausalLM(config))


def experts(theirs, prefix: str) -> dict[str, torch.Tensor]:
    """The weights of all experts by our names. Theirs are stacked: (E, 2·hidden, D) and (E, D, hidden)."""
    ours = {}
    for e, (fused, down) in enumerate(
        zip(theirs[f"{prefix}.gate_up_proj"], theirs[f"{prefix}.down_proj"], strict=True)
    ):
        gate, up = fused.chunk(2)
        ours |= {f"experts.{e}.{name}.weight": w for name, w in (("gate", gate), ("up", up), ("down", down))}
    return ours


def ours_of(theirs, layer: Experts) -> LanguageModel:
    spec = llama_spec(theirs.config.to_dict()).set("feedforward", layer)
    weights = bare(theirs, "model.")
    names = {ours: name for ours, name in llama_names(spec).items() if ".feedforward." not in ours}
    names |= {f"trunk.blocks.{n}.feedforward.router": f"layers.{n}.mlp.gate" for n in range(spec.layers)}
    ours = take(weights, names)
    for n in range(spec.layers):
        found = experts(weights, f"layers.{n}.mlp.experts")
        ours |= {f"trunk.blocks.{n}.feedforward.{name}": w for name, w in found.items()}
    return filled(LanguageModel(spec, VOCAB), ours)


def layer(active: int = 2, **settings) -> Experts:
    return Experts(expert=Gated(hidden=HIDDEN), count=EXPERTS, active=active, **settings)


@pytest.mark.parametrize("active", [2, 3, 4])
def test_logits_of_mixtral_are_equal(active):
    theirs = mixtral(active)
    ours = ours_of(theirs, layer(active))
    ids, _ = texts(VOCAB, [40, 40])
    assert parameters(ours) == parameters(theirs)
    assert difference(ours, lambda: theirs(ids).logits, ids) <= SAME


@pytest.mark.parametrize("pad", ["right", "left"])
def test_logits_of_mixtral_are_equal_with_padding(pad):
    theirs = mixtral()
    ids, keep = texts(VOCAB, [30, 13, 2], pad=pad)
    expected = lambda: theirs(ids, attention_mask=keep.long(), position_ids=counted(keep)).logits
    assert difference(ours_of(theirs, layer()), expected, ids, keep, at=keep) <= SAME


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(layer(3), id="three experts instead of two"),
        pytest.param(layer(routing="softmax of all"), id="weights that do not sum to one"),
        pytest.param(layer(routing="sigmoid"), id="sigmoids"),
        pytest.param(layer(scale=1.1), id="scaled"),
        pytest.param(layer(capacity=0.5), id="limited"),
    ],
)
def test_another_routing_is_noticed(other):
    theirs = mixtral()
    ids, _ = texts(VOCAB, [40, 40])
    assert difference(ours_of(theirs, other), lambda: theirs(ids).logits, ids) > DIFFERENT


def test_the_layer_equals_olmoe():
    """Softmax over all experts, and the weights of the chosen ones as they are."""
    from transformers.models.olmoe.modeling_olmoe import OlmoeSparseMoeBlock

    config = transformers.OlmoeConfig(
        hidden_size=WIDTH, intermediate_size=HIDDEN, num_experts=EXPERTS, num_experts_per_tok=2, norm_topk_prob=False
    )
    theirs = randomised(OlmoeSparseMoeBlock(config))
    ours = layer(routing="softmax of all").build(ModelSpec(width=WIDTH).dims)
    weights = theirs.state_dict()
    ours.load_state_dict(experts(weights, "experts") | {"router.weight": weights["gate.weight"]})
    _equal(ours, theirs)


@pytest.mark.parametrize("shared", [1, 2])
def test_the_layer_equals_deepseek_v3(shared):
    """Sigmoids divided by their sum, chosen with a bias, scaled, with shared experts."""
    from transformers.models.deepseek_v3.modeling_deepseek_v3 import DeepseekV3MoE

    config = transformers.DeepseekV3Config(
        hidden_size=WIDTH,
        moe_intermediate_size=HIDDEN,
        n_routed_experts=EXPERTS,
        num_experts_per_tok=2,
        n_shared_experts=shared,
        n_group=1,
        topk_group=1,
        norm_topk_prob=True,
        routed_scaling_factor=2.5,
    )
    theirs = randomised(DeepseekV3MoE(config))
    theirs.gate.e_score_correction_bias.copy_(torch.tensor([0.3, -0.2, 0.0, 0.1]))
    spec = layer(routing="sigmoid", scale=2.5, shared=shared, bias_step=0.001)
    ours = spec.build(ModelSpec(width=WIDTH).dims)
    weights = theirs.state_dict()
    mine = experts(weights, "experts") | {"router.weight": weights["gate.weight"]}
    mine["bias"] = weights["gate.e_score_correction_bias"]
    for name in ("gate", "up", "down"):  # theirs is one wide network
        pieces = weights[f"shared_experts.{name}_proj.weight"].chunk(shared, dim=1 if name == "down" else 0)
        mine |= {f"shared.{n}.{name}.weight": w for n, w in enumerate(pieces)}
    ours.load_state_dict(mine)
    _equal(ours, theirs)
    ours.bias.zero_()
    x = torch.randn(2, 20, WIDTH, generator=torch.Generator().manual_seed(3))
    with torch.no_grad():
        assert (ours(x) - theirs(x)).abs().max() > DIFFERENT, "the bias decides nothing"


def test_experts_that_are_equal_are_one():
    """With equal experts, the choice does not matter: the weights sum to one."""
    ours = Experts(expert=Mlp(hidden=HIDDEN), count=EXPERTS).build(ModelSpec(width=WIDTH).dims)
    for expert in ours.experts[1:]:
        expert.load_state_dict(ours.experts[0].state_dict())
    _equal(ours, ours.experts[0])


@torch.no_grad()
def _equal(ours, theirs) -> None:
    x = torch.randn(3, 20, WIDTH, generator=torch.Generator().manual_seed(2))
    expected = theirs.eval()(x)
    assert expected.abs().max() > 0.1
    assert (ours.eval()(x) - expected).abs().max() <= SAME
