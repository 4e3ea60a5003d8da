"""The recurrence of mixers with a state: nested loops, chunks of every size, and a state that is carried on."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from headtohead import Alibi, Causal, Full, InputError, LanguageModel, Mixer, NoPosition, Rope, families, parse
from headtohead.model.cache import Cache
from headtohead.parts.mixers import recurrent
from headtohead.parts.mixers.recurrent import RecurrentMixer, in_chunks, scan
from headtohead.parts.sequence.state import LayerCache
from headtohead.spec import is_builtin
from helpers.mixers import KEEP, embeddings, layer_of, mixed, planted
from helpers.models import SMALL, VOCAB

B, H, T, DK, DV = 2, 3, 13, 4, 5
KINDS = {"no decay": (), "a decay per head": (T,), "a decay per channel": (T, DK)}
RECURRENT = [c() for c in families()["mixer"].values() if is_builtin(c) and issubclass(c, RecurrentMixer)]
every_kind = pytest.mark.parametrize("kind", KINDS)
every_mixer = pytest.mark.parametrize("mixer", RECURRENT, ids=str)


def given(kind: str, strength: float = 1.0, dtype: torch.dtype = torch.float64) -> tuple[Tensor | None, ...]:
    """q, k, v, g and a state."""
    draw = torch.Generator().manual_seed(0)

    def some(*shape: int) -> Tensor:
        return torch.randn(B, H, *shape, generator=draw, dtype=torch.float64).to(dtype)

    q, k, v, state = some(T, DK), some(T, DK), some(T, DV), some(DK, DV)
    return q, k, v, -strength * some(*KINDS[kind]).abs() if KINDS[kind] else None, state


def by_loops(q: Tensor, k: Tensor, v: Tensor, g: Tensor | None, state: Tensor) -> tuple[Tensor, Tensor]:
    """S_t[c, e] = exp(g_t[c]) · S_(t−1)[c, e] + k_t[c] · v_t[e],  o_t[e] = Σ_c q_t[c] · S_t[c, e], number by number."""
    q, k, v, last = q.tolist(), k.tolist(), v.tolist(), state.tolist()
    rates = torch.zeros(B, H, T, DK) if g is None else g if g.dim() == 4 else g[..., None].expand(-1, -1, -1, DK)
    decay = rates.double().exp().tolist()
    out = [[[[0.0] * DV for _ in range(T)] for _ in range(H)] for _ in range(B)]
    for b in range(B):
        for h in range(H):
            S = last[b][h]
            for t in range(T):
                for c in range(DK):
                    for e in range(DV):
                        S[c][e] = decay[b][h][t][c] * S[c][e] + k[b][h][t][c] * v[b][h][t][e]
                        out[b][h][t][e] += q[b][h][t][c] * S[c][e]
    return torch.tensor(out, dtype=torch.float64), torch.tensor(last, dtype=torch.float64)


def agrees(run=scan) -> None:
    """`run` gives the loops' outputs and last state for every chunk length."""
    for kind in KINDS:
        q, k, v, g, state = given(kind)
        for before in (state, torch.zeros_like(state)):
            out, last = by_loops(q, k, v, g, before)
            for chunk in (*range(1, T + 1), 64):
                ours = run(q, k, v, g, before if before.any() else None, chunk)
                for mine, theirs in zip(ours, (out, last), strict=True):
                    torch.testing.assert_close(mine, theirs, rtol=0, atol=1e-10)
        pieces, carried = [], None
        for a, b in ((0, 1), (1, 6), (6, 7), (7, T)):
            here = [None if x is None else x[:, :, a:b] for x in (q, k, v, g)]
            piece, carried = run(*here, carried, 3)
            pieces.append(piece)
        torch.testing.assert_close(torch.cat(pieces, dim=2), out, rtol=0, atol=1e-10)


def test_scan_equals_loops_for_every_chunk_length():
    agrees()


@every_kind
def test_gradients_pass_through_a_carried_state(kind):
    """The gradient of all inputs and of the first state, in pieces and in chunks, is the one of single steps."""
    inputs = [x for x in given(kind) if x is not None]

    def gradients(cuts: list[int], chunk: int) -> list[Tensor]:
        leaves = [x.clone().requires_grad_() for x in inputs]
        q, k, v, *rest = leaves
        g, state = (rest[0], rest[1]) if len(rest) == 2 else (None, rest[0])
        total, start = torch.zeros((), dtype=torch.float64), 0
        for size in cuts:
            at = slice(start, start + size)
            o, state = scan(q[:, :, at], k[:, :, at], v[:, :, at], None if g is None else g[:, :, at], state, chunk)
            total, start = total + o.sin().sum(), start + size
        (total + state.cos().sum()).backward()
        return [x.grad for x in leaves]

    expected = gradients([1] * T, 1)
    for cuts, chunk in (([T], 1), ([T], 4), ([T], T), ([5, 1, T - 6], 3), ([T - 1, 1], 64)):
        for mine, theirs in zip(gradients(cuts, chunk), expected, strict=True):
            torch.testing.assert_close(mine, theirs, rtol=0, atol=1e-10)


