"""The check of a claim in words: what was understood, the noise, the answer, and what would decide."""

from __future__ import annotations

import math
import re
import textwrap
from collections.abc import Iterator
from typing import TYPE_CHECKING

from headtohead.claimcheck.answer import Reading
from headtohead.claimcheck.claim import Claim
from headtohead.claimcheck.scale import SHARES, unit_of
from headtohead.display.training_screen import duration
from headtohead.stats.noise import Noise

if TYPE_CHECKING:
    from headtohead.claimcheck.check import ClaimCheck

LEAST_WIDTH, MOST_WIDTH = 50, 100
INDENT = "  "


def text_of(found: ClaimCheck, width: int = 80) -> str:
    """Lines of at most `width` columns; commands are not broken."""
    width = min(max(width, LEAST_WIDTH), MOST_WIDTH)
    lines: list[str] = []
    for part in (_understood(found), _noise(found), _answer(found, width), _decide(found)):
        for line in part:
            is_fixed = line.startswith((INDENT * 2, "│"))
            lines += [line.rstrip()] if is_fixed or not line else _wrapped(line, width)
        lines.append("")
    return "\n".join(lines[:-1])


def _wrapped(line: str, width: int) -> list[str]:
    indent = INDENT * (1 + line.startswith(INDENT))
    kept = re.sub(r"(?<=\d) (?=(?:%|points|nats|pairs|runs|…)(?!\w))|(?<=…) (?=[+−\d])", "\xa0", line)
    found = textwrap.wrap(kept, width, subsequent_indent=indent, break_on_hyphens=False, break_long_words=False)
    return [part.replace("\xa0", " ") for part in found]


# -- sizes -------------------------------------------------------------------------------------------------------------


def size_text(claim: Claim, value: float, signed: bool = False) -> str:
    """A difference with its unit: +1.20 points, 0.0200 nats, −2.5 % of perplexity."""
    if claim.figure == "perplexity":
        return f"{_number(claim, value, signed)} % of perplexity"
    return f"{_number(claim, value, signed)} {unit_of(claim.figure)}".rstrip()


def magnitude_text(claim: Claim, size: float) -> str:
    """The size of a difference in the claim's direction: what falls by 2.5 % rises again by 2.56 %."""
    if claim.figure == "perplexity" and (claim.difference or 0.0) < 0:
        return size_text(claim, -size).removeprefix("−")
    return size_text(claim, size)


def _number(claim: Claim, value: float, signed: bool = False) -> str:
    sign = "+" if signed else ""
    if claim.figure == "perplexity":
        shown, digits = 100 * math.expm1(min(value, 20.0)), 2
    elif claim.figure in SHARES:
        shown, digits = 100 * value, 2
    else:
        shown, digits = value, 4
    text = f"{shown:{sign}.3g}" if abs(shown) >= 1e5 or 0 < abs(shown) < 10.0**-digits else f"{shown:{sign}.{digits}f}"
    return text.replace("-", "−")


def share_text(share: float) -> str:
    """A probability: 26 %, 0.3 %, below 0.01 %."""
    percent = 100 * share
    if percent < 0.01:
        return "less than 0.01 %"
    return f"{percent:.2g} %" if percent < 9.95 else f"{min(percent, 100.0):.0f} %"


def one_in(share: float) -> str:
    """About 1 in 4; empty where that says nothing."""
    if share > 0.35 or share <= 0.0001:
        return ""
    return f", about 1 in {1 / share:,.0f}"


# -- parts of the text -------------------------------------------------------------------------------------------------


def _understood(found: ClaimCheck) -> Iterator[str]:
    claim = found.claim
    who = f"{claim.variant or 'the variant'} against {claim.control or 'the control'}"
    kind = "language model" if claim.task == "lm" else "classifier"
    runs = "1 run each" if claim.runs == claim.control_runs == 1 else f"{claim.runs} runs each"
    if claim.runs != claim.control_runs:
        runs = f"{claim.runs} and {claim.control_runs} runs"
    yield f"understood: {who}, {size_text(claim, claim.difference or 0.0, signed=True)}, {runs}"
    yield f"{INDENT}{claim.metric} of a {kind}; {claim.better} is better"
    for line in claim.read:
        yield f"{INDENT}{line}"
    if claim.tried > 1:
        yield f"{INDENT}the best of {claim.tried} variants that were tried"


def _noise(found: ClaimCheck) -> Iterator[str]:
    claim, source = found.claim, found.source
    yield f"noise: {source.said}"
    one, two = source.variant, source.control
    if one is not None and two is not None:
        if one is two:
            yield f"{INDENT}between runs: {_sd(claim, one)}"
        else:
            yield f"{INDENT}between runs: {_sd(claim, one)} (variant); {_sd(claim, two)} (control)"
    if source.pairs_known:
        yield f"{INDENT}between pairs of equal seed: {_sd(claim, source.pairs)}"
    if source.kind in ("store", "shipped") and source.same_setup:
        yield f"{INDENT}of {source.setups[0].scope}; another setup may have other noise"
    elif not source.same_setup:
        yield (
            f"{INDENT}of other setups, whose noise differs widely: --sd gives that of your own runs, --study NAME says "
            "that the setup is that of one study"
        )


def _sd(claim: Claim, noise: Noise) -> str:
    low, high = (_number(claim, noise.limit(share)) for share in (0.1, 0.9))
    text = f"sd {size_text(claim, noise.sd)}"
    return text if low == high else f"{text} (likely {low} to {high})"


