"""Searches: settings of one arm tried, the best chosen by the validation set, the test sets read once, for it alone.

    for event in run_search(Search(arm, over={"train.batch": [16, 32], "train.optimizer.lr": "1e-5..1e-3"}, trials=20)):
        ...
    event.said  # every trial, the chosen one, its test figures

Lists without `trials` are a grid, and every combination is tried. With `trials` Optuna's TPE proposes what the figures
so far promise most of. Every trial is a run like any other. What is proposed is a function of the seed and of the
figures: a search that was killed proposes the same again, finds those runs in the store, and goes on.
"""

from headtohead.search.carry import Proposed, Searched, SearchEvent, ranked, read_search, run_search
from headtohead.search.forecast import Forecast
from headtohead.search.space import Point, Search, value_text

__all__ = [
    "Forecast",
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
