"""The model: one trunk, two heads. `ModelSpec` says what it is made of; the parts say what it does.

Shapes: B texts, T tokens, D = width. ids (B, T) integers; keep (B, T), true at real tokens.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from headtohead import losses
from headtohead.attention import Ahead, Attention, Biases, Cache, LayerCache, Packing, Reach
from headtohead.dropout import Dropout
from headtohead.errors import InputError
from headtohead.parts import (
    Causal,
    Concat,
    FeedForward,
    Fusion,
    LayerNorm,
    Learned,
    Mean,
    Mlp,
    NoNorm,
    Norm,
    Pattern,
    Pooling,
    Position,
    PreNorm,
    Residual,
)
from headtohead.parts.positions import LayerHooks
from headtohead.spec import Dims, Spec, knob
from headtohead.streams import stream


class InitSpec(Spec):
    """How weights start. GPT's rule by default; `InitSpec.torch()` is what a plain nn.Module gets."""

    embedding_std: float = knob(default=0.02, gt=0, help="of token and position embeddings; torch's own is 1.0")
    linear: Literal["normal", "torch", "xavier"] = knob(
        default="normal",
        help="normal: N(0, linear_std), biases zero; torch: U(±1/sqrt(fan_in)); xavier: Glorot uniform, biases zero",
    )
    linear_std: float = knob(default=0.02, gt=0, help="of the normal rule")
    residual_scaling: bool = knob(
        default=True, help="projections into the residual stream start smaller by 1/sqrt(2·layers)"
    )

    @classmethod
    def torch(cls) -> InitSpec:
        """PyTorch's defaults: unit-variance embeddings, uniform linear layers, no residual scaling."""
        return cls(embedding_std=1.0, linear="torch", residual_scaling=False)


class HeadSpec(Spec):
    """The classifier's two-layer head: width → hidden → classes."""

    hidden: int = knob(default=100, ge=1, help="size of the layer between")
    activation: Literal["relu", "gelu", "tanh"] = knob(default="relu", help="relu, gelu or tanh (as in BERT's pooler)")


class ModelSpec(Spec):
    """Everything a model is made of, except the vocabulary and the classes, which come with the data."""

    width: int = knob(default=64, ge=1, help="D, of the residual stream")
    heads: int = knob(default=2, ge=1, help="query heads")
    kv_heads: int | None = knob(default=None, ge=1, help="key and value heads; none: as many as heads; 1: multi-query")
    head_width: int | None = knob(default=None, ge=1, help="d of one head; none: width / heads")
    layers: int = knob(default=4, ge=1, help="blocks")
    block: int = knob(default=32, ge=1, help="the longest text, in tokens")
    dropout: float = knob(default=0.0, ge=0, lt=1, help="of embeddings, attention weights and sublayer outputs")
    biases: Biases = knob(default=Biases(), help="which attention projections learn a bias")
    tied: bool = knob(default=False, help="the language model's head is the token embedding itself")
    head_bias: bool = knob(default=False, help="the language model's head learns a bias")
    position: Position = knob(default=Learned(), help="how the model learns where a token stands")
    pattern: Pattern = knob(default=Causal(), help="which keys a query may look at")
    fusion: Fusion = knob(default=Concat(), help="how heads are laid side by side")
    norm: Norm = knob(default=LayerNorm(), help="of the residual stream")
    qk_norm: Norm = knob(default=NoNorm(), help="of queries and keys, per head")
    embedding_norm: Norm = knob(default=NoNorm(), help="right after the embeddings, as in BERT")
    residual: Residual = knob(default=PreNorm(), help="where the norm stands around a sublayer")
    feedforward: FeedForward = knob(default=Mlp(), help="what is computed at each token alone")
    pooling: Pooling = knob(default=Mean(), help="how the classifier makes one vector of a text")
    head: HeadSpec = knob(default=HeadSpec(), help="the classifier's head")
    init: InitSpec = knob(default=InitSpec(), help="how weights start")

    def check(self) -> None:
        if self.head_width is None and self.width % self.heads:
            raise InputError(
                f"width {self.width} does not divide into {self.heads} heads: choose a width that is a multiple of "
                f"{self.heads}, or set head_width"
            )
        if self.kv_heads is not None and self.heads % self.kv_heads:
            raise InputError(f"{self.heads} heads cannot share {self.kv_heads} kv_heads: kv_heads must divide heads")

    @property
    def dims(self) -> Dims:
        d = self.head_width or self.width // self.heads
        return Dims(width=self.width, heads=self.heads, head_width=d, layers=self.layers, block=self.block)


