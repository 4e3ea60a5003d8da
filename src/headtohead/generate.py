"""Text from a trained language model, token by token on the KV cache.

Past the block the window slides: when it is full, the older half is forgotten and the newer half read anew from the
beginning of the block. A window is a function of the token's place alone, so the cached and the uncached way read the
same tokens for every prediction and must agree.

Shapes: B samples of one prompt, V words of the vocabulary.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from headtohead.attention import Cache
from headtohead.data.tokenizers import Vocabulary
from headtohead.errors import InputError
from headtohead.imported import opened
from headtohead.lean import lean
from headtohead.model import LanguageModel
from headtohead.trained import Trained

MOST = 10_000_000  # tokens at once


@dataclass(frozen=True)
class Sampling:
    """How the next token is drawn from the model's probabilities. In this order: what was said already is made less
    likely, logits are divided by the temperature, only the likeliest are left, one of them is drawn."""

    greedy: bool = False  # take the likeliest
    temperature: float = 1.0
    top_k: int | None = None  # only so many of the likeliest
    top_p: float | None = None  # only the likeliest that together have this probability
    repetition_penalty: float = 1.0  # logits of tokens in the window: divided by it, or multiplied where negative
    seed: int = 0

    def __post_init__(self) -> None:
        if not (math.isfinite(self.temperature) and self.temperature > 0):
            raise InputError(
                f"the temperature must be above 0, not {self.temperature:g}; for the likeliest use --greedy"
            )
        if self.top_k is not None and (not isinstance(self.top_k, int) or self.top_k < 1):
            raise InputError(f"top-k must be at least 1, not {self.top_k}")
        if self.top_p is not None and not 0 < self.top_p <= 1:
            raise InputError(f"top-p must be above 0 and at most 1, not {self.top_p:g}")
        if not 0.01 <= self.repetition_penalty <= 100:
            raise InputError(f"the repetition penalty is from 0.01 to 100, not {self.repetition_penalty:g}; 1 is none")
        if not (isinstance(self.seed, int) and self.seed >= 0):
            raise InputError(f"a seed is a number from 0 on, not {self.seed!r}")


@dataclass(frozen=True)
class Generated:
    """One sample."""

    prompt: str
    text: str  # what was added
    tokens: tuple[str, ...]
    probabilities: tuple[float, ...]  # of each added token, as the model itself gives it
    unknown: int  # tokens of the prompt that the vocabulary does not know

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class Token:
    """One more token of every sample, as it comes."""

    ids: tuple[int, ...]
    probabilities: tuple[float, ...]


def generate(
    run: Trained | str,
    prompt: str = "",
    *,
    tokens: int = 50,
    samples: int = 1,
    sampling: Sampling | None = None,
    cached: bool = True,
) -> list[Generated]:
    """So many samples of what follows the prompt. A run is a loaded one, or the name of one or of a checkpoint."""
    trained = opened(run)
    drawn = list(stream(trained, prompt, tokens=tokens, samples=samples, sampling=sampling, cached=cached))
    vocabulary, names = trained.vocabulary, trained.vocabulary.names()
    before = prompt_ids(trained, prompt).tolist()
    unknown = sum(i == vocabulary.unknown for i in before) if prompt else 0
    made = []
    for n in range(samples):
        ids = [token.ids[n] for token in drawn]
        whole, given = vocabulary.decode([*before, *ids]), vocabulary.decode(before)
        text = whole[len(given) :] if whole.startswith(given) and prompt else vocabulary.decode(ids)
        p = tuple(token.probabilities[n] for token in drawn)
        made.append(Generated(prompt, text, tuple(names[i] for i in ids), p, unknown))
    return made


def stream(
    run: Trained | str,
    prompt: str = "",
    *,
    tokens: int = 50,
    samples: int = 1,
    sampling: Sampling | None = None,
    cached: bool = True,
) -> Iterator[Token]:
    """As `generate`, token by token."""
    trained = opened(run)
    model = trained.model
    if not isinstance(model, LanguageModel):
        raise InputError(trained.instead)
    if tokens < 1 or samples < 1:
        raise InputError("give at least one token and one sample")
    if tokens * samples > MOST:
        raise InputError(f"{samples:,} × {tokens:,} tokens are more than {MOST:,}: ask for fewer at once")
    given, silent = prompt_ids(trained, prompt), trained.vocabulary.silent
    yield from continued(model, given, tokens, samples, sampling or Sampling(), cached=cached, silent=silent)


def prompt_ids(trained: Trained, prompt: str) -> Tensor:
    """(T,). Something must be read before the first prediction: where nothing is given, a line's end."""
    vocabulary = trained.vocabulary
    ids = vocabulary.encode([prompt or "\n"])[0].astype(np.int64)
    if not len(ids) and prompt:
        raise InputError("the prompt has no token: give words, or leave it out")
    return torch.from_numpy(ids if len(ids) else np.array([max(vocabulary.unknown, 0)]))


