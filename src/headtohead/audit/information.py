"""Who can see what: the future, the padding, the neighbours in the batch.

A leak can pass through attention, but also through a count, a norm or the mere length, so the future is looked for in
three ways: by gradient, by changing later tokens, and by cutting the text short.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from headtohead.audit.check import check
from headtohead.audit.report import Outcome, broken, does_not_apply, proved
from headtohead.audit.subject import Mode, Subject
from headtohead.audit.watch import inputs_with_gradient

MODES: tuple[Mode, ...] = ("evaluation", "training")
LEAK = "losses are too good to be true, and generated text falls apart because the future is not there to read"
PADDING = "the same text gets another answer when it shares a batch with a longer one"


def influence(s: Subject, mode: Mode = "evaluation") -> Tensor | None:
    """(T, T): how much the output at i moves with the input at j, by gradient, relative to the largest; None where the
    module has no token embedding, or cannot be differentiated."""
    with s.mode(mode) as model:
        embeddings = s.embeddings_of(model)
        if not embeddings:
            return None
        T = s.length
        ids = s.text(1).expand(T, T)  # row i is there for the gradient of output i
        with inputs_with_gradient(embeddings) as inputs:
            out = s.call(model, ids)  # (T, T, V)
            direction = torch.randn(out.shape[-1], generator=torch.Generator().manual_seed(4)).to(out.dtype)
            try:
                (out[range(T), range(T)] @ direction).sum().backward()
            except RuntimeError:  # a module that overwrites its activations in evaluation
                return None
    size = torch.zeros(T, T, dtype=torch.float64)
    for x in inputs:
        if x.grad is not None:
            size = torch.maximum(size, x.grad.abs().amax(dim=-1).double())
    return size / size.amax().clamp(min=1e-300)


def _later(seen: Tensor) -> list[tuple[int, int]]:
    """Pairs (i, j) in which i saw a later j, the smallest step into the future first."""
    pairs = [(i, j) for i, j in seen.nonzero().tolist() if j > i]
    return sorted(pairs, key=lambda p: (p[1] - p[0], p[0]))


def _first(pairs: list[tuple[int, int]], mode: str) -> Outcome:
    (i, j), more = pairs[0], len(pairs) - 1
    return broken(f"in {mode}, position {i} saw position {j}" + (f" ({more} more such pairs)" if more else ""))


def _not_causal(s: Subject) -> Outcome | None:
    if s.gives == "classes":
        return does_not_apply("it gives one answer a text, so no position has a future")
    return None


@check("future-gradient", "no output has a gradient to a later token", LEAK)
def future_gradient(s: Subject) -> Outcome:
    if stop := _not_causal(s):
        return stop
    for mode in MODES:
        size = influence(s, mode)
        if size is None:
            return does_not_apply("no gradient to the tokens can be taken; the two other ways decide")
        pairs = _later(size > s.tolerance)
        if pairs and not s.causal:
            return does_not_apply(
                f"not declared causal: position {pairs[0][0]} sees position {pairs[0][1]}; if it should not: --causal"
            )
        if pairs:
            return _first(pairs, mode)
    return proved(f"all {s.length * (s.length - 1) // 2} pairs, evaluation and training")


@check("future-tokens", "no output changes when later tokens change", LEAK)
def future_tokens(s: Subject) -> Outcome:
    if stop := _not_causal(s):
        return stop
    if not s.causal:
        return does_not_apply("not declared causal; if it should be: --causal")
    T = s.length
    base, other = s.text(1), s.text(1, seed=5)
    other = torch.where(other == base, s.text(1, seed=6), other)
    one = base.repeat(T, 1)  # row j: token j changed
    one[range(T), range(T)] = other[0]
    column = torch.arange(T)
    cut = torch.arange(T - 1)[:, None]  # row c: everything after c changed
    rest = torch.where(column > cut, other, base)
    padded = torch.where(column > cut, s.pad, base)  # counts of real tokens change too
    special = torch.linspace(0, s.vocab - 1, min(s.vocab, 64)).long()[:, None]  # some id may mean something
    filled = torch.where(column > T // 2, special, base)
    ids = torch.cat([base, one, rest, padded, filled])
    for mode in MODES:
        with s.mode(mode) as model:
            # Two passes, so that what a module takes over the whole batch changes too.
            before, after = s.outputs(model, base.expand_as(ids)), s.outputs(model, ids)
        gap = s.apart(after, before) > 1  # (rows, T)
        pairs = _later(gap[1 : T + 1].T)
        if pairs:
            return _first(pairs, mode)
        for n, row in enumerate(gap[3 * T - 1 :, : T // 2 + 1]):
            if row.any():
                where = f"position {int(row.nonzero()[0])} changed when everything after position {T // 2}"
                return broken(f"in {mode}, {where} became token {int(special[n])}")
        for rows, what in ((gap[T + 1 : 2 * T], "other tokens"), (gap[2 * T : 3 * T - 1], "padding")):
            hits = [(i, c) for c, i in rows.nonzero().tolist() if i <= c]
            if hits:
                i, c = min(hits, key=lambda h: (h[1] - h[0], h[0]))
                return broken(f"in {mode}, position {i} changed when everything after position {c} became {what}")
    if found := _leaks_when_long(s):
        return broken(found)
    return proved(
        f"each later token alone, all of them, all of them padding or one id; evaluation and training; "
        f"up to {max(s.length, s.longest)} tokens"
    )


def _leaks_when_long(s: Subject) -> str | None:
    """The same at the longest text tried, for a few cuts: a mask may be made for short ones."""
    L = s.longest
    if s.length >= L:
        return None
    base, other = s.text(1, L), s.text(1, L, seed=5)
    for cut in (0, L // 4, L // 2, L - 2):
        ids = torch.where(torch.arange(L) > cut, other, base)
        before, after = s.outputs(s.still, base), s.outputs(s.still, ids)
        gap = s.apart(after, before)[0, : cut + 1] > 1
        if gap.any():
            i = int(gap.nonzero()[0])
            return f"in a text of {L}, position {i} changed when everything after position {cut} did"
    return None


@check("future-length", "no output changes when the text is cut short", LEAK)
def future_length(s: Subject) -> Outcome:
    if stop := _not_causal(s):
        return stop
    if not s.causal:
        return does_not_apply("not declared causal; if it should be: --causal")
    if not s.any_length:
        return does_not_apply(f"it takes texts of exactly {s.length} tokens")
    ids = s.text(2)
    for mode in s.modes:
        with s.mode(mode) as model:
            whole = s.outputs(model, ids)
            for length in range(s.length - 1, 0, -1):
                gap = s.apart(s.outputs(model, ids[:, :length]), whole[:, :length]) > 1
                if gap.any():
                    i = int(gap.any(dim=0).nonzero()[0])
                    return broken(
                        f"in {mode}, position {i} changed when the text of {s.length} tokens was cut to {length}"
                    )
    return proved(f"every length from 1 to {s.length}, {' and '.join(s.modes)}")


def _padded(s: Subject, left: bool, fill: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Texts of 1 … T−1 tokens padded to T, one a row, and their keep mask; `fill` stands where the mask hides it."""
    T = s.length
    column, lengths = torch.arange(T), torch.arange(1, T)[:, None]
    keep = column >= T - lengths if left else column < lengths
    ids = (torch.full((T - 1, T), s.pad) if fill is None else fill.expand(T - 1, T)).clone()
    for row, length in enumerate(range(1, T)):
        ids[row, keep[row]] = s.short(length)[0]
    return ids, keep


