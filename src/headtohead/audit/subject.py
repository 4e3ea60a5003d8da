"""What is audited: a model of ours or any torch module of the user's, behind one face.

A subject builds fresh modules from a seed, calls them with ids (B, T), and knows what is claimed of them.
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

from headtohead.audit.watch import CastsDown, DropoutOff, token_embeddings
from headtohead.errors import InputError
from headtohead.model import Classifier, LanguageModel, ModelSpec

Mode = Literal["evaluation", "training"]
T = TypeVar("T")

KEEP_NAMES = ("keep", "mask", "attention_mask")  # true at real tokens
DROP_NAMES = ("key_padding_mask", "padding_mask", "pad_mask", "src_key_padding_mask")  # true at padding


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
    longest: int = 0  # a longer text for the checks that need one; 0: none
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
        model = self.cast(self.fresh(build=build))
        draw = torch.Generator().manual_seed(1 + seed)
        untrained = {
            id(m.weight): m.padding_idx
            for m in model.modules()
            if isinstance(m, nn.Embedding | nn.EmbeddingBag) and m.padding_idx is not None
        }
        with torch.no_grad():
            for p in model.parameters():
                if p.requires_grad and p.is_floating_point():
                    noise = torch.randn(p.shape, generator=draw, dtype=torch.float64).to(p.dtype)
                    if id(p) in untrained:
                        noise[untrained[id(p)]] = 0  # the row of padding, which training never moves
                    p.add_(noise * (0.1 * (1 + seed) * p.pow(2).mean().sqrt() + 0.02))
        return model

    def cast(self, model: nn.Module) -> nn.Module:
        return model.double() if self.precision == torch.float64 else model  # .to would cut complex buffers in half

    @cached_property
    def precision(self) -> torch.dtype:
        model = self.fresh()
        for name, p in model.named_parameters():
            if not torch.isfinite(p).all():
                raise InputError(f"{self.name}: the weight {name} holds NaN or infinity: nothing can be compared")
        ids = self.text(3)
        if self.pads:
            ids[1, self.length // 2 :] = self.pad
            ids[2] = self.pad
        try:
            single = self.outputs(model.eval(), ids, ids != self.pad)
            double = self.outputs(model.double(), ids, ids != self.pad)
        except Exception:  # float32 written into the module somewhere, or padding refused: the checks will say so
            return torch.float32
        # Some modules make infinities of their masks in double precision only: that is no fault of theirs.
        worse = bool((single.isfinite() & ~double.isfinite()).any())
        return torch.float32 if worse or double.dtype != torch.float64 else torch.float64

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
    def modes(self) -> tuple[Mode, ...]:
        """The modes in which passes over different batches can be compared: not training, if the module draws random
        numbers there other than dropout."""
        if self.spec is not None:
            return ("evaluation", "training")
        with self.mode("training") as model, torch.no_grad():
            noisy = (
                self.apart(self.call(model, self.text(2), seed=1), self.call(model, self.text(2), seed=2)) > 1
            ).any()
        return ("evaluation",) if noisy else ("evaluation", "training")

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
