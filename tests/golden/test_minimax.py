"""MiniMax's lightning attention: a recurrence with one fixed decay per head, as retention has, against `scan`.

Activation, norm and gate of this layer differ from RetNet's, so the recurrence alone is compared, inside their layer.
"""

import pytest
import torch

from headtohead.parts.mixers.recurrent import scan
from helpers.comparing import DIFFERENT, SAME, randomised

transformers = pytest.importorskip("transformers")

H, WIDTH, T = 4, 32, 23


def layer(block: int):
    from transformers.models.minimax.modeling_minimax import MiniMaxLightningAttention

    config = transformers.MiniMaxConfig(
        hidden_size=WIDTH,
        num_attention_heads=H,
        num_hidden_layers=2,
        block_size=block,
        layer_types=["linear_attention"] * 2,
    )
    return randomised(MiniMaxLightningAttention(config, 0))


def theirs(module, x):
    """Their recurrence: what their norm receives, and the state that they return."""
    seen = []
    hook = module.norm.register_forward_hook(lambda _module, inputs, _out: seen.append(inputs[0]))
    try:
        _, state = module(x, None, None)
    finally:
        hook.remove()
    return seen[0].unflatten(-1, (H, -1)).transpose(1, 2), state


def ours(module, x, factor: float = 1.0, chunk: int = 8):
    qkv = module.act_fn(module.qkv_proj(x)).view(*x.shape[:2], H, -1).transpose(1, 2)
    q, k, v = qkv.chunk(3, dim=-1)
    g = -factor * module.slope_rate[:, :, 0].expand(len(x), H, x.shape[1])
    return scan(q, k, v, g, chunk=chunk)


@pytest.mark.parametrize("block", [4, 16, 64])
@pytest.mark.parametrize("chunk", [1, 5, 8, 64])
@torch.no_grad()
def test_outputs_and_state_are_equal(block, chunk):
    module = layer(block)
    x = torch.randn(2, 16 if block == 16 else T, WIDTH, generator=torch.Generator().manual_seed(1))
    for mine, other in zip(ours(module, x, chunk=chunk), theirs(module, x), strict=True):
        assert (mine - other).abs().max() <= SAME * max(1.0, float(other.abs().max()))


@torch.no_grad()
def test_another_decay_is_noticed():
    module, x = layer(64), torch.randn(2, T, WIDTH, generator=torch.Generator().manual_seed(1))
    assert (ours(module, x, factor=1.1)[0] - theirs(module, x)[0]).abs().max() > DIFFERENT
