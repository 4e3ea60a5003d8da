"""Make a subject from a torch module of the user: find out how it is built and called."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from headtohead.auditor.subject import DROP_NAMES, KEEP_NAMES, Subject, all_finite, is_large, unwrap
from headtohead.auditor.trace import count_weights, token_embeddings
from headtohead.errors import InputError, describe

CACHE_NAMES = ("cache", "past_key_values", "past")
VOCAB_NAMES, BLOCK_NAMES = ("vocab", "vocab_size"), ("block", "block_size")
# 13 comes first, because modules rarely have another size of 13.
LENGTHS = (13, 11, 7, 5, 3, 2, 16, 8, 10, 12, 20, 24, 32, 50, 64, 100, 128, 256, 512, 1024)
SHORT = 7  # comes first for a large module
LONG, LONG_OF_LARGE = 256, 64  # the longest text that is tried


@dataclass(frozen=True)
class Claims:
    """What the user claims about a module."""

    causal: bool = False  # no output depends on a later token
    relative: bool = False  # attention depends only on the distance of two tokens
    window: int | None = None  # tokens that a token sees, including itself
    vocab: int | None = None  # the number of token ids; None: as the module says
    block: int | None = None  # the longest text; None: as the module says
    pad: int = 0  # the id of padding
    only: tuple[str, ...] = ()  # the checks to run; empty: all
    skip: tuple[str, ...] = ()  # the checks to leave out
    reference: str | Callable[..., nn.Module] | None = None  # what it must equal with the same weights: file.py:Class


def from_module(cls: Callable[..., nn.Module], name: str, claims: Claims) -> Subject:
    """Make a subject from a module class or a function that builds one. Raise InputError if it cannot be audited."""
    given = _constructor_arguments(cls, name, claims)

    def build(**changed: Any) -> nn.Module:
        return cls(**{**given, **changed})

    try:
        torch.manual_seed(0)
        model = build()
    except Exception as error:  # the user's constructor may raise anything
        raise InputError(f"{name} cannot be built: {describe(error)}") from None
    if not isinstance(model, nn.Module):
        raise InputError(f"{name} builds a {type(model).__name__}, not a torch module")
    model.eval()
    for weight, p in model.named_parameters():
        if not all_finite(p):
            raise InputError(f"{name}: the weight {weight} holds NaN or infinity, so outputs cannot be compared")
    mask, cache = _forward_arguments(model, name)
    weights = count_weights(model)
    large = is_large(weights)
    length, any_length, out = _try_lengths(model, name, claims, (SHORT, *LENGTHS) if large else LENGTHS)
    if out.ndim not in (2, 3) or out.shape[0] != 2 or (out.ndim == 3 and out.shape[1] != length):
        raise InputError(
            f"{name} maps ids of shape (2, {length}) to {tuple(out.shape)}: it must give (B, T, V) or (B, classes)"
        )
    if claims.causal and out.ndim == 2:
        raise InputError(f"{name} gives one row of logits per text: --causal needs logits at every token")
    subject = Subject(
        name=name,
        build=build,
        vocab=claims.vocab or _vocabulary(model, name, out, length),
        length=length,
        gives="tokens" if out.ndim == 3 else "classes",
        pad=claims.pad,
        causal=claims.causal,
        relative=claims.relative,
        window=claims.window,
        any_length=any_length,
        longest=_longest(model, _block(cls, given, large), 1 if large else 2) if any_length and out.ndim == 3 else 0,
        cache=cache,
        options=_options(cls, given),
        rebuild=build,
        weights=weights,
        first=model if large else None,
    )
    if subject.vocab < 3:
        raise InputError(f"a vocabulary of {subject.vocab} is too small for an audit: give --vocab 3 or more")
    if not 0 <= claims.pad < subject.vocab:
        raise InputError(f"--pad {claims.pad} is outside the vocabulary of {subject.vocab}")
    _find_mask(subject, model, mask)
    try:
        subject.outputs(model, subject.text(2))
    except Exception as error:  # the user's code may raise anything
        problem = f"{name} does not take ids up to {subject.vocab - 1}: {describe(error)}"
        raise InputError(f"{problem}; set --vocab N") from None
    return subject


def build_module(cls: Callable[..., nn.Module], name: str, claims: Claims) -> nn.Module:
    """Build a module with the arguments that an audit gives it."""
    return cls(**_constructor_arguments(cls, name, claims))


def _constructor_arguments(cls: Callable[..., nn.Module], name: str, claims: Claims) -> dict[str, Any]:
    """Return values for the vocabulary and block arguments of the constructor."""
    given = {}
    for p in _parameters(cls):
        wanted = claims.vocab if p.name in VOCAB_NAMES else claims.block if p.name in BLOCK_NAMES else None
        required = p.default is p.empty and p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)
        if wanted is not None:
            given[p.name] = wanted
        elif required and p.name in VOCAB_NAMES:
            given[p.name] = 23
        elif required and p.name in BLOCK_NAMES:
            given[p.name] = 16
        elif required:
            raise InputError(
                f"{name} cannot be built without '{p.name}': give it a default, or audit a subclass that sets it"
            )
    return given


def _forward_arguments(model: nn.Module, name: str) -> tuple[str | None, str | None]:
    """Return the names of the mask and the cache among the arguments of `forward`."""
    parameters = list(inspect.signature(model.forward).parameters.values())
    for p in parameters[1:]:
        if (
            p.default is p.empty
            and p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)
            and p.name not in KEEP_NAMES + DROP_NAMES
        ):
            raise InputError(
                f"{name}.forward needs '{p.name}' besides the ids: give it a default, or audit a wrapper class"
            )
    names = [p.name for p in parameters]
    mask = next((n for n in names if n in KEEP_NAMES + DROP_NAMES), None)
    return mask, next((n for n in names if n in CACHE_NAMES), None)


def _try_lengths(model: nn.Module, name: str, claims: Claims, lengths: Sequence[int]) -> tuple[int, bool, Tensor]:
    """Return a text length that works, whether other lengths work, and the output."""
    limit = claims.block
    if limit is not None:
        try:
            _probe(model, limit)
        except Exception as error:  # the user's code may raise anything
            raise InputError(f"{name} does not take {limit} tokens: {describe(error)}; set --block T") from None
    problem: Exception = ValueError("no length was tried")
    for length in [n for n in lengths if limit is None or n <= limit] + ([limit] if limit else []):
        try:
            out = _probe(model, length)
        except InputError:
            raise
        except Exception as error:  # a module may refuse a length with any exception
            problem = error if isinstance(problem, ValueError) else problem
            continue
        try:
            _probe(model, length - 1)
            return length, True, out
        except Exception:  # the module takes only this length
            return length, length == 1, out
    raise InputError(f"{name} cannot be called on ids of any length tried: {describe(problem)}")


def _block(cls: Callable[..., nn.Module], given: dict[str, Any], large: bool) -> int:
    """Return the longest text that the module's constructor allows and an audit tries; 64 if it sets no limit."""
    for p in _parameters(cls):
        if p.name in BLOCK_NAMES:
            return min(int(given.get(p.name, p.default)), LONG_OF_LARGE if large else LONG)
    return 64