def padding_differs(s: Subject, left: bool, tolerance: float | None = None) -> str | None:
    """The smallest padding that changes a text's output, or None."""
    # Under our own mask, what stands in the padding must not matter; others may also look for the padding's id.
    fills = [None] if s.spec is None else [None, s.text(1, seed=7)]
    for mode in s.modes:
        alone = s.alone(mode)
        with s.mode(mode) as model:
            for fill in fills:
                ids, keep = _padded(s, left, fill)
                out = s.outputs(model, ids, keep)
                for row in range(s.length - 2, -1, -1):  # the longest text has the least padding
                    padded = out[row, keep[row]] if s.gives == "tokens" else out[row]
                    if (s.apart(padded, alone[row], tolerance) > 1).any():
                        side, length = "left" if left else "right", row + 1
                        extra = s.length - length
                        return f"in {mode}, {extra} padding on the {side} of a text of {length} changed its output"
    return None


def _no_padding(s: Subject) -> Outcome | None:
    if not s.pads:
        return does_not_apply("it takes no mask and gives an answer at every token")
    if not s.any_length or s.length < 3:
        return does_not_apply(f"it takes texts of exactly {s.length} tokens")
    return None


@check("padding-right", "padding on the right changes nothing", PADDING)
def padding_right(s: Subject) -> Outcome:
    if stop := _no_padding(s):
        return stop
    found = padding_differs(s, left=False)
    return broken(found) if found else proved(f"any amount, {' and '.join(s.modes)}")