@pytest.mark.parametrize("kind", [k for k in KINDS if KINDS[k]])
@pytest.mark.parametrize("strength", [1e-3, 30.0, 1e4, 1e30, float("inf")])
def test_decays_of_any_strength_stay_finite(kind, strength):
    """In single precision; a product of factors above 1, such as k · exp(−total), would overflow from 30 on."""
    q, k, v, g, state = given(kind, 1.0, torch.float32)
    g = (g * strength).requires_grad_()
    out, last = by_loops(q, k, v, g.detach(), state)
    for chunk in (1, 4, T):
        o, end = scan(q, k, v, g, state, chunk)
        torch.testing.assert_close(o.double(), out, rtol=1e-4, atol=1e-4)
        torch.testing.assert_close(end.double(), last, rtol=1e-4, atol=1e-4)
        (found,) = torch.autograd.grad(o.sum() + end.sum(), g)
        assert torch.isfinite(found).all()


def test_weak_decays_after_a_strong_one_are_exact():
    """One gate that shuts must not cost later, weak decays their digits: the sums of g are differences later."""
    q, k, v, g, _ = given("a decay per channel", 1e-3, torch.float32)
    g[:, :, 0] = -1e30
    out, _ = by_loops(q, k, v, g, torch.zeros(B, H, DK, DV))
    torch.testing.assert_close(scan(q, k, v, g)[0].double(), out, rtol=1e-4, atol=2e-4)


BUGS = {
    "a decay that includes the token's own": ("g.cumsum(dim=-2)", "g.cumsum(dim=-2) - g"),
    "keys that do not fade within their chunk": ("news = (k * until)", "news = (k)"),
    "keys that fade too long": ("(total[..., -1:, :] - total).exp()", "total[..., -1:, :].exp()"),
    "a state that is one chunk late": (
        "before.append(state)\n        state = new + (state if move is None else state * move)",
        "state = new + (state if move is None else state * move)\n        before.append(state)",
    ),
    "a decay applied twice": ("else state * move)", "else state * move * move)"),
    "a state that does not fade": ("else state * move)", "else state)"),
    "queries that do not fade": ("unbind(dim=2), q * since", "unbind(dim=2), q"),
    "a token that does not see itself": ("tril()", "tril(-1)"),
    "a decay forgotten in a single step": ("state if g is None else state * g.exp().transpose(-1, -2)", "state"),
    "a decay of the values": (
        "moves, q = since[..., -1:, :].transpose(-1, -2)",
        "moves, q = since[..., -1:, :].mean(-1, keepdim=True)",
    ),
    "halves that forget each other": ("second = second + (queries", "second = second + 0 * (queries"),
    "keys that fade to the end of the other half": (
        "keys = k[..., 0, :, :] * (middle",
        "keys = k[..., 0, :, :] * (total[..., 1, -1:, :]",
    ),
    "a key decay of the wrong sign": ("(middle - total[..., 0, :, :])", "(total[..., 0, :, :] - middle)"),
    "an odd half without its first token": ("[..., :-1, :]", "[..., 1:, :]"),
    "a last chunk that is cut": ("missing = -length % size", "missing = 0"),
    "a state that is dropped": ("if state is None else state\n", "\n"),
}


@pytest.mark.parametrize("bug", BUGS)
def test_the_loops_find_planted_bugs(bug):
    """A decay in the wrong place, a boundary off by one, a state forgotten."""
    run, *_ = planted(*BUGS[bug], scan, recurrent._by_halves, recurrent.in_chunks)
    with pytest.raises((AssertionError, RuntimeError)):
        agrees(run)


# -- all mixers of this kind -------------------------------------------------------------------------------------------