class Block(nn.Module):
    """Attention, then a feed-forward, each wired to the residual stream."""

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

    def forward(self, x: Tensor, reach: Reach, position: LayerHooks, cache: LayerCache | None) -> Tensor:
        if not self.training:  # nothing is dropped: a call less for each sublayer, where calls are what takes time
            x = self.around_attention(x, lambda h: self.attention(h, reach, position, cache))
            return self.around_feedforward(x, self.feedforward)
        x = self.around_attention(x, lambda h: self.dropout(self.attention(h, reach, position, cache)))
        return self.around_feedforward(x, lambda h: self.dropout(self.feedforward(h)))


class Trunk(nn.Module):
    """Token ids → one vector a token; what classifier and language model share."""

    packs = False  # true: between embedding and pooling, padded texts are packed; training sets it, for speed

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
        """(B, T, D). `positions` (T,) or (B, T) default to the count of real tokens before each, so padding on the
        left moves nothing; with a `cache`, ids go on where the last call ended."""
        keep = None if keep is None else keep.bool()
        seen = 0 if cache is None else cache.length
        if seen + ids.shape[1] > self.spec.block:
            raise InputError(
                f"the text has {seen + ids.shape[1]} tokens and the model's block is {self.spec.block}: "
                "cut the text, or build the model with a larger block"
            )
        plain = keep is None and positions is None and not self.training
        if plain and cache is not None and cache.ahead is not None and ids.shape[1] == 1:
            return self._next(ids, cache, seen)
        i = _positions(ids, keep, cache) if positions is None else positions.view(-1, ids.shape[1])  # (B|1, T)
        j, key_keep = _remember(i, keep, ids, cache)
        if cache is not None:
            own = plain and key_keep is None and (cache.ahead is not None or seen == 0)
            cache.ahead = self._ahead(ids) if own and seen == 0 else cache.ahead if own else None
        x = self.position.embed(self.tokens(ids), i)
        x = self.dropout(self.embedding_norm(x))
        i, j = i[:, None, :, None], j[:, None, None, :]
        allowed = self.spec.pattern.allowed(i, j)
        if key_keep is not None:
            allowed = allowed & key_keep[:, None, None, :]
        packing = Packing.of(keep) if self.packs and keep is not None and cache is None else None
        reach = Reach.of(allowed, i, j, keep, packing)
        x = x if packing is None else packing.pack(x)
        for n, block in enumerate(self.blocks):
            x = block(x, reach, self.position.layer(n), None if cache is None else cache.layers[n])
        x = self.last(x)
        return x if packing is None else packing.spread(x) * packing.keep[:, :, None]

    def _ahead(self, ids: Tensor) -> Ahead:
        places = torch.arange(self.spec.block, device=ids.device)
        allowed = self.spec.pattern.allowed(places[None, None, :, None], places[None, None, None, :])
        return Ahead.of(places, allowed)

    def _next(self, ids: Tensor, cache: Cache, seen: int) -> Tensor:
        """One token more where all stand at their own places: the same as in `forward`, with nothing worked out anew
        that was known before."""
        assert cache.ahead is not None
        reach = cache.ahead.reach(seen)
        cache.positions = reach.j.view(1, -1)
        x = self.embedding_norm(self.position.embed(self.tokens(ids), reach.i.view(1, 1))).squeeze(1)  # (B, D)
        for n, block in enumerate(self.blocks):
            x = block(x, reach, self.position.layer(n), cache.layers[n])
        return self.last(x).unsqueeze(1)


def _positions(ids: Tensor, keep: Tensor | None, cache: Cache | None) -> Tensor:
    """(B|1, T): how many real tokens stand before each. One row serves all texts unless padding comes first."""
    T = ids.shape[1]
    before = 0 if cache is None else cache.length
    padded_first = keep is not None and bool((keep[:, 1:] & ~keep[:, :-1]).any())
    if cache is not None and cache.keep is not None:
        before = cache.keep.sum(dim=1, keepdim=True)  # type: ignore[assignment]
        padded_first = padded_first or not bool(cache.keep.all())
    if not padded_first:
        return torch.arange(T, device=ids.device)[None] + before
    counted = torch.ones_like(ids) if keep is None else keep.long()
    return (counted.cumsum(dim=1) - 1).clamp(min=0) + before


