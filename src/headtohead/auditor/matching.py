"""Copy the weights of one module into another that is written differently: by shape and order.

Two implementations of one architecture name, order and fuse their weights in their own ways. `layouts` proposes ways to
copy, the likely ones first. The right one, if there is one, gives equal outputs.
"""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, permutations, product
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

MOST = 1000  # layouts that are tried
MOST_OF_A_KIND = 240  # orders of the weights of one shape
ROLES = {
    "q": r"q|wq|query|queries|q_?proj|to_?q|q_?lin",
    "k": r"k|wk|key|keys|k_?proj|to_?k|k_?lin",
    "v": r"v|wv|value|values|v_?proj|to_?v|v_?lin",
    "o": r"o|wo|out|output|o_?proj|out_?proj|proj|project|c_?proj|to_?out|unify|merge|mix",
    "up": r"up|f1|fc|fc1|ff1|lin1|linear1|w1|c_?fc|w_?in|expand|widen",
    "down": r"down|f2|fc2|ff2|lin2|linear2|w2|w_?out|shrink|narrow",
    "norm1": r"ln_?1|norm_?1|n1|attn_?norm|norm_?a\w*",
    "norm2": r"ln_?2|norm_?2|n2|ff\w*_?norm|mlp_?norm|norm_?[fm]\w*",
}
_ROLES = {role: re.compile(pattern, re.IGNORECASE) for role, pattern in ROLES.items()}
_BIAS = re.compile(r"b|bias|beta|shift", re.IGNORECASE)
_PLAIN = re.compile(r"w|weight|g|gain|gamma|scale", re.IGNORECASE)
_HEADS = ("heads", "n_heads", "num_heads", "n_head", "nhead", "h", "H")


class Slot(NamedTuple):
    """A parameter: its name, its shape, the kind of module that holds it, and whether that module has a bias."""

    name: str
    shape: tuple[int, ...]
    kind: str
    biased: bool


class Atom(NamedTuple):
    """A third of a fused parameter, one head's rows of queries, keys or values, or a whole parameter."""

    slot: Slot
    third: int | None  # which third of a fused parameter
    shape: tuple[int, ...]
    head: int | None = None


@dataclass(frozen=True)
class Layout:
    """One way to copy. `pairs` are atoms of the reference and of the other module."""

    pairs: tuple[tuple[Atom, Atom], ...]
    heads: int | None = None  # heads lie in the last place of the rows of queries, keys and values
    fused: str = "third"  # third: q, k, v; head: each head's q, k, v; last: q, k, v of each feature
    turned: bool = False  # square matrices that are no layers are used as x @ W
    heads_in_thirds: int = 0
    split: int = 0  # the reference's queries, keys and values are split into this many heads

    def weights(self, source: dict[str, Tensor]) -> dict[str, Tensor]:
        """Return the values of the other module's parameters."""
        parts: dict[str, dict[int | None, Tensor]] = defaultdict(dict)
        slots = {}
        attentions = {_holder(theirs.slot.name) for theirs, _ in self.pairs if role_of(theirs.slot.name) in ("q", "v")}
        for theirs, mine in self.pairs:
            value = source[theirs.slot.name]
            if theirs.third is not None:
                value = value.chunk(3, dim=0 if value.shape[0] == max(value.shape) else -1)[theirs.third]
            if theirs.head is not None:
                value = value.chunk(self.split)[theirs.head]
            parts[mine.slot.name][mine.third] = self._placed(
                value, theirs, mine, _holder(theirs.slot.name) in attentions
            )
            slots[mine.slot.name] = mine.slot
        return {name: self._joined(slots[name], found) for name, found in parts.items()}

    def _placed(self, value: Tensor, theirs: Atom, mine: Atom, of_attention: bool) -> Tensor:
        role = role_of(theirs.slot.name)
        if self.heads and value.ndim == 2 and theirs.third is None and theirs.head is None:
            if role in ("q", "k", "v"):
                value = _interleaved(value, self.heads)
            elif role == "o" and of_attention:  # not the output of the whole model
                value = _interleaved(value.mT, self.heads).mT
        if value.ndim == 2:
            square = value.shape[0] == value.shape[1]
            if (square and self.turned and mine.slot.kind == "raw") or (not square and value.shape != mine.shape):
                value = value.mT
        return value

    def _joined(self, slot: Slot, found: dict[int | None, Tensor]) -> Tensor:
        if None in found:
            return found[None].reshape(slot.shape)
        thirds = [found[n] for n in range(3)]
        wide = len(slot.shape) == 2 and slot.shape[1] == 3 * slot.shape[0]
        if wide and slot.kind == "raw":  # used as x @ W
            thirds = [t if self.turned else t.mT for t in thirds]
        rows = [t.mT if wide else t for t in thirds]
        if self.fused == "head" and self.heads_in_thirds:
            rows = [r.unflatten(0, (self.heads_in_thirds, -1)) for r in rows]
            whole = torch.stack(rows, dim=1).flatten(0, 2)
        elif self.fused == "last":
            whole = torch.stack(rows, dim=1).flatten(0, 1)
        else:
            whole = torch.cat(rows)
        return (whole.mT if wide else whole).reshape(slot.shape)


