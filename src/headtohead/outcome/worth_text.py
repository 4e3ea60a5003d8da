"""What an effect is worth, in words: a factor of the control's training, and differences at equal cost."""

from __future__ import annotations

from headtohead.outcome.equivalents import Ratio, Shifted, Worth
from headtohead.outcome.metrics import better_way, effect_text
from headtohead.outcome.outcome import Verdicts


def worth_lines(verdicts: Verdicts) -> list[str]:
    """A line for each arm that is better or worse, if the control was trained at other lengths."""
    decided = [row for row in verdicts if row.verdict.verdict in ("better", "worse") and not row.verdict.descriptive]
    found = ((row.arm, row.worth) for row in decided)
    return [f"{arm}: {worth_text(w, verdicts.metric)}" for arm, w in found if w is not None and w.seeds]


def worth_text(w: Worth, metric: str) -> str:
    """Rope's worth in one line, such as: equal to 1.18 × the training tokens of the control (1.05 to 1.33); …"""
    time = "" if w.time is None else f", with {time_text(w.time)} of its time per step"
    return (
        f"{factor_text(w, metric)}; at equal FLOPs {shifted_text(w.at_equal_flops, metric)}; "
        f"at equal seconds {shifted_text(w.at_equal_seconds, metric)}{time}"
    )


def factor_text(w: Worth, metric: str) -> str:
    """The factor of the control's training with its 95 % interval, or why there is none."""
    unit = "tokens" if better_way(metric) == "lower" else "steps"
    what = f"× the training {unit} of the control"
    if w.reach is None or w.why:
        return f"worth in training {unit} not known: {w.why}"
    shortest, longest = (f"{end:.2g}" for end in w.reach)
    if w.low is None and w.high is None:
        return (
            f"worth in training {unit} cannot be told: more training changes the control too little or too irregularly"
        )
    if w.beyond == "above":
        return f"equal to more than {longest} {what} (at least {w.low:.2f})"
    if w.beyond == "below":
        return f"equal to less than {shortest} {what} (at most {w.high:.2f})"
    low = f"below {shortest}" if w.low is None else f"{w.low:.2f}"
    high = f"above {longest}" if w.high is None else f"{w.high:.2f}"
    return f"equal to {w.factor:.2f} {what} ({low} to {high})"


def shifted_text(shifted: Shifted | None, metric: str) -> str:
    """A difference at equal cost with its 95 % interval."""
    if shifted is None:
        return "not known"
    return effect_text(metric, shifted.difference, shifted.low, shifted.high)


def time_text(ratio: Ratio) -> str:
    """1.03 × (1.01 to 1.05)"""
    return f"{ratio.value:.2f} × ({ratio.low:.2f} to {ratio.high:.2f})"