def _remember(i: Tensor, keep: Tensor | None, ids: Tensor, cache: Cache | None) -> tuple[Tensor, Tensor | None]:
    """Positions and keep mask of all keys: those in the cache, then these."""
    if cache is None:
        return i, keep
    if keep is not None or cache.keep is not None:
        old = cache.keep if cache.keep is not None else ids.new_ones(len(ids), cache.length, dtype=torch.bool)
        cache.keep = torch.cat([old, torch.ones_like(ids, dtype=torch.bool) if keep is None else keep], dim=1)
    if cache.positions is None:
        cache.positions = i
    else:
        rows = max(len(i), len(cache.positions))
        cache.positions = torch.cat([cache.positions.expand(rows, -1), i.expand(rows, -1)], dim=1)
    return cache.positions, cache.keep


class LanguageModel(nn.Module):
    """Token ids → logits of the next token (B, T, V); as causal as the spec's parts are, which `h2h audit` proves."""

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
        """The mean cross-entropy of the next tokens, as from `forward`'s logits but without keeping them."""
        return losses.mean_loss(self.trunk(ids).flatten(0, 1), self._table(), self.head.bias, targets.flatten())

    def token_losses(self, ids: Tensor, targets: Tensor) -> Tensor:
        """(B, T) cross-entropy of each next token; no gradients."""
        x = self.trunk(ids).flatten(0, 1)
        return losses.token_losses(x, self._table(), self.head.bias, targets.flatten()).view_as(targets)

    def _table(self) -> Tensor:
        return self.trunk.tokens.weight if isinstance(self.head, TiedHead) else self.head.weight

    def new_cache(self) -> Cache:
        return Cache(layers=[LayerCache() for _ in self.trunk.blocks])


class TiedHead(nn.Module):
    """Logits by the token embedding itself; its only weight of its own is the bias."""

    def __init__(self, vocab: int, bias: bool) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(vocab)) if bias else None

    def forward(self, x: Tensor, tokens: Tensor) -> Tensor:
        return F.linear(x, tokens, self.bias)


class Classifier(nn.Module):
    """Token ids → logits of the classes (B, C). Without a keep mask, tokens equal to `pad` are padding."""

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
                f"{spec.pooling} reads the first token, and {spec.pattern} shows it nothing else: "
                "choose another pooling, or a pattern that looks ahead"
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


class Seeded:
    """Initial weights, each drawn from a stream of its own keyed by (seed, name): tensors that two models share by
    name and shape start bit-identical, whatever else differs."""

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def stream(self, name: str) -> int:
        return stream(self.seed, "init", name)

    @contextmanager
    def __call__(self, name: str) -> Iterator[None]:
        """Build a part here: what its constructor draws depends on the seed and this name alone."""
        before = torch.get_rng_state()
        torch.default_generator.manual_seed(
            self.stream(name)
        )  # torch.manual_seed takes a millisecond, for other devices
        try:
            yield
        finally:
            torch.set_rng_state(before)

    def initialise(self, model: nn.Module, spec: ModelSpec) -> None:
        """Linear layers and embeddings by the spec's rule, other modules by their `reset_parameters`, or as built."""
        if any(p.is_meta for p in model.parameters()):
            return
        for name, module in model.named_modules():
            if isinstance(module, nn.Linear | nn.Embedding):
                with torch.no_grad():
                    for kind, parameter in module.named_parameters(recurse=False):
                        draw = torch.Generator().manual_seed(self.stream(f"{name}.{kind}"))
                        _draw(module, kind, parameter, spec, draw)
            elif hasattr(module, "reset_parameters"):
                with self(name):
                    module.reset_parameters()


def _draw(module: nn.Module, kind: str, parameter: Tensor, spec: ModelSpec, draw: torch.Generator) -> None:
    init = spec.init
    if isinstance(module, nn.Embedding):
        parameter.normal_(0, init.embedding_std, generator=draw)
        return
    fan_out, fan_in = module.weight.shape  # type: ignore[misc]
    smaller = (
        1 / math.sqrt(2 * spec.layers) if init.residual_scaling and getattr(module, "into_residual", False) else 1.0
    )
    if init.linear == "torch":
        bound = 1 / math.sqrt(fan_in)
        parameter.uniform_(-bound, bound, generator=draw)
    elif kind == "bias":
        parameter.zero_()
    elif init.linear == "xavier":
        bound = math.sqrt(6 / (fan_in + fan_out))
        parameter.uniform_(-bound, bound, generator=draw)
    else:
        parameter.normal_(0, init.linear_std, generator=draw)
    if kind == "weight":
        parameter.mul_(smaller)
