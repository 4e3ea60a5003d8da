"""Checks of what an output depends on: later tokens, padding, other texts in the batch.

A leak of later tokens can pass through attention, but also through a count, a norm or the length of the text. So it is
sought in three ways: by gradient, by changing later tokens, and by cutting the text short.
"""

from __future__ import annotations

from contextlib import nullcontext

import torch
from torch import Tensor, nn

from headtohead.auditor.report import Advice, Broken, DoesNotApply, check
from headtohead.auditor.subject import Mode, Subject, all_finite, first_bad
from headtohead.auditor.trace import inputs_with_gradient, without_gradients

MODES: tuple[Mode, ...] = ("evaluation", "training")
LEAK = "the loss is too low because the model reads later tokens, and generated text is poor because it cannot"
PADDING = "the same text gets another result in a batch with a longer text"


def influence(s: Subject, mode: Mode = "evaluation") -> Tensor | None:
    """Return (T, T): the size of the gradient of output i to input j, relative to the largest. None if the module
    has no token embedding, or cannot be differentiated."""
    with s.mode(mode, double=True) as model:
        embeddings = s.embeddings_of(model)
        if not embeddings:
            return None
        T = s.length
        ids = s.text(1).expand(T, T)  # row i yields the gradient of output i
        with inputs_with_gradient(embeddings) as inputs, without_gradients(model) if s.large else nullcontext():
            out = s.call(model, ids)  # (T, T, V)
            direction = torch.randn(out.shape[-1], generator=torch.Generator().manual_seed(4)).to(out.dtype)
            try:
                (out[range(T), range(T)] @ direction).sum().backward()
            except RuntimeError:  # the module overwrites its activations in evaluation
                return None
    size = torch.zeros(T, T, dtype=torch.float64)
    for x in inputs:
        if x.grad is not None:
            size = torch.maximum(size, x.grad.abs().amax(dim=-1).double())
    return size / size.amax().clamp(min=1e-300)


def _future_pairs(seen: Tensor) -> list[tuple[int, int]]:
    """Return the pairs (i, j) in which i saw a later j, sorted by distance."""
    pairs = [(i, j) for i, j in seen.nonzero().tolist() if j > i]
    return sorted(pairs, key=lambda p: (p[1] - p[0], p[0]))


def _broken_by_pair(pairs: list[tuple[int, int]], mode: str) -> Broken:
    (i, j), more = pairs[0], len(pairs) - 1
    said = f"in {mode}, position {i} saw position {j}" + (f" ({more} more such pairs)" if more else "")
    return Broken(said, pairs)


def _after(i: int, first: int, length: int) -> list[tuple[int, int]]:
    """Return the pairs of position i with all positions from `first` on."""
    return [(i, j) for j in range(first, length)]


def _require_tokens(s: Subject) -> None:
    if s.gives == "classes":
        raise DoesNotApply("it gives one result per text, so there are no later tokens to leak")


@check("future-gradient", "no output has a gradient to a later token", LEAK)
def future_gradient(s: Subject) -> str:
    _require_tokens(s)
    for mode in MODES:
        size = influence(s, mode)
        if size is None:
            raise DoesNotApply("there is no gradient to the tokens; see future-tokens and future-length")
        pairs = _future_pairs(size > (1e-9 if s.sharp(mode) else s.tolerance))
        if pairs and not s.causal:
            raise DoesNotApply(
                f"not claimed to be causal, and position {pairs[0][0]} sees position {pairs[0][1]}; "
                "if it should not, add --causal"
            )
        if pairs:
            raise _broken_by_pair(pairs, mode)
    return f"all {s.length * (s.length - 1) // 2} pairs, evaluation and training{s.reduced('evaluation in double')}"


