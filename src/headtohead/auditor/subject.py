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

from headtohead.auditor.trace import CastsDown, DropoutOff, token_embeddings
from headtohead.errors import InputError
from headtohead.model.spec import ModelSpec
from headtohead.model.transformer import Classifier, LanguageModel

Mode = Literal["evaluation", "training"]
T = TypeVar("T")

KEEP_NAMES = ("keep", "mask", "attention_mask")  # true at real tokens
DROP_NAMES = ("key_padding_mask", "padding_mask", "pad_mask", "src_key_padding_mask")  # true at padding


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
    options: dict[str, Any] = field(default_factory=dict)  # the constructor's simple options and their defaults
    rebuild: Callable[..., nn.Module] | None = None  # builds with other options
    _unpadded: dict[Mode, list[Tensor]] = field(default_factory=dict)
    _results: dict[Any, Any] = field(default_factory=dict)

    # -- modules -------------------------------------------------------------------------------------------------------

    def fresh(self, seed: int = 0, build: Callable[[], nn.Module] | None = None) -> nn.Module:
        """Build a new module with its initial weights."""
        _seed(seed)
        return (build or self.build)()

    def perturbed(self, build: Callable[[], nn.Module] | None = None, seed: int = 0) -> nn.Module:
        """Build a new module and add noise to its weights, as training would: a gate that starts at zero then lets the
        rest of the module be seen. The module is in double precision if it supports that."""
        model = self.cast(self.fresh(build=build))
        draw = torch.Generator().manual_seed(1 + seed)
        padding_rows = {
            id(m.weight): m.padding_idx
            for m in model.modules()
            if isinstance(m, nn.Embedding | nn.EmbeddingBag) and m.padding_idx is not None
        }
        with torch.no_grad():
            for p in model.parameters():
                if p.requires_grad and p.is_floating_point():
                    noise = torch.randn(p.shape, generator=draw, dtype=torch.float64).to(p.dtype)
                    if id(p) in padding_rows:
                        noise[padding_rows[id(p)]] = 0  # training never changes the padding row
                    p.add_(noise * (0.1 * (1 + seed) * p.pow(2).mean().sqrt() + 0.02))
        return model

    def cast(self, model: nn.Module) -> nn.Module:
        """Convert a module to the precision of this audit."""
        return model.double() if self.precision == torch.float64 else model  # .to would drop imaginary parts of buffers

    @cached_property
    def precision(self) -> torch.dtype:
        """float64 if the module works in it, else float32."""
        model = self.fresh()
        for name, p in model.named_parameters():
            if not torch.isfinite(p).all():
                raise InputError(f"{self.name}: the weight {name} holds NaN or infinity, so outputs cannot be compared")
        ids = self.text(3)
        if self.takes_padding:  # a half-padded text, and an empty one
            ids[1, self.length // 2 :] = self.pad
            ids[2] = self.pad
        long = self.text(1, max(self.longest, self.length))
        try:
            single, single_long = self.outputs(model.eval(), ids, ids != self.pad), self.outputs(model, long)
            model = model.double()
            double, double_long = self.outputs(model, ids, ids != self.pad), self.outputs(model, long)
        except Exception as error:  # the module fixes float32 somewhere, or refuses padding, which the checks report
            self.refused = str(error).splitlines()[0][:200] if str(error) else type(error).__name__
            return torch.float32
        # Some masks overflow to infinity in double precision only. That is not a bug of the module.
        worse = bool((single.isfinite() & ~double.isfinite()).any())
        if self.differs(double_long, single_long, 1e-2).any():
            # With a float32 mask, torch's fused attention is wrong in double precision, for 16 tokens or more.
            self.refused, worse = "its outputs differ from those in single precision", True
        return torch.float32 if worse or double.dtype != torch.float64 else torch.float64

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
    def mode(self, mode: Mode, fresh: bool = False) -> Iterator[nn.Module]:
        """Yield a module in that mode. In training, dropout is off, so that passes can be compared."""
        if mode == "evaluation":
            yield self.eval_model
            return
        model = self.perturbed().train() if fresh else self.train_model
        with self.dropout_off(model):
            yield model

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
        return token_embeddings(model, lambda: self.outputs(model, ids), ids)

    @property
    def takes_padding(self) -> bool:
        """Whether the module's input can be padded."""
        return self.gives == "classes" or self.mask is not None

    def differs(self, a: Tensor, b: Tensor, tolerance: float | None = None) -> Tensor:
        """Return where a and b differ along the last axis by more than rounding can explain, or are NaN."""
        a, b = a.double(), b.double()
        size = 1 + torch.maximum(a.abs(), b.abs()).amax()
        gap = (a - b).abs().amax(dim=-1) / (size * (tolerance or self.tolerance))
        return gap.nan_to_num(torch.inf) > 1


def _seed(seed: int) -> None:
    random.seed(seed)
    np.random.seed(seed)
    torch.default_generator.manual_seed(seed)


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

    build()  # an invalid spec is an input error, not a finding
    return Subject(
        name=name,
        build=build,
        vocab=vocab,
        length=min(length, spec.block),
        gives="tokens" if causal else "classes",
        causal=causal,
        relative=all(position.relative for position in spec.each("position")),
        spec=spec,
        mask="keep",
        cache="cache" if causal else None,
    )
