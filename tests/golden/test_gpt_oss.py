"""The attention layer of GPT-OSS: a learned sink for each head, and a window in every second layer."""

from contextlib import nullcontext

import pytest
import torch

from headtohead import Biases, Causal, LearnedSinks, Local, ModelSpec, OffByOne, Pattern, Rope, Softmax, explicit
from headtohead.parts.mixers.attention import MultiHead
from headtohead.parts.sequence.mask import Mask
from headtohead.pretrained.architectures import take
from helpers.comparing import DIFFERENT, SAME, randomised
from helpers.models import attention_layer, memo_of

transformers = pytest.importorskip("transformers")

B, T, D, H, KV_HEADS, WIDTH, WINDOW, THETA = 2, 20, 32, 4, 2, 8, 5, 150_000.0


def their_layer(n: int):
    """Their attention layer n, and what it returns for x (B, T, D)."""
    from transformers.models.gpt_oss.modeling_gpt_oss import GptOssAttention, GptOssRotaryEmbedding

    config = transformers.GptOssConfig(
        hidden_size=D,
        num_attention_heads=H,
        num_key_value_heads=KV_HEADS,
        head_dim=WIDTH,
        num_hidden_layers=2,
        sliding_window=WINDOW,
        max_position_embeddings=T,
        rope_parameters={"rope_type": "default", "rope_theta": THETA},
        attn_implementation="eager",
    )
    layer = GptOssAttention(config, n)
    torch.nn.init.zeros_(layer.sinks)
    layer = randomised(layer)
    turned = GptOssRotaryEmbedding(config)

    def outputs(x: torch.Tensor, allowed: torch.Tensor) -> torch.Tensor:
        added = torch.zeros(allowed.shape).masked_fill(~allowed, torch.finfo(torch.float32).min)
        return layer(x, turned(x, torch.arange(T)[None]), added)

    return layer, outputs


def our_layer(theirs, n: int, weighting=LearnedSinks()) -> MultiHead:  # noqa: B008
    spec = ModelSpec(
        width=D,
        heads=H,
        kv_heads=KV_HEADS,
        head_width=WIDTH,
        layers=2,
        block=T,
        biases=Biases(q=True, k=True, v=True, out=True),
        position=Rope(theta=THETA),
        weighting=weighting,
    )
    layer = attention_layer(spec, n)
    names = {"q": "q_proj", "k": "k_proj", "v": "v_proj", "out": "o_proj"}
    weights = take(theirs.state_dict(), names)
    if weighting == LearnedSinks():
        weights["weighting.sinks"] = theirs.sinks
    layer.load_state_dict(weights)
    return layer.eval()


@torch.no_grad()
def ours(layer: MultiHead, pattern: Pattern, x: torch.Tensor, path: str) -> torch.Tensor:
    i = torch.arange(T)
    i, j = i[None, None, :, None], i[None, None, None, :]
    mask = Mask.of(pattern.allowed(i, j), i, j, None)
    position = Rope(theta=THETA).build(ModelSpec(width=D, heads=H, head_width=WIDTH, layers=2, block=T).dims)
    with explicit(layer) if path == "explicit" else nullcontext():
        return layer(x, mask, position, None, memo_of(x))


PATTERNS = {0: Causal() & Local(WINDOW), 1: Causal()}  # of their layers


@pytest.mark.parametrize("path", ["fused", "explicit"])
@pytest.mark.parametrize("n", PATTERNS)
@torch.no_grad()
def test_outputs_and_weights_are_equal(n, path):
    theirs, outputs = their_layer(n)
    layer = our_layer(theirs, n)
    x = torch.randn(B, T, D, generator=torch.Generator().manual_seed(2))
    i, j = torch.arange(T)[:, None], torch.arange(T)[None, :]
    expected, weights = outputs(x, PATTERNS[n].allowed(i, j)[None, None])
    seen: list[torch.Tensor] = []
    layer.weights.register_forward_hook(lambda _m, _given, a: seen.append(a))
    assert (ours(layer, PATTERNS[n], x, path) - expected).abs().max() <= SAME
    assert (seen[0] - weights).abs().max() <= SAME
    assert theirs.sliding_window == (WINDOW if n == 0 else None)


@torch.no_grad()
def test_a_layer_without_sinks_differs():
    theirs, outputs = their_layer(1)
    x = torch.randn(B, T, D, generator=torch.Generator().manual_seed(2))
    expected, _ = outputs(x, torch.ones(T, T, dtype=torch.bool).tril()[None, None])
    for weighting in (Softmax(), OffByOne()):
        layer = our_layer(theirs, 1, weighting)
        assert (ours(layer, Causal(), x, "fused") - expected).abs().max() > DIFFERENT