@torch.inference_mode()
def continued(
    model: LanguageModel,
    prompt: Tensor,
    tokens: int,
    samples: int,
    sampling: Sampling,
    *,
    cached: bool = True,
    silent: Sequence[int] = Vocabulary.silent,
) -> Iterator[Token]:
    """Ids that follow a prompt (T,), one of each sample at a time."""
    block, never = model.spec.block, torch.tensor(silent, dtype=torch.long)
    draws = np.stack([np.random.default_rng([sampling.seed, n]).random(tokens) for n in range(samples)])
    text = torch.cat([prompt.expand(samples, -1), prompt.new_zeros(samples, tokens)], dim=1)  # (B, all)
    read = Cached(model) if cached and not looks_ahead(model) else Uncached(model)
    for n in range(tokens):
        end = len(prompt) + n
        start = window_start(end, block)
        logits = read.next(text[:, start:end], end - start)
        ids, p = draw(logits, text[:, start:end], sampling, draws[:, n], never)
        text[:, end] = ids
        yield Token(tuple(ids.tolist()), tuple(p.tolist()))


def window_start(end: int, block: int) -> int:
    """Where the window of the prediction after `end` tokens begins: at the start, until the block is full; then half a
    block further each time it is."""
    if end <= block:
        return 0
    half = max(1, block // 2)
    return -(-(end - block) // half) * half


def looks_ahead(model: LanguageModel) -> bool:
    """Whether a token's state depends on later ones, so that it cannot be kept."""
    places = torch.arange(model.spec.block)
    later = (model.spec.pattern.allowed(i[:, None], places) & (places > i[:, None]) for i in places.split(256))
    return not model.spec.fusion.causal or any(bool(seen.any()) for seen in later)


class Uncached:
    """Every window read whole, for every token: the definition."""

    def __init__(self, model: LanguageModel) -> None:
        self.model = model

    def next(self, window: Tensor, _length: int) -> Tensor:
        """(B, V): what follows the window (B, T)."""
        return self.model(window)[:, -1]


class Cached:
    """Keys and values kept from token to token, and made anew when the window slides."""

    def __init__(self, model: LanguageModel) -> None:
        self.model = lean(model)
        self.cache: Cache | None = None

    def next(self, window: Tensor, length: int) -> Tensor:
        if self.cache is not None and self.cache.length == length - 1:
            return self.model(window[:, -1:], cache=self.cache)[:, -1]
        alike = self.cache is None  # only the prompt has been read: it is the same for every sample
        self.cache = self.model.new_cache()
        if not alike:
            return self.model(window, cache=self.cache)[:, -1]
        logits = self.model(window[:1], cache=self.cache)[:, -1]
        self.cache = self.cache.rows(len(window))
        return logits.expand(len(window), -1)


# -- one token ---------------------------------------------------------------------------------------------------------


def draw(
    logits: Tensor, window: Tensor, sampling: Sampling, u: np.ndarray, never: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """The next token of each sample and its probability under the model itself; u (B,) is chance, from 0 to 1. What
    stands for padding and for the unknown is never said: ids in `never`."""
    logits = logits.index_fill(1, torch.tensor(Vocabulary.silent) if never is None else never, -torch.inf)
    own = logits.softmax(dim=-1)
    if sampling.repetition_penalty != 1:
        said = logits.gather(1, window)
        said = torch.where(said > 0, said / sampling.repetition_penalty, said * sampling.repetition_penalty)
        logits = logits.scatter(1, window, said)
    if sampling.greedy:
        ids = logits.argmax(dim=-1)
    else:
        ids = _drawn(logits.double() / sampling.temperature, sampling, torch.from_numpy(u))
    return ids, own.gather(1, ids.unsqueeze(1)).squeeze(1)


def _drawn(logits: Tensor, sampling: Sampling, u: Tensor) -> Tensor:
    """By the inverse of the distribution function, the likeliest first."""
    count = logits.shape[1] if sampling.top_k is None else min(sampling.top_k, logits.shape[1])
    if sampling.top_k is None and sampling.top_p is None:
        upto = logits.softmax(dim=-1).cumsum(dim=-1)
        return _place(upto, u)
    best, which = logits.topk(count, dim=-1)
    p = best.softmax(dim=-1)
    if sampling.top_p is not None:
        before = p.cumsum(dim=-1) - p  # the one that reaches the share is in
        p = p.masked_fill(before >= sampling.top_p, 0.0)
    upto = p.cumsum(dim=-1)
    return which.gather(1, _place(upto, u)[:, None])[:, 0]


def _place(upto: Tensor, u: Tensor) -> Tensor:
    """(B,): the first place whose share of the total exceeds u; never one that has no share of its own."""
    total = upto[:, -1:]
    within = torch.minimum(u[:, None] * total, torch.nextafter(total, torch.zeros_like(total)))
    return torch.searchsorted(upto, within, right=True)[:, 0]