@every_mixer
@torch.no_grad()
def test_padding_anywhere_leaves_the_state_alone(mixer):
    """Texts in one batch, with padding around and between their tokens, end in the state that each has alone."""
    module, x = layer_of(mixer), embeddings()
    together = Cache(layers=[LayerCache()])
    mixed(module, x, KEEP, [4, 1, 4], cache=together)
    for row in range(len(KEEP) - 1):
        alone = Cache(layers=[LayerCache()])
        text = x[row : row + 1, KEEP[row]]
        mixed(module, text, None, [text.shape[1]], cache=alone)
        for name, state in alone.layers[0].states.items():
            torch.testing.assert_close(together.layers[0].states[name][row], state[0], rtol=0, atol=1e-10)


@every_mixer
def test_one_texts_state_never_reaches_another(mixer):
    """No gradient from a text of a batch to the inputs of another, through the carried state either."""
    module, x = layer_of(mixer), embeddings(rows=3).requires_grad_()
    mixed(module, x, None, [4, 5])[1].square().sum().backward()
    assert (x.grad[[0, 2]] == 0).all()
    assert (x.grad[1].abs().sum(dim=-1) > 0).all()


@every_mixer
def test_a_carried_state_passes_the_gradient(mixer):
    """Outputs of a later call depend on the first tokens as they do without a cache."""
    module = layer_of(mixer)
    found = []
    for pieces in ((), (1, 3, 5), (8, 1)):
        x = embeddings(rows=1).requires_grad_()
        mixed(module, x, None, pieces)[0, -4:].sin().sum().backward()
        found.append(x.grad)
    assert found[0][0, 3].any(), "the last tokens depend on one that is read in an earlier call"
    for gradient in found[1:]:
        torch.testing.assert_close(gradient, found[0], rtol=0, atol=1e-10)


@every_mixer
@torch.no_grad()
def test_both_directions_are_the_mean_of_two_readings(mixer):
    forward, both, x = layer_of(mixer), layer_of(mixer, Full()), embeddings()
    expected = (mixed(forward, x) + mixed(forward, x.flip(1)).flip(1)) / 2
    torch.testing.assert_close(mixed(both, x, pattern=Full()), expected, rtol=0, atol=1e-10)
    turned = mixed(both, x.flip(1), pattern=Full()).flip(1)
    torch.testing.assert_close(turned, expected, rtol=0, atol=1e-10)


@every_mixer
def test_a_language_model_that_reads_both_ways_says_so(mixer):
    """A study of language models names the pattern that shows later tokens, as it does for attention."""
    assert SMALL.set("mixer", mixer).leaks() is None
    assert SMALL.set("mixer", mixer).set("pattern", Full()).leaks() == Full()


@every_mixer
def test_positions_that_change_nothing_are_refused(mixer):
    spec = SMALL.set("mixer", mixer)
    LanguageModel(spec.set("position", NoPosition()), VOCAB)
    with pytest.raises(InputError, match=r"does not use model\.position"):
        LanguageModel(spec.set("position", Alibi()), VOCAB)
    if "rotation" in mixer.uses:
        LanguageModel(spec.set("position", Rope()), VOCAB)
    else:
        with pytest.raises(InputError, match=r"does not use model\.position"):
            LanguageModel(spec.set("position", Rope()), VOCAB)


@every_mixer
def test_patterns_that_change_nothing_are_refused(mixer):
    with pytest.raises(InputError, match=r"does not use model\.pattern"):
        SMALL.set("mixer", mixer).set("pattern", "Causal & Local(3)")


@every_mixer
def test_a_state_has_a_fixed_size(mixer):
    """And a copy for several continuations leaves the original alone."""
    model = LanguageModel(SMALL.set("mixer", mixer), VOCAB).eval()
    cache, sizes = model.new_cache(), []
    with torch.no_grad():
        for ids in torch.ones(1, 12, dtype=torch.long).split([4, 1, 6, 1], dim=1):
            model(ids, cache=cache)
            sizes.append(cache.bytes)
    assert len(set(sizes)) == 1
    assert sizes[0] > 0


def test_every_builtin_mixer_of_this_kind_is_tested():
    wanted = {parse(name) for name in ("LinearAttention", "Retention", "GatedLinear", "ConvolutionMixer")}
    assert wanted <= {m for m in RECURRENT if isinstance(m, Mixer)}
    assert all(m.allowed(Causal(), 1, 0) for m in RECURRENT)


def test_chunks_are_filled_with_zeros():
    x = torch.arange(1, 6.0).view(1, 1, 5, 1)
    assert in_chunks(x, 3).flatten().tolist() == [1, 2, 3, 4, 5, 0]
    assert in_chunks(x, 9).shape == (1, 1, 1, 5, 1)
