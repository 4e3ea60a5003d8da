"""Patterns that differ between layers and heads: both paths, the cache, padding and maps follow each of them."""

from contextlib import nullcontext

import pytest
import torch

from headtohead import Causal, InputError, Local, PerHead, Prefix, parse
from headtohead.auditor import audit_spec
from headtohead.auditor.reach import reach
from headtohead.model.hooks import WEIGHTS, capture, explicit, in_order, layers_with_weights
from helpers.models import SMALL, T, close, influence, language_model, text

BY_HEAD = Causal() & PerHead((Local(2), Local(4), Causal()))
SPECS = {
    "by layer": SMALL.set("layers", 3).set("pattern", 2 * (Causal() & Local(2)) + Causal()),
    "by head": SMALL.set("pattern", BY_HEAD),
    "by layer and head": SMALL.set("pattern", BY_HEAD + (Causal() & Local(3))),
    "heads with a prefix": SMALL.set("pattern", Causal() & (PerHead((Local(2), Local(3))) | Prefix(1))),
    "looped": SMALL.set("loops.times", 2).set("pattern", (Causal() & Local(2)) + Causal()),
    "positions too": SMALL.set("pattern", (Causal() & Local(3)) + Causal()).set("position", parse("Rope + NoPosition")),
}
every = pytest.mark.parametrize("name", SPECS)


def allowed_of(spec, layer: int, head: int) -> torch.Tensor:
    patterns = spec.each("pattern")[layer].by_head(spec.heads)
    i = torch.arange(T)
    return patterns[head % len(patterns)].allowed(i[:, None], i)


@every
@torch.no_grad()
def test_weights_are_where_the_pattern_of_the_head_allows(name):
    spec = SPECS[name]
    model = language_model(spec)
    with capture(model, WEIGHTS) as seen:
        model(text(1))
    layers = layers_with_weights(model)
    assert [number for number, _ in layers] == list(range(spec.depth))
    for (_, n), a in zip(layers, in_order(model, seen), strict=True):
        for h in range(spec.heads):
            assert torch.equal(a[0, h] > 0, allowed_of(spec, n, h)), f"block {n}, head {h}"


@every
@torch.no_grad()
def test_both_paths_and_padding_agree(name):
    model, ids = language_model(SPECS[name]), text(3)
    keep = torch.ones(3, T, dtype=torch.bool)
    keep[1, :4] = False
    keep[2, 7:] = False
    outs = []
    for context in (nullcontext(), explicit(model)):
        with context:
            outs.append(model(ids, keep))
    close(outs[0][keep], outs[1][keep])
    for row in range(3):
        close(outs[0][row, keep[row]], model(ids[row, keep[row]][None])[0])


@every
@pytest.mark.parametrize("sizes", [[1] * T, [5, 1, 4, 1, 1]], ids=["one by one", "pieces"])
@torch.no_grad()
def test_the_cache_follows_each_pattern(name, sizes):
    model, ids = language_model(SPECS[name]), text(2)
    cache, outs = model.new_cache(), []
    for piece in ids.split(sizes, dim=1):
        outs.append(model(piece, cache=cache))
    close(torch.cat(outs, dim=1), model(ids))


@every
def test_a_token_depends_on_what_all_layers_together_allow(name):
    seen = influence(language_model(SPECS[name])) > 0
    assert torch.equal(seen, reach(SPECS[name], T))


@pytest.mark.slow
@every
def test_the_audit_proves_them(name):
    report = audit_spec(SPECS[name].set("block", 16), causal=True)
    assert not [f for f in report.findings if f.status == "broken"]


@pytest.mark.parametrize("pattern", ["PerHead(())", "PerHead((Local(1), Local(2), Local(3), Local(4), Local(5)))"])
def test_lists_that_do_not_fit_the_heads_are_refused_in_one_line(pattern):
    with pytest.raises(InputError) as error:
        language_model(SMALL.set("pattern", pattern))(text(1))
    assert "\n" not in str(error.value)
