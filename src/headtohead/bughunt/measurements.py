"""What a file with the two models does, as named lists of numbers or texts.

Names that begin with "whole " measure the complete models: a repaired file must agree with the sound one in all of
them. The others measure one part with simple stand-ins for the rest, and tell which bug a difference comes from. A
measurement that raises an exception has the exception as its value.
"""

from __future__ import annotations

import functools
import math
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

Values = list[float] | str
VOCAB, BLOCK = 23, 16
SIZES = ({"width": 16, "heads": 2, "layers": 2}, {"width": 12, "heads": 3, "layers": 1})
WHOLE = "whole "


def measure(module: Any) -> dict[str, Values]:
    """Measure a loaded file, in double precision."""
    found: dict[str, Values] = {}
    with _double():
        for name, take in _all(module):
            try:
                value = take()
                found[name] = value if isinstance(value, str) else _numbers(value)
            except Exception as error:  # the student's code may raise anything
                found[name] = f"it raised {type(error).__name__}: {str(error)[:200]}"
    return found


def agree(a: Values | None, b: Values | None) -> bool:
    """Whether two values are the same, rounding aside. Initial weights may be drawn in another order."""
    if not isinstance(a, list) or not isinstance(b, list):
        return a == b or (isinstance(a, str) and isinstance(b, str) and _exception(a) == _exception(b) != "")
    return len(a) == len(b) and all(
        (math.isnan(x) and math.isnan(y)) or abs(x - y) <= 1e-6 + 1e-4 * max(abs(x), abs(y))
        for x, y in zip(a, b, strict=True)
    )


def _exception(text: str) -> str:
    return text.partition(":")[0] if text.startswith("it raised ") else ""


@contextmanager
def _double() -> Iterator[None]:
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


def _numbers(value: Any) -> list[float]:
    if isinstance(value, Tensor):
        return [round(x, 10) for x in value.detach().double().flatten().tolist()]
    return [x for item in value for x in (_numbers(item) if isinstance(item, Tensor | list | tuple) else [float(item)])]


def _noise(name: str, *shape: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(zlib.crc32(name.encode())))


def _filled(model: nn.Module) -> nn.Module:
    """Weights that depend on their names alone."""
    with torch.no_grad():
        for name, p in model.named_parameters():
            noise = _noise(name, *p.shape)
            if name.endswith("gain"):
                p.copy_(1 + 0.3 * noise)
            else:
                p.copy_(noise * (1 / math.sqrt(p.shape[-1]) if p.ndim > 1 else 0.3))
    return model.eval()


def _built(cls: Any, size: dict[str, int], **options: Any) -> nn.Module:
    torch.manual_seed(0)
    return _filled(cls(vocab=VOCAB, block=BLOCK, **size, **{"dropout": 0.0, **options}))


def _ids(rows: int, length: int, seed: int = 0) -> Tensor:
    return torch.randint(1, VOCAB, (rows, length), generator=torch.Generator().manual_seed(seed))


def _padded() -> Tensor:
    ids = _ids(4, 9, seed=1)
    for row, length in enumerate((9, 6, 3, 1)):
        ids[row, length:] = 0
    return ids


def _gradients(model: nn.Module, out: Tensor) -> Tensor:
    """Two numbers for each parameter, in the order of names."""
    model.zero_grad()
    (out * _noise("out", *out.shape)).sum().backward()
    return torch.stack([_two(name, p.grad) for name, p in sorted(model.named_parameters())]).flatten()


def _two(name: str, t: Tensor | None) -> Tensor:
    return torch.zeros(2) if t is None else torch.stack([(t * _noise(name, *t.shape)).sum(), t.norm()])


def _random(model: Any, call: Callable[[Any], Tensor]) -> str:
    """Whether a call of the model draws random numbers."""
    outs = []
    for seed in (1, 2):
        torch.manual_seed(seed)
        outs.append(call(model))
    return "the same each time" if torch.equal(*outs) else "random"


# -- everything that is measured ---------------------------------------------------------------------------------------


def _all(m: Any) -> Iterator[tuple[str, Callable[[], Any]]]:
    yield from _parts(m)
    for n, size in enumerate(SIZES):
        for name, take in _decoder(m, size):
            yield f"{WHOLE}decoder, {name} ({n})", take
        for name, take in _classifier(m, size):
            yield f"{WHOLE}classifier, {name} ({n})", take


