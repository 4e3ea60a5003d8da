"""The subject of an audit: a model made from a spec, or any torch module of the user, behind one interface.

A subject builds new modules from a seed, calls them with ids (B, T), and holds what is claimed about them.
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from headtohead.auditor.draws import FastDraws, add_noise_
from headtohead.auditor.trace import (
    CastsDown,
    DropoutOff,
    buffers_kept,
    count_weights,
    token_embeddings,
    without_gradients,
)
from headtohead.errors import InputError, failure
from headtohead.model.spec import ModelSpec
from headtohead.model.transformer import Classifier, LanguageModel

Mode = Literal["evaluation", "training"]
T = TypeVar("T")

KEEP_NAMES = ("keep", "mask", "attention_mask")  # true at real tokens
DROP_NAMES = ("key_padding_mask", "padding_mask", "pad_mask", "src_key_padding_mask")  # true at padding

LARGE = 10_000_000  # weights; a smaller module is audited in full


def is_large(weights: int) -> bool:
    """Whether a module of this size is audited with less, because in full its audit would take minutes."""
    return weights >= LARGE


@dataclass(frozen=True)
class Effort:
    """How much the checks try. A large module is audited with less, so that its audit takes seconds too."""

    rows: int = 4  # texts of a loss
    seeds: int = 8  # of evaluations that must be equal
    starts: int = 8  # seeds from which a few steps of training are watched
    special: int = 64  # ids that all later tokens are changed to
    compared: int = 4096  # ids whose outputs must differ
    learned: int = 4096  # ids whose rows must have a gradient
    guesses: int = 4  # batches of the initial loss


FULL = Effort()
REDUCED = Effort(rows=2, seeds=3, starts=2, special=4, compared=64, learned=64, guesses=1)


INCOMPLETE = "a new module with the state dict of another gives other outputs: the state dict is incomplete"


@dataclass(frozen=True)
class Restored:
    """A module from another seed that was given the state dict of `eval_model`."""

    model: nn.Module
    problem: str  # why it is not equal
    same_training: bool = False  # the same bits in training, dropout included


@dataclass
class Subject:
    """How to build and call a module, and what is claimed about it."""

    name: str
    build: Callable[[], nn.Module]  # uses torch's global random generator
    vocab: int
    length: int  # tokens in the test texts
    gives: Literal["tokens", "classes"]  # logits at every token, or one row of logits per text
    pad: int = 0
    causal: bool = False
    relative: bool = False
    window: int | None = None
    any_length: bool = True
    longest: int = 0  # length of a longer text for the checks that need one; 0: none
    spec: ModelSpec | None = None  # None for a module of the user
    mask: str | None = None  # name of the padding mask among the arguments of `forward`
    mask_type: torch.dtype = torch.bool
    mask_required: bool = False
    cache: str | None = None  # name of the cache among the arguments of `forward`
    refused: str = ""  # why it does not work in double precision
    casts: bool = False  # a large module in double precision computes something in single precision
    options: dict[str, Any] = field(default_factory=dict)  # the constructor's simple options and their defaults
    rebuild: Callable[..., nn.Module] | None = None  # builds with other options
    weights: int = 0
    first: nn.Module | None = None  # of a large module, the one that was built without `FastDraws`
    sums: list[tuple[int, dict[str, int]]] = field(default_factory=list)  # of a large module's builds: seed, checksums
    _unpadded: dict[Mode, list[Tensor]] = field(default_factory=dict)
    _results: dict[Any, Any] = field(default_factory=dict)

    # -- size ----------------------------------------------------------------------------------------------------------

    @property
    def large(self) -> bool:
        return is_large(self.weights)

    @property
    def exact(self) -> torch.dtype:
        """The precision in which outputs are compared."""
        return torch.float32 if self.large else torch.float64

    @property
    def effort(self) -> Effort:
        return REDUCED if self.large else FULL

    def reduced(self, *how: str) -> str:
        """Return what to add to the evidence of a check that is reduced for a large module; nothing for others."""
        said = (f"texts of {self.length} tokens", "single precision", *how)
        return f" (large module: {', '.join(said)})" if self.large else ""

    # -- modules -------------------------------------------------------------------------------------------------------

    def fresh(self, seed: int = 0, build: Callable[[], nn.Module] | None = None) -> nn.Module:
        """Build a new module with its initial weights. Those of a large module are drawn by `FastDraws`."""
        _seed(seed)
        if not self.large:
            return (build or self.build)()
        with FastDraws():
            model = (build or self.build)()
        if build is None:
            self.sums.append((seed, {name: _sum_of_bits(value) for name, value in model.state_dict().items()}))
        return model

    def initial(self) -> nn.Module:
        """Return a module with its initial weights, for checks that do not change them. A large one is shared."""
        return self.fresh() if self.first is None else self.first

    def perturbed(self, build: Callable[[], nn.Module] | None = None, seed: int = 0) -> nn.Module:
        """Build a new module and add noise to its weights, as training would: a gate that starts at zero then lets the
        rest of the module be seen. The module is in double precision if it supports that."""
        return self.perturb(self.cast(self.fresh(build=build)), seed)

    def perturb(self, model: nn.Module, seed: int = 0) -> nn.Module:
        """Add noise to the weights of a module, and return it."""
        draw = torch.Generator().manual_seed(1 + seed)
        padding_rows = {
            id(m.weight): m.padding_idx
            for m in model.modules()
            if isinstance(m, nn.Embedding | nn.EmbeddingBag) and m.padding_idx is not None
        }
        with torch.no_grad():
            for p in model.parameters():
                if p.requires_grad and p.is_floating_point():
                    kept = p[padding_rows[id(p)]].clone() if id(p) in padding_rows else None
                    size = 0.1 * (1 + seed) * p.pow(2).mean().sqrt() + 0.02
                    if self.large:
                        add_noise_(p, size, draw)
                    else:
                        p.add_(torch.randn(p.shape, generator=draw, dtype=torch.float64).to(p.dtype) * size)
                    if kept is not None:
                        p[padding_rows[id(p)]] = kept  # training never changes the padding row
        return model

    def cast(self, model: nn.Module) -> nn.Module:
        """Convert a module to the precision of this audit."""
        if self.large:
            half = any(p.dtype in (torch.float16, torch.bfloat16) for p in model.parameters())
            return model.float() if half else model
        return model.double() if self.precision == torch.float64 else model  # .to would drop imaginary parts of buffers

    @cached_property
    def precision(self) -> torch.dtype:
        """float64 if the module works in it and is not large, else float32."""
        if self.large:
            return torch.float32
        model = self.fresh()
        for name, p in model.named_parameters():
            if not all_finite(p):
                raise InputError(f"{self.name}: the weight {name} holds NaN or infinity, so outputs cannot be compared")
        return torch.float64 if self._works_in_double(model) else torch.float32

    @cached_property
    def restored(self) -> Restored:
        """Of a large module, one from another seed that was given the state dict of `eval_model`."""
        model = self.cast(self.fresh(seed=4)).eval()
        with self.mode("training") as trained:  # running statistics are part of the state
            self.outputs(trained, self.text(2))
            try:
                model.load_state_dict(trained.state_dict())
            except Exception as error:  # the user's module may raise anything
                return Restored(model, f"it raised {failure(error).splitlines()[0]}")
            given, own = (self.outputs(m.eval(), self.text(2)) for m in (trained, model))
        if self.differs(given, own).any():
            return Restored(model, INCOMPLETE)
        first, second = (self._training_bits(m) for m in (self.eval_model, model))
        return Restored(model, "", len(first) == len(second) and all(map(torch.equal, first, second)))

    def _training_bits(self, model: nn.Module) -> list[Tensor]:
        """Return outputs in training, dropout included, and gradients of vectors."""
        vectors = {id(p) for p in model.parameters() if p.ndim < 2}
        with buffers_kept(model), without_gradients(model, vectors):
            out = self.call(model.train(), self.text(2))
            if out.requires_grad:
                out.pow(2).mean().backward()
        bits = [out.detach(), *(p.grad for p in model.parameters() if p.grad is not None)]
        model.eval().zero_grad()
        return bits

    @cached_property
    def in_double(self) -> nn.Module | None:
        """Of a large module, one in double precision for the checks that need it; None if it does not support that."""
        model = self.restored.model
        return model if self._works_in_double(model) else None

    def _works_in_double(self, model: nn.Module) -> bool:
        """Convert a module to double precision, and return whether its outputs are right. If not, say why."""
        long = self.text(1, max(self.longest, self.length))
        ids = self.text(3)
        if self.large:  # one text of 16 tokens, and padding only if it is taken
            length = max(self.length, min(16, self.longest))
            ids = self.text(3 if self.takes_padding else 1, length)
        if self.takes_padding:  # a half-padded text, and an empty one
            ids[1, ids.shape[1] // 2 :] = self.pad
            ids[2] = self.pad
        watch = CastsDown()
        try:
            single = self.outputs(model.eval(), ids, ids != self.pad)
            single_long = single[:1] if self.large else self.outputs(model, long)
            model = model.double()
            with watch if self.large else contextlib.nullcontext():
                double = self.outputs(model, ids, ids != self.pad)
            double_long = double[:1] if self.large else self.outputs(model, long)
        except Exception as error:  # the module fixes float32 somewhere, or refuses padding, which the checks report
            self.refused = str(error).splitlines()[0][:200] if str(error) else type(error).__name__
            return False
        self.casts = watch.seen
        # Some masks overflow to infinity in double precision only. That is not a bug of the module.
        worse = bool((single.isfinite() & ~double.isfinite()).any())
        if self.differs(double_long, single_long, 1e-2).any():
            # With a float32 mask, torch's fused attention is wrong in double precision, for 16 tokens or more.
            self.refused, worse = "its outputs differ from those in single precision", True
        return not worse and double.dtype == torch.float64

    @cached_property
    def tolerance(self) -> float:
        """The largest relative difference that rounding can explain."""
        if self.precision == torch.float32:
            return 3e-5
        model, casts = self.perturbed().eval(), CastsDown()
        with torch.no_grad(), casts:
            self.call(model, self.text(1))
        return 3e-5 if casts.seen else 1e-9

    @cached_property
    def modes(self) -> tuple[Mode, ...]:
        """The modes in which two passes can be compared. Training is left out if the module draws random numbers there
        other than dropout."""
        if self.spec is not None:
            return ("evaluation", "training")
        with self.mode("training") as model, torch.no_grad():
            first, second = (self.call(model, self.text(2), seed=seed) for seed in (1, 2))
            noisy = self.differs(first, second).any()
        return ("evaluation",) if noisy else ("evaluation", "training")

    @cached_property
    def eval_model(self) -> nn.Module:
        """One perturbed module in evaluation mode, for checks that do not change it."""
        return self.perturbed().eval()

    @cached_property
    def train_model(self) -> nn.Module:
        """One perturbed module in training mode, for checks that do not change its weights."""
        return self.perturbed().train()

    @contextlib.contextmanager
    def mode(self, mode: Mode, fresh: bool = False, double: bool = False) -> Iterator[nn.Module]:
        """Yield a module in that mode. In training, dropout is off, so that passes can be compared. With `double`, a
        large module in evaluation is in double precision if it supports that."""
        if mode == "evaluation":
            yield self.in_double.eval() if double and self.sharp(mode) and self.in_double else self.eval_model
        elif self.large:  # one module in both modes
            with self.dropout_off(self.eval_model), buffers_kept(self.eval_model):
                try:
                    yield self.eval_model.train()
                finally:
                    self.eval_model.eval()
        else:
            model = self.perturbed().train() if fresh else self.train_model
            with self.dropout_off(model):
                yield model

    def sharp(self, mode: Mode) -> bool:
        """Whether `mode` can yield a large module in double precision."""
        return self.large and mode == "evaluation" and self.in_double is not None and not self.casts

    @contextlib.contextmanager
    def dropout_off(self, model: nn.Module) -> Iterator[None]:
        for module in model.modules():
            if isinstance(module, nn.RNNBase):
                module.dropout = 0.0  # RNNs apply dropout inside a kernel that DropoutOff cannot intercept
        with DropoutOff():
            yield

    def cached(self, measure: Callable[[Subject], T]) -> T:
        """Return `measure(self)`, computed once for all checks that need it."""
        if measure not in self._results:
            self._results[measure] = measure(self)
        return self._results[measure]

    # -- calls ---------------------------------------------------------------------------------------------------------

    def call(self, model: nn.Module, ids: Tensor, keep: Tensor | None = None, *, seed: int = 2, **extra: Any) -> Tensor:
        """Call a module and return its logits. Random draws inside the module repeat from call to call."""
        _seed(seed)
        if self.mask is not None and (keep is not None or self.mask_required):
            keep = torch.ones_like(ids, dtype=torch.bool) if keep is None else keep
            value = ~keep if self.mask in DROP_NAMES else keep
            extra[self.mask] = value.to(self.mask_type)
        return unwrap(model(ids, **extra))

    def outputs(self, model: nn.Module, ids: Tensor, keep: Tensor | None = None) -> Tensor:
        """Call a module without gradients."""
        with torch.no_grad():
            return self.call(model, ids, keep)

    def text(self, rows: int, length: int | None = None, seed: int = 3) -> Tensor:
        """Draw random ids (rows, length) without padding."""
        draw = torch.Generator().manual_seed(seed)
        ids = torch.randint(0, self.vocab - 1, (rows, length or self.length), generator=draw)
        return ids + (ids >= self.pad).long() if 0 <= self.pad < self.vocab else ids

    def unpadded(self, mode: Mode) -> list[Tensor]:
        """Return the outputs of texts of 1 … T−1 tokens, each in a batch by itself, without padding."""
        if mode not in self._unpadded:
            with self.mode(mode) as model:
                self._unpadded[mode] = [self.outputs(model, self.short_text(n))[0] for n in range(1, self.length)]
        return self._unpadded[mode]

    def short_text(self, length: int) -> Tensor:
        """Return the text of `length` tokens that `unpadded` uses."""
        return self.text(1, length, seed=8 + length)

    def embeddings_of(self, model: nn.Module) -> list[nn.Embedding]:
        """Return the embedding modules that read the token ids."""
        ids = self.text(2)
        if not self.large:
            return token_embeddings(model, lambda: self.outputs(model, ids), ids)
        return [model.get_submodule(name) for name in self._names_of_embeddings]  # type: ignore[misc]

    @cached_property
    def _names_of_embeddings(self) -> list[str]:
        model, ids = self.eval_model, self.text(2)
        found = {id(e) for e in token_embeddings(model, lambda: self.outputs(model, ids), ids)}
        return [name for name, module in model.named_modules() if id(module) in found]

    @property
    def takes_padding(self) -> bool:
        """Whether the module's input can be padded."""
        return self.gives == "classes" or self.mask is not None

    def differs(self, a: Tensor, b: Tensor, tolerance: float | None = None) -> Tensor:
        """Return where a and b differ along the last axis by more than rounding can explain, or are NaN."""
        a, b = a.to(self.exact), b.to(self.exact)
        size = 1 + torch.maximum(a.abs().amax(), b.abs().amax())
        gap = (a - b).abs().amax(dim=-1) / (size * (tolerance or self.tolerance))
        return gap.nan_to_num(torch.inf) > 1


