"""A claim in numbers: the difference on one scale, the runs, the spread, and how each of them was read."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal

from headtohead.claimcheck.scale import SHARES, OnScale, check_size, on_scale
from headtohead.claimcheck.sentence import Said, SpreadIs, is_of_errors, read_amount, read_sentence, unknown_figure
from headtohead.errors import InputError, nearest
from headtohead.outcome.metrics import FIGURES, better_way, figure_of

MOST_RUNS = 100_000


@dataclass(frozen=True)
class Asked:
    """What the options say. They replace what the sentence says."""

    claim: str = ""
    difference: float | str | None = None  # variant − control
    runs: int | None = None
    control_runs: int | None = None
    metric: str | None = None
    task: str | None = None
    variant: str | None = None
    control: str | None = None
    control_mean: float | None = None
    spread: float | None = None
    spread_is: SpreadIs | None = None
    sd: float | None = None
    sd_runs: int | None = None
    paired: bool = False
    tried: int = 1


@dataclass(frozen=True)
class Claim:
    """A claimed difference, variant − control, with everything that was understood."""

    variant: str
    control: str
    task: Literal["lm", "classifier"]
    metric: str  # SET/FIGURE
    asked_metric: bool  # whether the user named the set
    written: OnScale
    runs: int
    control_runs: int
    paired: bool
    spreads: tuple[float | None, float | None]  # of variant and control, on the scale: sd between runs
    pair_sd: float | None  # sd between the differences of pairs, on the scale
    tried: int
    read: tuple[str, ...]  # how ambiguous things were read

    @property
    def figure(self) -> str:
        return figure_of(self.metric)

    @property
    def better(self) -> Literal["lower", "higher"]:
        return better_way(self.metric)

    @property
    def difference(self) -> float | None:
        """On the scale of `scale`; None: it needs the control's mean."""
        return self.written.difference

    @property
    def unit(self) -> float:
        """What written numbers are multiplied with for the scale; nan: it needs the control's mean."""
        return self.written.unit

    @property
    def control_mean(self) -> float | None:
        return self.written.level

    def at_level(self, mean: float | None) -> Claim:
        """The claim with its difference, if that needs the control's mean."""
        if self.written.amount is None:
            return self
        level = self.control_mean if self.control_mean is not None else mean
        if level is None or not level > 0:
            example = "--control-mean 120" if self.figure == "perplexity" else "--control-mean 2.5"
            raise InputError(
                f"this difference of {self.figure} depends on the control's mean: write 'from … to …', or add {example}"
            )
        return replace(self, written=replace(self.written.at(level, self.figure), level=level))


def understand(asked: Asked) -> Claim:
    """The claim of a sentence and options. Raises InputError with one line that names what is missing."""
    said = read_sentence(asked.claim) if asked.claim else Said()
    if not asked.claim and asked.difference is None:
        raise InputError(
            'say the claim: h2h check-claim "Rope beats Learned by 1.2 points, one run each", or --difference'
        )
    if asked.difference is not None:
        by, named = read_amount(asked.difference)
        said = replace(said, by=by, values=None, way="", figure=named or said.figure)
    if said.by is None and said.values is None:
        raise InputError("the sentence does not say by how much: add 'by 1.2 points', or give --difference 1.2")
    task, metric, read = _metric(asked, said)
    figure = figure_of(metric)
    read += [f"not used: {', '.join(said.ignored)}"] if said.ignored else []
    runs, control_runs = _runs(asked, said)
    written = on_scale(said, figure, asked.control_mean, asked.difference is not None)
    claim = Claim(
        variant=asked.variant or said.variant,
        control=asked.control or said.control,
        task=task,
        metric=metric,
        asked_metric=asked.metric is not None,
        written=written,
        runs=runs,
        control_runs=control_runs,
        paired=asked.paired or said.paired,
        spreads=(None, None),
        pair_sd=None,
        tried=_tried(asked.tried),
        read=(*read, *written.read),
    )
    claim = _with_spread(claim, asked, said)
    if claim.paired and claim.runs != claim.control_runs:
        raise InputError("pairs need as many runs of the control as of the variant: leave out --paired")
    return claim


# -- metric and runs ---------------------------------------------------------------------------------------------------