@check("padding-left", "padding on the left changes nothing", PADDING)
def padding_left(s: Subject) -> Outcome:
    if stop := _no_padding(s):
        return stop
    if s.mask is not None and s.spec is None and _mask_ignored(s):
        return broken(f"the argument {s.mask} changes nothing: padding on the left is read as text")
    found = padding_differs(s, left=True)
    if found is None:
        return proved(f"any amount, {' and '.join(s.modes)}")
    if s.spec is not None or padding_differs(s, left=False):
        return broken(found)  # our positions count real tokens, so nothing may move
    return does_not_apply("it is made for padding on the right: places count from the left edge")


def _mask_ignored(s: Subject) -> bool:
    """Whether hiding the first half of a text leaves the outputs of the rest as they were."""
    ids = s.text(2)
    keep = torch.ones_like(ids, dtype=torch.bool)
    keep[:, : s.length // 2] = False
    plain, hidden = (s.outputs(s.still, ids, mask) for mask in (torch.ones_like(keep), keep))
    if s.gives == "tokens":
        plain, hidden = plain[keep], hidden[keep]
    return not bool((s.apart(plain, hidden) > 1).any())


@check(
    "batch-rows",
    "a text's output does not depend on its neighbours in the batch",
    "results depend on the batch size and on what else is in the batch",
)
def batch_rows(s: Subject) -> Outcome:
    ids, others = s.text(4), s.text(4, seed=9)
    others[0] = ids[0]
    batches = [(ids, others, "four texts")]
    if s.pads and s.any_length:
        T = s.length
        lengths = torch.tensor([T // 2, T, 1, T - 1])[:, None]
        kept = torch.arange(T) < lengths
        mixed = torch.where(kept, ids, s.pad)
        batches.append((mixed, torch.cat([mixed[:1], others[1:]]), "texts of several lengths"))
    for mode in s.modes:
        with s.mode(mode) as model:
            for rows, changed, what in batches:
                together, neighbours, backwards = (_rows(s, model, x) for x in (rows, changed, rows.flip(0)))
                alone = torch.cat([_rows(s, model, row[None]) for row in rows])
                if (s.apart(together[:1], neighbours[:1]) > 1).any():
                    return broken(f"in {mode}, row 0 changed when the other rows did ({what})")
                for out, how in ((backwards.flip(0), "the rows were reversed"), (alone, "it was alone")):
                    gap = s.apart(together, out) > 1
                    if gap.any():
                        return broken(f"in {mode}, row {int(gap.nonzero()[0])} changed when {how} ({what})")
    return proved(f"each row against itself alone, in another order and beside others; {' and '.join(s.modes)}")


def _rows(s: Subject, model: nn.Module, ids: Tensor) -> Tensor:
    """(B, …) outputs at real tokens, flat; zero at padding."""
    keep = ids != s.pad
    out = s.outputs(model, ids, keep if s.pads else None)
    return (out * keep[:, :, None] if s.pads and s.gives == "tokens" else out).flatten(1)


@check(
    "masked-rows",
    "a text of nothing but padding gives finite numbers",
    "one empty line in a batch turns the loss, then every weight, into NaN",
)
def masked_rows(s: Subject) -> Outcome:
    if not s.pads:
        return does_not_apply("it takes no mask and gives an answer at every token")
    ids = s.text(2)
    ids[1] = s.pad
    keep = ids != s.pad
    for mode in MODES:
        with s.mode(mode) as model:
            model.zero_grad()
            out = s.call(model, ids, keep)
            for result in (out, s.outputs(model, ids, keep)):  # with gradients and without: some modules differ
                if not torch.isfinite(result).all():
                    return broken(f"in {mode}, the output of an empty text is {_first_bad(result)}")
            out.sum().backward()
            for name, p in model.named_parameters():
                if p.grad is not None and not torch.isfinite(p.grad).all():
                    return broken(f"in {mode}, the gradient of {name} is {_first_bad(p.grad)} when a text is empty")
    return proved("outputs and gradients, evaluation and training")


def _first_bad(x: Tensor) -> str:
    return str(float(x.detach()[~torch.isfinite(x)].flatten()[0]))