def _interleaved(value: Tensor, heads: int) -> Tensor:
    """Rows (heads, size) in the order (size, heads)."""
    return value.unflatten(0, (heads, -1)).transpose(0, 1).flatten(0, 1)


def slots(model: nn.Module) -> list[Slot]:
    """Return the parameters of a module, each once, in order."""
    found, seen = [], set()
    for path, module in model.named_modules():
        own = dict(module.named_parameters(recurse=False))
        kind = _kind(module)
        for name, p in own.items():
            if id(p) not in seen:
                seen.add(id(p))
                full = f"{path}.{name}".lstrip(".")
                found.append(Slot(full, tuple(p.shape), kind, any("bias" in n for n in own)))
    return found


def _kind(module: nn.Module) -> str:
    if type(module).__module__ == "torch.nn.modules.normalization":
        return "norm"
    kinds = {"linear": nn.Linear, "table": nn.Embedding, "attention": nn.MultiheadAttention}
    return next((name for name, kind in kinds.items() if isinstance(module, kind)), "raw")


def heads_of(model: nn.Module) -> int | None:
    """The number of heads, if a module states it."""
    for module in model.modules():
        for name in _HEADS:
            value = getattr(module, name, None)
            if isinstance(value, int) and not isinstance(value, bool) and value > 0:
                return value
    return None


def role_of(name: str) -> str | None:
    """What a parameter is for, as far as its name tells: blocks.0.attention.query.weight is q, 0_norm1_b is norm1."""
    parts = [part for part in re.split(r"[.]", name) if not (_BIAS.fullmatch(part) or _PLAIN.fullmatch(part))]
    if not parts:
        return None
    words = [
        word
        for word in re.sub(r"^\d+_", "", parts[-1]).split("_")
        if not (_BIAS.fullmatch(word) or _PLAIN.fullmatch(word))
    ]
    last = "_".join(words) or parts[-1]
    if last.isdigit() and len(parts) > 1 and re.search("ff|feed|mlp|fc|net", parts[-2], re.IGNORECASE):
        return {"0": "up", "1": "down", "2": "down", "3": "down"}.get(last)
    return next((role for role, pattern in _ROLES.items() if pattern.fullmatch(last)), None)


def _holder(name: str) -> str:
    """The module that holds the layer of a parameter: blocks.0.attention for blocks.0.attention.query.weight."""
    parts = name.split(".")
    if len(parts) > 1 and (_PLAIN.fullmatch(parts[-1]) or _BIAS.fullmatch(parts[-1])):
        parts.pop()
    return ".".join(parts[:-1])


def _is_bias(name: str) -> bool:
    return bool(_BIAS.fullmatch(re.split(r"[._]", name)[-1]))


