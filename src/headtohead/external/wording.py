"""A comparison in words: what was read, a table of verdicts, and what limits them."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING

from headtohead.external.values import Value
from headtohead.stats import LEAST_PAIRS, Verdict
from headtohead.stats.unpaired import LEAST_RUNS, UnpairedVerdict

if TYPE_CHECKING:
    from headtohead.external.comparison import AnyVerdict, Comparison

GAP = "  "
LEAST_NAME = 12  # letters of an arm's name that are shown at least
MOST_NAMES = 8  # arms, seeds or files in a sentence


def text_of(found: Comparison, width: int = 80) -> str:
    """What was read, the table and its notes, in lines of at most `width` columns if the numbers allow it."""
    above, under = (
        [part for line in lines for part in textwrap.wrap(line, width, subsequent_indent=GAP, break_on_hyphens=False)]
        for lines in (read_lines(found), lines_under(found))
    )
    return "\n".join([*above, "", *table_lines(found, width), "", *under])


def read_lines(found: Comparison) -> list[str]:
    """Files, arms, seeds, metric and number of values, before the verdict."""
    reading = found.reading
    files = list(dict.fromkeys(reading.files))
    what = f"{files[0]} ({reading.format})" if len(files) == 1 else f"{len(files)} {reading.format}s, {_span(files)}"
    lines = [f"read: {what}", f"metric: {found.metric}, {found.better} is better; {'; '.join(reading.how)}"]
    if found.design == "items":
        items = next(iter(found.verdicts.values())).items  # type: ignore[union-attr]
        return [*lines, f"arms: {_listed(list(found.means))}; {items:,} test items each"]
    counts = {arm: sum(value.arm == arm for value in found.values) for arm in found.means}
    lines.append(f"values: {len(found.values)} ({_listed([f'{arm} {n}' for arm, n in counts.items()])})")
    seeds = _seeds(found.values)
    return [*lines, f"seeds: {seeds}"] if seeds else lines


def _span(files: Sequence[str]) -> str:
    return " and ".join(files) if len(files) == 2 else f"{files[0]} to {files[-1]}"


def _seeds(values: Sequence[Value]) -> str:
    seeds = sorted({v.seed for v in values if v.seed is not None}, key=lambda s: (len(s), s))
    numbers = [int(s) for s in seeds if s.isdecimal() and len(s) < 20]
    if len(numbers) == len(seeds) > 2 and numbers == list(range(numbers[0], numbers[0] + len(numbers))):
        return f"{numbers[0]} to {numbers[-1]}"
    return _listed(seeds)


def _listed(names: Sequence[str]) -> str:
    more = len(names) - MOST_NAMES
    return ", ".join(names) if more <= 0 else f"{', '.join(names[:MOST_NAMES])} and {more} more"


# -- the table ---------------------------------------------------------------------------------------------------------


def table_lines(found: Comparison, width: int) -> list[str]:
    digits = _digits(found)
    count = {"paired": "pairs", "unpaired": "runs", "items": "items"}[found.design]
    head = ["arm", "mean", "difference", "95 % interval", "p", count, "verdict"]
    control = [found.control, number(found.means[found.control], digits), "", "", "", "", "control"]
    rows = [head, control]
    for arm, v in found.verdicts.items():
        cells = [number(found.means[arm], digits), number(v.difference, digits, signed=True), _interval(v, digits)]
        rows.append([arm, *cells, _p(v), _count(v), v.verdict + (" (descriptive)" if v.descriptive else "")])
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    too_wide = sum(widths) + len(GAP) * (len(widths) - 1) - width
    widths[0] = max(min(widths[0], LEAST_NAME), widths[0] - max(0, too_wide))
    return [_row(row, widths) for row in rows]


def _row(cells: Sequence[str], widths: Sequence[int]) -> str:
    first, *middle, last = cells
    if len(first) > widths[0]:
        half = (widths[0] - 1) // 2
        first = f"{first[: widths[0] - 1 - half]}…{first[len(first) - half :]}"
    aligned = [cell.rjust(width) for cell, width in zip(middle, widths[1:-1], strict=True)]
    return GAP.join([first.ljust(widths[0]), *aligned, last]).rstrip()


def _interval(v: AnyVerdict, digits: int) -> str:
    if not (math.isfinite(v.low) and math.isfinite(v.high)):
        return "–"
    return f"{number(v.low, digits, signed=True)} … {number(v.high, digits, signed=True)}"


def _p(v: AnyVerdict) -> str:
    if v.p is None or v.descriptive:
        return "–"
    return "<0.001" if v.p < 0.001 else f"{v.p:.3f}"


def _count(v: AnyVerdict) -> str:
    if isinstance(v, Verdict):
        return str(v.pairs)
    return f"{v.runs}:{v.control_runs}" if isinstance(v, UnpairedVerdict) else f"{v.items:,}"


def _digits(found: Comparison) -> int:
    """Decimals that show the narrowest interval, or else the smallest difference, with three digits."""
    halves = [(v.high - v.low) / 2 for v in found.verdicts.values() if math.isfinite(v.high - v.low)]
    sizes = [size for size in halves or [abs(v.difference) for v in found.verdicts.values()] if size > 0]
    return min(8, max(0, 2 - math.floor(math.log10(min(sizes))))) if sizes else 4


def number(value: float, digits: int, signed: bool = False) -> str:
    """A number with this many decimals; very large and very small ones with an exponent."""
    if not math.isfinite(value):
        return "–"
    sign = "+" if signed else ""
    big_or_small = abs(value) >= 1e7 or (value != 0 and abs(value) < 1e-6)
    text = f"{value:{sign}.3g}" if big_or_small else f"{value:{sign}.{digits}f}"
    return text.replace("-", "−")


# -- lines under the table ---------------------------------------------------------------------------------------------


def lines_under(found: Comparison) -> list[str]:
    lines = [_design_line(found)]
    several = len(found.verdicts)
    if several > 1:
        lines.append(f"p and verdicts are corrected for {several} arms")
    if any(v.descriptive for v in found.verdicts.values()):
        lines.append(f"descriptive: {_needed(found)}")
    margins = {v.margin for v in found.verdicts.values() if v.margin is not None}
    if margins:
        lines.append(f"equivalent: the difference is shown to be smaller than the margin, {max(margins):.4g}")
    lines += [f"missing: {name}" for name in found.missing]
    if found.missing:
        lines.append("warning: runs without a value are left out; if an arm makes runs fail, its mean looks too good")
    return [*lines, *(f"note: {note}" for note in found.notes)]


def _design_line(found: Comparison) -> str:
    if found.design == "paired":
        verdicts = [v for v in found.verdicts.values() if isinstance(v, Verdict)]
        known = [v.correlation for v in verdicts if v.correlation is not None]
        r = f"; correlation of the arms {min(known):.2f}" if known else ""
        r += f" to {max(known):.2f}" if len(known) > 1 else ""
        return f"paired by seed: each run is compared with the control's run of the same seed{r}".replace("-0", "−0")
    if found.design == "items":
        return (
            "items, not seeds: the interval covers other test items for these trained models; it does not say what "
            "training with another seed would give"
        )
    seeds = {arm: {v.seed for v in found.values if v.arm == arm} - {None} for arm in found.means}
    most = max(len(seeds[arm] & seeds[found.control]) for arm in found.verdicts)
    shared = "no seed" if most == 0 else f"{most} seed{'s' if most > 1 else ''}"
    return (
        f"unpaired: arms share {shared} with the control, and pairs need {LEAST_PAIRS}; with equal seeds in all arms, "
        "fewer runs would do"
    )


def _needed(found: Comparison) -> str:
    if found.design == "paired":
        return f"an arm with fewer than {LEAST_PAIRS} pairs gets no verdict"
    if found.design == "items":
        from headtohead.external.items import LEAST_ITEMS

        return f"fewer than {LEAST_ITEMS} items give no verdict"
    return (
        f"a verdict needs {LEAST_RUNS} runs or more in each arm, or {LEAST_PAIRS} pairs with equal seeds; "
        "the figures describe these runs only"
    )
