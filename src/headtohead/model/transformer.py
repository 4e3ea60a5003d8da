"""The transformer: a trunk shared by language model and classifier. `ModelSpec` sets its sizes and parts.

    x = tokens + position
    x = x + attention(norm(x));  x = x + feedforward(norm(x))      in every block, wired by the residual part
    logits = head(norm(x))

Shapes: B texts, T tokens, D = width, V vocabulary, C classes. ids (B, T) integers; keep (B, T), true at real tokens.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from headtohead.errors import InputError
from headtohead.model import losses
from headtohead.model.attention import Attention
from headtohead.model.cache import Cache, DecodingPlan, LayerCache
from headtohead.model.dropout import Dropout
from headtohead.model.init import Seeded
from headtohead.model.mask import Mask, count_positions
from headtohead.model.packing import Packing
from headtohead.model.spec import ModelSpec
from headtohead.parts.positions import LayerHooks


class Block(nn.Module):
    """Attention, then a feed-forward layer, each connected to the residual stream."""

    def __init__(self, spec: ModelSpec, layer: int, seeded: Seeded) -> None:
        super().__init__()
        dims = spec.dims

        def norm() -> nn.Module:
            return spec.norm.build(spec.width)

        with seeded(f"blocks.{layer}.attention"):
            self.attention = Attention(
                dims,
                layer,
                kv_heads=spec.kv_heads or spec.heads,
                biases=spec.biases,
                qk_norm=spec.qk_norm,
                fusion=spec.fusion,
                dropout=spec.dropout,
                seeded=lambda name: seeded(f"blocks.{layer}.attention.{name}"),
            )
        with seeded(f"blocks.{layer}.feedforward"):
            self.feedforward = spec.feedforward.build(dims)
        with seeded(f"blocks.{layer}.wires"):
            self.around_attention = spec.residual.build(norm)
            self.around_feedforward = spec.residual.build(norm)
        self.dropout = Dropout(spec.dropout)

    def forward(self, x: Tensor, mask: Mask, position: LayerHooks, cache: LayerCache | None) -> Tensor:
        if not self.training:  # skip the dropout modules, which saves a call per sublayer
            x = self.around_attention(x, lambda h: self.attention(h, mask, position, cache))
            return self.around_feedforward(x, self.feedforward)
        x = self.around_attention(x, lambda h: self.dropout(self.attention(h, mask, position, cache)))
        return self.around_feedforward(x, lambda h: self.dropout(self.feedforward(h)))


class Trunk(nn.Module):
    """Token ids → one vector per token; shared by classifier and language model."""

    packs = False  # whether texts are packed between embedding and pooling; training sets it, for speed

    def __init__(self, spec: ModelSpec, vocab: int, seeded: Seeded) -> None:
        super().__init__()
        self.spec = spec
        with seeded("tokens"):
            self.tokens = nn.Embedding(vocab, spec.width)
        with seeded("position"):
            self.position = spec.position.build(spec.dims)
        with seeded("embedding_norm"):
            self.embedding_norm = spec.embedding_norm.build(spec.width)
        self.dropout = Dropout(spec.dropout)
        self.blocks = nn.ModuleList(Block(spec, n, seeded) for n in range(spec.layers))
        with seeded("last"):
            self.last = spec.residual.build_last(lambda: spec.norm.build(spec.width))

    def forward(
        self, ids: Tensor, keep: Tensor | None = None, positions: Tensor | None = None, cache: Cache | None = None
    ) -> Tensor:
        """Return vectors (B, T, D). `positions` (T,) or (B, T) default to the number of real tokens before each token,
        so padding on the left has no effect. With a `cache`, ids continue the text of the previous calls."""
        if cache is not None:
            return self._cached(ids, keep, positions, cache)
        self._check_length(ids.shape[1])
        keep = None if keep is None else keep.bool()
        i = count_positions(ids, keep, 0, shifted=False) if positions is None else positions.view(-1, ids.shape[1])
        packing = Packing.of(keep) if self.packs and keep is not None else None
        mask = self._mask(i, i, keep, keep, packing)
        x = self.dropout(self._embed(ids, i))
        x = x if packing is None else packing.pack(x)
        x = self._blocks(x, mask)
        return x if packing is None else packing.spread(x) * packing.keep[:, :, None]

    def _embed(self, ids: Tensor, i: Tensor) -> Tensor:
        return self.embedding_norm(self.position.embed(self.tokens(ids), i))

    def _mask(
        self, i: Tensor, j: Tensor, keep: Tensor | None, key_keep: Tensor | None, packing: Packing | None = None
    ) -> Mask:
        """Let queries at positions i (B|1, Tq) see keys at j (B|1, Tk) that the pattern allows and that are kept."""
        i, j = i[:, None, :, None], j[:, None, None, :]
        allowed = self.spec.pattern.allowed(i, j)
        if key_keep is not None:
            allowed = allowed & key_keep[:, None, None, :]
        return Mask.of(allowed, i, j, keep, packing)

    def _blocks(self, x: Tensor, mask: Mask, cache: Cache | None = None) -> Tensor:
        for n, block in enumerate(self.blocks):
            x = block(x, mask, self.position.layer(n), None if cache is None else cache.layers[n])
        return self.last(x)

    def _check_length(self, length: int) -> None:
        if length > self.spec.block:
            raise InputError(
                f"the text has {length} tokens and the model's block is {self.spec.block}: "
                "cut the text, or build the model with a larger block"
            )

    # -- with a cache: the same equation, for new tokens only ----------------------------------------------------------

    def _cached(self, ids: Tensor, keep: Tensor | None, positions: Tensor | None, cache: Cache) -> Tensor:
        seen = cache.length
        self._check_length(seen + ids.shape[1])
        plain = keep is None and positions is None and not self.training
        if plain and cache.plan is not None and ids.shape[1] == 1:
            return self._one_token(ids, cache, cache.plan.mask(seen))
        keep = None if keep is None else keep.bool()
        i = cache.next_positions(ids, keep) if positions is None else positions.view(-1, ids.shape[1])
        j, key_keep = cache.remember(i, keep, ids)
        if seen == 0:
            plain = plain and key_keep is None
            cache.plan = DecodingPlan.of(self.spec.pattern, self.spec.block, ids.device) if plain else None
        elif not plain or key_keep is not None:
            cache.plan = None
        return self._blocks(self.dropout(self._embed(ids, i)), self._mask(i, j, keep, key_keep), cache)

    def _one_token(self, ids: Tensor, cache: Cache, mask: Mask) -> Tensor:
        """Compute one more token of each text, with a precomputed mask."""
        cache.positions = mask.j.view(1, -1)
        x = self._embed(ids, mask.i.view(1, 1)).squeeze(1)  # (B, D)
        return self._blocks(x, mask, cache).unsqueeze(1)


class LanguageModel(nn.Module):
    """Token ids → logits of the next token (B, T, V). It is causal if the spec's parts are; `h2h audit` checks that."""

    def __init__(self, spec: ModelSpec, vocab: int, seed: int = 0) -> None:
        super().__init__()
        self.spec, self.vocab = spec, _at_least("vocab", vocab, 1)
        seeded = Seeded(seed)
        self.trunk = Trunk(spec, vocab, seeded)
        with seeded("head"):
            bias = spec.head_bias
            self.head = TiedHead(vocab, bias) if spec.tied else nn.Linear(spec.width, vocab, bias=bias)
        seeded.initialise(self, spec)

    def forward(
        self, ids: Tensor, keep: Tensor | None = None, positions: Tensor | None = None, cache: Cache | None = None
    ) -> Tensor:
        x = self.trunk(ids, keep, positions, cache)
        return self.head(x, self.trunk.tokens.weight) if isinstance(self.head, TiedHead) else self.head(x)

    def mean_loss(self, ids: Tensor, targets: Tensor) -> Tensor:
        """Return the mean cross-entropy of the next tokens, without storing the logits."""
        return self.mean_of(self.trunk(ids).flatten(0, 1), targets.flatten())

    def mean_of(self, x: Tensor, targets: Tensor, loss: Callable[[Tensor, slice], Tensor] | None = None) -> Tensor:
        """Return the mean cross-entropy of vectors x (N, D) from the trunk, or the mean of `loss(logits, rows)`."""
        weight, bias = self._head_weight(), self.head.bias
        return losses.mean_loss(x, weight, bias, targets) if loss is None else losses.mean_of(x, weight, bias, loss)

    def logits_of(self, x: Tensor) -> Tensor:
        """Return the logits (N, V) of vectors x (N, D) from the trunk."""
        return F.linear(x, self._head_weight(), self.head.bias)

    def token_losses(self, ids: Tensor, targets: Tensor) -> Tensor:
        """Return the cross-entropy (B, T) of each next token, without gradients."""
        x = self.trunk(ids).flatten(0, 1)
        return losses.token_losses(x, self._head_weight(), self.head.bias, targets.flatten()).view_as(targets)

    def _head_weight(self) -> Tensor:
        return self.trunk.tokens.weight if isinstance(self.head, TiedHead) else self.head.weight

    def new_cache(self) -> Cache:
        return Cache(layers=[LayerCache() for _ in self.trunk.blocks])


