"""Searches: try settings of one arm, choose the best on the validation set, and evaluate only it on the test sets.

    for event in run_search(Search(arm, over={"train.batch": [16, 32], "train.optimizer.lr": "1e-5..1e-3"}, trials=20)):
        ...
    event.record  # every trial, the chosen one, its test values

Lists without `trials` are a grid, and every combination is tried. With `trials`, Optuna's TPE proposes settings from
the values so far. Every trial is a run like any other. The proposals depend only on the seed and the values: a search
that was killed proposes the same again, finds those runs in the store, and continues.
"""

from headtohead.run.searches import read_search
from headtohead.search.execution import Proposed, Searched, SearchEvent, run_search
from headtohead.search.space import Point, Search, value_text
from headtohead.search.trials import ranked

__all__ = [
    "Point",
    "Proposed",
    "Search",
    "SearchEvent",
    "Searched",
    "ranked",
    "read_search",
    "run_search",
    "value_text",
]