def size(found: Sequence[Slot]) -> int:
    """The number of parameters."""
    return sum(math.prod(slot.shape) for slot in found)


def difference(reference: Sequence[Slot], other: Sequence[Slot]) -> str:
    """Say how the parameters differ in number and shape; empty if they could be copied."""
    ours, theirs = (_kinds(_atoms(s), plain=True) for s in (other, reference))
    more = [a for kind, atoms in ours.items() for a in atoms[len(theirs.get(kind, ())) :]]
    less = [a for kind, atoms in theirs.items() for a in atoms[len(ours.get(kind, ())) :]]
    says = []
    for atoms, what in ((more, "more"), (less, "fewer")):
        if atoms:
            first = atoms[0]
            shape = " × ".join(map(str, first.shape))
            example = f"{first.slot.name}, {shape}" if what == "more" else f"{shape}, as {first.slot.name}"
            says.append(f"{len(atoms)} {what} ({example})")
    return "its tensors differ from those of the reference: " + ", ".join(says) if says else ""


def layouts(reference: Sequence[Slot], other: Sequence[Slot], heads: int | None) -> Iterator[Layout]:
    """Propose ways to copy, at most MOST, the likely ones first. Nothing if the shapes do not fit."""
    return islice(_layouts(reference, other, heads), MOST)


def _layouts(reference: Sequence[Slot], other: Sequence[Slot], heads: int | None) -> Iterator[Layout]:
    seen = set()
    splits = [0] + [n for n in (heads,) if n and n > 1]
    for split, plain in product(splits, (False, True)):
        theirs, ours = _kinds(_atoms(reference, split), plain), _kinds(_atoms(other), plain)
        if {k: len(v) for k, v in theirs.items()} != {k: len(v) for k, v in ours.items()}:
            continue
        choices = [_orders(theirs[kind], ours[kind]) for kind in theirs]
        fused = [a for a in _atoms(other) if a.third is not None]
        raw = any(a.slot.kind == "raw" and len(a.shape) == 2 for a in _atoms(other))
        for pairs in _product(choices):
            if pairs in seen:
                continue
            seen.add(pairs)
            for turned in (False, True) if raw else (False,):
                yield Layout(pairs, None, "third", turned, split=split)
                if heads and heads > 1 and not split:
                    yield Layout(pairs, heads, "third", turned)
                if fused:
                    yield Layout(pairs, None, "last", turned, split=split)
                    if heads:
                        yield Layout(pairs, None, "head", turned, heads, split)


