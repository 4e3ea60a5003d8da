"""Compares the trained models of a study on test items, from the losses of clusters of items. Imports no torch.

A run's items are summarised first: the mean loss of each cluster of each set. The summaries are small enough to be kept
with published results, so a kept study gives the same intervals as the store that it came from.
"""

from __future__ import annotations

from collections.abc import Collection, MutableMapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Self

import numpy as np

from headtohead.data.stored_json import DAMAGED, unreadable
from headtohead.errors import InputError
from headtohead.outcome.metrics import is_share, sets_of
from headtohead.run import files
from headtohead.run.store import Record
from headtohead.stats import ALPHA, LEAST_PAIRS, CrossedTest, ItemTest, crossed, mcnemar, over_clusters
from headtohead.stats.clusters import MOST_DOCUMENTS, MOST_STRETCHES, OUTSIDE, groups, merged, stretches

ITEM_PAIRS = 24  # most pairs whose items are read: reading takes longer than the test


@dataclass(frozen=True)
class Summary:
    """The items of one set, or of several together: means over all of them and by cluster."""

    items: int
    weight: float  # tokens or texts of all items
    loss: float
    right: float | None  # share of texts with the right label; None for running text
    weights: np.ndarray  # of each cluster (m,)
    losses: np.ndarray
    rights: np.ndarray | None
    documents: bool = False  # whether each cluster is a document, or some neighbours
    answers: np.ndarray | None = None  # of each item, whether the label is right; not kept

    @classmethod
    def of(cls, items: dict[str, np.ndarray]) -> Self:
        """Summarise the items of one set as a run stores them."""
        if "label" in items or "right" in items:
            cluster = groups(len(items["loss"]))
        elif "document" in items:
            cluster = merged(items["document"], MOST_DOCUMENTS)
        else:
            cluster = stretches(items["start"], items["tokens"])
        weight = items["tokens"].astype(float) if "tokens" in items else np.ones(len(cluster))
        answers = items["predicted"] == items["label"] if "label" in items else None
        inside = (cluster != OUTSIDE) & (weight > 0)
        which = np.unique(cluster[inside], return_inverse=True)[1]
        weights = np.bincount(which, weight[inside])

        right = items.get("right", answers)  # of a generated example, the share of its answers

        def means(values: np.ndarray) -> np.ndarray:
            return np.bincount(which, (values * weight)[inside]) / weights

        return cls(
            items=len(cluster),
            weight=float(weight.sum()),
            loss=float(np.average(items["loss"], weights=weight)),
            right=None if right is None else float(np.average(right, weights=weight)),
            weights=weights,
            losses=means(items["loss"]),
            rights=None if right is None else means(right),
            documents="document" in items,
            answers=answers,
        )

    def to_json(self) -> dict[str, Any]:
        """The summary with the values of clusters in single precision, which halves the digits."""
        short = {
            name: None if values is None else [float(str(np.float32(x))) for x in values]
            for name, values in (("losses", self.losses), ("rights", self.rights))
        }
        whole = {"weights": [int(w) if w == int(w) else float(w) for w in self.weights]}
        return {k: v for k, v in asdict(self).items() if k != "answers"} | short | whole

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Self:
        """Read a kept summary. Raises one of `DAMAGED` if it is not one."""
        items, weight, loss, right = (data[key] for key in ("items", "weight", "loss", "right"))
        if not all(isinstance(x, int | float) for x in (items, weight, loss, right or 0)):
            raise TypeError("values are numbers")
        weights, losses = (np.array(data[key], dtype=float) for key in ("weights", "losses"))
        rights = None if data["rights"] is None else np.array(data["rights"], dtype=float)
        if weights.ndim != 1 or any(x is not None and x.shape != weights.shape for x in (losses, rights)):
            raise ValueError("each cluster has one value")
        return cls(items, weight, loss, right, weights, losses, rights, bool(data["documents"]))

    def value(self, right: bool) -> float:
        return self.loss if not right or self.right is None else self.right

    def values(self, right: bool) -> np.ndarray:
        return self.losses if not right or self.rights is None else self.rights