def _decoder(m: Any, size: dict[str, int]) -> Iterator[tuple[str, Callable[[], Any]]]:
    def model(**options: Any) -> Any:
        return _built(m.Decoder, size, **options)

    def cached(step: int) -> list[Tensor]:
        decoder, ids, cache, outs = model(), _ids(2, 9), None, []
        for start in range(0, 9, step):
            out, cache = decoder(ids[:, start : start + step], cache)
            outs.append(out)
        return outs

    def generated() -> list[Tensor]:
        return [model().generate(_ids(3, length, seed=length), 6) for length in (1, 4)]

    def tied() -> str:
        decoder = m.Decoder()
        return str(decoder.head.weight is decoder.trunk.tokens.weight)

    yield "logits", lambda: model()(_ids(2, 11))[0]
    yield "gradient", lambda: _gradients(d := model(), d(_ids(2, 11))[0])
    yield "loss", lambda: [model().loss(_ids(2, 11)), model().loss(_padded())]
    yield "cache", lambda: [cached(1), cached(4)]
    yield "generation", generated
    yield "dropout in evaluation", lambda: _random(model(dropout=0.5), lambda d: d(_ids(2, 11))[0])
    yield "dropout in training", lambda: _random(model(dropout=0.5).train(), lambda d: d(_ids(2, 11))[0])
    yield "tied head", tied
    yield from _of_weights(m, "Decoder", size, lambda d: d.loss(_ids(2, 11)))


def _classifier(m: Any, size: dict[str, int]) -> Iterator[tuple[str, Callable[[], Any]]]:
    def model(**options: Any) -> Any:
        return _built(m.Classifier, size, **options)

    yield "logits", lambda: model()(_ids(2, 11))
    yield "padded texts", lambda: [model()(_padded()), model()(torch.cat([_padded(), torch.zeros(4, 3).long()], dim=1))]
    yield "a text of padding only", lambda: model()(torch.zeros(2, 5).long())
    yield "gradient", lambda: _gradients(c := model(), c(_padded()))
    yield "dropout in evaluation", lambda: _random(model(dropout=0.5), lambda c: c(_ids(2, 11)))
    yield "dropout in training", lambda: _random(model(dropout=0.5).train(), lambda c: c(_ids(2, 11)))
    yield from _of_weights(m, "Classifier", size, lambda c: c(_padded()).logsumexp(dim=-1).sum())


def _of_weights(m: Any, name: str, size: dict[str, int], loss: Any) -> Iterator[tuple[str, Callable[[], Any]]]:
    def model() -> Any:
        return _built(getattr(m, name), size)

    def names() -> str:
        return ", ".join(f"{name} {list(p.shape)}" for name, p in sorted(model().named_parameters()))

    def initial(kind: str) -> list[float]:
        """Mean and standard deviation of all weights of a kind, coarsely: they may be drawn in another order."""
        torch.manual_seed(1)
        made = getattr(m, name)(vocab=400, block=100, width=48, heads=2, layers=2)
        return _coarse(torch.cat([p.detach().flatten() for n, p in made.named_parameters() if _kind(n) == kind]))

    def decays() -> str:
        made = model()
        groups = m.make_optimizer(made, lr=0.01, decay=0.3).param_groups
        decay = {id(p): group["weight_decay"] for group in groups for p in group["params"]}
        return ", ".join(f"{name} {decay.get(id(p), 'not trained')}" for name, p in sorted(made.named_parameters()))

    def trained() -> Tensor:
        made = model()
        optimizer = m.make_optimizer(made, lr=0.01, decay=0.3)
        for factor in (30, 1):  # AdamW shows the limit of the first gradient in the second step
            m.train_step(made, optimizer, factor * loss(made))
        return torch.stack([_two(name, p.detach()) for name, p in sorted(made.named_parameters())])

    yield "names and shapes of weights", names
    for kind in ("gain", "embedding", "matrix", "bias or shift"):
        yield f"initial weights: {kind}", functools.partial(initial, kind)
    yield "weight decay", decays
    yield "two training steps", trained


def _kind(name: str) -> str:
    if name.endswith("gain"):
        return "gain"
    if name.startswith(("trunk.tokens", "trunk.places")):
        return "embedding"
    return "matrix" if name.endswith("weight") else "bias or shift"


def _coarse(weights: Tensor) -> list[float]:
    """The mean in steps of 0.02, and the standard deviation in factors of 1.3."""
    std = float(weights.std())
    step = 0.0 if std < 1e-6 else float(round(math.log(std) / math.log(1.3)))
    return [round(float(weights.mean()) * 50) / 50 + 0.0, step]


# -- parts, with stand-ins for the rest --------------------------------------------------------------------------------


class Times(nn.Module):
    """Stands in for a norm, an attention or a layer."""

    def __init__(self, factor: float) -> None:
        super().__init__()
        self.factor = factor

    def forward(self, x: Tensor, *given: Any) -> Any:
        return (x.roll(1, dims=-1) * self.factor, None) if given else x * self.factor


class Layer(nn.Module):
    """Stands in for a block: adds what it finds in the cache."""

    def forward(self, x: Tensor, allowed: Tensor, past: Any = None) -> Any:
        return x * 1.5 + (0 if past is None else past[0].mean() + 2 * past[1].mean()), (x[:, None], x[:, None])