def _atoms(found: Sequence[Slot], split: int = 0) -> list[Atom]:
    atoms = []
    for slot in found:
        thirds = _thirds(slot)
        if split and len(slot.shape) == 2 and role_of(slot.name) in ("q", "k", "v") and not slot.shape[0] % split:
            rows, columns = slot.shape
            atoms += [Atom(slot, None, (rows // split, columns), head) for head in range(split)]
            continue
        atoms += [Atom(slot, n, thirds) for n in range(3)] if thirds else [Atom(slot, None, slot.shape)]
    return atoms


def _thirds(slot: Slot) -> tuple[int, ...]:
    """The shape of one third of fused queries, keys and values; empty for other parameters."""
    if len(slot.shape) != 2 or slot.kind == "table":
        return ()
    rows, columns = slot.shape
    if rows == 3 * columns:
        return (columns, columns)
    return (rows, rows) if columns == 3 * rows and slot.kind == "raw" else ()


def _kinds(atoms: Sequence[Atom], plain: bool) -> dict[Any, list[Atom]]:
    """Group atoms that can be copied into each other: by shape and, unless `plain`, by the module that holds them."""
    groups = defaultdict(list)
    for atom in atoms:
        shape = tuple(sorted(atom.shape))
        vector = len(shape) == 1
        role = ("norm" if atom.slot.kind == "norm" else "") + ("bias" if "bias" in atom.slot.name else "")
        detail = role if vector else (atom.slot.biased, atom.slot.kind == "table")
        groups[shape if plain else (shape, detail)].append(atom)
    return groups


def _orders(theirs: list[Atom], ours: list[Atom]) -> list[tuple[tuple[Atom, Atom], ...]]:
    """Orders in which one group can be copied: as registered, or changed alike in every layer."""
    n = len(theirs)
    found: dict[tuple[int, ...], None] = {tuple(range(n)): None}
    if theirs[0].head is not None:
        found |= dict.fromkeys(_orders_of_heads(theirs))
    for extra, first in ((0, 0), (1, 0), (1, 1)):  # a final norm comes last or first
        size = n - extra
        for count in range(2, min(6, size) + 1):
            if size % count or (math.factorial(count) > 24 and size != count):
                continue
            layers = size // count
            for order in islice(permutations(range(count)), 720):
                blocks = [layer * count + position for layer in range(layers) for position in order]
                kinds = [order[position] * layers + layer for layer in range(layers) for position in range(count)]
                for chosen in (blocks, kinds):
                    shifted = [index + first for index in chosen]
                    whole = ([0, *shifted] if first else [*shifted, n - 1]) if extra else shifted
                    found[tuple(whole)] = None
    pairs = [tuple((theirs[i], ours[order[i]]) for i in range(n)) for order in found]
    ranked = sorted(pairs, key=lambda chosen: -sum(_agree(a, b) for a, b in chosen))
    named = _by_names(theirs, ours)
    return ([named] if named else []) + ranked[:MOST_OF_A_KIND]


def _by_names(theirs: list[Atom], ours: list[Atom]) -> tuple[tuple[Atom, Atom], ...] | None:
    """The order that the names give, if they tell what each atom is for."""
    places: dict[Any, list[Atom]] = defaultdict(list)
    for atom in ours:
        places[_meaning(atom)].append(atom)
    wanted = [_meaning(atom) for atom in theirs]
    if {k: len(v) for k, v in places.items()} != Counter(wanted):
        return None
    return tuple((atom, places[meaning].pop(0)) for atom, meaning in zip(theirs, wanted, strict=True))


def _meaning(atom: Atom) -> tuple[str | None, bool]:
    role = "qkv"[atom.third] if atom.third is not None else role_of(atom.slot.name)
    return role, _is_bias(atom.slot.name)


def _orders_of_heads(theirs: list[Atom]) -> Iterator[tuple[int, ...]]:
    """The reference has them by layer, role and head. Others have them by layer, head and role, in some order."""
    heads = 1 + max(a.head or 0 for a in theirs)
    layers, left = divmod(len(theirs), 3 * heads)
    if left:
        return
    for roles in permutations(range(3)):
        for layer_first, head_first in product((True, False), repeat=2):
            found = []
            for layer in range(layers):
                for role in range(3):
                    for head in range(heads):
                        place = head * 3 + roles[role] if head_first else roles[role] * heads + head
                        by_layer = layer * 3 * heads + place
                        found.append(by_layer if layer_first else place * layers + layer)
            yield tuple(found)


def _agree(a: Atom, b: Atom) -> int:
    return int(_meaning(a)[0] is not None and _meaning(a) == _meaning(b))


def _product(choices: list[list[Any]]) -> Iterator[tuple[tuple[Atom, Atom], ...]]:
    """All combinations, those with few departures from the first choices first."""
    sizes = [len(c) for c in choices]
    for total in range(sum(size - 1 for size in sizes) + 1):
        for picks in _sums(sizes, total):
            yield tuple(pair for c, pick in zip(choices, picks, strict=True) for pair in c[pick])


def _sums(sizes: list[int], total: int) -> Iterator[tuple[int, ...]]:
    if not sizes:
        if total == 0:
            yield ()
        return
    for pick in range(min(sizes[0] - 1, total), -1, -1):
        for rest in _sums(sizes[1:], total - pick):
            yield (pick, *rest)