def _answer(found: ClaimCheck, width: int) -> Iterator[str]:
    claim, reading = found.claim, found.reading
    size = magnitude_text(claim, abs(claim.difference or 0.0))
    verdict = (
        "chance is an unlikely explanation of this difference"
        if found.decides
        else "unresolved: chance can explain this difference"
    )
    yield f"answer: {verdict}"
    yield (
        f"{INDENT}two equal models differ by {size} or more in {share_text(reading.chance)} of such comparisons"
        f"{one_in(reading.chance)}{_range(reading)}"
    )
    if reading.best_of is not None:
        yield (
            f"{INDENT}the best of {claim.tried} variants, all equal to the control, is ahead by that much in "
            f"{share_text(reading.best_of)}"
        )
    alone = ", of this variant alone" if claim.tried > 1 else ""
    yield f"{INDENT}true difference: {_interval(claim, reading)} (95 %{alone})"
    yield ""
    yield from picture(found, width)
    yield ""
    yield (
        f"{INDENT}chance that the true difference has the other sign: {share_text(reading.wrong_sign)}, if all "
        "differences were equally likely before"
    )
    yield from _assumed(found)
    for one in found.measured:
        interval = f"{_number(claim, one.low, True)} … {_number(claim, one.high, True)}"
        yield (
            f"{INDENT}measured before: {size_text(claim, one.difference, True)} ({interval}), {one.pairs} pairs, "
            f"{one.verdict}: {one.study}"
        )


def _range(reading: Reading) -> str:
    """Empty for rare chances: they are mostly those of an unlikely, large noise, outside its likely range."""
    if not reading.chance_low < reading.chance < reading.chance_high or reading.chance_high < 1.1 * reading.chance_low:
        return ""
    return (
        f" ({share_text(reading.chance_low)} to {share_text(reading.chance_high)} over the likely range of the noise)"
    )


def _interval(claim: Claim, reading: Reading) -> str:
    low, high = (_number(claim, value, True) for value in (reading.low, reading.high))
    unit = "% of perplexity" if claim.figure == "perplexity" else unit_of(claim.figure)
    return f"{low} … {high} {unit}".rstrip()


def _assumed(found: ClaimCheck) -> Iterator[str]:
    """Which reading was assumed, and what the other one gives."""
    claim, other = found.claim, found.other
    if found.reading.paired:
        yield f"{INDENT}assumed: pairs, which share seed, first weights and batches"
    else:
        yield f"{INDENT}assumed: runs that share nothing"
    if other is not None:
        how = "as pairs of equal seed, weights and batches (--paired)" if other.paired else "as unrelated runs"
        yield f"{INDENT}{how}: {share_text(other.chance)}; {_interval(claim, other)}"


def _decide(found: ClaimCheck) -> Iterator[str]:
    if not found.needs:
        yield "to decide it: a difference of zero cannot be detected; h2h run --margin shows equivalence"
        return
    claim, (eighty, ninety, half) = found.claim, found.needs
    yield f"to decide it, if the true difference is {magnitude_text(claim, eighty.difference)} (error 5 %):"
    yield f"{INDENT}80 % power: {eighty.text}; 90 %: {ninety.text}"
    yield f"{INDENT}if it is half of that, 80 % power: {half.text}"
    if not found.source.pairs_known:
        yield f"{INDENT}the noise of pairs is not known: it is taken as that of unrelated runs, and may be smaller"
    if found.seconds is not None:
        yield f"{INDENT}about {duration(found.seconds)} here for 80 % power, {found.jobs} runs at a time"
    first, *others = found.commands
    yield "test it:"
    yield f"{INDENT * 2}{first}"
    for command in others:
        yield f"{INDENT * 2}{command}    # runs made elsewhere"


# -- the picture -------------------------------------------------------------------------------------------------------


def picture(found: ClaimCheck, width: int) -> list[str]:
    """The intervals on one line each, with zero marked: ├──────┼───●────────┤"""
    claim = found.claim
    readings = [found.reading, *([found.other] if found.other is not None else [])]
    ends = [x for r in readings for x in (r.low, r.high)] + [0.0]
    low, high = min(ends), max(ends)
    label = max(len(_label(r)) for r in readings)
    room = min(width, 72) - label - 2 * len(INDENT) - 2
    if not (math.isfinite(low) and math.isfinite(high) and high > low and room > 10):
        return []

    def column(value: float) -> int:
        return round((value - low) / (high - low) * (room - 1))

    zero = column(0.0)
    lines = []
    for r in readings:
        row = [" "] * room
        a, b, middle = column(r.low), column(r.high), column(claim.difference or 0.0)
        row[a : b + 1] = "─" * (b - a + 1)
        row[zero] = "┼" if a < zero < b else "│"
        row[a], row[b] = "├" if a != zero else row[a], "┤" if b != zero else row[b]
        row[middle] = "●"
        lines.append(f"{INDENT * 2}{_label(r):{label}}  {''.join(row)}")
    marks = [" "] * room
    marks[zero] = "0"
    for at, value in ((0, low), (room, high)):
        text = _number(claim, value, True)
        start = at if at == 0 else room - len(text)
        if value and (start + len(text) < zero or start > zero + 1):
            marks[start : start + len(text)] = text
    return [*lines, f"{INDENT * 2}{'':{label}}  {''.join(marks)}"]


def _label(reading: Reading) -> str:
    return "paired" if reading.paired else "unpaired"
