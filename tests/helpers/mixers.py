"""One mixer alone, with random weights in double precision, against the loops of its equation.

Legend: B texts, T tokens, n real tokens of one text, D width, d width of a head.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor

from headtohead import Causal, Mixer, MixerHooks, NoPosition, Pattern, Position
from headtohead.model.cache import Cache
from headtohead.model.spec import ModelSpec
from headtohead.parts.positions import PositionHooks
from headtohead.parts.sequence.mask import Mask, allowed_pairs
from headtohead.parts.sequence.memo import Memo
from headtohead.parts.sequence.state import LayerCache

T, D, H, d, VOCAB = 9, 8, 4, 4, 5
KEEP = torch.tensor(
    [[1] * T, [0, 0, 1, 1, 1, 1, 1, 1, 1], [1, 1, 1, 1, 0, 0, 0, 0, 0], [0, 1, 0, 0, 1, 1, 0, 1, 1], [0] * T]
).bool()
DIMS = ModelSpec(width=D, heads=H, head_width=d, block=T).dims
PIECES = {"at once": [T], "token by token": [1] * T, "in pieces": [4, 1, 3, 1]}

Definition = Callable[[Any, Tensor], Tensor]  # the module and one text without padding (n, D) → (n, D)


def layer_of(mixer: Mixer, pattern: Pattern | None = None, **settings: Any) -> MixerHooks:
    """The module of the second layer, with every weight drawn, in double precision."""
    spec = ModelSpec(width=D, heads=H, head_width=d, layers=2, block=T, mixer=mixer, pattern=pattern or Causal())
    for name, value in settings.items():
        spec = spec.set(name, value)
    return drawn(mixer.build(spec.layer(1, VOCAB)))


def drawn(module: Any) -> Any:
    draw = torch.Generator().manual_seed(4)
    with torch.no_grad():
        for p in module.parameters():
            p.copy_(0.6 * torch.randn(p.shape, generator=draw))
    return module.double().eval()


def embeddings(length: int = T, rows: int = len(KEEP)) -> Tensor:
    return torch.randn(rows, length, D, generator=torch.Generator().manual_seed(5), dtype=torch.float64)


def mixed(
    module: MixerHooks,
    x: Tensor,
    keep: Tensor | None = None,
    pieces: Sequence[int] = (),
    pattern: Pattern | None = None,
    position: PositionHooks | None = None,
    cache: Cache | None = None,
) -> Tensor:
    """Outputs (B, T, D) for texts x, at once without a cache, or in pieces with one."""
    pattern, position = pattern or Causal(), position or NoPosition().build(DIMS)
    cache = Cache(layers=[LayerCache()]) if cache is None and pieces else cache
    outs, start = [], 0
    for size in pieces or [x.shape[1]]:
        now = slice(start, start + size)
        kept = None if keep is None else keep[:, now]
        ids = torch.zeros(len(x), size, dtype=torch.long)
        place = Cache() if cache is None else cache
        i = place.next_positions(ids, kept)
        j, keys = place.remember(i, kept, ids)
        i, j = i[:, None, :, None], j[:, None, None, :]
        allowed = allowed_pairs(pattern, H, i, j)
        allowed = allowed if keys is None else allowed & keys[:, None, None, :]
        mask = Mask.of(allowed, i, j, kept)
        outs.append(module(x[:, now], mask, position, None if cache is None else cache.layers[0], Memo(ids, x)))
        start += size
    return torch.cat(outs, dim=1)


def matches(
    module: MixerHooks, definition: Definition, pattern: Pattern | None = None, position: Position | None = None
) -> None:
    """Assert that each text gives the outputs of its definition, whatever padding is around and between its tokens;
    in a causal layer also with a cache, token by token and in pieces."""
    x, hooks = embeddings(), (position or NoPosition()).build(DIMS).double()
    causal = (pattern or Causal()).is_causal(T)
    with torch.no_grad():
        alone = [definition(module, x[row, KEEP[row]]) for row in range(len(KEEP) - 1)]
        for name, pieces in PIECES.items():
            if not causal and len(pieces) > 1:
                continue
            for cached in (False, True) if name == "at once" else (True,):
                out = mixed(module, x, KEEP, pieces if cached else (), pattern, hooks)
                for row, expected in enumerate(alone):
                    torch.testing.assert_close(out[row, KEEP[row]], expected, rtol=0, atol=1e-10)
        for pieces in ((), *(PIECES.values() if causal else ())):
            whole = mixed(module, x[:1], None, pieces, pattern, hooks)[0]
            torch.testing.assert_close(whole, alone[0], rtol=0, atol=1e-10)


def both_ways(definition: Definition) -> Definition:
    """The mean of the text read forwards and backwards."""
    return lambda module, x: (definition(module, x) + definition(module, x.flip(0)).flip(0)) / 2


def planted(old: str, new: str, *things: Any) -> list[Any]:
    """Functions or classes of one module, compiled again with one piece of their source replaced."""
    sources = [inspect.getsource(thing) for thing in things]
    assert sum(source.count(old) for source in sources) == 1, f"{old} is not there once"
    space = dict(vars(sys.modules[things[0].__module__]))
    for source in sources:
        exec(compile("from __future__ import annotations\n" + source.replace(old, new), "planted", "exec"), space)
    return [space[thing.__name__] for thing in things]


def plant(monkeypatch: pytest.MonkeyPatch, thing: Any, old: str, new: str) -> None:
    """Put a bug into a function or class, where its module finds it."""
    (changed,) = planted(old, new, thing)
    monkeypatch.setattr(sys.modules[thing.__module__], thing.__name__, changed)
