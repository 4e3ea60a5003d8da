"""Measure what a language model keeps for each text while it generates, without allocating its weights."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from headtohead.model.cache import Cache
from headtohead.model.init import Seeded
from headtohead.model.spec import ModelSpec
from headtohead.model.transformer import Trunk
from headtohead.parts.sequence.mask import Mask
from headtohead.parts.sequence.memo import Memo
from headtohead.parts.sequence.state import LayerCache

TOKENS = 64  # of the text that is measured; the next one shows what a token adds


@dataclass(frozen=True)
class StateBytes:
    """Memory of the state of one text: a fixed part, and a part that grows with each token."""

    fixed: int
    per_token: int

    def after(self, tokens: int) -> int:
        return self.fixed + self.per_token * tokens

    def __str__(self) -> str:
        if not self.per_token:
            return f"{self.fixed:,} bytes for each text, however long"
        grows = f"{self.per_token:,} bytes for each token"
        return f"{grows}, and {self.fixed:,} bytes for each text" if self.fixed else grows


def state_bytes(spec: ModelSpec) -> StateBytes | None:
    """Return what the layers keep for one text, in single precision; None if a part cannot run without numbers."""
    try:
        first, second = _after(spec, TOKENS), _after(spec, TOKENS + 1)
    except (NotImplementedError, RuntimeError):  # a user's part reads values, and tensors on `meta` have none
        return None
    per_token = second - first
    return StateBytes(first - TOKENS * per_token, per_token)


def _after(spec: ModelSpec, tokens: int) -> int:
    """Bytes in the caches of all layers after one call with a text of so many tokens."""
    with torch.device("meta"), torch.no_grad():
        trunk = Trunk(spec, 1, Seeded(0)).eval()
        n = torch.arange(tokens)
        allowed = torch.ones(1, 1, tokens, tokens, dtype=torch.bool)
        mask = Mask(n[None, None, :, None], n[None, None, None, :], allowed, None, None, None)
        x = trunk.residual.open(torch.zeros(1, tokens, spec.width))
        memo = Memo(torch.zeros(1, tokens, dtype=torch.long), torch.zeros(1, tokens, spec.width))
        cache = Cache(layers=[LayerCache() for _ in trunk.route])
        for kept, (block, _) in zip(cache.layers, trunk.route, strict=True):
            x = trunk.blocks[block](x, mask, trunk.position.layer(block), kept, memo)
    return cache.bytes