def _metric(asked: Asked, said: Said) -> tuple[Literal["lm", "classifier"], str, list[str]]:
    read: list[str] = []
    if asked.task is not None and asked.task not in FIGURES:
        raise InputError(f"--task is lm or classifier, not '{asked.task}'")
    figure = figure_of(asked.metric) if asked.metric else said.figure
    if not figure and (other := unknown_figure(asked.claim)):
        raise InputError(
            f"{other} is a figure whose noise is not known here: measure it and use h2h compare, or name with --metric "
            "the figure that has the same noise"
        )
    if not figure and is_of_errors(asked.claim):
        raise InputError("errors are read as accuracy only if you turn them round: write '2 points of accuracy better'")
    of_share = said.by is not None and said.by.unit in ("points", "percent")
    of_share |= said.values is not None and said.values[0].unit in ("points", "percent")
    if not figure and asked.task == "lm" and of_share and not _is_points(said):
        raise InputError("the claim does not name its figure: add 'loss' or 'perplexity', or give --metric test/loss")
    if not figure and of_share:
        figure = "accuracy"
        read.append("points without a figure are points of accuracy (--metric names another)")
    if not figure:
        raise InputError(
            "the claim does not say which figure: add 'points', 'nats' or 'perplexity', or give --metric test/accuracy"
        )
    known = sorted({name for names in FIGURES.values() for name in names})
    if figure not in known:
        raise InputError(f"no figure '{figure}': {nearest(figure, known)}")
    task = asked.task or ("classifier" if figure in SHARES else "lm")
    if figure not in FIGURES[task]:
        others = ", ".join(FIGURES[task])
        kind = "language model" if task == "lm" else "classifier"
        raise InputError(f"a {kind} has no {figure}: give --task, or a --metric with one of {others}")
    metric = asked.metric or f"{'validation' if said.validation else 'test'}/{figure}"
    return ("lm" if task == "lm" else "classifier"), metric, read


def _is_points(said: Said) -> bool:
    amounts = [said.by, *(said.values or ())]
    return any(a is not None and a.unit == "points" for a in amounts)


def _runs(asked: Asked, said: Said) -> tuple[int, int]:
    runs = said.runs if asked.runs is None else asked.runs
    if runs is None:
        raise InputError("the claim does not say how many runs: add 'one run each' or '(3 seeds)', or give --runs 1")
    control = runs if asked.control_runs is None else asked.control_runs
    for option, count in (("--runs", runs), ("--control-runs", control)):
        if not 1 <= count <= MOST_RUNS:
            raise InputError(f"{option} is a number of runs from 1 to {MOST_RUNS:,}, not {count}")
    return runs, control


def _tried(count: int) -> int:
    if not 1 <= count <= MOST_RUNS:
        raise InputError(f"--tried is a number of variants from 1 to {MOST_RUNS:,}, not {count}")
    return count


# -- the spread --------------------------------------------------------------------------------------------------------


def _with_spread(claim: Claim, asked: Asked, said: Said) -> Claim:
    """The claim with the numbers after ±, as standard deviations between runs or between pairs."""
    kind = asked.spread_is or said.spread_is or "sd"
    if kind not in ("sd", "se"):
        raise InputError(f"--spread-is takes sd or se, not '{kind}'")
    if asked.sd is not None:
        return claim  # the noise is given
    written = [a.spread for a in said.values] if said.values else [said.by.spread if said.by else None]
    of_runs = said.spread if asked.spread is None else asked.spread
    if of_runs is not None:
        written = [of_runs, of_runs]
    if not any(one is not None for one in written):
        return claim
    if any(one is not None and one <= 0 for one in written):
        raise InputError("a spread of zero says nothing about chance: leave it out, or give --sd")
    for one in written:
        check_size("a spread", one or 0.0)
    if min(claim.runs, claim.control_runs) < 2:
        raise InputError(
            "a single run has no spread between seeds: leave the number after ± out, or say with --runs how many runs "
            "it is from"
        )
    claim = claim.at_level(None)
    chosen = "" if asked.spread_is or said.spread_is else " (--spread-is se for a standard error)"
    name = "standard deviation" if kind == "sd" else "standard error"
    of_difference = len(written) == 1
    if of_difference:
        read = f"± is read as the {name} of the differences between pairs{chosen}; --sd gives that between runs"
        sd = (written[0] or 0.0) * claim.unit * (math.sqrt(claim.runs) if kind == "se" else 1.0)
        return replace(claim, pair_sd=sd, paired=True, read=(*claim.read, read))
    read = f"± is read as the {name} of {'the runs' if kind == 'sd' else 'a mean'}{chosen}"
    counts = (claim.runs, claim.control_runs)
    sds = [
        None if one is None else one * claim.unit * (math.sqrt(n) if kind == "se" else 1.0)
        for one, n in zip(written, counts, strict=True)
    ]
    return replace(claim, spreads=(sds[0], sds[1]), read=(*claim.read, read))
