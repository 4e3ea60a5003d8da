"""Extra heads that predict tokens farther ahead. They exist in training only.

Head k is one more block over the trunk's output and a norm; its logits come from the model's own output layer. It is
causal where the model is, because it is a block like the others.

Shapes: B texts, T tokens, D width.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from headtohead.model.init import Seeded
from headtohead.model.spec import ModelSpec
from headtohead.model.transformer import Block, Trunk

NAME = "ahead"  # of the heads in a model


class Ahead(nn.Module):
    """Vectors of the trunk → vectors that the output layer turns into logits of tokens farther ahead."""

    def __init__(self, spec: ModelSpec, heads: int, seed: int) -> None:
        super().__init__()
        seeded = Seeded(seed)
        self.blocks = nn.ModuleList(Block(spec, spec.layers + n, seeded) for n in range(heads))
        with seeded("norms"):
            self.norms = nn.ModuleList(spec.norm.build(spec.width) for _ in range(heads))
        seeded.initialise(self, spec)  # the names of its weights differ from those of the trunk

    def forward(self, trunk: Trunk, x: Tensor) -> list[Tensor]:
        """Return one tensor (B, T, D) per head, for the trunk's output x (B, T, D)."""
        i = torch.arange(x.shape[1], device=x.device)[None]
        mask, position = trunk._mask(i, i, None, None), trunk.position.layer(trunk.spec.layers - 1)
        heads = zip(self.blocks, self.norms, strict=True)
        return [norm(block(x, mask, position, None)) for block, norm in heads]


def attach(model: nn.Module, spec: ModelSpec, heads: int, seed: int) -> None:
    """Add the heads to a model that will be trained. The weights of the model do not change."""
    model.add_module(NAME, Ahead(spec, heads, seed))


def detach(model: nn.Module) -> int:
    """Remove the heads after training. Returns their number of parameters, 0 if there are none."""
    heads = heads_of(model)
    if heads is None:
        return 0
    delattr(model, NAME)
    return sum(p.numel() for p in heads.parameters())


def heads_of(model: nn.Module) -> Ahead | None:
    heads = model._modules.get(NAME)
    return heads if isinstance(heads, Ahead) else None


def kept_weights(model: nn.Module) -> dict[str, Tensor]:
    """Return the model's weights without those of the heads."""
    return {name: w for name, w in model.state_dict().items() if not name.startswith(f"{NAME}.")}
