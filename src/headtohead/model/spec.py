"""ModelSpec: the sizes and parts of a model, and how its weights are initialised."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Literal

from headtohead.errors import InputError
from headtohead.parts import (
    Attention,
    Biases,
    Causal,
    Concat,
    Convolution,
    Embedding,
    FeedForward,
    Full,
    Fusion,
    Gate,
    Init,
    InitSpec,
    LayerNorm,
    Learned,
    Mean,
    Mixer,
    Mlp,
    NoConvolution,
    NoGate,
    NoNorm,
    Norm,
    Output,
    Pattern,
    PlainEmbedding,
    PlainOutput,
    PlainScores,
    PlainValues,
    Pooling,
    Position,
    PreNorm,
    Residual,
    Scores,
    Softmax,
    Values,
    Weighting,
)
from headtohead.parts.layer import Layer
from headtohead.spec import Dims, Layers, Part, Spec, knob

__all__ = ["Biases", "HeadSpec", "Loops", "ModelSpec"]


class HeadSpec(Spec):
    """The classifier's two-layer head: width → hidden → classes."""

    hidden: int = knob(default=100, ge=1, help="size of the hidden layer")
    activation: Literal["relu", "gelu", "tanh"] = knob(default="relu", help="relu, gelu or tanh (as in BERT's pooler)")


class Loops(Spec):
    """How often the blocks are applied. The same weights are used each time."""

    times: int = knob(default=1, ge=1, le=10_000, help="times that every block is applied")
    order: Literal["stack", "block"] = knob(
        default="stack", help="stack: all blocks, then all again; block: the first block so often, then the second"
    )


