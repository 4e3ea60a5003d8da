"""Value residual and value embeddings against their equations, through the layers of a model."""

import pytest
import torch

from headtohead import (
    Attention,
    InputError,
    LanguageModel,
    LinearAttention,
    PlainValues,
    ValueEmbeddings,
    ValueResidual,
)
from headtohead.parts.mixers.attention import Projected
from headtohead.parts.sequence.memo import Memo
from helpers.models import SMALL, VOCAB, close, language_model, text

H, d = SMALL.heads, SMALL.dims.head_width
DEEP = SMALL.set("layers", 3)


@torch.no_grad()
def values_of(model: LanguageModel, ids: torch.Tensor) -> dict[int, tuple[torch.Tensor, torch.Tensor]]:
    """For each layer that attends, its own values and those that it uses (B, Hkv, T, d)."""
    seen = {}
    hooks = [
        block.attention.values.register_forward_hook(
            lambda _m, given, out, n=n: seen.__setitem__(n, (given[0].clone(), out.clone()))
        )
        for n, block in enumerate(model.trunk.blocks)
        if isinstance(block.attention, Projected)
    ]
    model(ids)
    for hook in hooks:
        hook.remove()
    return seen


@pytest.mark.parametrize("learned", [True, False])
def test_every_layer_mixes_in_the_values_of_the_first(learned):
    model = language_model(DEEP.set("values", ValueResidual(own=0.25, first=0.5, learned=learned)))
    seen = values_of(model, text(2))
    first = seen[0][0]
    for n, (own, used) in seen.items():
        hooks = model.trunk.blocks[n].attention.values
        close(used, hooks.own * own + hooks.first * first)
        assert len(list(hooks.parameters())) == (2 if learned else 0)
        assert learned or (float(hooks.own), float(hooks.first)) == (0.25, 0.5)


def test_shares_start_where_they_are_set_in_each_layer():
    model = LanguageModel(DEEP.set("values", ValueResidual(own=0.25, first=2.0)), VOCAB)
    for block in model.trunk.blocks:
        assert (block.attention.values.own.item(), block.attention.values.first.item()) == (0.25, 2.0)


def test_the_first_layer_can_be_plain():
    """Its values are mixed into the others all the same, as in the paper."""
    model = language_model(DEEP.set("values", PlainValues() + ... * ValueResidual()))
    seen = values_of(model, text(2))
    close(seen[0][1], seen[0][0])
    hooks = model.trunk.blocks[2].attention.values
    close(seen[2][1], hooks.own * seen[2][0] + hooks.first * seen[0][0])


def test_the_first_values_are_those_of_the_first_layer_that_attends():
    model = language_model(
        DEEP.set("mixer", LinearAttention() + 2 * Attention()).set("values", PlainValues() + 2 * ValueResidual())
    )
    seen = values_of(model, text(2))
    hooks = model.trunk.blocks[2].attention.values
    close(seen[2][1], hooks.own * seen[2][0] + hooks.first * seen[1][0])


def test_value_embeddings_add_a_row_for_each_token():
    model, ids = language_model(DEEP.set("values", ValueEmbeddings(scale=0.25)).set("kv_heads", 2)), text(2)
    for n, (own, used) in values_of(model, ids).items():
        hooks = model.trunk.blocks[n].attention.values
        assert hooks.table.weight.shape == (VOCAB, 2 * d)
        for b in range(2):
            for t in range(12):
                row = hooks.table.weight[ids[b, t]].view(2, d)
                close(used[b, :, t], own[b, :, t] + hooks.scale * row)
    assert LanguageModel(model.spec, VOCAB).trunk.blocks[1].attention.values.scale.item() == 0.25


def test_values_of_another_shape_are_refused_in_one_line():
    hooks = ValueResidual().build(SMALL.layer(0, VOCAB))
    memo = Memo(torch.zeros(1, 3, dtype=torch.long), torch.zeros(1, 3, 16), values=torch.zeros(1, 2, 3, 4))
    with pytest.raises(InputError, match="cannot be mixed with those of the first layer") as error:
        hooks(torch.zeros(1, 4, 3, 4), memo)
    assert "\n" not in str(error.value)


def test_mixers_without_values_refuse_them():
    for mixer in ("LinearAttention", "Latent"):
        with pytest.raises(InputError, match=rf"{mixer} does not use model\.values"):
            SMALL.set("mixer", mixer).set("values", ValueResidual())
