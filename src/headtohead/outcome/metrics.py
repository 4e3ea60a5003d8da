"""Metrics by name, SET/FIGURE, read from what a run has written. Imports no torch."""

from __future__ import annotations

import math
from typing import Any, Literal

from headtohead.errors import InputError, nearest
from headtohead.run.results import Result

FIGURES = {"lm": ("loss", "perplexity", "bits_per_byte"), "classifier": ("accuracy", "loss", "macro_f1")}
FIGURES["answers"] = ("accuracy", "loss", "exact_match")  # of a language model on generated examples
SHARES = ("accuracy", "macro_f1", "exact_match")  # shown in percent; higher is better
POINTS = " points"  # the unit of a difference of shares
UNITS = {
    "loss": "nats",
    "perplexity": "",
    "bits_per_byte": "bits/byte",
    "accuracy": "",
    "macro_f1": "",
    "exact_match": "",
}


def figure_of(metric: str) -> str:
    name, slash, figure = metric.partition("/")
    if not slash or not name or not figure:
        raise InputError(f"a metric is SET/FIGURE, such as test/loss or obama/perplexity, not '{metric}'")
    return figure


def better_way(metric: str) -> Literal["lower", "higher"]:
    return "higher" if is_share(metric) else "lower"


def is_share(metric: str) -> bool:
    """Whether a metric is a share, which is shown in percent."""
    return figure_of(metric) in SHARES


def check_set(metric: str, facts: dict[str, Any]) -> None:
    """Whether the data has such a set; `test` stands for all test sets together."""
    name = metric.partition("/")[0]
    known = {*facts["sets"], *(["test"] if facts["tests"] else [])}
    if name not in known:
        raise InputError(f"the data has no set '{name}' for {metric}: {nearest(name, known)}")


def sets_of(metric: str, facts: dict[str, Any]) -> list[str]:
    """The sets that a metric is made of."""
    name = metric.partition("/")[0]
    return list(facts["tests"]) if name == "test" and name not in facts["sets"] else [name]


def value_of(result: Result, metric: str) -> float:
    """The value of a metric in a complete run. Several test sets count as one."""
    check_set(metric, result.data)
    figure, values, facts = figure_of(metric), result.values, result.data
    names = sets_of(metric, facts)
    if len(names) == 1:
        value = values.get(f"{names[0]}/{figure}")
        return math.nan if value is None else float(value)
    if figure == "bits_per_byte":
        sizes = [facts["sets"][name]["bytes"] for name in names]
    else:
        sizes = [values[f"{name}/{'tokens' if f'{name}/tokens' in values else 'texts'}"] for name in names]
    inner = "loss" if figure == "perplexity" else figure
    if any(values.get(f"{name}/{inner}") is None for name in names):
        return math.nan
    mean = sum(values[f"{name}/{inner}"] * size for name, size in zip(names, sizes, strict=True)) / sum(sizes)
    return math.exp(min(mean, 700)) if figure == "perplexity" else float(mean)


def text_of(metric: str, value: float, signed: bool = False) -> str:
    """A value of a metric as text: percent, two or four digits."""
    if not math.isfinite(value):
        return "–"
    figure, sign = figure_of(metric), "+" if signed else ""
    if figure in SHARES:
        text = f"{100 * value:{sign}.2f} %"
    else:
        digits = ".3g" if abs(value) >= 1e7 else {"perplexity": ".2f", "steps": ".0f"}.get(figure, ".4f")
        text = f"{value:{sign}{digits}}"
    return text.replace("-", "−")


def limits_text(metric: str, facts: dict[str, Any]) -> str:
    """The best possible value on generated examples, and that of guessing; empty for other data."""
    name, _, figure = metric.partition("/")
    best, guess = facts["sets"].get(name, {}).get("optimum", {}).get(figure), facts.get("guess", {}).get(figure)
    if best is None or guess is None:
        return ""
    return f"; best possible {text_of(metric, best)}, guessing {text_of(metric, guess)}"


def change_text(metric: str, value: float, signed: bool = True) -> str:
    """A difference or margin of a metric as text. Shares differ by points: a percentage could be read as relative."""
    return text_of(metric, value, signed).replace(" %", POINTS)


def change_span(metric: str, low: float, high: float, signed: bool = True, to: str = " … ") -> str:
    """Two differences of a metric as text, with one unit."""
    if not (math.isfinite(low) and math.isfinite(high)):
        return "–"
    return f"{change_text(metric, low, signed).removesuffix(POINTS)}{to}{change_text(metric, high, signed)}"


def effect_text(metric: str, difference: float, low: float, high: float) -> str:
    """A difference with its interval, which has the same unit: −0.35 points (−6.48 … +5.92)."""
    return f"{change_text(metric, difference)} ({change_span(metric, low, high).removesuffix(POINTS)})"


def read_amount(amount: float | str) -> tuple[float, bool]:
    """A margin or effect: the number, and whether it is a share of the control's mean."""
    text = str(amount).strip()
    try:
        number = float(text.removesuffix("%"))
    except ValueError:
        raise InputError(
            f"a margin or effect is a number or a percentage, such as 0.01 or 1%, not '{amount}'"
        ) from None
    if not 0 < number < math.inf:
        raise InputError(f"a margin or effect is above zero, not {amount}")
    return (number / 100, True) if text.endswith("%") else (number, False)


def absolute(amount: float | str, mean: float) -> float:
    """A margin or effect in the metric's own unit."""
    number, relative = read_amount(amount)
    return number * abs(mean) if relative else number


def training_text(spec: dict[str, Any]) -> str:
    """How an arm is trained, from its spec as JSON: AdamW at 0.003, WarmupCosine with 30 % warm-up, gradients clipped
    at 1. It is always shown, so that defaults are never hidden."""
    train = spec.get("train", {})
    optimizer, schedule, clip = train.get("optimizer", {}), train.get("schedule", {}), train.get("clip")
    rate = f" at {optimizer['lr']:g}" if "lr" in optimizer else ""
    warmup = f" with {100 * schedule['warmup']:g} % warm-up" if "warmup" in schedule else ""
    clipping = "no clipping" if clip is None else f"gradients clipped at {clip:g}"
    return f"{optimizer.get('kind', '?')}{rate}, {schedule.get('kind', '?')}{warmup}, {clipping}" if train else ""


def main_figure(values: dict[str, Any]) -> str:
    """One figure of a run, short: `ppl 822.89` of the test set, `val acc 51.2%` of another."""
    sets = [name for name in dict.fromkeys(key.partition("/")[0] for key in values if "/" in key) if name != "train"]
    for name in sorted(sets, key=lambda name: (name != "test", name == "validation")):
        which = {"test": "", "validation": "val "}.get(name, f"{name} ")
        for figure, short, form in (("accuracy", "acc", ".1%"), ("perplexity", "ppl", ".2f"), ("loss", "loss", ".4f")):
            value = values.get(f"{name}/{figure}")
            if isinstance(value, int | float):
                return f"{which}{short} {value:{form if abs(value) < 1e6 else '.2g'}}"
    return ""
