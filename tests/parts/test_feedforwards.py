"""Experts against their equation, their load and their terms. Other people's layers are in tests/golden."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn

from headtohead import Experts, InputError, LanguageModel, Mlp, audit
from headtohead.parts.auxiliary import collect_terms
from helpers.models import SMALL, VOCAB, close, stirred, text

D, N = 16, 30


def layer(**settings) -> nn.Module:
    expert = Mlp(hidden=5, bias=False)
    return stirred(Experts(**{"expert": expert, "count": 4, **settings}).build(SMALL.dims))


def tokens(count: int = N) -> Tensor:
    return torch.randn(count, D, dtype=torch.float64, generator=torch.Generator().manual_seed(2))


def of_routing(routing: str, scores: list[float], bias: list[float], active: int) -> dict[int, float]:
    """The weight of each chosen expert of one token."""
    total = sum(math.exp(s) for s in scores)
    p = [1 / (1 + math.exp(-s)) if routing == "sigmoid" else math.exp(s) / total for s in scores]
    chosen = sorted(range(len(p)), key=lambda e: p[e] + bias[e], reverse=True)[:active]
    share = 1.0 if routing == "softmax of all" else sum(p[e] for e in chosen)
    return {e: p[e] / share for e in chosen}


@pytest.mark.parametrize("routing", ["softmax of active", "softmax of all", "sigmoid"])
@pytest.mark.parametrize(("active", "shared", "bias_step"), [(2, 0, 0.0), (3, 2, 0.1)])
@torch.no_grad()
def test_experts_match_their_equation(routing, active, shared, bias_step):
    ours = layer(routing=routing, active=active, shared=shared, bias_step=bias_step, scale=1.5)
    bias = [0.0] * 4
    if bias_step:
        bias = [0.4, -0.3, 0.1, -0.2]
        ours.bias.copy_(torch.tensor(bias))
    x = tokens()
    out = ours(x.view(2, -1, D)).view(N, D)
    for n in range(N):
        weights = of_routing(routing, (ours.router.weight @ x[n]).tolist(), bias, active)
        expected = sum((1.5 * g * ours.experts[e](x[n]) for e, g in weights.items()), torch.zeros(D).double())
        close(out[n], sum((expert(x[n]) for expert in ours.shared), expected))


@torch.no_grad()
def test_a_token_is_computed_without_the_others():
    ours, x = layer(), tokens()
    close(ours(x), torch.cat([ours(x[n : n + 1]) for n in range(N)]))
    close(ours(x.flip(0)).flip(0), ours(x))


def test_gradients_are_those_of_the_equation():
    """Of a sum over all experts in which the weights of experts that were not chosen are zero."""
    ours, x = layer(), tokens().requires_grad_()
    out = ours(x)
    dense = torch.zeros(N, 4, dtype=torch.float64).scatter(1, ours.route(x)[1], ours.route(x)[0])
    plain = sum(dense[:, e : e + 1] * expert(x) for e, expert in enumerate(ours.experts))
    inputs = [x, *ours.parameters()]
    for a, b in zip(*(torch.autograd.grad(y.sin().sum(), inputs) for y in (out, plain)), strict=True):
        close(a, b)


@torch.no_grad()
def test_load_counts_the_tokens_of_each_expert():
    ours, x = layer(), tokens()
    ours(x)
    chosen = ours.route(x)[1].flatten().tolist()
    assert ours.tokens.tolist() == [chosen.count(e) for e in range(4)]
    assert int(ours.tokens.sum()) == 2 * N


@torch.no_grad()
def test_terms_match_their_equations():
    ours, x = layer(balance=2.0, router_z=0.5), tokens()
    with collect_terms() as terms:
        ours(x)
    load, mean_p, z_loss = [0.0] * 4, [0.0] * 4, 0.0
    for n in range(N):
        scores = (ours.router.weight @ x[n]).tolist()
        total = sum(math.exp(s) for s in scores)
        z_loss += math.log(total) ** 2 / N
        for e in of_routing("softmax of active", scores, [0.0] * 4, 2):
            load[e] += 1 / (2 * N)
        for e, s in enumerate(scores):
            mean_p[e] += math.exp(s) / total / N
    balance = 4 * sum(f * p for f, p in zip(load, mean_p, strict=True))
    assert float(terms["balance"]) == pytest.approx(2 * balance, rel=1e-6)
    assert float(terms["router z"]) == pytest.approx(0.5 * z_loss, rel=1e-6)


def test_the_balance_term_is_one_if_balanced_and_more_otherwise():
    ours = layer()
    ours.router.weight.data.zero_()
    ours.router.weight.data[:, :4] = 8 * torch.eye(4)
    even = torch.eye(4, D, dtype=torch.float64) + torch.eye(4, D, dtype=torch.float64).roll(1, 0)
    for x, expected in ((even, 1.0), (even[:1].expand(4, -1), 2.0)):
        with collect_terms() as terms:
            ours(x)
        assert float(terms["balance"].detach()) == pytest.approx(expected, abs=0.01)


def test_training_with_the_balance_term_balances_the_load():
    ours, x = layer().float(), tokens(400).float() + 1  # what all tokens have in common favours some experts
    largest = []
    steps = torch.optim.SGD(ours.router.parameters(), lr=1.0)
    for _ in range(60):
        with collect_terms() as terms:
            ours(x)
        largest.append(float(ours.tokens.max() / ours.tokens.sum()))
        steps.zero_grad()
        terms["balance"].backward()
        steps.step()
    assert largest[0] > 0.35
    assert largest[-1] < 0.28, "0.25 is balanced"


def test_the_bias_moves_towards_balance_in_training_only():
    ours, x = layer(bias_step=0.01), tokens(400)
    ours(x)
    with collect_terms():
        ours.eval()(x)
    assert not ours.bias.any(), "it moves in steps of training, and nowhere else"
    first = float(ours.tokens.max() / ours.tokens.sum())
    for _ in range(60):
        with collect_terms():
            ours.train()(x)
    assert float(ours.tokens.max() / ours.tokens.sum()) < min(0.28, first)
    assert "bias" in ours.state_dict(), "it is stored with the weights"


def test_outside_of_training_nothing_is_collected():
    model = LanguageModel(SMALL.set("feedforward", Experts(router_z=1.0)), VOCAB)
    model(text(2))
    with collect_terms() as terms:
        model(text(2))
    assert terms.keys() == {"balance", "router z"}
    assert float(terms["balance"].detach()) > 1.9, "the sum over two layers"


def test_a_capacity_limits_every_expert_in_the_order_of_the_tokens():
    ours, x = layer(capacity=0.5), tokens()
    free = layer()
    free.load_state_dict(ours.state_dict())
    weights, chosen = ours.route(x)
    most, taken = math.ceil(0.5 * 2 * N / 4), [0] * 4
    out = ours(x)
    for n in range(N):
        expected = torch.zeros(D, dtype=torch.float64)
        for g, e in zip(weights[n], chosen[n].tolist(), strict=True):
            expected = expected + (g * ours.experts[e](x[n]) if taken[e] < most else 0)
            taken[e] += 1
        close(out[n].detach(), expected.detach())
    assert not torch.equal(out, free(x))
    assert not Experts(capacity=1.0).by_token
    assert Experts().by_token


def test_the_audit_reports_that_a_capacity_reads_other_texts():
    found = {f.check: f.status for f in audit("Experts(capacity=0.5)").findings}
    assert found["batch-rows"] == "broken"
    assert "broken" not in {f.status for f in audit("Experts()", only=("batch-rows", "future-tokens")).findings}


def test_impossible_routings_are_refused():
    with pytest.raises(InputError, match="choose at most 8"):
        Experts(active=9)
    for routing in ("softmax of active", "sigmoid"):
        with pytest.raises(InputError, match="would not learn"):
            Experts(active=1, routing=routing)
    Experts(active=1, routing="softmax of all")


def test_one_token_uses_only_its_experts():
    """Without gradients, experts without tokens are not called."""
    ours, called = layer(active=2), []
    for e, expert in enumerate(ours.experts):
        expert.register_forward_hook(lambda _m, _x, _y, e=e: called.append(e))
    with torch.no_grad():
        ours(tokens(1))
    assert len(called) == 2
    called.clear()
    ours(tokens(1)).sum().backward()
    assert called == [0, 1, 2, 3]
    assert all(p.grad is not None for p in ours.parameters())
