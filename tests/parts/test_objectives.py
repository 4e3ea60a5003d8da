"""Objectives: the losses of logits by their equations, and which tokens are masked."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from headtohead import InputError
from headtohead.parts.auxiliary import add_term, collect_terms
from headtohead.parts.objectives import IGNORED, Distillation, MaskedTokens, MultiToken, NextToken, choose

N, V = 5, 7


def logits(seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    draw = torch.Generator().manual_seed(seed)
    return 3 * torch.randn(N, V, generator=draw, dtype=torch.float64), torch.randint(0, V, (N,), generator=draw)


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.9])
@pytest.mark.parametrize("z_loss", [0.0, 0.01])
def test_losses_of_logits_are_the_equation(smoothing, z_loss):
    z, y = logits()
    found = NextToken(smoothing=smoothing, z_loss=z_loss).of_logits(z, y)
    for row in range(N):
        values = z[row].tolist()
        total = sum(map(math.exp, values))
        loss = z_loss * math.log(total) ** 2
        for v in range(V):
            q = (1 - smoothing) * (v == int(y[row])) + smoothing / V
            loss -= q * math.log(math.exp(values[v]) / total)
        assert float(found[row]) == pytest.approx(loss, abs=1e-12)


def test_label_smoothing_is_that_of_torch():
    z, y = logits()
    theirs = F.cross_entropy(z, y, reduction="none", label_smoothing=0.3)
    assert NextToken(smoothing=0.3).of_logits(z, y).tolist() == pytest.approx(theirs.tolist(), abs=1e-12)


@pytest.mark.parametrize("temperature", [0.5, 1.0, 4.0])
def test_distillation_is_the_equation(temperature):
    (z, y), (taught, _) = logits(), logits(1)
    found = Distillation(temperature=temperature, weight=0.3, smoothing=0.1).of_taught(z, y, taught)
    plain = NextToken(smoothing=0.1).of_logits(z, y)
    for row in range(N):
        p, q = ([math.exp(x / temperature) for x in t[row].tolist()] for t in (z, taught))
        divergence = sum(b / sum(q) * math.log(b / sum(q) / (a / sum(p))) for a, b in zip(p, q, strict=True))
        wanted = 0.7 * float(plain[row]) + 0.3 * temperature**2 * divergence
        assert float(found[row]) == pytest.approx(wanted, abs=1e-12)


def test_a_student_like_its_teacher_has_no_divergence():
    z, y = logits()
    same = Distillation(weight=1.0).of_taught(z.requires_grad_(), y, z.detach())
    assert same.abs().max() < 1e-12
    (gradient,) = torch.autograd.grad(same.sum(), z)
    assert gradient.abs().max() < 1e-12


# -- masks -------------------------------------------------------------------------------------------------------------

IDS = np.arange(400).reshape(10, 40) % 50
MASK = 50


def test_masks_hide_their_share_of_every_window():
    ids, targets = MaskedTokens(share=0.2, random=0, kept=0).prepare(IDS, IDS, MASK, seed=3)
    hidden = ids == MASK
    assert (hidden.sum(axis=1) == 8).all()
    assert (targets[hidden] == IDS[hidden]).all()
    assert (targets[~hidden] == IGNORED).all()
    assert (ids[~hidden] == IDS[~hidden]).all()


def test_chosen_tokens_become_the_mask_another_token_or_stay():
    many = np.tile(IDS, (100, 1))
    ids, targets = MaskedTokens(share=0.5, random=0.2, kept=0.3).prepare(many, many, MASK, seed=3)
    chosen = targets != IGNORED
    assert chosen.mean() == 0.5
    assert (ids[~chosen] == many[~chosen]).all()
    assert (ids[chosen] == MASK).mean() == pytest.approx(0.5, abs=0.02)
    assert (ids[chosen] == many[chosen]).mean() == pytest.approx(0.3 + 0.2 / MASK, abs=0.02)
    assert set(ids[chosen & (ids != many)].tolist()) == {*range(MASK + 1)}, "a random token is any token"


def test_masks_depend_on_the_seed_alone():
    objective = MaskedTokens()
    one, again, other = (objective.prepare(IDS, IDS, MASK, seed) for seed in (1, 1, 2))
    assert all(np.array_equal(a, b) for a, b in zip(one, again, strict=True))
    assert not np.array_equal(one[0], other[0])


@pytest.mark.parametrize(("length", "share", "count"), [(1, 0.01, 1), (10, 0.15, 2), (10, 1.0, 10), (7, 0.5, 4)])
def test_at_least_one_token_is_chosen(length, share, count):
    chosen = choose((3, length), share, np.random.default_rng(0))
    assert chosen.sum(axis=1).tolist() == [count] * 3


def test_every_token_is_chosen_equally_often():
    share = choose((20_000, 8), 0.25, np.random.default_rng(0)).mean(axis=0)
    assert np.abs(share - 0.25).max() < 0.02


# -- knobs -------------------------------------------------------------------------------------------------------------


def test_impossible_knobs_are_refused_in_one_line():
    with pytest.raises(InputError, match="must add up to at most 1"):
        MaskedTokens(random=0.6, kept=0.6)
    with pytest.raises(InputError, match="sixteen hex digits, not 'latest'"):
        Distillation(run="latest")
    with pytest.raises(InputError, match=r"MultiToken\.tokens"):
        MultiToken(tokens=1)


# -- terms of the model ------------------------------------------------------------------------------------------------


def test_terms_are_summed_by_name_and_collected_only_inside():
    add_term("balance", torch.tensor(5.0))  # outside of training: nothing happens
    with collect_terms() as terms:
        add_term("balance", torch.tensor(1.0))
        add_term("balance", torch.tensor(2.0))
        with collect_terms() as inner:
            add_term("balance", torch.tensor(7.0))
        add_term("router", torch.tensor(4.0))
    add_term("balance", torch.tensor(5.0))
    assert (terms, inner) == ({"balance": 3.0, "router": 4.0}, {"balance": 7.0})
