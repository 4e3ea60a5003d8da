"""Small models with perturbed weights, in double precision or as if they had been trained; and texts with padding.

Legend: T = tokens of a text, VOCAB = size of the vocabulary.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from headtohead import (
    Arm,
    Attention,
    AttentionPooling,
    BigramHash,
    Byte,
    Canon,
    CappedOutput,
    Causal,
    Classifier,
    Disentangled,
    Experts,
    HyperConnections,
    LanguageModel,
    LearnedScales,
    Local,
    Mlp,
    ModelSpec,
    Part,
    Pattern,
    Prefix,
    RelativeBias,
    Rope,
    RunSpec,
    Sinks,
    TokenShift,
    Trained,
    families,
)
from headtohead.parts.mixers.attention import MultiHead
from headtohead.parts.sequence.memo import Memo
from headtohead.run.store import Record
from headtohead.spec import alternatives, is_builtin

T, VOCAB, CLASSES = 12, 19, 3
SMALL = ModelSpec(width=16, heads=4, layers=2, block=T)
SAME = 1e-10  # double precision, outputs of the order of one

# Knob values small enough to matter in texts of twelve tokens, and combinations that no single knob reaches.
CLOSE = [
    Rope(theta=20.0),
    Disentangled(span=3),
    RelativeBias(buckets=8, max_distance=6),
    RelativeBias(buckets=4, max_distance=9, sides="past"),
    Local(1),
    Local(3),
    Sinks(first=2, window=2),
    Prefix(2),
    (Local(2) | Prefix(1)) & Causal(),
    Causal() | Prefix(3),
    Canon(sites="B", residual=False, activation="silu"),
    Canon(sites="AD", width=2),
    TokenShift(sites="BD"),
    BigramHash(size=7),
    CappedOutput(cap=0.5),
    Experts(count=4, expert=Mlp(activation="relu2"), routing="softmax of all", active=1),
    Experts(count=4, active=3, routing="sigmoid", bias_step=0.1, shared=1),
    HyperConnections(count=1),
    LearnedScales(embedding=0.5),
    AttentionPooling(heads=4),
    Local(1) & Prefix(2),  # tokens from the third on may look at nothing
]

Model = TypeVar("Model", bound=nn.Module)


def defaults() -> list[Part]:
    return [cls() for members in families().values() for cls in members.values() if is_builtin(cls)]


def variants() -> list[Part]:
    """Every part at its defaults, with each knob changed, and with close values; each once."""
    changed = [other for part in defaults() for _knob, other in alternatives(part)]
    return list(dict.fromkeys([*defaults(), *changed, *CLOSE]))


def model_spec(part: Part, **settings: Any) -> ModelSpec:
    """A small model with this part. Patterns are taken as they are."""
    spec = SMALL.set(part.family, part)
    for name, value in settings.items():
        spec = spec.set(name.replace("__", "."), value)
    return spec


def causal_spec(part: Part, **settings: Any) -> ModelSpec:
    """A small model with this part that must not read the future."""
    spec = model_spec(part, **settings)
    return spec.set("pattern", Causal() & part) if isinstance(part, Pattern) else spec


@functools.cache
def language_model(spec: ModelSpec) -> LanguageModel:
    """Built once: a test may take gradients and change the mode, but leaves the weights alone."""
    return stirred(LanguageModel(spec, VOCAB))


@functools.cache
def classifier(spec: ModelSpec) -> Classifier:
    return stirred(Classifier(spec, VOCAB, CLASSES))


def stirred(model: Model, seed: int = 1) -> Model:
    """In double precision and evaluation mode, with every weight moved: attention is far from uniform, no bias is
    zero, no gain one."""
    draw = torch.Generator().manual_seed(seed)
    model = model.double().eval()
    with torch.no_grad():
        for p in model.parameters():
            p.add_(0.3 * torch.randn(p.shape, generator=draw, dtype=torch.float64))
    return model


def as_if_trained(spec: ModelSpec = SMALL, *, classes: int = 0, stir: float = 0.3) -> Trained:
    """A model in single precision with perturbed weights and a vocabulary of bytes, as if loaded from a store."""
    arm = Arm.of("classifier" if classes else "lm").set("model", spec)
    vocabulary = Byte().learn(iter(["any text"]))
    model = (Classifier(spec, vocabulary.size, classes) if classes else LanguageModel(spec, vocabulary.size)).eval()
    draw = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for p in model.parameters():
            p.add_(stir * torch.randn(p.shape, generator=draw))
    labels = tuple(f"class {n}" for n in range(classes))
    return Trained(Record(Path("runs/0123456789abcdef")), RunSpec(arm=arm), model, vocabulary, labels, 7)


def text(rows: int, length: int = T, seed: int = 2) -> Tensor:
    """Random ids (rows, length), none of them 0."""
    return torch.randint(1, VOCAB, (rows, length), generator=torch.Generator().manual_seed(seed))


def padded(texts: list[Tensor], keep: Tensor, fill: Tensor) -> Tensor:
    """ids (B, T) that hold each text, in order, where `keep` is true, and `fill` elsewhere."""
    ids = fill.clone()
    for row, words in enumerate(texts):
        ids[row, keep[row]] = words
    return ids


def weigh(out: Tensor) -> Tensor:
    """A number that depends on every output."""
    draw = torch.Generator().manual_seed(3)
    return (out * torch.randn(out.shape, generator=draw, dtype=torch.float64).to(out.dtype)).sum()


def gradients(model: nn.Module, out: Tensor) -> dict[str, Tensor]:
    model.zero_grad()
    weigh(out).backward()
    return {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}


@contextmanager
def token_inputs(model: LanguageModel | Classifier) -> Iterator[list[Tensor]]:
    """What the token embedding gives, made a leaf, so that its gradient tells which token an output depends on."""
    leaves: list[Tensor] = []

    def cut(_module: nn.Module, _args: Any, out: Tensor) -> Tensor:
        leaves.append(out.detach().requires_grad_())
        return leaves[-1]

    hook = model.trunk.tokens.register_forward_hook(cut)
    try:
        yield leaves
    finally:
        hook.remove()


def influence(model: LanguageModel, length: int = T) -> Tensor:
    """(T, T): the size of the gradient of output i with respect to token j."""
    ids = text(1, length).expand(length, length)  # row i is there for output i
    with token_inputs(model) as leaves:
        weigh(model(ids)[range(length), range(length)]).backward()
    return leaves[0].grad.abs().amax(dim=-1)


def table(allowed: Callable[[int, int], Any], length: int = T) -> Tensor:
    """(T, T) of a rule on positions, asked pair by pair in plain numbers."""
    return torch.tensor([[bool(allowed(i, j)) for j in range(length)] for i in range(length)])


def reach(allowed: Tensor, layers: int) -> Tensor:
    """(T, T): what a token can know of after so many layers; its own state goes along the residual stream."""
    one = allowed | torch.eye(len(allowed), dtype=torch.bool)
    seen = torch.eye(len(allowed), dtype=torch.bool)
    for _ in range(layers):
        seen = (seen.double() @ one.double()) > 0
    return seen


def close(a: Tensor, b: Tensor) -> None:
    torch.testing.assert_close(a, b, rtol=SAME, atol=SAME)


def places(model: nn.Module, *args: Tensor | None, **given: object) -> Tensor:
    """The positions (B|1, T) that the model's position encoding was asked for."""
    asked: list[Tensor] = []
    embed = model.trunk.position.embed
    model.trunk.position.embed = lambda x, i: asked.append(i) or embed(x, i)
    try:
        model(*args, **given)
    finally:
        del model.trunk.position.embed
    return asked[0]


def attention_layer(spec: ModelSpec = SMALL, n: int = 0) -> MultiHead:
    """The attention module of one layer, with random weights of torch's own start."""
    layer = Attention().build(spec.layer(n, VOCAB))
    assert isinstance(layer, MultiHead)
    return layer


def memo_of(x: Tensor) -> Memo:
    """What layers share in a forward pass on texts x (B, T, D)."""
    return Memo(torch.zeros(x.shape[:2], dtype=torch.long), x)