@check("future-tokens", "no output changes when later tokens change", LEAK)
def future_tokens(s: Subject) -> str:
    _require_tokens(s)
    if not s.causal:
        raise DoesNotApply("not claimed to be causal; if it should be, add --causal")
    T = s.length
    base, other = s.text(1), s.text(1, seed=5)
    other = torch.where(other == base, s.text(1, seed=6), other)
    one = base.repeat(T, 1)  # row j: token j changed
    one[range(T), range(T)] = other[0]
    column = torch.arange(T)
    cut = torch.arange(T - 1)[:, None]  # row c: all tokens after c changed
    rest = torch.where(column > cut, other, base)
    padded = torch.where(column > cut, s.pad, base)  # changes the number of real tokens too
    special = torch.linspace(0, s.vocab - 1, min(s.vocab, s.effort.special)).long()[:, None]  # one id may be special
    filled = torch.where(column > T // 2, special, base)
    for mode in MODES:
        ids = torch.cat([base, one, rest, *([padded, filled] if mode == "evaluation" or not s.large else [])])
        with s.mode(mode) as model:
            # Two passes of one shape, so that statistics over the whole batch and random draws are compared too.
            alone = s.large and mode in s.modes
            before, after = s.outputs(model, base if alone else base.expand_as(ids)), s.outputs(model, ids)
        gap = s.differs(after, before.expand_as(after))  # (rows, T)
        pairs = _future_pairs(gap[1 : T + 1].T)
        if pairs:
            raise _broken_by_pair(pairs, mode)
        for n, row in enumerate(gap[3 * T - 1 :, : T // 2 + 1]):
            if row.any():
                i = int(row.nonzero()[0])
                said = f"position {i} changed when everything after position {T // 2} became token {int(special[n])}"
                raise Broken(f"in {mode}, {said}", _after(i, T // 2 + 1, T), among=True)
        for rows, what in ((gap[T + 1 : 2 * T], "other tokens"), (gap[2 * T : 3 * T - 1], "padding")):
            hits = [(i, c) for c, i in rows.nonzero().tolist() if i <= c]
            if hits:
                i, c = min(hits, key=lambda h: (h[1] - h[0], h[0]))
                said = f"position {i} changed when everything after position {c} became {what}"
                raise Broken(f"in {mode}, {said}", _after(i, c + 1, T), among=True)
    if found := _leaks_when_long(s):
        raise Broken(found)
    few = s.reduced(f"{len(special)} ids", "padding and one id in evaluation alone")
    return (
        f"changed each later token, all later tokens, and all to padding or one id; evaluation and training; "
        f"up to {max(s.length, s.longest)} tokens{few}"
    )


def _leaks_when_long(s: Subject) -> str | None:
    """Repeat the check on a longer text for a few cuts: a mask may cover short texts only."""
    L = s.longest
    if s.length >= L:
        return None
    base, other = s.text(1, L), s.text(1, L, seed=5)
    before = s.outputs(s.eval_model, base)
    for cut in (L - 2,) if s.large else (0, L // 4, L // 2, L - 2):
        after = s.outputs(s.eval_model, torch.where(torch.arange(L) > cut, other, base))
        gap = s.differs(after, before)[0, : cut + 1]
        if gap.any():
            i = int(gap.nonzero()[0])
            return f"in a text of {L} tokens, position {i} changed when everything after position {cut} did"
    return None


@check("future-length", "no output changes when the text is cut short", LEAK)
def future_length(s: Subject) -> str:
    _require_tokens(s)
    if not s.causal:
        raise DoesNotApply("not claimed to be causal; if it should be, add --causal")
    if not s.any_length:
        raise DoesNotApply(f"it takes texts of exactly {s.length} tokens")
    ids = s.text(2)
    for mode in s.modes:
        with s.mode(mode) as model:
            whole = s.outputs(model, ids)
            for length in range(s.length - 1, 0, -3 if s.large and mode == "training" else -1):
                gap = s.differs(s.outputs(model, ids[:, :length]), whole[:, :length])
                if gap.any():
                    i = int(gap.any(dim=0).nonzero()[0])
                    said = f"position {i} changed when the text of {s.length} tokens was cut to {length}"
                    raise Broken(f"in {mode}, {said}", _after(i, length, s.length), among=True)
    for length in _sizes(s):
        ids = s.text(1, length + 1)
        gap = s.differs(s.outputs(s.eval_model, ids[:, :length]), s.outputs(s.eval_model, ids)[:, :length])
        if gap.any():
            i = int(gap.nonzero()[0, 1])
            raise Broken(f"position {i} changed when a text of {length + 1} tokens was cut to {length}")
    few = s.reduced("in training every third length")
    return f"every length from 1 to {s.length}, {' and '.join(s.modes)}{few}"


def _sizes(s: Subject) -> list[int]:
    """Longer texts that are as long as a dimension of the weights: code may mix the two up."""
    sizes = {n for p in s.eval_model.parameters() for n in p.shape}
    return sorted(n for n in sizes if s.length < n < s.longest)[: 2 if s.large else 8]


def _padded(s: Subject, left: bool, fill: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Return texts of 1 … T−1 tokens padded to T, one per row, and their keep mask. `fill` replaces the padding id."""
    T = s.length
    column, lengths = torch.arange(T), torch.arange(1, T)[:, None]
    keep = column >= T - lengths if left else column < lengths
    ids = (torch.full((T - 1, T), s.pad) if fill is None else fill.expand(T - 1, T)).clone()
    for row, length in enumerate(range(1, T)):
        ids[row, keep[row]] = s.short_text(length)[0]
    return ids, keep


def padding_differs(s: Subject, left: bool, tolerance: float | None = None) -> str | None:
    """Describe the smallest padding that changes a text's output; None if there is none."""
    # headtohead's models must ignore any id in the padding; a user's module may rely on the padding id.
    fills = [None] if s.spec is None else [None, s.text(1, seed=7)]
    for mode in _modes_with_padding(s):
        unpadded = s.unpadded(mode)
        with s.mode(mode) as model:
            for fill in fills:
                ids, keep = _padded(s, left, fill)
                out = s.outputs(model, ids, keep)
                for row in range(s.length - 2, -1, -1):  # the longest text has the least padding
                    padded = out[row, keep[row]] if s.gives == "tokens" else out[row]
                    if s.differs(padded, unpadded[row], tolerance).any():
                        side, length = "left" if left else "right", row + 1
                        count = s.length - length
                        what = f"{count} padding token{'s' if count > 1 else ''} on the {side}"
                        return f"in {mode}, {what} of a text of {length} changed its output"
    return None


def _modes_with_padding(s: Subject) -> tuple[Mode, ...]:
    return ("evaluation",) if s.large else s.modes


def _require_padding(s: Subject) -> None:
    if not s.takes_padding:
        raise DoesNotApply("it takes no mask and gives a result at every token")
    if not s.any_length or s.length < 3:
        raise DoesNotApply(f"it takes texts of exactly {s.length} tokens")


@check("padding-right", "padding on the right changes nothing", PADDING)
def padding_right(s: Subject) -> str:
    _require_padding(s)
    if found := padding_differs(s, left=False):
        raise Broken(found)
    return f"any amount, {' and '.join(_modes_with_padding(s))}{s.reduced()}"


@check("padding-left", "padding on the left changes nothing", PADDING)
def padding_left(s: Subject) -> str:
    _require_padding(s)
    if s.mask is not None and s.spec is None and _mask_ignored(s):
        raise Broken(f"the argument {s.mask} has no effect: padding on the left is read as text")
    found = padding_differs(s, left=True)
    if found is None:
        return f"any amount, {' and '.join(_modes_with_padding(s))}{s.reduced()}"
    if s.spec is not None or padding_differs(s, left=False):
        raise Broken(found)  # positions in headtohead's models count real tokens, so left padding must not matter
    raise DoesNotApply("it is made for padding on the right: positions count from the left edge")


def _mask_ignored(s: Subject) -> bool:
    """Whether masking the first half of a text leaves the outputs of the rest unchanged."""
    ids = s.text(2)
    keep = torch.ones_like(ids, dtype=torch.bool)
    keep[:, : s.length // 2] = False
    plain, hidden = (s.outputs(s.eval_model, ids, mask) for mask in (torch.ones_like(keep), keep))
    if s.gives == "tokens":
        plain, hidden = plain[keep], hidden[keep]
    if s.large:  # in single precision, a small effect is no larger than rounding
        return torch.equal(plain, hidden)
    return not bool(s.differs(plain, hidden).any())


@check(
    "batch-rows",
    "a text's output does not depend on other texts in the batch",
    "results depend on the batch size and on the other texts in the batch",
)
def batch_rows(s: Subject) -> str:
    ids, others = s.text(4), s.text(4, seed=9)
    others[0] = ids[0]
    batches = [(ids, others, "four texts")]
    if s.takes_padding and s.any_length:
        T = s.length
        lengths = torch.tensor([T // 2, T, 1, T - 1])[:, None]
        kept = torch.arange(T) < lengths
        mixed = torch.where(kept, ids, s.pad)
        batches.append((mixed, torch.cat([mixed[:1], others[1:]]), "texts of several lengths"))
    step = 2 if s.large else 1
    for mode in s.modes:
        with s.mode(mode) as model:
            for rows, changed, what in batches[-1:] if s.large else batches:
                together, neighbours, backwards = (_rows(s, model, x) for x in (rows, changed, rows.flip(0)))
                alone = torch.cat([_rows(s, model, row[None]) for row in rows[::step]])
                if s.differs(together[:1], neighbours[:1]).any():
                    raise Broken(f"in {mode}, row 0 changed when the other rows did ({what})")
                for out, every, how in (
                    (backwards.flip(0), 1, "the rows were reversed"),
                    (alone, step, "it was alone"),
                ):
                    gap = s.differs(together[::every], out)
                    if gap.any():
                        raise Broken(f"in {mode}, row {every * int(gap.nonzero()[0])} changed when {how} ({what})")
    few = s.reduced("two of four rows alone")
    return f"each row alone, in reversed order and with other texts; {' and '.join(s.modes)}{few}"


def _rows(s: Subject, model: nn.Module, ids: Tensor) -> Tensor:
    """Return outputs (B, …), flattened, with zeros at padding."""
    keep = ids != s.pad
    out = s.outputs(model, ids, keep if s.takes_padding else None)
    return (out * keep[:, :, None] if s.takes_padding and s.gives == "tokens" else out).flatten(1)


@check(
    "masked-rows",
    "a text of padding only gives finite numbers",
    "one empty line in a batch turns the loss, then every weight, into NaN",
)
def masked_rows(s: Subject) -> str:
    if not s.takes_padding:
        raise DoesNotApply("it takes no mask and gives a result at every token")
    ids = s.text(2)
    ids[1] = s.pad
    keep = ids != s.pad
    for mode in MODES:
        with s.mode(mode) as model, without_gradients(model, _vectors(model)) if s.large else nullcontext():
            model.zero_grad()
            out = s.call(model, ids, keep)
            for result in (out, s.outputs(model, ids, keep)):  # some modules compute differently without gradients
                if not all_finite(result):
                    said = f"in {mode}, the output of an empty text is {first_bad(result)}"
                    if layer := _torchs_attention(model):
                        raise Advice(f"{said}, as {layer} gives it: leave empty texts out, or let them see one token")
                    raise Broken(said)
            out.sum().backward()
            for name, p in model.named_parameters():
                if p.grad is not None and not all_finite(p.grad):
                    raise Broken(f"in {mode}, the gradient of {name} is {first_bad(p.grad)} when a text is empty")
    return f"outputs and gradients, evaluation and training{s.reduced('gradients of vectors')}"


def _vectors(model: nn.Module) -> set[int]:
    """Return the ids of biases and other vectors, to which a gradient that is not finite spreads; if there are none,
    those of all weights."""
    parameters = list(model.parameters())
    return {id(p) for p in parameters if p.ndim < 2} or {id(p) for p in parameters}


def _torchs_attention(model: nn.Module) -> str:
    """The name of torch's own attention layer, if the model has one: for a text without tokens it gives NaN."""
    kinds = (nn.TransformerEncoder, nn.TransformerEncoderLayer, nn.MultiheadAttention)
    return next((f"nn.{kind.__name__}" for kind in kinds for m in model.modules() if isinstance(m, kind)), "")
