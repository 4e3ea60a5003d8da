"""Generate text with a trained language model, token by token with a KV cache.

When the block is full, the window moves: the older half is dropped, and the newer half is read again from the start of
the block. The window depends only on the position of the token. So generation with and without cache reads the same
tokens for every prediction, and both must agree.

Shapes: B samples of one prompt, V tokens of the vocabulary.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from headtohead.data.tokenizers import Vocabulary
from headtohead.errors import InputError
from headtohead.interpret.maps import likeliest
from headtohead.model.cache import Cache
from headtohead.model.inference import lean
from headtohead.model.transformer import LanguageModel
from headtohead.run.load import Trained
from headtohead.run.named import opened

MOST = 10_000_000  # tokens in one call


@dataclass(frozen=True)
class Decoding:
    """How the next token is drawn. The options apply in this order: penalty, temperature, top-k, top-p."""

    greedy: bool = False  # take the most likely token
    temperature: float = 1.0  # below 1 the likely tokens become likelier
    top_k: int | None = None  # draw only from the k most likely tokens
    top_p: float | None = None  # draw only from the most likely tokens with this total probability
    repetition_penalty: float = 1.0  # divides positive logits of tokens in the window, and multiplies negative ones
    seed: int = 0

    def __post_init__(self) -> None:
        if not (math.isfinite(self.temperature) and self.temperature > 0):
            raise InputError(
                f"the temperature must be above 0, not {self.temperature:g}; for the most likely token use --greedy"
            )
        if self.top_k is not None and (not isinstance(self.top_k, int) or self.top_k < 1):
            raise InputError(f"top-k must be at least 1, not {self.top_k}")
        if self.top_p is not None and not 0 < self.top_p <= 1:
            raise InputError(f"top-p must be above 0 and at most 1, not {self.top_p:g}")
        if not 0.01 <= self.repetition_penalty <= 100:
            raise InputError(
                f"the repetition penalty must be from 0.01 to 100, not {self.repetition_penalty:g}; 1 means none"
            )
        if not (isinstance(self.seed, int) and self.seed >= 0):
            raise InputError(f"a seed is a whole number, 0 or more, not {self.seed!r}")


@dataclass(frozen=True)
class Generated:
    """One text that a model wrote."""

    prompt: str  # how the text begins
    text: str  # without the prompt
    tokens: tuple[str, ...]  # the new tokens
    probabilities: tuple[float, ...]  # of each new token, before the decoding options
    unknown: int  # tokens of the prompt that are not in the vocabulary

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class Token:
    """The next token of every sample."""

    ids: tuple[int, ...]
    probabilities: tuple[float, ...]


def generate(
    run: Trained | str,
    prompt: str = "",
    *,
    tokens: int = 50,
    samples: int = 1,
    decoding: Decoding | None = None,
    cached: bool = True,
) -> list[Generated]:
    """Return samples of text that follows the prompt. `run` is a loaded run, or the name of a run or checkpoint."""
    trained = opened(run)
    drawn = list(stream(trained, prompt, tokens=tokens, samples=samples, decoding=decoding, cached=cached))
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
    decoding: Decoding | None = None,
    cached: bool = True,
) -> Iterator[Token]:
    """Yield the tokens of `generate` one by one."""
    trained = opened(run)
    model = trained.model
    if trained.task != "lm" or not isinstance(model, LanguageModel):
        raise InputError(trained.instead)
    if tokens < 1 or samples < 1:
        raise InputError("give at least one token and one sample")
    if tokens * samples > MOST:
        raise InputError(f"{samples:,} × {tokens:,} tokens are more than {MOST:,}: ask for fewer at once")
    given, silent = prompt_ids(trained, prompt), trained.vocabulary.silent
    yield from continued(model, given, tokens, samples, decoding or Decoding(), cached=cached, silent=silent)


def prompt_ids(trained: Trained, prompt: str) -> Tensor:
    """Return the ids (T,) of a prompt. An empty prompt becomes a line end, because the model needs an input."""
    vocabulary = trained.vocabulary
    ids = vocabulary.encode([prompt or "\n"])[0].astype(np.int64)
    if not len(ids) and prompt:
        raise InputError("the prompt has no token: give words, or leave it out")
    return torch.from_numpy(ids if len(ids) else np.array([max(vocabulary.unknown, 0)]))


@torch.inference_mode()
def next_tokens(trained: Trained, prompt: str, count: int) -> tuple[tuple[str, float], ...]:
    """Return the most likely tokens after a prompt, with their probabilities. Of a prompt that is longer than the
    block, the model reads what `generate` would read."""
    if trained.task != "lm" or not isinstance(trained.model, LanguageModel):
        raise InputError(trained.instead)
    ids = prompt_ids(trained, prompt)
    window = ids[window_start(len(ids), trained.model.spec.block) :]
    return likeliest(trained.model(window[None])[0, -1], trained.vocabulary.names(), count)


@torch.inference_mode()
def continued(
    model: LanguageModel,
    prompt: Tensor,
    tokens: int,
    samples: int,
    decoding: Decoding,
    *,
    cached: bool = True,
    silent: Sequence[int] = Vocabulary.silent,
) -> Iterator[Token]:
    """Yield the tokens that follow the ids of a prompt (T,)."""
    block, never = model.spec.block, torch.tensor(silent, dtype=torch.long)
    draws = np.stack([np.random.default_rng([decoding.seed, n]).random(tokens) for n in range(samples)])
    text = torch.cat([prompt.expand(samples, -1), prompt.new_zeros(samples, tokens)], dim=1)  # (B, all)
    read = Cached(model) if cached and not looks_ahead(model) else Uncached(model)
    for n in range(tokens):
        end = len(prompt) + n
        start = window_start(end, block)
        logits = read.next(text[:, start:end], end - start)
        ids, p = draw(logits, text[:, start:end], decoding, draws[:, n], never)
        text[:, end] = ids
        yield Token(tuple(ids.tolist()), tuple(p.tolist()))


def window_start(end: int, block: int) -> int:
    """Return where the window before position `end` begins: at 0, then half a block later when the block is full."""
    if end <= block:
        return 0
    half = max(1, block // 2)
    return -(-(end - block) // half) * half


def looks_ahead(model: LanguageModel) -> bool:
    """Whether a token depends on later tokens, so that its keys and values cannot be cached."""
    positions = torch.arange(model.spec.block)
    later = (model.spec.pattern.allowed(i[:, None], positions) & (positions > i[:, None]) for i in positions.split(256))
    return not model.spec.fusion.causal or any(bool(seen.any()) for seen in later)


class Uncached:
    """Reads the whole window again for every token."""

    def __init__(self, model: LanguageModel) -> None:
        self.model = model

    def next(self, window: Tensor, _length: int) -> Tensor:
        """Return the logits (B, V) after the window (B, T)."""
        return self.model(window)[:, -1]


class Cached:
    """Keeps keys and values from token to token, and computes them again when the window moves."""

    def __init__(self, model: LanguageModel) -> None:
        self.model = lean(model)
        self.cache: Cache | None = None

    def next(self, window: Tensor, length: int) -> Tensor:
        if self.cache is not None and self.cache.length == length - 1:
            return self.model(window[:, -1:], cache=self.cache)[:, -1]
        is_prompt = self.cache is None  # the prompt is the same for every sample, so one row is enough
        self.cache = self.model.new_cache()
        if not is_prompt:
            return self.model(window, cache=self.cache)[:, -1]
        logits = self.model(window[:1], cache=self.cache)[:, -1]
        self.cache = self.cache.rows(len(window))
        return logits.expand(len(window), -1)


# -- one token ---------------------------------------------------------------------------------------------------------


def draw(
    logits: Tensor, window: Tensor, decoding: Decoding, u: np.ndarray, never: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Return the next token of each sample and its probability before the decoding options. u (B,) are uniform random
    numbers from 0 to 1. Ids in `never`, such as padding, are not drawn."""
    logits = logits.index_fill(1, torch.tensor(Vocabulary.silent) if never is None else never, -torch.inf)
    own = logits.softmax(dim=-1)
    if decoding.repetition_penalty != 1:
        seen = logits.gather(1, window)
        seen = torch.where(seen > 0, seen / decoding.repetition_penalty, seen * decoding.repetition_penalty)
        logits = logits.scatter(1, window, seen)
    if decoding.greedy:
        ids = logits.argmax(dim=-1)
    else:
        ids = _drawn(logits.double() / decoding.temperature, decoding, torch.from_numpy(u))
    return ids, own.gather(1, ids.unsqueeze(1)).squeeze(1)


def _drawn(logits: Tensor, decoding: Decoding, u: Tensor) -> Tensor:
    """Draw ids with the inverse of the cumulative distribution."""
    count = logits.shape[1] if decoding.top_k is None else min(decoding.top_k, logits.shape[1])
    if decoding.top_k is None and decoding.top_p is None:
        return _index(logits.softmax(dim=-1).cumsum(dim=-1), u)
    best, which = logits.topk(count, dim=-1)
    p = best.softmax(dim=-1)
    if decoding.top_p is not None:
        before = p.cumsum(dim=-1) - p  # the token that reaches top_p is included
        p = p.masked_fill(before >= decoding.top_p, 0.0)
    return which.gather(1, _index(p.cumsum(dim=-1), u)[:, None])[:, 0]


def _index(cumulative: Tensor, u: Tensor) -> Tensor:
    """Return the first index (B,) whose cumulative share exceeds u; never one with probability 0."""
    total = cumulative[:, -1:]
    within = torch.minimum(u[:, None] * total, torch.nextafter(total, torch.zeros_like(total)))
    return torch.searchsorted(cumulative, within, right=True)[:, 0]