class ModelSpec(Spec):
    """The sizes and parts of a model. Vocabulary and classes come with the data.

    A part that acts inside a layer may differ from layer to layer: `pattern=3 * Local(8) + Causal()`.
    """

    width: int = knob(default=64, ge=1, le=1 << 16, help="D, width of the residual stream")
    heads: int = knob(default=2, ge=1, le=1 << 16, help="number of query heads")
    kv_heads: int | None = knob(
        default=None, ge=1, help="number of key and value heads; none: as many as heads; 1: multi-query attention"
    )
    head_width: int | None = knob(default=None, ge=1, help="d, width of one head; none: width / heads")
    layers: int = knob(default=4, ge=1, le=10_000, help="number of blocks")
    block: int = knob(default=32, ge=1, le=1 << 20, help="longest text, in tokens")
    dropout: float = knob(default=0.0, ge=0, lt=1, help="dropout of embeddings, attention weights and sublayer outputs")
    biases: Biases = knob(default=Biases(), help="which attention projections learn a bias")
    tied: bool = knob(default=False, help="the language model's head uses the weights of the token embedding")
    head_bias: bool = knob(default=False, help="the language model's head learns a bias")
    position: Position | Layers = knob(default=Learned(), help="how token positions enter the model")
    pattern: Pattern | Layers = knob(default=Causal(), help="which keys a query may see")
    fusion: Fusion | Layers = knob(default=Concat(), help="how the outputs of the heads are combined")
    norm: Norm | Layers = knob(default=LayerNorm(), help="norm of the residual stream")
    qk_norm: Norm | Layers = knob(default=NoNorm(), help="norm of queries and keys, per head")
    embedding_norm: Norm = knob(default=NoNorm(), help="norm after the embeddings, as in BERT")
    residual: Residual | Layers = knob(default=PreNorm(), help="where the norm is placed around a sublayer")
    feedforward: FeedForward | Layers = knob(default=Mlp(), help="the sublayer applied to each token separately")
    pooling: Pooling = knob(default=Mean(), help="how the classifier turns a text into one vector")
    head: HeadSpec = knob(default=HeadSpec(), help="the classifier's head")
    init: Init = knob(default=InitSpec(), help="how weights are initialised")
    mixer: Mixer | Layers = knob(default=Attention(), later=True, help="how information passes from token to token")
    scores: Scores | Layers = knob(
        default=PlainScores(), later=True, help="what happens to products of queries and keys before softmax"
    )
    weighting: Weighting | Layers = knob(default=Softmax(), later=True, help="how scores become weights")
    values: Values | Layers = knob(default=PlainValues(), later=True, help="what is mixed into the values of a layer")
    gate: Gate | Layers = knob(default=NoGate(), later=True, help="what multiplies the output of the heads")
    convolution: Convolution | Layers = knob(
        default=NoConvolution(), later=True, help="short mixing of a token with the tokens just before it"
    )
    embedding: Embedding = knob(default=PlainEmbedding(), later=True, help="how token ids become vectors")
    output: Output = knob(
        default=PlainOutput(), later=True, help="what happens to the logits of the language model's head"
    )
    loops: Loops = knob(default=Loops(), later=True, help="how often the blocks are applied")

    def check(self) -> None:
        if self.head_width is None and self.width % self.heads:
            raise InputError(
                f"width {self.width} is not divisible by {self.heads} heads: choose a multiple of {self.heads}, "
                "or set head_width"
            )
        if self.kv_heads is not None and self.heads % self.kv_heads:
            raise InputError(f"{self.heads} heads cannot share {self.kv_heads} kv_heads: kv_heads must divide heads")
        for name, family in PER_LAYER.items():
            value = getattr(self, name)
            if isinstance(value, Layers) and value.part_family != family:
                raise InputError(
                    f"model.{name} takes parts of the family {family}, and {value} has a {value.part_family}"
                )
            self.each(name)  # refuses more parts than layers
        for name, default in MIXER_SETTINGS.items():
            self._refuse_unused(name, default)
        if len({residual.streams for residual in self.each("residual")}) > 1:
            raise InputError(f"{self.residual} has layers with different numbers of streams: use one for all layers")

    def each(self, name: str) -> tuple[Any, ...]:
        """Return the part of every layer, such as the pattern: `spec.each("pattern")`."""
        value = getattr(self, name)
        return value.over(self.layers) if isinstance(value, Layers) else (value,) * self.layers

    def layer(
        self, n: int, vocab: int = 0, seeded: Callable[[str], AbstractContextManager[object]] = nullcontext
    ) -> Layer:
        """Return sizes and parts of layer n."""
        parts = {name: self.each(name)[n] for name in PER_LAYER}
        return Layer(
            n=n,
            dims=self.dims,
            vocab=vocab,
            kv_heads=self.kv_heads or self.heads,
            biases=self.biases,
            dropout=self.dropout,
            seeded=seeded,
            **parts,
        )

    def leaks(self) -> Part | None:
        """Return a part that shows a token what follows it; None if the model is causal."""
        return next(self._leaks(), None)

    def _leaks(self) -> Iterator[Part]:
        for pattern in dict.fromkeys(self.each("pattern")):
            if not pattern.is_causal(self.block):
                yield pattern
        yield from self._leaking_parts()

    @property
    def has_leaking_parts(self) -> bool:
        """Whether a part other than a pattern shows a token what follows it."""
        return next(self._leaking_parts(), None) is not None

    def _leaking_parts(self) -> Iterator[Part]:
        for name in PER_LAYER:
            yield from (part for part in dict.fromkeys(self.each(name)) if not getattr(part, "causal", True))

    @property
    def is_causal(self) -> bool:
        """Whether no token depends on a later one, by what the parts claim."""
        return self.leaks() is None

    @property
    def widest(self) -> Pattern:
        """A pattern that allows every pair that the pattern of some layer allows."""
        first, *others = dict.fromkeys(self.each("pattern"))
        for pattern in others:
            first = first | pattern
        return first

    def only(self, n: int) -> ModelSpec:
        """Return a model of one layer, with the parts of layer n and a plain embedding."""
        parts = {name: self.each(name)[n] for name in PER_LAYER}
        return dataclasses.replace(self, layers=1, loops=Loops(), embedding=PlainEmbedding(), **parts)

    @property
    def depth(self) -> int:
        """How many blocks a token passes through."""
        return self.layers * self.loops.times

    @property
    def dims(self) -> Dims:
        d = self.head_width or self.width // self.heads
        return Dims(width=self.width, heads=self.heads, head_width=d, layers=self.layers, block=self.block)

    def least_weights(self, vocab: int) -> int:
        """Fewer weights than a model with a vocabulary has: token embedding, and in layers that attend the queries and
        output projections."""
        dims, attends = self.dims, sum(mixer.maps for mixer in self.each("mixer"))
        return self.width * (vocab + 2 * attends * dims.heads * dims.head_width)

    def _refuse_unused(self, name: str, default: Any) -> None:
        """Raise InputError if a setting is not at its default, and the mixers that it is meant for do not use it."""
        value = getattr(self, name)
        neutral = (Causal(), Full()) if name == "pattern" else (default,)  # without patterns: one or both directions
        mixers = self.each("mixer")
        layered = isinstance(value, Layers)
        if layered:
            unused = (m for m, v in zip(mixers, value.over(self.layers), strict=True) if v not in neutral)
            problem = next((m for m in unused if name not in m.uses), None)
        else:  # one value for all layers: mixers that do not use it ignore it, if one layer does
            used = value in neutral or any(name in m.uses for m in mixers)
            problem = None if used else mixers[0]
        if problem is not None:
            raise InputError(
                f"{type(problem).__name__} does not use model.{name}, so {value} would change nothing"
                f"{' in its layers' if layered else ''}: leave it at {default}, or choose another mixer"
            )


# settings that may differ from layer to layer, and the family of each
PER_LAYER = {
    **{name: name for name in ("position", "pattern", "mixer", "scores", "weighting", "values", "gate", "fusion")},
    **{name: name for name in ("convolution", "norm", "residual", "feedforward")},
    "qk_norm": "norm",
}
# settings that a mixer may leave unused, with their defaults
MIXER_SETTINGS = {
    name: ModelSpec.__dataclass_fields__[name].metadata["default"]
    for name in ("pattern", "kv_heads", "qk_norm", "scores", "weighting", "values", "gate", "fusion")
}
