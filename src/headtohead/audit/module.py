"""Find out how a torch module of the user's is built and called."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from headtohead.audit.subject import DROP_NAMES, KEEP_NAMES, Subject, unwrap
from headtohead.audit.watch import token_embeddings
from headtohead.errors import InputError, describe

CACHE_NAMES = ("cache", "past_key_values", "past")
VOCAB_NAMES, BLOCK_NAMES = ("vocab", "vocab_size"), ("block", "block_size")
# 13 first: unlike any other size a module has
LENGTHS = (13, 11, 7, 5, 3, 2, 16, 8, 10, 12, 20, 24, 32, 50, 64, 100, 128, 256, 512, 1024)


@dataclass(frozen=True)
class Claims:
    """What the user says of a module."""

    causal: bool = False
    relative: bool = False
    window: int | None = None
    vocab: int | None = None
    block: int | None = None
    pad: int = 0
    only: tuple[str, ...] = ()  # the checks to make; all where none is named


def from_module(cls: Callable[..., nn.Module], name: str, claims: Claims) -> Subject:
    """Find out how a module of the user's is built and called."""
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
        if not torch.isfinite(p).all():
            raise InputError(f"{name}: the weight {weight} holds NaN or infinity: nothing can be compared")
    mask, cache = _forward_arguments(model, name)
    length, any_length, out = _try_lengths(model, name, claims)
    if out.ndim not in (2, 3) or out.shape[0] != 2 or (out.ndim == 3 and out.shape[1] != length):
        raise InputError(
            f"{name} turns ids of shape (2, {length}) into {tuple(out.shape)}: it must give (B, T, V) or (B, classes)"
        )
    if claims.causal and out.ndim == 2:
        raise InputError(f"{name} gives one row of logits a text: --causal is for modules with logits at every token")
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
        longest=_longest(model, _block(cls, given)) if any_length and out.ndim == 3 else 0,
        cache=cache,
        options=_options(cls, given),
        rebuild=build,
    )
    if subject.vocab < 3:
        raise InputError(f"a vocabulary of {subject.vocab} leaves nothing to change: give --vocab 3 or more")
    if not 0 <= claims.pad < subject.vocab:
        raise InputError(f"--pad {claims.pad} is outside the vocabulary of {subject.vocab}")
    _find_mask(subject, model, mask)
    try:
        subject.outputs(model, subject.text(2))
    except Exception as error:  # as above: the user's code
        problem = f"{name} does not take ids up to {subject.vocab - 1}: {describe(error)}"
        raise InputError(f"{problem}; say --vocab N") from None
    return subject


def _constructor_arguments(cls: Callable[..., nn.Module], name: str, claims: Claims) -> dict[str, Any]:
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
                f"{name} cannot be built without '{p.name}': give it a default, or audit a small subclass that sets it"
            )
    return given


def _forward_arguments(model: nn.Module, name: str) -> tuple[str | None, str | None]:
    parameters = list(inspect.signature(model.forward).parameters.values())
    for p in parameters[1:]:
        if (
            p.default is p.empty
            and p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)
            and p.name not in KEEP_NAMES + DROP_NAMES
        ):
            raise InputError(
                f"{name}.forward needs '{p.name}' besides the ids: give it a default, or audit a small wrapper"
            )
    names = [p.name for p in parameters]
    mask = next((n for n in names if n in KEEP_NAMES + DROP_NAMES), None)
    return mask, next((n for n in names if n in CACHE_NAMES), None)


def _try_lengths(model: nn.Module, name: str, claims: Claims) -> tuple[int, bool, Tensor]:
    """A length that works, whether others do, and what came out."""
    limit = claims.block
    if limit is not None:
        try:
            _probe(model, limit)
        except Exception as error:  # the user's code
            raise InputError(f"{name} does not take {limit} tokens: {describe(error)}; say --block T") from None
    lengths = [n for n in LENGTHS if limit is None or n <= limit] + ([limit] if limit else [])
    problem: Exception = ValueError("no length was tried")
    for length in lengths:
        try:
            out = _probe(model, length)
        except InputError:
            raise
        except Exception as error:  # a module may refuse a length in any way it likes
            problem = error if isinstance(problem, ValueError) else problem
            continue
        try:
            _probe(model, length - 1)
            return length, True, out
        except Exception:  # as above: this module takes one length only
            return length, length == 1, out
    raise InputError(f"{name} cannot be called on ids of any length tried: {describe(problem)}")


def _block(cls: Callable[..., nn.Module], given: dict[str, Any]) -> int:
    """The longest text the module is made for, as far as its constructor says; 64 where it does not."""
    for p in _parameters(cls):
        if p.name in BLOCK_NAMES:
            return min(int(given.get(p.name, p.default)), 256)
    return 64


def _longest(model: nn.Module, block: int) -> int:
    for length in (block, 48, 32, 24, 16):
        try:
            _probe(model, min(length, block))
            return min(length, block)
        except Exception:  # the user's code: longer than it takes
            continue
    return 0


def _probe(model: nn.Module, length: int) -> Tensor:
    ids = torch.ones(2, length, dtype=torch.long)
    needed = {
        p.name: torch.full((2, length), p.name in KEEP_NAMES)
        for p in list(inspect.signature(model.forward).parameters.values())[1:]
        if p.default is p.empty and p.name in KEEP_NAMES + DROP_NAMES
    }
    with torch.no_grad():
        return unwrap(model(ids, **needed))


def _vocabulary(model: nn.Module, name: str, out: Tensor, length: int) -> int:
    ids = torch.ones(2, length, dtype=torch.long)
    found = token_embeddings(model, lambda: _probe(model, length), ids, (nn.Embedding, nn.EmbeddingBag))
    if found:
        return min(e.num_embeddings for e in found)
    if out.ndim == 3:
        return out.shape[-1]
    raise InputError(f"the vocabulary of {name} cannot be seen from outside: say --vocab N")


def _find_mask(subject: Subject, model: nn.Module, mask: str | None) -> None:
    """Use the mask in the first type the module takes; a module that takes none in the shape (B, T) has no mask."""
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
        found = list(inspect.signature(cls).parameters.values())
    except (TypeError, ValueError):
        return []
    return [p for p in found if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
