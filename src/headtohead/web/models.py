"""What the page Inside computes: attention maps, predictions, scores, effects of operations on heads, generated text.

Everything is computed by the functions behind `h2h attend`, `h2h score`, `h2h heads` and `h2h generate`. Loaded models
and maps are kept for a while. One map or text is computed at a time, so that studies in training keep their pace.
"""

from __future__ import annotations

import base64
import math
import re
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np
import torch

from headtohead.data.encoded import TextSet
from headtohead.display.generation import pieces
from headtohead.errors import InputError
from headtohead.interpret.bins import bin_edges, binned
from headtohead.interpret.generate import Decoding, next_tokens
from headtohead.interpret.maps import Maps, attention
from headtohead.interpret.score import classify, score
from headtohead.interpret.summary import numbers
from headtohead.interpret.surgery import Operation, changed_copy, sampling_task
from headtohead.run.load import Trained, load_trained
from headtohead.run.store import Record
from headtohead.training.tasks import Task
from headtohead.web.answers import Tell

MOST_CELLS = 300_000  # of all small maps together
SMALL_BINS, LARGE_BINS = 96, 192  # tokens or bins along a side of a small map and of a large one
MOST_BYTES = 2 * 2**30  # of the weights of all heads on a text
SHOWN = 10  # next tokens with their probabilities
MOST_TOKENS = 5_000  # that are generated at once
MOST_OPERATIONS = 100
OPERATION = re.compile(r"(silence|average|swap):(\d{1,4})\.(\d{1,4})(?::(\d{1,4}))?")
DRAWN: dict[str, type[int] | type[float]] = {"temperature": float, "top_k": int, "top_p": float, "seed": int}

Losses = tuple[np.ndarray, np.ndarray, np.ndarray]  # of the items of a set, with weights and clusters
V = TypeVar("V")


@dataclass(frozen=True)
class Side:
    """A run at a step, with operations on its heads, such as `silence:0.1,average:1.2,swap:0.1:3`."""

    record: Record
    step: int | None
    operations: str = ""


class Kept(Generic[V]):
    """The values that were used last, up to a number and a size in bytes. At least the newest is kept."""

    def __init__(self, most: int, most_bytes: float, size: Callable[[V], int]) -> None:
        self.most, self.most_bytes, self.size = most, most_bytes, size
        self._values: OrderedDict[Hashable, V] = OrderedDict()
        self._lock = threading.Lock()

    def has(self, key: Hashable) -> bool:
        with self._lock:
            return key in self._values

    def get(self, key: Hashable, make: Callable[[], V]) -> V:
        with self._lock:
            if key in self._values:
                self._values.move_to_end(key)
                return self._values[key]
        value = make()
        with self._lock:
            self._values[key] = value
            while len(self._values) > 1 and (len(self._values) > self.most or self._bytes() > self.most_bytes):
                self._values.popitem(last=False)
        return value

    def _bytes(self) -> int:
        return sum(map(self.size, self._values.values()))


