"""Verdicts from paired values: sign-flip tests, intervals, power. Imports only numpy and scipy."""

from headtohead.stats.design import ALPHA, FIXED_PAIRS, LEAST_PAIRS, MAX_PAIRS, Design, Rule, sequential_design
from headtohead.stats.intervals import interval, t_quantile
from headtohead.stats.items import CrossedTest, ItemTest, crossed, mcnemar, over_clusters, over_items
from headtohead.stats.paired import Verdict, Way, Word, compare, compare_all, upper_sd
from headtohead.stats.power import MOST_PAIRS, detectable, pairs_for, pairs_for_equivalence, power
from headtohead.stats.signflip import EXACT_PAIRS, sign_patterns

__all__ = [
    "ALPHA",
    "EXACT_PAIRS",
    "FIXED_PAIRS",
    "LEAST_PAIRS",
    "MAX_PAIRS",
    "MOST_PAIRS",
    "CrossedTest",
    "Design",
    "ItemTest",
    "Rule",
    "Verdict",
    "Way",
    "Word",
    "compare",
    "compare_all",
    "crossed",
    "detectable",
    "interval",
    "mcnemar",
    "over_clusters",
    "over_items",
    "pairs_for",
    "pairs_for_equivalence",
    "power",
    "sequential_design",
    "sign_patterns",
    "t_quantile",
    "upper_sd",
]
