"""Verdicts from paired values: sign-flip tests, intervals, power. Imports only numpy and scipy."""

from headtohead.stats.intervals import ALPHA, LEAST_PAIRS, interval, t_quantile
from headtohead.stats.items import ItemTest, mcnemar, over_items
from headtohead.stats.paired import Verdict, Way, compare, compare_all
from headtohead.stats.power import MOST_PAIRS, detectable, pairs_for, pairs_for_equivalence, power
from headtohead.stats.signflip import DRAWS, EXACT_PAIRS, sign_flip, sign_patterns

__all__ = [
    "ALPHA",
    "DRAWS",
    "EXACT_PAIRS",
    "LEAST_PAIRS",
    "MOST_PAIRS",
    "ItemTest",
    "Verdict",
    "Way",
    "compare",
    "compare_all",
    "detectable",
    "interval",
    "mcnemar",
    "over_items",
    "pairs_for",
    "pairs_for_equivalence",
    "power",
    "sign_flip",
    "sign_patterns",
    "t_quantile",
]