@dataclass(frozen=True)
class ItemResults:
    """What the test items say of one arm."""

    texts: ItemTest | None = None  # if only the test texts were resampled
    crossed: CrossedTest | None = None  # over other seeds and other test texts
    agree: int | None = None  # of these pairs, how many have an exact McNemar p of at most 0.05
    pairs: int = 0
    trouble: str = ""  # why the items could not be read


def compare_items(
    home: Path, metric: str, pairs: Sequence[tuple[str, str]], known: MutableMapping[str, Summary | None]
) -> ItemResults:
    """Compare the runs of an arm with the control's on the metric's test items; a pair is two run ids.

    `known` holds the summaries that were read before.
    """
    pairs = pairs[:ITEM_PAIRS]
    right = is_share(metric)
    try:
        read = [[_summary(home, metric, run, known) for run in pair] for pair in pairs]
    except InputError as error:
        return ItemResults(trouble=str(error))
    both = [(c, v) for c, v in read if c is not None and v is not None]
    if len(both) < max(1, len(pairs)):
        return ItemResults()  # of an earlier version, which kept no items
    first = both[0][0]
    if not all(_same_items(first, s) for pair in both for s in pair):
        return ItemResults()  # different tokens or windows cannot be paired
    d = np.stack([v.values(right) - c.values(right) for c, v in both])  # (n, m)
    difference = float(np.mean([v.value(right) - c.value(right) for c, v in both]))
    answers = [(c.answers, v.answers) for c, v in both if c.answers is not None and v.answers is not None]
    agree = sum(mcnemar(c, v) <= ALPHA for c, v in answers) if right and len(answers) == len(both) else None
    return ItemResults(
        texts=replace(over_clusters(d.mean(axis=0), first.weights, difference, first.items), documents=first.documents),
        crossed=crossed(d, first.weights, difference) if len(both) >= LEAST_PAIRS else None,
        agree=agree,
        pairs=len(both),
    )


def _same_items(a: Summary, b: Summary) -> bool:
    return a.items == b.items and a.weight == b.weight and np.array_equal(a.weights, b.weights)


def _summary(home: Path, metric: str, run: str, known: MutableMapping[str, Summary | None]) -> Summary | None:
    """The summary of the metric's sets; None if only the results of the run were kept."""
    if run not in known:
        record = Record.at(home, run)
        names = sets_of(metric, record.require_result().data)
        sets = summaries(record, names)
        known[run] = joined([sets[name] for name in names]) if sets.keys() >= set(names) else None
    return known[run]


def summaries(record: Record, names: Collection[str] | None = None) -> dict[str, Summary]:
    """The summaries of these sets of a run, from its items or from what was kept of them; by default of all sets."""
    if (record.folder / files.CLUSTERS).is_file() and not (record.folder / files.ITEMS).is_file():
        try:
            return {name: Summary.from_json(kept) for name, kept in record.clusters.items()}
        except DAMAGED:
            raise unreadable(record.folder / files.CLUSTERS, "keep the results again") from None
    return {name: Summary.of(items) for name, items in record.item_sets(names).items()}


def joined(sets: Sequence[Summary]) -> Summary:
    """One summary of several sets. Running text without documents has at most MOST_STRETCHES clusters in all."""
    sets = [s if s.documents or s.rights is not None else _coarser(s, MOST_STRETCHES // len(sets)) for s in sets]
    weight = sum(s.weight for s in sets)
    is_labelled = all(s.rights is not None for s in sets)
    answers = [s.answers for s in sets if s.answers is not None]
    return Summary(
        items=sum(s.items for s in sets),
        weight=weight,
        loss=sum(s.loss * s.weight for s in sets) / weight,
        right=sum((s.right or 0.0) * s.weight for s in sets) / weight if is_labelled else None,
        weights=np.concatenate([s.weights for s in sets]),
        losses=np.concatenate([s.losses for s in sets]),
        rights=np.concatenate([s.rights for s in sets if s.rights is not None]) if is_labelled else None,
        documents=all(s.documents for s in sets),
        answers=np.concatenate(answers) if len(answers) == len(sets) else None,
    )


def _coarser(s: Summary, most: int) -> Summary:
    """The summary with neighbouring clusters merged."""
    which = merged(np.arange(len(s.weights)), most)
    weights = np.bincount(which, s.weights)
    return replace(s, weights=weights, losses=np.bincount(which, s.losses * s.weights) / weights)