class TiedHead(nn.Module):
    """A head that multiplies by the token embedding; its only own parameter is the optional bias."""

    def __init__(self, vocab: int, bias: bool) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(vocab)) if bias else None

    def forward(self, x: Tensor, tokens: Tensor) -> Tensor:
        return F.linear(x, tokens, self.bias)


class Classifier(nn.Module):
    """Token ids → logits of the classes (B, C). Without a keep mask, tokens with the id `pad` are padding."""

    def __init__(self, spec: ModelSpec, vocab: int, classes: int, seed: int = 0, pad: int = 0) -> None:
        super().__init__()
        self.spec, self.vocab, self.classes, self.pad = (
            spec,
            _at_least("vocab", vocab, 1),
            _at_least("classes", classes, 2),
            pad,
        )
        if (
            not spec.pooling.reads_all
            and spec.block > 1
            and not any(spec.pattern.allowed(0, j) for j in range(1, spec.block))
        ):
            raise InputError(
                f"{spec.pooling} reads the first token, and with {spec.pattern} that token sees only itself: "
                "choose another pooling, or a pattern that sees later tokens"
            )
        seeded = Seeded(seed)
        self.trunk = Trunk(spec, vocab, seeded)
        act = {"relu": nn.ReLU(), "gelu": nn.GELU(), "tanh": nn.Tanh()}[spec.head.activation]
        with seeded("head"):
            hidden = spec.head.hidden
            self.head = nn.Sequential(nn.Linear(spec.width, hidden), act, nn.Linear(hidden, classes))
        seeded.initialise(self, spec)

    def forward(self, ids: Tensor, keep: Tensor | None = None, positions: Tensor | None = None) -> Tensor:
        keep = ids != self.pad if keep is None else keep
        return self.head(self.spec.pooling.pool(self.trunk(ids, keep, positions), keep))


def _at_least(name: str, value: int, least: int) -> int:
    if value < least:
        raise InputError(f"{name} must be at least {least}, not {value}")
    return value