def _longest(model: nn.Module, block: int, rows: int) -> int:
    """Return a long text length that works; 0 if none does."""
    for length in (block, 48, 32, 24, 16):
        try:
            _probe(model, min(length, block), rows)
            return min(length, block)
        except Exception:  # too long for the user's module
            continue
    return 0


def _probe(model: nn.Module, length: int, rows: int = 2) -> Tensor:
    """Call the module on texts of this length."""
    ids = torch.ones(rows, length, dtype=torch.long)
    required = {
        p.name: torch.full((rows, length), p.name in KEEP_NAMES)
        for p in list(inspect.signature(model.forward).parameters.values())[1:]
        if p.default is p.empty and p.name in KEEP_NAMES + DROP_NAMES
    }
    with torch.no_grad():
        return unwrap(model(ids, **required))


def _vocabulary(model: nn.Module, name: str, out: Tensor, length: int) -> int:
    ids = torch.ones(2, length, dtype=torch.long)
    embeddings = token_embeddings(model, lambda: _probe(model, length), ids, (nn.Embedding, nn.EmbeddingBag))
    if embeddings:
        return min(e.num_embeddings for e in embeddings)
    if out.ndim == 3:
        return out.shape[-1]
    raise InputError(f"the vocabulary size of {name} cannot be detected: set --vocab N")


def _find_mask(subject: Subject, model: nn.Module, mask: str | None) -> None:
    """Set the mask to the first type that the module accepts. If it accepts no mask of shape (B, T), it has no mask."""
    if mask is None:
        return
    subject.mask_required = inspect.signature(model.forward).parameters[mask].default is inspect.Parameter.empty
    ids = subject.text(2)
    keep = torch.ones_like(ids, dtype=torch.bool)
    keep[:, -1:] = ids.shape[1] == 1
    for mask_type in (torch.bool, torch.long, torch.float32):
        subject.mask, subject.mask_type = mask, mask_type
        try:
            subject.outputs(model, ids, keep)
            return
        except Exception:  # the user's code refuses this type
            subject.mask = None


def _options(cls: Callable[..., nn.Module], given: dict[str, Any]) -> dict[str, Any]:
    simple = (bool, int, float)
    return {p.name: p.default for p in _parameters(cls) if isinstance(p.default, simple) and p.name not in given}


def _parameters(cls: Callable[..., Any]) -> list[inspect.Parameter]:
    if isinstance(cls, type) and cls.__init__ is nn.Module.__init__:  # type: ignore[misc]
        return []
    try:
        parameters = list(inspect.signature(cls).parameters.values())
    except (TypeError, ValueError):
        return []
    return [p for p in parameters if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
