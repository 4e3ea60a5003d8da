"""The transformer: a trunk shared by language model and classifier. `ModelSpec` sets its sizes and parts.

    x = tokens + position
    x = x + mixer(norm(x));  x = x + feedforward(norm(x))      in every block, wired by the residual part
    logits = head(norm(x))

Shapes: B texts, T tokens, D = width, V vocabulary, C classes. ids (B, T) integers; keep (B, T), true at real tokens.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from headtohead.errors import InputError
from headtohead.model import losses
from headtohead.model.cache import Cache, DecodingPlan
from headtohead.model.init import Seeded
from headtohead.model.spec import ModelSpec
from headtohead.parts.convolutions import ConvolutionHooks
from headtohead.parts.layer import Layer
from headtohead.parts.positions import LayeredHooks, LayerHooks, PositionHooks
from headtohead.parts.residuals import Wire
from headtohead.parts.sequence.dropout import Dropout
from headtohead.parts.sequence.mask import Mask, allowed_pairs, count_positions
from headtohead.parts.sequence.memo import Memo
from headtohead.parts.sequence.packing import Packing
from headtohead.parts.sequence.state import LayerCache
from headtohead.spec import Layers


class Block(nn.Module):
    """A mixer, then a feed-forward layer, each connected to the residual stream."""

    def __init__(self, spec: ModelSpec, n: int, vocab: int, seeded: Seeded) -> None:
        super().__init__()
        layer = spec.layer(n, vocab, lambda name: seeded(f"blocks.{n}.attention.{name}"))

        def norm() -> nn.Module:
            return layer.norm.build(spec.width)

        with seeded(f"blocks.{n}.attention"):
            # the name of stored weights; with every mixer, so that models share weights of the same name and shape
            self.attention = layer.mixer.build(layer)
        with seeded(f"blocks.{n}.feedforward"):
            self.feedforward = layer.feedforward.build(layer.dims)
        with seeded(f"blocks.{n}.wires"):
            self.around_attention = layer.residual.build_in(layer, norm, first=True)
            self.around_feedforward = layer.residual.build_in(layer, norm, first=False)
        with seeded(f"blocks.{n}.convolutions"):
            self.before_attention = layer.convolution.build(layer, "A", spec.width)
            self.before_feedforward = layer.convolution.build(layer, "C", spec.width)
            self.in_feedforward = _inside_feedforward(layer)
        self.residual = layer.residual
        self.dropout = Dropout(spec.dropout)

    def forward(self, x: Tensor, mask: Mask, position: LayerHooks, cache: LayerCache | None, memo: Memo) -> Tensor:
        def mix(h: Tensor) -> Tensor:
            h = self.before_attention(h, mask, cache)
            h = self.attention(h, mask, position, cache, memo)
            return self.dropout(h) if self.training else h  # not calling the module saves time in evaluation

        def feed(h: Tensor) -> Tensor:
            h = self.before_feedforward(h, mask, cache)
            if self.in_feedforward.neutral:
                h = self.feedforward(h)
            else:
                h = self.feedforward(h, lambda hidden: self.in_feedforward(hidden, mask, cache))
            return self.dropout(h) if self.training else h

        around_f, around_g = self.around_attention, self.around_feedforward
        if isinstance(around_f, Wire):
            x = around_f.enter(x, memo.start)
        return self.residual.run(x, around_f, mix, around_g, feed)


def _inside_feedforward(layer: Layer) -> ConvolutionHooks:
    """Build the convolution of the hidden values; InputError if the feed-forward layer does not give access to them."""
    if layer.feedforward.opens:
        return layer.convolution.build(layer, "D", layer.feedforward.inside(layer.dims))
    if layer.convolution.before("D"):
        raise InputError(
            f"{layer.convolution} has a site D, inside {layer.feedforward}, which has no hidden values: leave D out"
        )
    return ConvolutionHooks()


class Trunk(nn.Module):
    """Token ids → one vector per token; shared by classifier and language model."""

    packs = False  # whether texts are packed between embedding and pooling; training sets it, for speed

    def __init__(self, spec: ModelSpec, vocab: int, seeded: Seeded) -> None:
        super().__init__()
        self.spec = spec
        with seeded("tokens"):
            self.tokens = nn.Embedding(vocab, spec.width)
        with seeded("embedding"):
            self.embedding = spec.embedding.build(spec.dims)
        with seeded("position"):
            self.position = _position(spec)
        with seeded("embedding_norm"):
            self.embedding_norm = spec.embedding_norm.build(spec.width)
        self.dropout = Dropout(spec.dropout)
        self.blocks = nn.ModuleList(Block(spec, n, vocab, seeded) for n in range(spec.layers))
        with seeded("last"):
            self.residual, norm = spec.each("residual")[-1], spec.each("norm")[-1]
            self.last = self.residual.build_last(lambda: norm.build(spec.width))
        patterns = spec.each("pattern")
        self.patterns = tuple(dict.fromkeys(patterns))
        self.route = [(n, self.patterns.index(patterns[n])) for n in _order(spec)]  # block and pattern, step by step

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
        masks = self._masks(i, i, keep, keep, packing)
        x = self.dropout(self._embed(ids, i, keep))
        x = x if packing is None else packing.pack(x)
        x = self._blocks(x, ids, masks)
        return x if packing is None else packing.spread(x) * packing.keep[:, :, None]

    def _embed(self, ids: Tensor, i: Tensor, keep: Tensor | None, cache: Cache | None = None) -> Tensor:
        x = self.tokens(ids)
        if not self.embedding.neutral:
            x = self.embedding(x, ids, keep, None if cache is None else cache.embedding)
        return self.embedding_norm(self.position.embed(x, i))

    def _masks(
        self, i: Tensor, j: Tensor, keep: Tensor | None, key_keep: Tensor | None, packing: Packing | None = None
    ) -> list[Mask]:
        """Let queries at positions i (B|1, Tq) see keys at j (B|1, Tk) that are kept and that a pattern allows: one
        mask for each pattern of the model."""
        i, j = i[:, None, :, None], j[:, None, None, :]
        masks = []
        for pattern in self.patterns:
            allowed = allowed_pairs(pattern, self.spec.heads, i, j)
            if key_keep is not None:
                allowed = allowed & key_keep[:, None, None, :]
            masks.append(Mask.of(allowed, i, j, keep, packing))
        return masks

    def _blocks(self, x: Tensor, ids: Tensor, masks: list[Mask], cache: Cache | None = None) -> Tensor:
        memo = Memo(ids, x)
        x = self.residual.open(x)
        for step, (n, pattern) in enumerate(self.route):
            kept = None if cache is None else cache.layers[step]
            x = self.blocks[n](x, masks[pattern], self.position.layer(n), kept, memo)
        return self.last(self.residual.close(x))

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
        if plain and cache.plans and ids.shape[1] == 1:
            return self._one_token(ids, cache, [plan.mask(seen) for plan in cache.plans])
        keep = None if keep is None else keep.bool()
        i = cache.next_positions(ids, keep) if positions is None else positions.view(-1, ids.shape[1])
        j, key_keep = cache.remember(i, keep, ids)
        if seen == 0 and plain and key_keep is None:
            heads, block = self.spec.heads, self.spec.block
            cache.plans = tuple(DecodingPlan.of(pattern, heads, block, ids.device) for pattern in self.patterns)
        elif not plain or key_keep is not None:
            cache.plans = ()
        masks = self._masks(i, j, keep, key_keep)
        return self._blocks(self.dropout(self._embed(ids, i, keep, cache)), ids, masks, cache)

    def _one_token(self, ids: Tensor, cache: Cache, masks: list[Mask]) -> Tensor:
        """Compute one more token of each text, with precomputed masks."""
        cache.positions = masks[0].j.view(1, -1)
        x = self._embed(ids, masks[0].i.view(1, 1), None, cache).squeeze(1)  # (B, D)
        return self._blocks(x, ids, masks, cache).unsqueeze(1)


def _position(spec: ModelSpec) -> PositionHooks:
    """Build the position encoding; InputError if it acts only in attention and no layer attends."""
    if isinstance(spec.position, Layers):
        built: PositionHooks = LayeredHooks(spec.each("position"), spec.dims)
    else:
        built = spec.position.build(spec.dims)
    used = any("position" in mixer.uses for mixer in spec.each("mixer"))
    changed = {name for name in ("embed", "rotate", "bias", "layer") if _overrides(built, name)}
    if changed and "embed" not in changed and not used:
        raise InputError(
            f"{type(spec.each('mixer')[0]).__name__} does not use model.position, so {spec.position} would change "
            "nothing: choose NoPosition, or a position that is added to the embeddings, such as Learned"
        )
    return built


def _overrides(hooks: PositionHooks, name: str) -> bool:
    return getattr(type(hooks), name) is not getattr(PositionHooks, name)


def _order(spec: ModelSpec) -> list[int]:
    """The blocks in the order in which they are applied."""
    blocks, times = range(spec.layers), spec.loops.times
    if spec.loops.order == "stack":
        return [n for _ in range(times) for n in blocks]
    return [n for n in blocks for _ in range(times)]


def _first_sees_others(spec: ModelSpec) -> bool:
    """Whether the first token depends on later tokens in some layer."""
    layers = zip(spec.each("mixer"), spec.each("pattern"), strict=True)
    return any(m.allowed(pattern, 0, j) for m, pattern in dict.fromkeys(layers) for j in range(1, spec.block))


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
        with seeded("output"):
            self.output = spec.output.build(spec.dims, vocab)
        seeded.initialise(self, spec)

    def forward(
        self, ids: Tensor, keep: Tensor | None = None, positions: Tensor | None = None, cache: Cache | None = None
    ) -> Tensor:
        x = self.trunk(ids, keep, positions, cache)
        z = self.head(x, self.trunk.tokens.weight) if isinstance(self.head, TiedHead) else self.head(x)
        return z if self.output.neutral else self.output(z)

    def mean_loss(self, ids: Tensor, targets: Tensor) -> Tensor:
        """Return the mean cross-entropy of the next tokens, without storing the logits."""
        x, weight, bias, y = self.trunk(ids).flatten(0, 1), self._head_weight(), self.head.bias, targets.flatten()
        if self.output.neutral:
            return losses.mean_loss(x, weight, bias, y)
        return losses.mean_of(
            x,
            weight,
            bias,
            lambda z, rows: F.cross_entropy(self.output(z), y[rows], reduction="none"),
            tuple(self.output.parameters()),
        )

    def token_losses(self, ids: Tensor, targets: Tensor) -> Tensor:
        """Return the cross-entropy (B, T) of each next token, without gradients."""
        x = self.trunk(ids).flatten(0, 1)
        output = None if self.output.neutral else self.output
        return losses.token_losses(x, self._head_weight(), self.head.bias, targets.flatten(), output).view_as(targets)

    def _head_weight(self) -> Tensor:
        return self.trunk.tokens.weight if isinstance(self.head, TiedHead) else self.head.weight

    def new_cache(self) -> Cache:
        return Cache(layers=[LayerCache() for _ in self.trunk.route])


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
        if not spec.pooling.reads_all and spec.block > 1 and not _first_sees_others(spec):
            raise InputError(
                f"{spec.pooling} reads the first token, and with {spec.pattern} that token sees only itself: "
                "choose another pooling, or a pattern that sees later tokens"
            )
        seeded = Seeded(seed)
        self.trunk = Trunk(spec, vocab, seeded)
        with seeded("pooling"):
            self.pooling = spec.pooling.build(spec.dims)
        act = {"relu": nn.ReLU(), "gelu": nn.GELU(), "tanh": nn.Tanh()}[spec.head.activation]
        with seeded("head"):
            hidden = spec.head.hidden
            self.head = nn.Sequential(nn.Linear(spec.width, hidden), act, nn.Linear(hidden, classes))
        seeded.initialise(self, spec)

    def forward(self, ids: Tensor, keep: Tensor | None = None, positions: Tensor | None = None) -> Tensor:
        keep = ids != self.pad if keep is None else keep
        return self.head(self.pooling(self.trunk(ids, keep, positions), keep))


def _at_least(name: str, value: int, least: int) -> int:
    if value < least:
        raise InputError(f"{name} must be at least {least}, not {value}")
    return value