class Recorder(nn.Module):
    """Stands in for a trunk: keeps the mask that it is given."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.width, self.heads = width, heads

    def forward(self, ids: Tensor, allowed: Tensor, cache: Any = None) -> Any:
        B, T = ids.shape
        self.seen = allowed.bool().expand(B, self.heads, T, allowed.shape[-1])
        return _noise("states", B, T, self.width), cache


def _parts(m: Any) -> Iterator[tuple[str, Callable[[], Any]]]:
    width, heads = 12, 3
    x = _noise("x", 2, 5, width)
    causal = torch.ones(5, 5, dtype=torch.bool).tril()
    past = (_noise("keys", 2, heads, 4, 4), _noise("values", 2, heads, 4, 4))

    def attention(dropout: float = 0.0) -> Any:
        return _filled(m.Attention(width, heads, dropout))

    def block() -> Any:
        made = _filled(m.Block(width, heads, 0.0))
        made.norm1, made.norm2, made.attention = Times(2.0), Times(3.0), Times(0.7)
        return made

    def trunk(layers: int = 2) -> Any:
        made = _filled(m.Trunk(VOCAB, BLOCK, width, heads, layers, 0.0))
        made.blocks, made.norm = nn.ModuleList([Layer() for _ in range(layers)]), Times(2.0)
        return made

    def with_cache() -> Tensor:
        cache = [(_noise(f"k{n}", 2, heads, 3, 4), _noise(f"v{n}", 2, heads, 3, 4)) for n in range(2)]
        return trunk()(_ids(2, 5), causal, cache)[0]

    def block_gradient() -> Any:
        made, given = block(), x.clone().requires_grad_()
        (made(given, causal)[0] * x.square()).sum().backward()
        return given.grad

    yield "norm", lambda: _filled(m.Norm(width))(3 * x)
    yield "attention", lambda: attention()(x, causal)[0]
    yield "attention with a cache", lambda: attention()(x, torch.ones(5, 9, dtype=torch.bool), past)[0]
    yield "attention, dropout", lambda: _random(attention(0.5), lambda a: a(x, causal)[0])
    yield "block", lambda: block()(x, causal)[0]
    yield "block, gradient", block_gradient
    yield "trunk", lambda: trunk()(_ids(2, 5), causal)[0]
    yield "trunk, gradient", lambda: _gradients(t := trunk(), t(_ids(2, 5), causal)[0])
    yield "trunk with a cache", with_cache
    yield from _ends(m, width, heads)


def _ends(m: Any, width: int, heads: int) -> Iterator[tuple[str, Callable[[], Any]]]:
    """The models around their trunk, the loss, generation, and the training step."""

    def around(cls: Any, ids: Tensor, cache: Any = None) -> tuple[Any, Any]:
        model = _filled(cls(VOCAB, BLOCK, width, heads, 1))
        model.trunk = Recorder(width, heads)
        return model(ids) if cache is None else model(ids, cache), model.trunk

    def loss(ids: Tensor) -> Tensor:
        model = m.Decoder(VOCAB, BLOCK, width, heads, 1)
        model.forward = lambda ids, cache=None: (_noise("logits", *ids.shape, VOCAB), cache)
        return model.loss(ids)

    def generated() -> list[float]:
        """What generation gives to the model at each step: how many tokens, and how many are in the cache."""
        model = m.Decoder(VOCAB, BLOCK, width, heads, 1)
        given: list[float] = []

        def forward(ids: Tensor, cache: Any = None) -> Any:
            given.extend([ids.shape[1], -1 if cache is None else len(cache)])
            return _noise("next", ids.shape[0], ids.shape[1], VOCAB), [0] * (len(given) + 5)

        model.forward = forward
        model.generate(_ids(2, 3), 4)
        return given

    def step() -> list[Tensor]:
        model = nn.Linear(3, 2)
        _filled(model)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for factor in (50, 0.01):
            m.train_step(model, optimizer, factor * model(_noise("inputs", 4, 3)).square().sum())
        return list(model.parameters())

    def initialised() -> list[list[float]]:
        torch.manual_seed(1)
        parts = nn.Embedding(100, 50), nn.Linear(100, 50)
        return [_coarse(p.detach()) for part in parts for p in (m.initialise(part), *part.parameters())[1:]]

    past = [(torch.zeros(2, heads, 3, 4), torch.zeros(2, heads, 3, 4))]
    yield "initialise", initialised
    yield "mask of the decoder", lambda: around(m.Decoder, _ids(2, 6))[1].seen.double()
    yield "mask of the decoder with a cache", lambda: around(m.Decoder, _ids(2, 4), past)[1].seen.double()
    yield "mask of the classifier", lambda: around(m.Classifier, _padded())[1].seen.double()[:3]
    yield "pooling", lambda: around(m.Classifier, _padded())[0]
    yield "loss from logits", lambda: loss(_ids(3, 6))
    yield "loss from logits of padded texts", lambda: loss(_padded())
    yield "steps of generation", generated
    yield "training step", step