def _seed(seed: int) -> None:
    random.seed(seed)
    np.random.seed(seed)
    torch.default_generator.manual_seed(seed)


def _sum_of_bits(x: Tensor) -> int:
    """Return a checksum of a tensor, in a fraction of the time of a copy."""
    value = x.detach().contiguous().view(-1)
    if value.numel() and value.element_size() % 4 == 0:
        return int(value.view(torch.int32).sum(dtype=torch.int32))
    return int(value.sum()) if value.dtype == torch.bool else hash(value.numpy().tobytes())


def all_finite(x: Tensor) -> bool:
    """Whether no element is NaN or infinite. A finite sum shows it without a copy of a large tensor."""
    return bool(x.detach().sum().isfinite()) or bool(torch.isfinite(x.detach()).all())


def first_bad(x: Tensor) -> str:
    """Return the first element that is NaN or infinite; an empty text if there is none."""
    return "" if all_finite(x) else str(float(x.detach()[~torch.isfinite(x.detach())].flatten()[0]))


def unwrap(out: Any) -> Tensor:
    """Return the logits from the return value of a module."""
    if isinstance(out, Tensor):
        return out
    if hasattr(out, "logits"):
        return out.logits
    if isinstance(out, dict) and "logits" in out:
        return out["logits"]
    if isinstance(out, tuple | list) and out and isinstance(out[0], Tensor):
        return out[0]
    raise InputError(
        f"the module returned {type(out).__name__}: it must return a tensor of logits (B, T, V) or (B, classes)"
    )


# -- subjects from specs ---------------------------------------------------------------------------------------------


def from_spec(spec: ModelSpec, name: str, *, causal: bool, vocab: int = 19, length: int = 16) -> Subject:
    """Make a subject from a spec: a language model if `causal`, else a classifier."""

    def build() -> nn.Module:
        seed = int(torch.randint(0, 2**31, ()))
        return LanguageModel(spec, vocab, seed) if causal else Classifier(spec, vocab, 3, seed)

    model = build()  # an invalid spec is an input error, not a finding
    weights = count_weights(model)
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
        weights=weights,
        first=model if is_large(weights) else None,
    )
