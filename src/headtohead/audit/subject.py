"""What is audited: a model of ours or any torch module of the user's, behind one face.

A subject builds fresh modules from a seed, calls them with ids (B, T), and knows what is claimed of them.
"""

from __future__ import annotations

import contextlib
import inspect
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from headtohead.audit.watch import CastsDown, DropoutOff, token_embeddings
from headtohead.errors import InputError, describe
from headtohead.model import Classifier, LanguageModel, ModelSpec

Mode = Literal["evaluation", "training"]
T = TypeVar("T")

KEEP_NAMES = ("keep", "mask", "attention_mask")  # true at real tokens
DROP_NAMES = ("key_padding_mask", "padding_mask", "pad_mask", "src_key_padding_mask")  # true at padding
CACHE_NAMES = ("cache", "past_key_values", "past")
VOCAB_NAMES, BLOCK_NAMES = ("vocab", "vocab_size"), ("block", "block_size")
LENGTHS = (
    13,
    11,
    7,
    5,
    3,
    2,
    16,
    8,
    10,
    12,
    20,
    24,
    32,
    50,
    64,
    100,
    128,
    256,
    512,
    1024,
)  # 13: no other size is likely 13


@dataclass
class Subject:
    """A way to build modules, and what is claimed of them."""

    name: str
    build: Callable[[], nn.Module]  # draws from torch's generator
    vocab: int
    length: int  # of the texts tried
    gives: Literal["tokens", "classes"]
    pad: int = 0
    causal: bool = False
    relative: bool = False
    window: int | None = None
    any_length: bool = True
    spec: ModelSpec | None = None  # where the module is ours
    mask: str | None = None
    mask_type: torch.dtype = torch.bool
    mask_required: bool = False
    cache: str | None = None
    options: dict[str, Any] = field(default_factory=dict)  # the constructor's simple options and their defaults
    rebuild: Callable[..., nn.Module] | None = None  # build with options changed
    _alone: dict[Mode, list[Tensor]] = field(default_factory=dict)
    _looked: dict[Any, Any] = field(default_factory=dict)

    # -- modules -------------------------------------------------------------------------------------------------------

    def fresh(self, seed: int = 0, build: Callable[[], nn.Module] | None = None) -> nn.Module:
        """A newly built module, as it would start training."""
        _seed(seed)
        return (build or self.build)()

    def stirred(self, build: Callable[[], nn.Module] | None = None, seed: int = 0) -> nn.Module:
        """A new module whose weights have moved from their start, as training would move them: gates that start at
        zero are open, so nothing hides behind them. In double precision where the module allows it."""
        model = self.fresh(build=build).to(self.precision)
        draw = torch.Generator().manual_seed(1 + seed)
        with torch.no_grad():
            for p in model.parameters():
                if p.requires_grad and p.is_floating_point():
                    noise = torch.randn(p.shape, generator=draw, dtype=torch.float64).to(p.dtype)
                    p.add_(noise * (0.1 * (1 + seed) * p.pow(2).mean().sqrt() + 0.02))
        return model

    @cached_property
    def precision(self) -> torch.dtype:
        model = self.fresh()
        for name, p in model.named_parameters():
            if not torch.isfinite(p).all():
                raise InputError(f"{self.name}: the weight {name} holds NaN or infinity: nothing can be compared")
        try:
            with torch.no_grad():
                out = self.call(model.double().eval(), self.text(1))
            return torch.float64 if out.dtype == torch.float64 else torch.float32
        except (RuntimeError, TypeError, ValueError):  # float32 written into the module somewhere
            return torch.float32

    @cached_property
    def tolerance(self) -> float:
        """Relative difference that rounding can explain."""
        if self.precision == torch.float32:
            return 3e-5
        model, casts = self.stirred().eval(), CastsDown()
        with torch.no_grad(), casts:
            self.call(model, self.text(1))
        return 3e-5 if casts.seen else 1e-9

    @cached_property
    def still(self) -> nn.Module:
        """One stirred module in evaluation mode, for checks that do not change it."""
        return self.stirred().eval()

    @cached_property
    def lively(self) -> nn.Module:
        """One stirred module in training mode, for checks that change none of its weights."""
        return self.stirred().train()

    @contextlib.contextmanager
    def mode(self, mode: Mode, fresh: bool = False) -> Iterator[nn.Module]:
        """A module in that mode; in training dropout is off, so that passes can be compared."""
        if mode == "evaluation":
            yield self.still
            return
        model = self.stirred().train() if fresh else self.lively
        with self.dropout_off(model):
            yield model

    @contextlib.contextmanager
    def dropout_off(self, model: nn.Module) -> Iterator[None]:
        for module in model.modules():
            if isinstance(module, nn.RNNBase):
                module.dropout = 0.0  # not a function that can be intercepted
        with DropoutOff():
            yield

    def once(self, look: Callable[[Subject], T]) -> T:
        """What `look` finds out about this subject, looked up once however many checks ask."""
        if look not in self._looked:
            self._looked[look] = look(self)
        return self._looked[look]

    # -- calls ---------------------------------------------------------------------------------------------------------

    def call(self, model: nn.Module, ids: Tensor, keep: Tensor | None = None, *, seed: int = 2, **extra: Any) -> Tensor:
        _seed(seed)  # whatever the module draws, it draws the same each time
        if self.mask is not None and (keep is not None or self.mask_required):
            keep = torch.ones_like(ids, dtype=torch.bool) if keep is None else keep
            value = ~keep if self.mask in DROP_NAMES else keep
            extra[self.mask] = value.to(self.mask_type)
        return unwrap(model(ids, **extra))

    def outputs(self, model: nn.Module, ids: Tensor, keep: Tensor | None = None) -> Tensor:
        with torch.no_grad():
            return self.call(model, ids, keep)

    def text(self, rows: int, length: int | None = None, seed: int = 3) -> Tensor:
        """Random ids (rows, length) without padding."""
        draw = torch.Generator().manual_seed(seed)
        ids = torch.randint(0, self.vocab - 1, (rows, length or self.length), generator=draw)
        return ids + (ids >= self.pad).long() if 0 <= self.pad < self.vocab else ids

    def alone(self, mode: Mode) -> list[Tensor]:
        """The outputs of texts of 1 … T−1 tokens, each called by itself without padding."""
        if mode not in self._alone:
            with self.mode(mode) as model:
                self._alone[mode] = [self.outputs(model, self.short(n))[0] for n in range(1, self.length)]
        return self._alone[mode]

    def short(self, length: int) -> Tensor:
        """The text of so many tokens that `alone` calls."""
        return self.text(1, length, seed=8 + length)

    @cached_property
    def embeddings(self) -> list[nn.Embedding]:
        return self.embeddings_of(self.still)

    def embeddings_of(self, model: nn.Module) -> list[nn.Embedding]:
        ids = self.text(2)
        return token_embeddings(model, lambda: self.outputs(model, ids), ids)

    @property
    def pads(self) -> bool:
        """Whether padding is something this module has to deal with."""
        return self.gives == "classes" or self.mask is not None

    def apart(self, a: Tensor, b: Tensor, tolerance: float | None = None) -> Tensor:
        """Largest difference over the last axis, in units of what rounding can explain; above 1 is a difference."""
        a, b = a.double(), b.double()
        size = 1 + torch.maximum(a.abs(), b.abs()).amax()
        gap = (a - b).abs().amax(dim=-1) / (size * (tolerance or self.tolerance))
        return gap.nan_to_num(torch.inf)


