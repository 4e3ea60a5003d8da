"""Bugs planted in our own parts: each is found by the check meant for it, and the part without it passes that check."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from headtohead import (
    AttentionPooling,
    BigramHash,
    Canon,
    CappedOutput,
    Experts,
    HyperConnections,
    Part,
    Smear,
    TokenShift,
)
from headtohead.auditor import audit_part, audit_spec
from headtohead.parts import convolutions, embeddings
from headtohead.parts.feedforwards import ExpertLayers
from headtohead.parts.outputs import CappedHooks
from headtohead.parts.poolings import AttentionPool
from headtohead.parts.residuals import HyperWire
from helpers.models import SMALL

convolution, previous, route = convolutions.causal_convolution, embeddings.previous, ExpertLayers.route


def too_early(x: Tensor, weight: Tensor, bias: Any, last: Any = None, keep: Any = None) -> Any:
    y, last = convolution(x, weight, bias, last, keep)
    return y.roll(-2, dims=1), last


def without_state(x: Tensor, weight: Tensor, bias: Any, last: Any = None, keep: Any = None) -> Any:  # noqa: ARG001
    return convolution(x, weight, bias, None, keep)


def over_padding(x: Tensor, weight: Tensor, bias: Any, last: Any = None, keep: Any = None) -> Any:  # noqa: ARG001
    return convolution(x + 1, weight, bias, last, None)


def next_tokens(ids: Tensor, keep: Tensor | None, last: Tensor | None = None) -> Any:
    before, last = previous(ids, keep, last)
    return ids.roll(-1, dims=1) + 0 * before, last


def padding_counts(ids: Tensor, _keep: Any, last: Any = None) -> Any:
    return previous(ids, None, last)


def forgets(ids: Tensor, keep: Any, _last: Any = None) -> Any:
    return previous(ids, keep, None)


def over_the_batch(self: Any, x: Tensor) -> Any:
    return route(self, x - x.mean(dim=0))


def weights_by_expert(self: Any, x: Tensor) -> Any:
    """Weights in the order of the sorted tokens, not in their own."""
    weights, chosen = route(self, x)
    return weights.flatten()[chosen.flatten().argsort(stable=True)].view_as(weights), chosen


def pool_over_padding(self: Any, x: Tensor, _keep: Tensor) -> Tensor:
    a = (x * self.queries.flatten()).sum(dim=2).softmax(dim=1)
    return (a[..., None] * x).sum(dim=1)


def pool_of_nothing(self: Any, x: Tensor, keep: Tensor) -> Tensor:
    a = (x * self.queries.flatten()).sum(dim=2).masked_fill(~keep, -torch.inf).softmax(dim=1)
    return (a[..., None] * x).sum(dim=1)


def cap_of_the_batch(self: Any, z: Tensor) -> Tensor:
    return self.cap * torch.tanh(z / z.abs().amax())


def streams_of_the_text(self: Any, x: Tensor, f: Any) -> Tensor:
    """Mixes the sum over all tokens into every stream."""
    return x + self.beta[:, None] * f(self.norm(x.mean(dim=-2))).unsqueeze(-2) + 1e-3 * x.sum(dim=0, keepdim=True)


def one_fewer(self: Any, site: str) -> int:
    return self.width - 2 if site in self.sites else 0


Bug = tuple[Part, Any, str, Callable[..., Any], set[str]]
BUGS: dict[str, Bug] = {
    "convolution one step ahead": (
        Canon(),
        convolutions.ShortConvolution,
        "forward",
        lambda self, x, last, keep: too_early(x, self.weight, self.bias, last, keep),
        {"future-gradient", "future-tokens"},
    ),
    "convolution starts anew in every call": (
        Canon(),
        convolutions.ShortConvolution,
        "forward",
        lambda self, x, last, keep: without_state(x, self.weight, self.bias, last, keep),
        {"cache"},
    ),
    "convolution reads padding": (
        Canon(),
        convolutions.ShortConvolution,
        "forward",
        lambda self, x, last, keep: over_padding(x, self.weight, self.bias, last, keep),
        {"padding-left"},
    ),
    "shift one step ahead": (TokenShift(), convolutions, "causal_convolution", too_early, {"future-gradient"}),
    "shift forgets the last call": (TokenShift(), convolutions, "causal_convolution", without_state, {"cache"}),
    "smear reads the next token": (Smear(), embeddings, "causal_convolution", too_early, {"future-gradient"}),
    "smear reads padding": (Smear(), embeddings, "causal_convolution", over_padding, {"padding-left"}),
    "bigram with the next token": (BigramHash(), embeddings, "previous", next_tokens, {"future-tokens"}),
    "bigram with padding": (BigramHash(), embeddings, "previous", padding_counts, {"padding-left"}),
    "bigram forgets the last call": (BigramHash(), embeddings, "previous", forgets, {"cache"}),
    "router over the batch": (Experts(), ExpertLayers, "route", over_the_batch, {"batch-rows"}),
    "weights of other tokens": (Experts(), ExpertLayers, "route", weights_by_expert, {"batch-rows"}),
    "pooling over padding": (
        AttentionPooling(),
        AttentionPool,
        "forward",
        pool_over_padding,
        {"padding-right"},
    ),
    "pooling of an empty text": (
        AttentionPooling(),
        AttentionPool,
        "forward",
        pool_of_nothing,
        {"masked-rows"},
    ),
    "cap over the batch": (CappedOutput(), CappedHooks, "forward", cap_of_the_batch, {"batch-rows"}),
    "streams of all texts": (
        HyperConnections(dynamic=False),
        HyperWire,
        "forward",
        streams_of_the_text,
        {"batch-rows"},
    ),
}


@pytest.mark.parametrize("bug", BUGS)
def test_a_planted_bug_is_found_by_its_check(bug, monkeypatch):
    part, where, name, replacement, checks = BUGS[bug]
    assert statuses(part, checks) <= {"proved", "does not apply"}
    monkeypatch.setattr(where, name, replacement)
    assert "broken" in statuses(part, checks)


def test_a_convolution_that_is_wider_than_it_says_is_found(monkeypatch):
    spec = SMALL.set("convolution", Canon(sites="A")).set("pattern", "Causal & Local(1)").set("layers", 1)
    check = lambda: audit_spec(spec, causal=True, only=("window",)).findings[0].status
    assert check() == "proved"
    monkeypatch.setattr(Canon, "before", one_fewer)
    assert check() == "broken"


def statuses(part: Part, checks: set[str]) -> set[str]:
    (report,) = audit_part(part, only=sorted(checks))
    return {finding.status for finding in report.findings}
