"""Synthetic tasks: all of them, and their examples as rows of names for checks by hand."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from headtohead.data.corpora import corpora
from headtohead.data.synthetic import Synthetic
from headtohead.data.synthetic.synthetic import NO_ANSWER

TASKS = [corpus for corpus in corpora() if isinstance(corpus, Synthetic)]


def rows(task: Synthetic, count: int = 200, seed: int = 0) -> Iterator[tuple[list[str], list[str | None]]]:
    """Examples of a task as the names of their symbols, and their answers; None where nothing is asked."""
    found, names = task.draw(np.random.default_rng(seed), count), task.symbols
    for ids, answers in zip(found.ids, found.answers, strict=True):
        yield [names[i] for i in ids], [None if a == NO_ANSWER else names[a] for a in answers]


def pairs_of(task: Synthetic) -> Iterator[tuple[list[str], int, str]]:
    """Every question: the example, its position and its answer."""
    for symbols, answers in rows(task):
        for t, answer in enumerate(answers):
            if answer is not None:
                yield symbols, t, answer