def _seed(seed: int) -> None:
    random.seed(seed)
    np.random.seed(seed)
    torch.default_generator.manual_seed(seed)


def unwrap(out: Any) -> Tensor:
    """The logits in whatever a module returns."""
    if isinstance(out, Tensor):
        return out
    if hasattr(out, "logits"):
        return out.logits
    if isinstance(out, dict) and "logits" in out:
        return out["logits"]
    if isinstance(out, tuple | list) and out and isinstance(out[0], Tensor):
        return out[0]
    raise InputError(
        f"the module returned {type(out).__name__}: it must give a tensor of logits (B, T, V) or (B, classes)"
    )


# -- subjects from specs ---------------------------------------------------------------------------------------------


def from_spec(spec: ModelSpec, name: str, *, causal: bool, vocab: int = 19, length: int = 16) -> Subject:
    """A language model where `causal`, else a classifier."""

    def build() -> nn.Module:
        seed = int(torch.randint(0, 2**31, ()))
        return LanguageModel(spec, vocab, seed) if causal else Classifier(spec, vocab, 3, seed)

    build()  # a spec that cannot be built is an error now, not a finding
    return Subject(
        name=name,
        build=build,
        vocab=vocab,
        length=min(length, spec.block),
        gives="tokens" if causal else "classes",
        causal=causal,
        relative=spec.position.relative,
        spec=spec,
        mask="keep",
        cache="cache" if causal else None,
    )


# -- subjects from the user's own modules ----------------------------------------------------------------------------


@dataclass(frozen=True)
class Claims:
    """What the user says of a module."""

    causal: bool = False
    relative: bool = False
    window: int | None = None
    vocab: int | None = None
    block: int | None = None
    pad: int = 0


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
