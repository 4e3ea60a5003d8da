"""Written amounts on one scale: accuracy and F1 as fractions, losses and bits per byte in their unit, perplexity as its
logarithm, so that a difference of perplexities is a ratio."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from headtohead.claimcheck.sentence import Amount, Said
from headtohead.errors import InputError
from headtohead.outcome.metrics import UNITS, better_way

SHARES = ("accuracy", "macro_f1")
SMALLEST, LARGEST = 1e-9, 1e12  # numbers that a claim may have
ROUNDED = 0.06  # by which share a difference may differ from that of two rounded values


@dataclass(frozen=True)
class OnScale:
    """A difference, variant − control, or the amount from which the control's mean will give it."""

    difference: float | None = None
    unit: float = 1.0  # of written numbers, on the scale; nan: the control's mean gives it
    amount: Amount | None = None  # without sign, if the control's mean is needed
    sign: int = 1
    level: float | None = None  # the control's mean, in the unit that people use
    read: tuple[str, ...] = ()  # how it was read

    def at(self, level: float, figure: str) -> OnScale:
        """The difference and its unit with this mean of the control."""
        if self.amount is None:
            return self
        is_percent = self.amount.unit == "percent"
        unit = 1 / level if figure == "perplexity" else level / 100
        difference = changed(self.amount, figure, self.sign, level)
        return replace(self, difference=difference, unit=unit if is_percent or figure == "perplexity" else self.unit)


def check_size(what: str, number: float) -> None:
    if number and not SMALLEST <= abs(number) <= LARGEST:  # nan is in no range
        raise InputError(f"{what} of {number:g} is out of range: give numbers from {SMALLEST:g} to {LARGEST:g}")


def unit_of(figure: str) -> str:
    """The unit in which differences are shown."""
    return "points" if figure in SHARES else UNITS.get(figure, "")


def on_scale(said: Said, figure: str, level: float | None, is_option: bool) -> OnScale:
    """The difference that was written. `is_option`: it was given as an option, variant − control."""
    if level is not None and not SMALLEST <= level <= LARGEST:
        raise InputError(f"--control-mean is a number from {SMALLEST:g} to {LARGEST:g}, not {level}")
    for amount in (said.by, *(said.values or ())):
        if amount is not None:
            check_size("an amount", amount.number)
    if said.values is not None:
        return _of_values(said, figure)
    assert said.by is not None
    amount, sign, read = said.by, _sign(said, figure), list[str]()
    if sign and amount.number < 0:
        raise InputError(f"'{said.way}' by a negative amount, {amount.number:g}: leave out the minus sign")
    if not sign:
        sign = -1 if amount.number < 0 else 1
        if not is_option and sign > 0 and better_way(f"test/{figure}") == "lower":
            read.append("the difference is read as variant − control: positive is worse")
    amount = replace(amount, number=abs(amount.number))
    if figure in SHARES:
        return _of_shares(amount, sign, said.relative, level, figure, read)
    if amount.unit == "points":
        raise InputError(f"points are not a unit of {figure}: write nats, perplexity or %")
    if amount.unit == "percent":
        read.append("% is read as a share of the control's value")
        if figure == "perplexity":
            return OnScale(changed(amount, figure, sign, 1.0), 0.01, level=level, read=tuple(read))
    if amount.unit == "percent" or figure == "perplexity":
        return OnScale(None, math.nan, amount, sign, level, tuple(read))
    return OnScale(sign * amount.number, level=level, read=tuple(read))


def _sign(said: Said, figure: str) -> int:
    """Of variant − control, by the words; 0 if they do not say."""
    good = 1 if better_way(f"test/{figure}") == "higher" else -1
    return {"up": 1, "down": -1, "better": good, "worse": -good}.get(said.way, 0)


def changed(amount: Amount, figure: str, sign: int, level: float) -> float:
    """The difference on the scale of a change of the control's mean by an amount."""
    share = amount.number / 100 if amount.unit == "percent" else amount.number / level
    if figure != "perplexity":
        return sign * share * level
    if sign * share <= -1:
        raise InputError(f"a perplexity cannot fall by {amount.number:g}{' %' * (amount.unit == 'percent')} from here")
    return math.log1p(sign * share)


def _of_shares(amount: Amount, sign: int, relative: bool, level: float | None, figure: str, read: list[str]) -> OnScale:
    if relative:
        if level is None:
            raise InputError(f"a relative change of {figure} depends on its level: write 'from 85.1 to 86.3'")
        unit = (level / 100 if level > 1 else level) / 100
        read.append("% is read as a share of the control's value")
    elif amount.unit == "percent":
        unit = 0.01
        read.append("% is read as points, not as a share of the control's value")
    elif amount.unit == "points":
        unit = 0.01
    elif amount.number >= 1:
        unit = 0.01
        read.append("numbers from 1 on are read as points")
    elif amount.number >= 0.1:
        raise InputError(
            f"{amount.number:g} of {figure} may be points or a fraction: write '{amount.number:g} points', or "
            f"{amount.number / 100:g} for the same as a fraction"
        )
    else:
        unit = 1.0
        read.append(f"read as a fraction: {100 * amount.number:g} points")
    if amount.number * unit > 1:
        raise InputError(f"{figure} cannot change by {100 * amount.number * unit:g} points: give at most 100")
    return OnScale(sign * amount.number * unit, unit, level=level, read=tuple(read))


# -- two values --------------------------------------------------------------------------------------------------------


def _of_values(said: Said, figure: str) -> OnScale:
    assert said.values is not None
    new, old = said.values
    unit = 1.0
    if figure in SHARES:
        unit = _unit_of_shares(new, old, figure)
    elif new.unit in ("points", "percent"):
        raise InputError(f"% is not a unit of a value of {figure}: write the values without it")
    difference = unit * new.number - unit * old.number
    level = unit * old.number
    apart = difference
    if figure == "perplexity":
        if min(new.number, old.number) < 1:
            raise InputError(f"{min(new.number, old.number):g} is no perplexity: they are 1 or more")
        difference, unit = math.log(new.number / old.number), 1 / old.number
    _check_words(said, difference, figure)
    _check_amount(said, apart, level, figure)
    return OnScale(difference, unit, level=level)


def _unit_of_shares(new: Amount, old: Amount, figure: str) -> float:
    low, high = sorted((new.number, old.number))
    unit = 0.01 if high > 1 or new.unit in ("points", "percent") else 1.0
    if low < 0 or high * unit > 1:
        raise InputError(f"{low if low < 0 else high:g} is no {figure}: give values from 0 to 100, or from 0 to 1")
    return unit


def _check_words(said: Said, difference: float, figure: str) -> None:
    if difference and _sign(said, figure) * difference < 0:
        assert said.values is not None
        new, old = said.values
        raise InputError(
            f"the words and the values disagree: {new.number:g} against {old.number:g} is not '{said.way}', because "
            f"{better_way(f'test/{figure}')} {figure} is better; give --difference"
        )


def _check_amount(said: Said, apart: float, level: float, figure: str) -> None:
    """Refuse a sentence whose values do not differ by its amount. `apart` and `level` are not logarithms."""
    if said.by is None or said.values is None:
        return
    size = abs(said.by.number)
    if said.by.unit in ("points", "percent"):
        size *= 0.01 if figure in SHARES and not said.relative else level / 100
    elif figure in SHARES and size >= 0.1:
        size /= 100
    if abs(abs(apart) - size) > ROUNDED * max(size, 1e-12):
        new, old = said.values
        raise InputError(
            f"{old.number:g} and {new.number:g} do not differ by {abs(said.by.number):g}: leave one of them out"
        )
