"""What a token may depend on by the claims of the parts, against paths counted by hand and against gradients."""

import pytest
import torch

from headtohead import Causal, Full, Local, ModelSpec, PerHead
from headtohead.auditor.reach import reach, reach_of_layer
from helpers.models import SMALL, T, influence, language_model


def spans(spec: ModelSpec) -> list[int]:
    """How far back each token of a causal model may look, the token itself included."""
    table = reach(spec, T)
    assert not table.triu(1).any()
    return table.sum(dim=1).tolist()


def test_windows_add_up_over_layers():
    local = Causal() & Local(3)
    assert spans(SMALL.set("layers", 1).set("pattern", local)) == [1, 2] + [3] * (T - 2)
    assert spans(SMALL.set("layers", 3).set("pattern", local))[-1] == 7
    assert spans(SMALL.set("layers", 3).set("pattern", 2 * local + Causal()))[-1] == T
    assert spans(SMALL.set("layers", 2).set("pattern", local).set("loops.times", 2))[-1] == 9


def test_heads_see_together_what_any_of_them_sees():
    layer = SMALL.set("pattern", PerHead((Causal() & Local(2), Causal() & Local(5)))).layer(0)
    assert reach_of_layer(layer, T).sum(dim=1).tolist() == [min(n + 1, 5) for n in range(T)]


def test_linear_attention_sees_all_earlier_tokens_or_all():
    spec = SMALL.set("mixer", "LinearAttention")
    assert torch.equal(reach(spec, T), torch.ones(T, T).tril().bool())
    assert reach(spec.set("pattern", Full()), T).all()


@pytest.mark.parametrize("pattern", ["(Causal & Local(2)) + Causal", "(Causal & Local(2)) + (Causal & Local(4))"])
@pytest.mark.parametrize("times", [1, 2])
def test_reach_is_where_gradients_are(pattern, times):
    spec = SMALL.set("pattern", pattern).set("loops.times", times)
    assert torch.equal(influence(language_model(spec)) > 0, reach(spec, T))