class Models:
    """Models that are loaded, and what they compute for the page."""

    def __init__(self) -> None:
        torch.set_num_threads(1)
        self.turn = threading.RLock()  # held by what computes a map or a token
        self.evaluating = threading.Lock()  # held by the evaluation on a whole set
        self.loaded: Kept[Trained] = Kept(8, 2**29, _model_bytes)
        self.maps: Kept[Maps] = Kept(8, 2**28, lambda maps: maps.weights.nbytes)
        self.tasks: Kept[Task] = Kept(2, math.inf, lambda _: 0)
        self.losses: Kept[Losses] = Kept(64, math.inf, lambda _: 0)

    def trained(self, side: Side, operations: bool = True) -> Trained:
        """The model of a side, with its operations applied."""
        with self.turn:
            plain = self.loaded.get(weights_key(side), lambda: load_trained(side.record, side.step))
            chosen = read_operations(side.operations, plain) if operations else []
            return changed_copy(plain, chosen) if chosen else plain

    # -- a text ---------------------------------------------------------------------------------------------------

    def look(self, side: Side, text: str) -> dict[str, Any]:
        """All small maps of a side on a text, what it predicts, and its loss, before and after the operations."""
        with self.turn:
            maps, trained = self._maps(side, text), self.trained(side)
            arm = trained.spec.arm
            heads = maps.weights.shape[0] * maps.weights.shape[1]
            edges = bin_edges(maps.real, min(SMALL_BINS, max(8, math.isqrt(MOST_CELLS // heads))))
            weights = np.stack([binned(layer[:, : maps.real, : maps.real], edges) for layer in maps.weights])
            cells = np.rint(255 * np.sqrt(np.clip(np.nan_to_num(weights), 0, 1))).astype(np.uint8)
            return {
                "run": side.record.id,
                "title": maps.name,
                "step": maps.step,
                "task": maps.task,
                "layers": arm.model.layers,
                "heads": arm.model.heads,
                "block": arm.model.block,
                "tokens": list(maps.tokens[: maps.real]),
                "cut": maps.cut,
                "unknown": maps.unknown,
                "checks": [check._asdict() for check in maps.checks],
                "edges": edges.tolist(),
                "cells": _packed(cells),  # (L, H, n, n): 255 · √weight
                "numbers": [[numbers(head[: maps.real, : maps.real]) for head in layer] for layer in maps.weights],
                "says": self.predicted(trained, text),
                "before": self.predicted(self.trained(side, operations=False), text) if side.operations else None,
                "sets": _sets(side.record),
            }

    def predicted(self, trained: Trained, text: str) -> dict[str, Any]:
        """Next tokens and losses of a language model, classes of a classifier."""
        if trained.task == "classifier":
            found = classify(trained, [text])[0]
            return {"classes": found.probabilities, "label": found.label}
        if trained.task == "masked":
            return {"next": [], "tokens": [], "losses": [], "loss": None, "why": trained.instead}
        says: dict[str, Any] = {"next": [list(pair) for pair in next_tokens(trained, text, SHOWN)]}
        try:
            return says | score(trained, text).to_json()
        except InputError as error:  # one token: nothing is predicted
            return says | {"tokens": [], "losses": [], "loss": None, "why": str(error)}

    def head(self, side: Side, text: str, layer: int, head: int, region: str) -> dict[str, Any]:
        """The weights of one head, of all tokens or of a region `first query-end-first key-end`."""
        with self.turn:
            maps = self._maps(side, text)
            w = maps.head(layer, head)
            q0, q1, k0, k1 = _region(region, maps.real)
            queries, keys = bin_edges(q1 - q0, LARGE_BINS), bin_edges(k1 - k0, LARGE_BINS)
            weights = binned(w[q0:q1, k0:k1], queries, keys)
            return {
                "layer": layer,
                "head": head,
                "queries": (queries + q0).tolist(),
                "keys": (keys + k0).tolist(),
                "weights": _packed(np.nan_to_num(weights).astype("<f4")),
                "tokens": maps.real,
            }

    def _maps(self, side: Side, text: str) -> Maps:
        trained = self.trained(side)
        model = trained.spec.arm.model
        read = min(model.block, len(text.encode()))  # no token is shorter than a byte
        if model.layers * model.heads * read**2 * 4 > MOST_BYTES:
            read = min(model.block, trained.vocabulary.count(text))
        if model.layers * model.heads * read**2 * 4 > MOST_BYTES:
            raise InputError(
                f"the maps of {model.layers * model.heads} heads on {read:,} tokens need more than "
                f"{MOST_BYTES // 2**30} GB: give a shorter text"
            )
        return self.maps.get((weights_key(side), side.operations, text), lambda: attention(trained, text))

    # -- a held-out set -------------------------------------------------------------------------------------------

    def held_out(self, side: Side) -> dict[str, Any]:
        """The beginning of the run's first held-out set, as a text to look at."""
        trained = self.trained(side, operations=False)
        task = self.task(trained)
        name = first_set(task)
        held: Any = task.data.held[name]
        one = isinstance(held, TextSet)
        ids = held.tokens[: trained.spec.arm.model.block] if one else held.items.tokens[: held.items.offsets[1]]
        return {"set": name, "text": trained.vocabulary.decode(ids.astype(np.int64).tolist())}

    def task(self, trained: Trained) -> Task:
        arm = trained.spec.arm
        return self.tasks.get(repr(arm.to_json()), lambda: sampling_task(arm))

    # -- generated text -------------------------------------------------------------------------------------------

    def generate(self, side: Side, prompt: str, tokens: int, decoding: Any, tell: Tell, stop: threading.Event) -> None:
        """Tell a continuation of a text, piece by piece."""
        if not 1 <= tokens <= MOST_TOKENS:
            raise InputError(f"the page generates 1 to {MOST_TOKENS:,} tokens, not {tokens:,}: use h2h generate")
        trained = self.trained(side)
        names = trained.vocabulary.names()
        made = pieces(trained, prompt, tokens=tokens, decoding=read_decoding(decoding))
        while not stop.is_set():
            with self.turn:
                found = next(made, None)
            if found is None:
                tell({"done": True})
                return
            text, drawn = found
            told = [[names[token.ids[0]], token.probabilities[0]] for token in drawn]
            tell({"text": text, "tokens": told})


# -- what the page sends ---------------------------------------------------------------------------------------------


def read_operations(text: str, trained: Trained) -> list[Operation]:
    """The operations on heads of a model that the page names."""
    model = trained.spec.arm.model
    found: list[Operation] = []
    for part in filter(None, text.split(",")):
        match = OPERATION.fullmatch(part)
        if match is None or (match[1] == "swap") != (match[4] is not None) or len(found) >= MOST_OPERATIONS:
            raise InputError(f"'{part[:40]}' is no operation on a head: undo all, and choose again")
        layer, head, other = int(match[2]), int(match[3]), None if match[4] is None else int(match[4])
        if layer >= model.layers or max(head, other or 0) >= model.heads:
            raise InputError(
                f"there is no head {part.partition(':')[2]}: the model has {model.layers} layers of {model.heads} heads"
            )
        found.append(Operation(part, layer, head, average=match[1] == "average", other=other))
    return found


def read_decoding(given: Any) -> Decoding:
    """How tokens are drawn, from the fields of the page. Missing ones have the values of `h2h generate`."""
    if not isinstance(given, dict):
        raise InputError("the request does not say how to draw tokens: reload the page")
    chosen: dict[str, Any] = {key: value for key, value in given.items() if value is not None and key in DRAWN}
    for key, value in chosen.items():
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            raise InputError(f"{key.replace('_', '-')} must be a number: correct it on the page")
        if DRAWN[key] is int and value != int(value):
            raise InputError(f"{key.replace('_', '-')} must be a whole number, not {value:g}")
        chosen[key] = DRAWN[key](value)
    return Decoding(greedy=given.get("greedy") is True, **chosen)


def _region(text: str, tokens: int) -> tuple[int, int, int, int]:
    match = re.fullmatch(r"(\d{1,7})-(\d{1,7})-(\d{1,7})-(\d{1,7})", text)
    q0, q1, k0, k1 = (int(x) for x in match.groups()) if match else (0, tokens, 0, tokens)
    q1, k1 = min(q1, tokens), min(k1, tokens)
    return (q0, q1, k0, k1) if q0 < q1 and k0 < k1 else (0, tokens, 0, tokens)


# -- parts -----------------------------------------------------------------------------------------------------------


def weights_key(side: Side) -> Hashable:
    """Names the weights of a side; other weights in the same folder have another key."""
    return str(side.record.folder), side.step, side.record.folder.stat().st_mtime_ns


def _model_bytes(trained: Trained) -> int:
    return sum(p.numel() * p.element_size() for p in trained.model.parameters())


def _packed(values: np.ndarray) -> str:
    return base64.b64encode(np.ascontiguousarray(values).tobytes()).decode()


def _sets(record: Record) -> list[str]:
    """The held-out sets of a run, test sets first."""
    data = record.result.data if record.result else {}
    tests = list(data.get("tests", ()))
    return tests + [name for name in data.get("sets", {}) if name != "train" and name not in tests]


def first_set(task: Task) -> str:
    """The first test set; without one, the validation set."""
    return task.held_out(next(iter(task.data.tests), None))
