"""ModelSpec: the sizes and parts of a model, and how its weights are initialised."""

from __future__ import annotations

from typing import Literal

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
from headtohead.spec import Dims, Spec, knob


class Biases(Spec):
    """Which of the four attention projections learn a bias."""

    q: bool = knob(default=False, help="queries")
    k: bool = knob(
        default=False, help="keys; softmax cancels it, so it has no effect unless keys are rotated or normalised"
    )
    v: bool = knob(default=False, help="values")
    out: bool = knob(default=True, help="the output projection")


class InitSpec(Spec):
    """How weights are initialised. The default is GPT's rule; `InitSpec.torch()` is PyTorch's."""

    embedding_std: float = knob(
        default=0.02, gt=0, help="standard deviation of token and position embeddings; PyTorch's default is 1.0"
    )
    linear: Literal["normal", "torch", "xavier"] = knob(
        default="normal",
        help="normal: N(0, linear_std), biases zero; torch: U(±1/sqrt(fan_in)); xavier: Glorot uniform, biases zero",
    )
    linear_std: float = knob(default=0.02, gt=0, help="standard deviation of linear layers with linear=normal")
    residual_scaling: bool = knob(
        default=True, help="multiply initial projections into the residual stream by 1/sqrt(2·layers)"
    )

    @classmethod
    def torch(cls) -> InitSpec:
        """Return PyTorch's defaults: unit-variance embeddings, uniform linear layers, no residual scaling."""
        return cls(embedding_std=1.0, linear="torch", residual_scaling=False)


class HeadSpec(Spec):
    """The classifier's two-layer head: width → hidden → classes."""

    hidden: int = knob(default=100, ge=1, help="size of the hidden layer")
    activation: Literal["relu", "gelu", "tanh"] = knob(default="relu", help="relu, gelu or tanh (as in BERT's pooler)")


class ModelSpec(Spec):
    """The sizes and parts of a model. Vocabulary and classes come with the data."""

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
    position: Position = knob(default=Learned(), help="how token positions enter the model")
    pattern: Pattern = knob(default=Causal(), help="which keys a query may see")
    fusion: Fusion = knob(default=Concat(), help="how the outputs of the heads are combined")
    norm: Norm = knob(default=LayerNorm(), help="norm of the residual stream")
    qk_norm: Norm = knob(default=NoNorm(), help="norm of queries and keys, per head")
    embedding_norm: Norm = knob(default=NoNorm(), help="norm after the embeddings, as in BERT")
    residual: Residual = knob(default=PreNorm(), help="where the norm is placed around a sublayer")
    feedforward: FeedForward = knob(default=Mlp(), help="the sublayer applied to each token separately")
    pooling: Pooling = knob(default=Mean(), help="how the classifier turns a text into one vector")
    head: HeadSpec = knob(default=HeadSpec(), help="the classifier's head")
    init: InitSpec = knob(default=InitSpec(), help="how weights are initialised")

    def check(self) -> None:
        if self.head_width is None and self.width % self.heads:
            raise InputError(
                f"width {self.width} is not divisible by {self.heads} heads: choose a multiple of {self.heads}, "
                "or set head_width"
            )
        if self.kv_heads is not None and self.heads % self.kv_heads:
            raise InputError(f"{self.heads} heads cannot share {self.kv_heads} kv_heads: kv_heads must divide heads")

    @property
    def dims(self) -> Dims:
        d = self.head_width or self.width // self.heads
        return Dims(width=self.width, heads=self.heads, head_width=d, layers=self.layers, block=self.block)

    def least_weights(self, vocab: int) -> int:
        """Fewer weights than a model with a vocabulary has: token embedding, queries and output projections."""
        dims = self.dims
        return self.width * (vocab + 2 * dims.layers * dims.heads * dims.head_width)
