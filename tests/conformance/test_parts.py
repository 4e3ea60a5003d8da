"""What holds for every part there is, at its defaults and with each knob changed.

A new part is tested here by being written down: nothing in this file names it.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import json
import math
import random
from collections.abc import Callable
from contextlib import nullcontext

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from headtohead import (
    Biases,
    Causal,
    Classifier,
    Convolution,
    Embedding,
    FeedForward,
    Full,
    Fusion,
    InitSpec,
    LanguageModel,
    Local,
    Mean,
    Mixer,
    ModelSpec,
    Norm,
    Part,
    Pattern,
    Pooling,
    Position,
    Prefix,
    RMSNorm,
    Sinks,
    breakdown,
    explicit,
    families,
    parse,
)
from headtohead.auditor.reach import reach as claimed
from headtohead.spec import alternatives, is_builtin, knobs
from helpers.models import (
    CLASSES,
    SMALL,
    VOCAB,
    T,
    causal_spec,
    classifier,
    close,
    defaults,
    gradients,
    influence,
    language_model,
    model_spec,
    padded,
    reach,
    stirred,
    table,
    text,
    token_inputs,
    variants,
)

ALL = [part for part in variants() if getattr(part, "by_token", True)]  # others depend on the batch, and say so
IN_LANGUAGE_MODELS = [p for p in ALL if not isinstance(p, Pooling)]
CAUSAL = [p for p in IN_LANGUAGE_MODELS if getattr(p, "causal", True) is True]
LEAKING = [p for p in IN_LANGUAGE_MODELS if p not in CAUSAL]


def in_classifiers(part: Part) -> ModelSpec:
    """The part where a classifier can use it."""
    return model_spec(part).set("pattern", part if isinstance(part, Pattern) else Full())


every = pytest.mark.parametrize("part", ALL, ids=str)
every_default = pytest.mark.parametrize("part", defaults(), ids=str)
every_causal = pytest.mark.parametrize("part", CAUSAL, ids=str)


# -- what a part says of itself ---------------------------------------------------------------------------------------


def test_every_family_has_members():
    known = {family: [c for c in members.values() if is_builtin(c)] for family, members in families().items()}
    wanted = {"position", "pattern", "fusion", "norm", "residual", "feedforward", "pooling"}
    assert wanted <= known.keys()
    assert all(len(known[family]) >= 2 for family in wanted)


@every_default
def test_every_part_describes_itself(part):
    cls = type(part)
    assert cls.__doc__
    assert not cls.__doc__.startswith(f"{cls.__name__}("), "a dataclass without a docstring makes one of its signature"
    assert cls.equation.strip()
    assert cls.reference.strip()
    assert families()[part.family][cls.__name__] is cls
    for knob in knobs(cls):
        assert knob.help.strip(), f"{cls.__name__}.{knob.name} has no help"
        assert getattr(part, knob.name) == knob.default


@every
def test_every_part_is_a_hashable_value(part):
    """Equal by content, hashable, frozen."""
    again = type(part)(**{k.name: getattr(part, k.name) for k in knobs(type(part))})
    assert again == part
    assert again is not part
    assert hash(again) == hash(part)
    assert again.id == part.id
    for knob in knobs(type(part)):
        with pytest.raises(AttributeError):
            setattr(part, knob.name, knob.default)


def test_different_parts_have_different_ids():
    assert len({part.id for part in ALL}) == len(ALL)
    assert len({str(part) for part in ALL}) == len(ALL)
    assert len({model_spec(part).id for part in ALL}) == len({model_spec(part) for part in ALL})


@every
def test_every_part_survives_json(part):
    data = json.loads(json.dumps(part.to_json(), allow_nan=False))
    again = Part.from_json(data)
    assert again == part
    assert type(again) is type(part)
    assert again.id == part.id
    assert {"kind", *(k.name for k in knobs(type(part)))} == data.keys(), "every knob is written, defaults too"


@every
def test_every_part_survives_text(part):
    assert parse(str(part)) == part
    spec = model_spec(part)
    assert parse(str(spec)) == spec
    assert SMALL.set(part.family, str(part)) == spec


@every_default
def test_every_knob_can_be_changed_alone(part):
    for name, other in alternatives(part):
        assert [d.path for d in part.diff(other)] == [name]
        assert other.id != part.id


# -- weights ----------------------------------------------------------------------------------------------------------

OTHER_SETTINGS = [
    SMALL.set("kv_heads", 2),
    SMALL.set("kv_heads", 1),
    SMALL.set("head_width", 6),
    SMALL.set("layers", 3),
    SMALL.set("block", T + 5),
    SMALL.set("dropout", 0.1),
    SMALL.set("biases", Biases(q=True, k=True, v=True, out=False)),
    SMALL.set("tied", True),
    SMALL.set("head_bias", True),
    SMALL.set("qk_norm", RMSNorm()),
    SMALL.set("embedding_norm", RMSNorm()),
    SMALL.set("head.hidden", 7),
]
ARMS = [model_spec(part) for part in ALL] + OTHER_SETTINGS


def builders(spec: ModelSpec) -> dict[str, Callable[[int], nn.Module]]:
    return {
        "language model": lambda seed: LanguageModel(spec, VOCAB, seed),
        "classifier": lambda seed: Classifier(spec, VOCAB, CLASSES, seed),
    }


def builds(spec: ModelSpec) -> dict[str, Callable[[int], nn.Module]]:
    """What can be built of a spec: no classifier may read a first token that sees nothing else."""
    found = builders(spec)
    if not spec.pooling.reads_all and spec.pattern.is_causal(spec.block):
        found["classifier"] = builders(spec.set("pattern", Full()))["classifier"]
    return found


DRAWN = InitSpec(linear="torch", residual_scaling=False)  # biases are drawn too; scaling depends on the depth by design


@functools.cache
def control_weights(kind: str) -> dict[str, Tensor]:
    return dict(builders(SMALL.set("init", DRAWN))[kind](5).named_parameters())


@pytest.mark.parametrize("arm", ARMS, ids=str)
def test_tensors_shared_by_two_arms_start_equal(arm):
    """Same name, same shape, same seed: the same bits. A different seed: other numbers."""
    for kind, build in builds(arm.set("init", DRAWN)).items():
        ours, theirs, others = control_weights(kind), *(dict(build(seed).named_parameters()) for seed in (5, 6))
        shared = [n for n in ours.keys() & theirs.keys() if ours[n].shape == theirs[n].shape]
        assert len(shared) >= 10
        for name in shared:
            weight = f"{name.removesuffix('.bias')}.weight"
            if weight in ours and ours[weight].shape != theirs[weight].shape:
                continue  # the range of a bias is that of its weight
            assert torch.equal(ours[name], theirs[name]), f"{name} of the {kind} starts differently"
        for name, p in theirs.items():
            drawn = len(p.unique()) > 2
            assert drawn != torch.equal(p, others[name]), f"{name} of the {kind} with another seed: drawn is {drawn}"


@pytest.mark.parametrize("linear", ["normal", "xavier"])
def test_other_init_rules_share_initial_weights(linear):
    control, deeper = SMALL.set("init.linear", linear), SMALL.set("init.linear", linear).set("kv_heads", 1)
    ours, theirs = (dict(LanguageModel(spec, VOCAB, 5).named_parameters()) for spec in (control, deeper))
    for name in ours:
        assert ours[name].shape != theirs[name].shape or torch.equal(ours[name], theirs[name]), name


@every_default
def test_no_two_tensors_start_equal(part):
    """Every tensor has a stream of its own."""
    for build in builds(model_spec(part, init=InitSpec(linear="torch"))).values():
        drawn = [p for p in build(0).parameters() if p.numel() > 3 and len(p.unique()) > 2]
        firsts = {tuple((p / p.abs().max()).flatten()[:4].tolist()) for p in drawn}
        assert len(firsts) == len(drawn)


@every_default
def test_building_depends_on_the_seed_alone(part):
    """Not on what was drawn before, nor on what a test or a user seeded."""
    for build in builds(model_spec(part)).values():
        states = []
        for noise in (1, 2):
            torch.manual_seed(noise)
            random.seed(noise)
            np.random.seed(noise)
            states.append(build(3).state_dict())
        assert states[0].keys() == states[1].keys()
        assert all(torch.equal(states[0][name], states[1][name]) for name in states[0])


def test_building_leaves_global_random_state_alone():
    """Two arms built one after the other see the same dropout, whatever the first was made of."""
    for part in defaults():
        for build in builds(model_spec(part, dropout=0.1)).values():
            before = torch.get_rng_state(), random.getstate(), np.random.get_state()[1].tolist()
            build(0)
            assert random.getstate() == before[1], part
            assert np.random.get_state()[1].tolist() == before[2], part
            assert torch.equal(torch.get_rng_state(), before[0]), part


@every_default
def test_parameter_counts_are_exact(part):
    spec = model_spec(part)
    for classes, build in zip((None, CLASSES), builds(spec).values(), strict=True):
        spec = spec.set("pattern", Full()) if classes and not spec.pooling.reads_all else spec
        assert breakdown(spec, VOCAB, classes).total == sum(p.numel() for p in build(0).parameters())


SOFTMAX_CANCELS = ("position.keys.", ".bias")  # q·b is one number for all keys of a query


@every
def test_every_weight_receives_a_gradient(part):
    if isinstance(part, Pattern) and table(part.allowed).sum(dim=1).max() < 2:
        pytest.skip("where one key is all there is to see, queries and keys decide nothing")
    builds: list[Callable[[], LanguageModel | Classifier]]
    builds = [lambda: Classifier(in_classifiers(part), VOCAB, CLASSES)]
    if part in IN_LANGUAGE_MODELS:
        builds.append(lambda: LanguageModel(causal_spec(part), VOCAB))
    for build in builds:
        waiting: set[str] = set()
        for seed in range(1, 9):  # with some weights, an expert is chosen by no token
            model = stirred(build(), seed)
            found = gradients(model, model(text(6)))
            learns = set()
            for name, p in model.named_parameters():
                assert name in found, f"{name} is not part of the output"
                assert torch.isfinite(found[name]).all()
                if found[name].abs().max() > 1e-9 * p.abs().max() or all(piece in name for piece in SOFTMAX_CANCELS):
                    learns.add(name)
            waiting = found.keys() - learns if seed == 1 else waiting - learns
            if not waiting:
                break
        assert not waiting, f"{waiting} receive nothing but rounding"


# -- what may be seen -------------------------------------------------------------------------------------------------


@every_causal
@pytest.mark.parametrize("training", [False, True], ids=["evaluation", "training"])
def test_no_output_depends_on_a_later_token(part, training):
    model = language_model(causal_spec(part)).train(training)
    try:
        seen = influence(model)
    finally:
        model.eval()
    assert (seen.triu(1) == 0).all()
    assert (seen.diagonal() > 0).all()


@pytest.mark.parametrize("part", LEAKING, ids=str)
def test_a_part_that_says_it_reads_the_future_does(part):
    """Its word is kept both ways: `causal` is false only where a leak is there to be seen."""
    assert influence(language_model(causal_spec(part))).triu(1).abs().max() > 1e-6


@every_causal
@pytest.mark.parametrize("layers", [1, 2])
def test_a_pattern_allows_exactly_its_window(part, layers):
    """Other parts neither widen nor narrow what the pattern allows, to the edge and layer by layer."""
    spec = model_spec(part, layers=layers)
    if isinstance(part, Pattern):
        expected = reach(table(part.allowed), layers)
    elif isinstance(part, Mixer | Convolution | Embedding):  # they may see more or less than the pattern, and say so
        expected = claimed(spec, T)
    else:
        spec = spec.set("pattern", Causal() & Local(3))
        expected = reach(table(lambda i, j: i - 2 <= j <= i), layers)
        assert torch.equal(claimed(spec, T), expected)
    seen = influence(language_model(spec)) > 0
    assert not (seen & ~expected).any()
    assert getattr(part, "dense", True) is False or torch.equal(seen, expected)


RULES: dict[str, tuple[Pattern, Callable[[int, int], bool]]] = {
    "full": (Full(), lambda _i, _j: True),
    "causal": (Causal(), lambda i, j: j in range(i + 1)),
    "local": (Local(3), lambda i, j: abs(i - j) in (0, 1, 2)),
    "sinks": (Sinks(first=2, window=2), lambda i, j: j in (0, 1) or abs(i - j) in (0, 1)),
    "prefix": (Prefix(3), lambda _i, j: j in (0, 1, 2)),
    "and": (Causal() & Local(2), lambda i, j: j in (i, i - 1)),
    "or": (Causal() | Prefix(3), lambda i, j: j in range(i + 1) or j in (0, 1, 2)),
}


@pytest.mark.parametrize(("pattern", "rule"), RULES.values(), ids=RULES)
def test_patterns_match_their_definitions(pattern, rule):
    assert torch.equal(table(pattern.allowed), table(rule))
    i, j = torch.arange(T)[:, None], torch.arange(T)[None, :]
    assert torch.equal(pattern.allowed(i, j).expand(T, T), table(rule)), "tensors and numbers disagree"
    assert pattern.is_causal(T) == (not table(rule).triu(1).any())


def test_patterns_depend_on_positions_alone():
    """Far from the start, too: a cache asks for one row at a time, at any place."""
    i, j = torch.tensor([[40]]), torch.arange(50)[None]
    for pattern, rule in RULES.values():
        assert pattern.allowed(i, j).expand(1, 50)[0].tolist() == [rule(40, n) for n in range(50)]


# -- padding ----------------------------------------------------------------------------------------------------------


def layouts() -> dict[str, Tensor]:
    """Keep masks (T − 1, T) for texts of 1 … T − 1 tokens: any amount on the right, on the left, and holes between."""
    column, lengths = torch.arange(T), torch.arange(1, T)[:, None]
    draw = torch.Generator().manual_seed(4)
    anywhere = torch.rand(T - 1, T, generator=draw).argsort(dim=1).argsort(dim=1) < lengths
    return {"right": column < lengths, "left": column >= T - lengths, "anywhere": anywhere}


@every
def test_padding_changes_nothing(part):
    """Whatever ids stand under the mask, however much of it there is, and wherever."""
    words = [text(1, n, seed=10 + n)[0] for n in range(1, T)]
    fill = torch.cat([torch.zeros(T - 1, T, dtype=torch.long), text(T - 1, seed=5)])
    models: list[LanguageModel | Classifier] = [classifier(in_classifiers(part))]
    if part in IN_LANGUAGE_MODELS:
        models.append(language_model(model_spec(part)))
    for model in models:
        with torch.no_grad():
            alone = [model(w[None], torch.ones(1, len(w), dtype=torch.bool))[0] for w in words]
            for keep in layouts().values():
                keep = keep.repeat(2, 1)
                out = model(padded([*words, *words], keep, fill), keep)
                for row, expected in enumerate([*alone, *alone]):
                    close(out[row] if isinstance(model, Classifier) else out[row, keep[row]], expected)


@every
def test_no_mask_is_a_mask_of_true(part):
    models = [classifier(in_classifiers(part))]
    models += [language_model(model_spec(part))] if part in IN_LANGUAGE_MODELS else []
    ids = text(3)
    for model in models:
        assert torch.equal(model(ids), model(ids, torch.ones_like(ids, dtype=torch.bool)))


@every
def test_a_gradient_never_reaches_padding(part):
    keep = layouts()["anywhere"]
    model = classifier(in_classifiers(part))
    with token_inputs(model) as leaves:
        model(text(T - 1), keep).sum().backward()
    assert (leaves[0].grad[~keep] == 0).all()
    assert leaves[0].grad[keep].any()


@every
@pytest.mark.parametrize("path", ["fused", "explicit"])
def test_a_text_of_padding_gives_finite_outputs(part, path):
    """Finite outputs and gradients, and no effect on the texts beside it."""
    models = [classifier(in_classifiers(part))]
    models += [language_model(model_spec(part))] if part in IN_LANGUAGE_MODELS else []
    ids = text(3)
    keep = torch.ones_like(ids, dtype=torch.bool)
    keep[1] = False
    for model in models:
        for training in (True, False):
            model.train(training)
            torch.manual_seed(0)  # for orders drawn at each forward
            with explicit(model) if path == "explicit" else nullcontext():
                out = model(ids, keep)
                assert torch.isfinite(out).all()
                found = gradients(model, out)
            assert all(torch.isfinite(g).all() for g in found.values())
            torch.manual_seed(0)
            close(out[[0, 2]].detach(), model(ids[[0, 2]], keep[[0, 2]]).detach())


@pytest.mark.parametrize("pooling", [p for p in ALL if isinstance(p, Pooling)], ids=str)
def test_pooling_nothing_gives_zeros(pooling):
    x = torch.randn(2, T, 8, generator=torch.Generator().manual_seed(6), dtype=torch.float64).requires_grad_()
    keep = torch.zeros(2, T, dtype=torch.bool)
    keep[0, 3:5] = True
    pooled = stirred(pooling.build(dataclasses.replace(SMALL.dims, width=8)))(x, keep)
    assert (pooled[1] == 0).all()
    assert pooled[0].any()
    pooled.sum().backward()
    assert torch.isfinite(x.grad).all()
    assert not x.grad[1].any()
    expected = {"Mean": x[0, 3:5].mean(dim=0), "First": x[0, 3], "Max": x[0, 3:5].amax(dim=0)}
    if str(pooling)[:-2] in expected:
        close(pooled[0], expected[str(pooling)[:-2]])


# -- two ways to one answer -------------------------------------------------------------------------------------------


def in_steps(model: LanguageModel, ids: Tensor, keep: Tensor | None, sizes: list[int], keep_calls: int) -> Tensor:
    """Logits with the cache, so many tokens a call; `keep` is given in the first calls, None after."""
    cache, outs, start = model.new_cache(), [], 0
    for call, size in enumerate(sizes):
        part = slice(start, start + size)
        outs.append(model(ids[:, part], None if keep is None or call >= keep_calls else keep[:, part], cache=cache))
        start += size
        assert cache.length == start
    assert start == ids.shape[1]
    return torch.cat(outs, dim=1)


STEPS = {"one by one": [1] * T, "chunks": [4, 3, 1, 4]}
PROMPTS = {"right": [5, 2, 1], "left": [5, 2, 1]}


@every_causal
@pytest.mark.parametrize("steps", STEPS)
@torch.no_grad()
def test_cached_outputs_equal_uncached(part, steps):
    model, ids = language_model(causal_spec(part, kv_heads=2)), text(2)
    close(in_steps(model, ids, None, STEPS[steps], 0), model(ids))


@every_causal
@pytest.mark.parametrize("side", PROMPTS)
@torch.no_grad()
def test_cached_equals_uncached_after_a_padded_prompt(part, side):
    """Prompts of 5, 2 and 1 tokens in one batch, keep given with them and never again: each row goes on as if alone."""
    model, longest = language_model(causal_spec(part)), max(PROMPTS[side])
    keep = torch.ones(3, T, dtype=torch.bool)
    for row, length in enumerate(PROMPTS[side]):
        keep[row, :longest] = (torch.arange(longest) >= longest - length) if side == "left" else (
            torch.arange(longest) < length
        )  # fmt: skip
    ids = text(3)
    for sizes in ([longest] + [1] * (T - longest), [longest, 2, T - longest - 2]):
        out = in_steps(model, ids, keep, sizes, keep_calls=1)
        for row in range(3):
            close(out[row, keep[row]], model(ids[row, keep[row]][None])[0])


@every_causal
@torch.no_grad()
def test_cached_prefill_in_chunks_equals_uncached(part):
    """Chunks that end inside the padding, hold nothing but padding, or have none; keep comes with each, or with the
    first ones only."""
    model, ids = language_model(causal_spec(part)), text(4)
    keep = torch.ones(4, T, dtype=torch.bool)
    keep[0, :5] = False
    keep[1, :3] = False
    keep[3, 7:] = False
    alone = [model(ids[row, keep[row]][None])[0] for row in range(4)]
    for sizes, keep_calls in (([3, 3, 3, 3], 4), ([2, 4, 6], 3), ([1] * T, T)):
        out = in_steps(model, ids, keep, sizes, keep_calls)
        for row in range(4):
            close(out[row, keep[row]], alone[row])
    out = in_steps(model, ids[:3], keep[:3], [3, 3, 2, 4], keep_calls=2)
    for row in range(3):
        close(out[row, keep[row]], alone[row])


@torch.no_grad()
def test_cached_calls_may_add_a_mask_later():
    model, ids = language_model(SMALL), text(2)
    keep = torch.ones(2, T, dtype=torch.bool)
    keep[1, 6:] = False
    cache = model.new_cache()
    out = torch.cat([model(ids[:, :4], cache=cache), model(ids[:, 4:], keep[:, 4:], cache=cache)], dim=1)
    for row in range(2):
        close(out[row, keep[row]], model(ids[row, keep[row]][None])[0])


@every
@pytest.mark.parametrize("masked", [False, True], ids=["whole texts", "padded texts"])
def test_explicit_attention_equals_fused(part, masked):
    """Outputs and the gradient of every weight, with rows that may look at nothing among them."""
    models = [classifier(in_classifiers(part))]
    if part in IN_LANGUAGE_MODELS:
        models.append(language_model(model_spec(part, kv_heads=2)))
    keep = torch.cat([layouts()["right"][::4], layouts()["left"][::4], torch.zeros(1, T, dtype=torch.bool)])
    ids = text(len(keep))
    for model in models:
        results = []
        for context in (nullcontext(), explicit(model)):
            with context:
                out = model(ids, keep if masked else None)
                results.append((out.detach(), gradients(model, out)))
        close(results[0][0], results[1][0])
        assert results[0][1].keys() == results[1][1].keys()
        for name, g in results[0][1].items():
            close(g, results[1][1][name])


@pytest.mark.parametrize("path", ["fused", "explicit"])
@pytest.mark.parametrize("position", [p for p in defaults() if isinstance(p, Position)], ids=str)
def test_a_row_with_nothing_allowed_gives_zeros(position, path):
    """Its attention is the output bias alone, not an average of what it must not see."""
    spec = model_spec(position, pattern=Local(1) & Prefix(2), biases__out=False)
    model = language_model(spec)
    hook = model.trunk.blocks[0].attention.register_forward_hook(lambda _m, _args, out: said.append(out))
    said: list[Tensor] = []
    try:
        with torch.no_grad(), explicit(model) if path == "explicit" else nullcontext():
            model(text(2))
    finally:
        hook.remove()
    assert (said[0][:, 2:] == 0).all()
    assert said[0][:, :2].any()


@pytest.mark.parametrize("path", ["fused", "explicit"])
@torch.no_grad()
def test_masked_keys_stay_masked_when_scores_are_very_low(path):
    """No finite number stands for "not allowed": scores lowered all alike change nothing."""
    spec = model_spec(families()["position"]["RelativeBias"](), pattern=Causal() & Local(3))
    model, keep = stirred(LanguageModel(spec, VOCAB)), torch.ones(2, T, dtype=torch.bool)
    keep[1, 7:] = False
    with explicit(model) if path == "explicit" else nullcontext():
        before = model(text(2), keep)
        model.trunk.position.table.sub_(1e6)
        torch.testing.assert_close(model(text(2), keep)[keep], before[keep], rtol=1e-6, atol=1e-6)


# -- families by their own promise ------------------------------------------------------------------------------------


@pytest.mark.parametrize("position", [p for p in ALL if isinstance(p, Position) and p.relative], ids=str)
@torch.no_grad()
def test_relative_positions_ignore_a_shift(position):
    model, ids = language_model(model_spec(position)), text(2)
    here = model(ids)
    for by in (1, 30):
        torch.testing.assert_close(model(ids, positions=torch.arange(T) + by), here, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("position", [p for p in ALL if isinstance(p, Position)], ids=str)
@torch.no_grad()
def test_positions_make_order_matter(position):
    """Turned round, a text reads differently to the last token, unless there is no position at all."""
    model, ids = language_model(model_spec(position, pattern=Full(), layers=1)), text(1)
    swapped = torch.cat([ids[:, :-1].flip(1), ids[:, -1:]], dim=1)
    apart = float((model(ids)[:, -1] - model(swapped)[:, -1]).abs().max())
    if type(position) is type(families()["position"]["NoPosition"]()):
        assert apart < 1e-10
    else:
        assert apart > 1e-6


@pytest.mark.parametrize("fusion", [p for p in ALL if isinstance(p, Fusion)], ids=str)
@torch.no_grad()
def test_fusions_are_deterministic_in_evaluation(fusion):
    model, ids = language_model(model_spec(fusion)), text(2)
    torch.manual_seed(1)
    first = model(ids)
    torch.manual_seed(2)
    assert torch.equal(model(ids), first)


@pytest.mark.parametrize("norm", [p for p in ALL if isinstance(p, Norm)], ids=str)
@pytest.mark.parametrize("place", ["norm", "qk_norm", "embedding_norm"])
@torch.no_grad()
def test_norms_fit_every_place_in_the_model(norm, place):
    spec = SMALL.set("norm", families()["norm"]["NoNorm"]()).set(place, norm)
    model, built = language_model(spec), norm.build(16)
    plain = language_model(SMALL.set("norm", families()["norm"]["NoNorm"]()))
    assert torch.isfinite(model(text(2))).all()
    if not isinstance(built, nn.Identity):
        assert (model(text(2)) - plain(text(2))).abs().max() > 1e-3, "it is not used there"
    x = torch.randn(3, 4, 16, dtype=torch.float64, generator=torch.Generator().manual_seed(7))
    built = norm.build(16).double()
    close(built(x)[1, 2], built(x[1, 2]))  # each vector on its own


def heads_said(length: int = 5) -> Tensor:
    """(2, 4, T, 3): what four heads say; head h is the only one with the whole part h + 1."""
    draw = torch.Generator().manual_seed(9)
    return torch.rand(2, 4, length, 3, generator=draw, dtype=torch.float64) + torch.arange(1, 5)[:, None, None]


def fused(text: str, layer: int = 0, training: bool = False) -> list[int]:
    """The order in which a fusion lays four heads side by side."""
    o = heads_said()
    out = parse(text).build(SMALL.dims, layer).train(training)(o, None)
    order = [int(x) - 1 for x in out[0, :, 0, 0]]
    assert torch.equal(out, o[:, order])
    return order


def test_shift_and_shuffle_keep_heads_whole():
    assert fused("Concat") == [0, 1, 2, 3]
    assert fused("Shift") == [1, 2, 3, 0]
    assert fused("Shift(by=3)") == [3, 0, 1, 2]
    assert fused("Shift(by=4)") == [0, 1, 2, 3]
    fixed = {(seed, layer): fused(f"Shuffle(seed={seed})", layer) for seed in range(8) for layer in range(8)}
    for (seed, layer), order in fixed.items():
        assert sorted(order) == [0, 1, 2, 3] != order
        assert order == fused(f"Shuffle(seed={seed})", layer) == fused(f"Shuffle(seed={seed})", layer, training=True)
    assert len({tuple(fixed[0, layer]) for layer in range(8)}) > 2, "each layer has an order of its own"
    assert len({tuple(fixed[seed, 0]) for seed in range(8)}) > 2, "the seed decides"
    torch.manual_seed(0)
    fresh = "Shuffle(order='each forward')"
    assert len({tuple(fused(fresh, training=True)) for _ in range(20)}) > 5
    assert {tuple(fused(fresh)) for _ in range(20)} == {(0, 1, 2, 3)}
    one_head = parse("Shuffle").build(ModelSpec(heads=1).dims, 0)
    assert torch.equal(one_head(heads_said()[:, :1], None), heads_said()[:, :1])


def test_reweight_matches_its_equation():
    o, keep = heads_said(), torch.tensor([[1, 1, 1, 1, 1], [0, 1, 1, 0, 1]]).bool()
    ways = itertools.product(("token", "sequence"), ("share", "norm"), ("always", "training"), (True, False))
    for over, by, at, training in ways:
        out = parse(f"Reweight(over={over}, by={by}, at={at})").build(SMALL.dims, 0).train(training)(o, keep)
        if at == "training" and not training:
            assert torch.equal(out, o)
            continue
        for b in range(2):
            for t in keep[b].nonzero()[:, 0].tolist():
                tokens = keep[b].nonzero()[:, 0] if over == "sequence" else torch.tensor([t])
                n = [float(o[b, h, tokens].pow(2).sum().sqrt()) for h in range(4)]
                for h in range(4):
                    close(out[b, h, t], o[b, h, t] * (4 * n[h] / sum(n) if by == "share" else n[h]))


ACTIVATIONS: dict[str, Callable[[float], float]] = {
    "relu": lambda x: max(x, 0.0),
    "gelu": lambda x: x * 0.5 * (1 + math.erf(x / math.sqrt(2))),
    "gelu_tanh": lambda x: 0.5 * x * (1 + math.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
    "silu": lambda x: x / (1 + math.exp(-x)),
    "relu2": lambda x: max(x, 0.0) ** 2,
    "leaky_relu2": lambda x: (x if x > 0 else x / 2) ** 2,
}


@pytest.mark.parametrize("activation", ACTIVATIONS)
@torch.no_grad()
def test_feedforwards_match_their_equations(activation):
    x = torch.randn(3, 16, dtype=torch.float64, generator=torch.Generator().manual_seed(8))
    mlp, gated = (
        stirred(parse(f"{n}(activation={activation}, bias=true)").build(SMALL.dims)) for n in ("Mlp", "Gated")
    )
    assert mlp.up.weight.shape == (64, 16)
    assert gated.up.weight.shape == gated.gate.weight.shape == (43, 16)

    def bent(y: Tensor) -> Tensor:
        return torch.tensor([[ACTIVATIONS[activation](v) for v in row] for row in y.tolist()], dtype=torch.float64)

    def by_hand(layer: nn.Linear, y: Tensor) -> Tensor:
        return y @ layer.weight.T + layer.bias

    close(mlp(x), by_hand(mlp.down, bent(by_hand(mlp.up, x))))
    close(gated(x), by_hand(gated.down, bent(by_hand(gated.gate, x)) * by_hand(gated.up, x)))
    for name in ("Mlp", "Gated"):
        built = parse(f"{name}(hidden=5, bias=false)").build(SMALL.dims)
        assert {tuple(p.shape) for p in built.parameters()} == {(5, 16), (16, 5)}


@pytest.mark.parametrize("part", [p for p in ALL if isinstance(p, FeedForward)], ids=str)
def test_feedforwards_mark_their_output_layer(part):
    built = stirred(part.build(SMALL.dims))
    marked = [m for m in built.modules() if getattr(m, "into_residual", False)]
    assert marked
    assert all(isinstance(m, nn.Linear) and m.out_features == SMALL.width for m in marked)
    x = torch.randn(3, 16, dtype=torch.float64, generator=torch.Generator().manual_seed(8))
    before = built(x)
    with torch.no_grad():
        for m in marked:
            m.weight.zero_()
            if m.bias is not None:
                m.bias.zero_()
    assert before.any()
    assert not built(x).any(), "something else writes into the stream"


def test_first_token_pooling_is_refused_in_a_causal_model():
    with pytest.raises(ValueError, match="choose another pooling") as error:
        Classifier(SMALL.set("pooling", "First"), VOCAB, CLASSES)
    assert "\n" not in str(error.value)
    Classifier(SMALL.set("pooling", "First").set("pattern", Causal() | Prefix(2)), VOCAB, CLASSES)
    Classifier(SMALL.set("pooling", Mean()), VOCAB, CLASSES)
