"""The interval over test texts and the crossed interval cover the truth: simulated texts with dependent tokens."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pytest
from scipy.signal import lfilter

from headtohead.outcome.items import Summary, joined
from headtohead.stats import ItemTest, crossed, over_clusters

BLOCK = 32
TRUTH = 0.05


@dataclass(frozen=True)
class Tokens:
    """The differences of token losses in a simulated text: an AR(1) process plus an effect of each document."""

    memory: float  # correlation of neighbouring tokens
    document: int = 0  # mean length in tokens; 0: no documents
    effect: float = 0.0  # standard deviation of document effects; that of tokens is 1
    marked: bool = False  # whether the corpus says where documents begin

    def draw(self, make: np.random.Generator, count: int) -> tuple[np.ndarray, np.ndarray | None]:
        """Return the difference of each token, and its document."""
        noise = lfilter([math.sqrt(1 - self.memory**2)], [1, -self.memory], make.normal(size=count + 400))[400:]
        which = None
        if self.document:
            most = 3 * count // self.document + 6
            ends = np.cumsum(make.integers(self.document // 2, 3 * self.document // 2, size=most))
            which = np.searchsorted(ends - make.integers(self.document), np.arange(count), side="right")
            noise += self.effect * make.normal(size=most + 1)[which]
        return TRUTH + noise, which if self.marked else None


def windows(losses: np.ndarray, document: np.ndarray | None, stride: int) -> dict[str, np.ndarray]:
    """The items of a text as a run stores them."""
    total = np.concatenate([[0.0], np.cumsum(losses)])
    start = np.arange(0, len(losses) - BLOCK + 1, stride)
    items = {
        "start": start,
        "tokens": np.full(len(start), BLOCK),
        "loss": (total[start + BLOCK] - total[start]) / BLOCK,
    }
    if document is not None:
        first, last = document[start], document[start + BLOCK - 1]
        items["document"] = np.where(first == last, first, -1)
    return items


def interval(tokens: Tokens, make: np.random.Generator, sizes: tuple[int, ...], stride: int) -> ItemTest:
    found = joined([Summary.of(windows(*tokens.draw(make, size), stride)) for size in sizes])
    return over_clusters(found.losses, found.weights, found.loss, found.items)


def coverage(tokens: Tokens, sizes: tuple[int, ...], stride: int, studies: int) -> float:
    make = np.random.default_rng([stride, *sizes])
    found = [interval(tokens, make, sizes, stride) for _ in range(studies)]
    return float(np.mean([one.low < TRUTH < one.high for one in found]))


def within(share: float, studies: int, least: float = 0.93, most: float = 0.975) -> bool:
    """Whether a coverage is in this range, give or take two standard errors."""
    slack = 2 * math.sqrt(0.05 * 0.95 / studies)
    return least - slack <= share <= most + slack


TOKENS = {
    "independent": Tokens(0.0),
    "remembered over 10 tokens": Tokens(0.9),
    "remembered over 50 tokens": Tokens(0.98),
    "short documents, not marked": Tokens(0.5, 100, 0.2),
    "marked documents": Tokens(0.5, 600, 0.2, marked=True),
}
SIZES = ((1631,), (1631, 1631, 1631), (5000, 3000))  # tokens of each test text; the first two are a published setting
STRIDES = (1, BLOCK // 2, BLOCK)


@pytest.mark.parametrize("kind", TOKENS)
def test_the_interval_over_texts_covers_the_truth(kind: str):
    studies = 250
    found = {s: coverage(TOKENS[kind], (5000, 3000, 5000), s, studies) for s in STRIDES}
    assert all(within(share, studies) for share in found.values()), found


@pytest.mark.slow
@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("kind", TOKENS)
def test_the_interval_over_texts_covers_the_truth_at_each_size(kind: str, sizes: tuple[int, ...]):
    studies = 2000
    if TOKENS[kind].marked and sizes == SIZES[0]:  # three or four documents
        assert not interval(TOKENS[kind], np.random.default_rng(0), sizes, BLOCK).has_interval
        return
    found = {s: coverage(TOKENS[kind], sizes, s, studies) for s in STRIDES}
    assert all(within(share, studies) for share in found.values()), found


def test_windows_as_independent_items_would_not_cover():
    """The simulation can tell a wrong interval: each overlapping window as a cluster of its own."""
    make = np.random.default_rng(0)
    inside = 0
    for _ in range(100):
        items = windows(*TOKENS["independent"].draw(make, 3000), 1)
        found = over_clusters(items["loss"], items["tokens"].astype(float), float(items["loss"].mean()), 3000)
        inside += found.low < TRUTH < found.high
    assert inside < 50


# -- seeds and texts ---------------------------------------------------------------------------------------------------

EFFECTS = {  # standard deviations: of seeds, of clusters, of both together
    "seeds and texts": (0.3, 1.0, 1.0),
    "neither": (0.0, 0.0, 1.0),
    "seeds": (0.3, 0.0, 1.0),
    "texts": (0.0, 1.0, 1.0),
    "mostly seeds": (1.0, 0.3, 0.3),
    "no interaction": (0.3, 1.0, 0.05),
}


def crossed_coverage(effects: tuple[float, float, float], n: int, m: int, studies: int) -> float:
    make, inside = np.random.default_rng([n, m]), 0
    weights = make.integers(50, 150, size=m).astype(float)
    for _ in range(studies):
        of_seed, of_text, both = (
            make.normal(scale=sd, size=size) for sd, size in zip(effects, ((n, 1), (1, m), (n, m)), strict=True)
        )
        found = crossed(TRUTH + of_seed + of_text + both, weights)
        inside += found.low < TRUTH < found.high
    return inside / studies


@pytest.mark.parametrize("kind", EFFECTS)
@pytest.mark.parametrize(("n", "m"), [(6, 20), (6, 60), (8, 12), (10, 200)])
def test_the_crossed_interval_covers_the_truth(kind: str, n: int, m: int):
    studies = 500
    found = crossed_coverage(EFFECTS[kind], n, m, studies)
    assert within(found, studies, least=0.95, most=0.995), found


@pytest.mark.slow
@pytest.mark.parametrize("kind", EFFECTS)
@pytest.mark.parametrize("n", [6, 8, 10])
def test_the_crossed_interval_covers_the_truth_in_many_studies(kind: str, n: int):
    studies = 6000
    for m in (12, 20, 60, 200):
        found = crossed_coverage(EFFECTS[kind], n, m, studies)
        assert within(found, studies, least=0.95, most=0.995), (m, found)
