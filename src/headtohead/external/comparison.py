"""Reads figures that were made elsewhere and judges them: what `h2h compare` and `h2h.compare()` call."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from headtohead.errors import InputError
from headtohead.external import lm_eval, tables, text_logs
from headtohead.external.arms import find_control
from headtohead.external.items import ItemVerdict, by_arm, compare_items
from headtohead.external.reading import read_samples, read_sources, read_tables
from headtohead.external.replicates import split_missing, without_identical, without_repeats
from headtohead.external.sources import FORMATS, Source, find_sources
from headtohead.external.values import TAKES, Asked, Reading, Take, Value, better_of
from headtohead.outcome.metrics import absolute, read_amount
from headtohead.stats import LEAST_PAIRS, Verdict, Way, compare_all
from headtohead.stats.unpaired import LEAST_RUNS, UnpairedVerdict, compare_unpaired

if TYPE_CHECKING:
    import pandas as pd

AnyVerdict = Verdict | UnpairedVerdict | ItemVerdict
Design = Literal["paired", "unpaired", "items"]


@dataclass(frozen=True)
class Comparison:
    """Arms against a control. `print(comparison)` shows what was read and the verdicts."""

    reading: Reading  # what was read from which files
    control: str  # the arm that the others are compared with
    better: Way  # lower or higher
    design: Design  # pairs of equal seeds, runs with unrelated seeds, or test items
    verdicts: Mapping[str, AnyVerdict]  # arm → verdict; the control is not in it
    means: Mapping[str, float]  # arm → mean, the control first
    values: Sequence[Value]  # that the verdicts rest on; empty for test items
    missing: Sequence[str]  # runs or items without a value
    notes: Sequence[str]

    @property
    def metric(self) -> str:
        """What was compared, such as "loss"."""
        return self.reading.metric

    def frame(self) -> pd.DataFrame:
        """One row per arm, the control first."""
        import pandas as pd

        rows: list[dict[str, Any]] = [{"arm": self.control, "mean": self.means[self.control], "verdict": "control"}]
        rows += [{"arm": arm, "mean": self.means[arm], **v.to_json()} for arm, v in self.verdicts.items()]
        return pd.DataFrame(rows)

    def to_json(self) -> dict[str, Any]:
        """Everything as JSON types; numbers that are not finite are null."""
        return _finite(
            {
                "metric": self.metric,
                "better": self.better,
                "control": self.control,
                "design": self.design,
                "format": self.reading.format,
                "files": list(self.reading.files),
                "read": list(self.reading.how),
                "means": dict(self.means),
                "verdicts": {arm: verdict.to_json() for arm, verdict in self.verdicts.items()},
                "values": [vars(value) for value in self.values],
                "missing": list(self.missing),
                "notes": list(self.notes),
            }
        )

    def __str__(self) -> str:
        from headtohead.external.wording import text_of

        return text_of(self)


def compare_sources(
    sources: Sequence[Any],
    against: Sequence[Sequence[str | Path]] = (),
    *,
    metric: str | None = None,
    arm: str | None = None,
    seed: str | None = None,
    control: str | None = None,
    better: Way | None = None,
    margin: float | str | None = None,
    take: Take = "last",
    step: int | None = None,
    pattern: str | None = None,
    seed_pattern: str | None = None,
    average_repeats: bool = False,
) -> Comparison:
    """Read files, folders or a data frame, and compare every arm with the control."""
    if take not in TAKES:
        raise InputError(f"take is last, first or best, not '{take}'")
    if step is not None and take != "last":
        raise InputError(f"a step and '{take}' exclude each other: give one of them")
    if margin is not None:
        read_amount(margin)  # fail before reading
    asked = Asked(
        metric,
        arm,
        seed,
        better,
        take,
        step,
        text_logs.compiled("--pattern", pattern, r"loss=([0-9.]+)") if pattern is not None else None,
        text_logs.compiled("--seed-pattern", seed_pattern, r"run(\d+)") if seed_pattern is not None else None,
    )
    odd = next((s for s in sources if not isinstance(s, str | Path) and not hasattr(s, "to_dict")), None)
    if odd is not None:
        raise InputError(
            f"give files, folders or a data frame, not a {type(odd).__name__}; for values that are paired already, "
            "call headtohead.stats.compare(control, variant)"
        )
    frames = [source for source in sources if hasattr(source, "to_dict")]
    if frames:
        if len(sources) > 1 or against:
            raise InputError("give one data frame, with a column of arms")
        reading = read_tables([(None, tables.frame_table(frames[0]))], asked)
    else:
        found = find_sources([list(sources), *against], is_log=pattern is not None)
        if found[0].kind == "lm-eval":
            samples = read_samples(found, asked)
            if isinstance(samples, tuple):
                return _judge_items(*samples, found, asked, control, margin)
            reading = samples
        else:
            reading = read_sources(found, asked)
    return _judge(reading, asked, control, margin, average_repeats)


# -- judging -----------------------------------------------------------------------------------------------------------


def _judge(
    reading: Reading, asked: Asked, control: str | None, margin: float | str | None, average: bool
) -> Comparison:
    arms = list(dict.fromkeys(value.arm for value in reading.values))
    _check_arms(arms, reading)
    better = better_of(reading.metric, asked.better)
    base = find_control(arms, control)
    arms = [base, *(arm for arm in arms if arm != base)]
    there, missing, notes = split_missing(reading.values)
    for name in arms:
        if not any(value.arm == name for value in there):
            raise InputError(
                f"{name} has no value of {reading.metric} that is a number: leave the arm out or run it again"
            )
    there, averaged = without_repeats(there, average)
    there, once = without_identical(there, average)
    notes = [*reading.notes, *notes, *averaged, *once]
    runs = {name: [value for value in there if value.arm == name] for name in arms}
    means = {name: _mean([value.value for value in own]) for name, own in runs.items()}
    amount = None if margin is None else absolute(margin, means[base])
    if margin is not None and not amount:
        raise InputError(f"the margin {margin} of a mean of 0 is 0: give the margin as a number")
    verdicts: Mapping[str, AnyVerdict]
    if _is_paired(base, runs):
        design: Design = "paired"
        seeds = list(dict.fromkeys(v.seed for v in there))
        table = {name: {v.seed: v.value for v in own} for name, own in runs.items()}
        columns = {name: [own.get(s, math.nan) for s in seeds] for name, own in table.items()}
        verdicts = compare_all(columns.pop(base), columns, amount, better=better)
        notes += _unmatched(base, runs)
    else:
        design = "unpaired"
        columns = {name: [v.value for v in own] for name, own in runs.items()}
        verdicts = compare_unpaired(columns.pop(base), columns, amount, better=better)
    lost = [f"{value.named} ({value.source}): {_said(value.value)}" for value in missing]
    return Comparison(reading, base, better, design, verdicts, means, there, lost, notes)


def _check_arms(arms: Sequence[str], reading: Reading) -> None:
    if len(arms) < 2:
        raise InputError(
            f"only one arm was found, '{arms[0]}' ({', '.join(reading.how[:1])}): name the column or field of the arms "
            "with --arm, or give the other runs after --against"
        )


def _is_paired(control: str, runs: Mapping[str, Sequence[Value]]) -> bool:
    """Whether every arm with enough runs for a verdict has enough seeds in common with the control."""
    seeds = {name: {value.seed for value in own} - {None} for name, own in runs.items()}
    matched = {name: len(seeds[name] & seeds[control]) for name in runs if name != control}
    return any(n >= LEAST_PAIRS for n in matched.values()) and all(
        n >= LEAST_PAIRS or len(runs[name]) < LEAST_RUNS for name, n in matched.items()
    )


def _unmatched(control: str, runs: Mapping[str, Sequence[Value]]) -> list[str]:
    """Runs that have no partner with the same seed."""
    own = {value.seed for value in runs[control]}
    notes = []
    for name in (name for name in runs if name != control):
        seeds = {value.seed for value in runs[name]}
        for lacking, owner, other in ((own - seeds, control, name), (seeds - own, name, control)):
            if lacking:
                listed = ", ".join(sorted(map(str, lacking), key=lambda s: (len(s), s)))
                notes.append(f"{owner}, seed {listed}: not paired, because {other} has no value for it")
    return notes


def _judge_items(
    metric: str,
    samples: Sequence[lm_eval.Samples],
    found: Sequence[Source],
    asked: Asked,
    control: str | None,
    margin: float | str | None,
) -> Comparison:
    arms, missing = by_arm(samples)
    how = ["arms from names", "paired by test item"]
    tasks = sorted({one.task for one in samples} - {""})
    if tasks:
        how.append(f"task{'s' if len(tasks) > 1 else ''} {', '.join(tasks)}")
    reading = Reading(FORMATS["lm-eval"], metric, (), [source.shown for source in found], how)
    _check_arms(list(arms), reading)
    base = find_control(list(arms), control)
    better = better_of(metric, asked.better)
    arms = {base: arms[base], **arms}
    mean = _mean([v for v in arms[base].values() if math.isfinite(v)])
    amount = None if margin is None else absolute(margin, mean)
    verdicts, means, notes = compare_items(base, arms, amount or None, better)
    return Comparison(reading, base, better, "items", verdicts, means, (), missing, notes)


def _mean(values: Sequence[float]) -> float:
    return math.fsum(v / len(values) for v in values)  # does not overflow


def _said(value: float) -> str:
    return "no value" if math.isnan(value) else "infinite"


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(v) for key, v in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(v) for v in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
