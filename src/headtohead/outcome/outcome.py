"""The outcome of a study, read from the store: a row for each run, a verdict for each arm. Imports no torch."""

from __future__ import annotations

import dataclasses
import math
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache, cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple
from urllib.parse import quote

import numpy as np

from headtohead.errors import InputError, nearest
from headtohead.outcome import equivalents
from headtohead.outcome.cautions import cautions
from headtohead.outcome.items import Summary, compare_items
from headtohead.outcome.metrics import absolute, limits_text, sets_of, training_text, value_of
from headtohead.outcome.plans import plan_text
from headtohead.outcome.plateaus import plateau_warnings
from headtohead.run import files, store
from headtohead.run.results import Times
from headtohead.run.store import Record
from headtohead.run.studies import ArmRecord, StudyRecord, read_study
from headtohead.stats import CrossedTest, Design, ItemTest, Verdict, compare, compare_all

if TYPE_CHECKING:
    import pandas as pd

    from headtohead.outcome.equivalents import Lengths, Ratio, Worth
    from headtohead.outcome.serving import Served

ENDED = ("complete", "diverged", "collapsed")  # states of a run that has a result
TO_COME = ("missing", "running", "stopped", "damaged")  # states of a run that is to be trained to its end


def load_outcome(folder: Path) -> Outcome:
    return Outcome(folder, read_study(folder))


@dataclass(frozen=True)
class RunRow:
    """One run of one arm, with the values that a verdict needs."""

    arm: str
    seed: int
    run: str
    status: str  # complete, diverged, collapsed, failed, running, stopped, missing, damaged
    why: str  # why there is no value
    value: float
    parameters: int | None = None
    flops: int | None = None
    step_ms: float | None = None
    steps: int | None = None
    finished: float = 0.0  # seconds since 1970
    values: dict[str, Any] = dataclasses.field(default_factory=dict)


class Excluded(NamedTuple):
    """A run without a value, whose pair is left out."""

    seed: int
    arm: str
    why: str


@dataclass(frozen=True)
class ArmVerdict:
    """An arm's row of the table."""

    arm: str
    differs: dict[str, str]
    mean: float  # of the metric over the pairs
    verdict: Verdict
    extra_parameters: int | None
    extra_time: float | None  # share of the control's time per step: geometric mean of the pairs, minus 1
    extra_flops: float | None  # share of the control's
    items: ItemTest | None  # if only the test texts were resampled
    items_agree: int | None  # of those pairs, how many have an exact McNemar p of at most 0.05
    items_pairs: int  # pairs that were compared item by item
    excluded: tuple[Excluded, ...]
    later: bool = False  # added after verdicts had been shown: no planned analysis judges it
    dropped: bool = False  # no longer in the recipe, yet part of the family
    seeds: tuple[int, ...] = ()  # that it was trained with, or is to be
    crossed: CrossedTest | None = None  # over other seeds and other test texts
    time: Ratio | None = None  # `extra_time` as a factor, with its interval; `worth` has it too
    compute_worth: Callable[[], Worth | None] = dataclasses.field(default=lambda: None, compare=False, repr=False)

    @property
    def worth(self) -> Worth | None:
        """The effect as a factor of the control's training, at equal FLOPs and at equal seconds."""
        return self.compute_worth()

    def to_json(self) -> dict[str, Any]:
        said = {
            k: v for k, v in vars(self).items() if k not in ("verdict", "items", "crossed", "time", "compute_worth")
        }
        return {
            **said,
            **self.verdict.to_json(),
            "items": self.items and dataclasses.asdict(self.items),
            "crossed": self.crossed and dataclasses.asdict(self.crossed),
            "excluded": [e._asdict() for e in self.excluded],
            "worth": self.worth and self.worth.to_json(),
        }


@dataclass(frozen=True)
class Noise:
    """The control against itself: with reshuffled batches (a new run), or with weights perturbed by 1e-6 (numerical
    chaos). The true difference is zero."""

    verdict: Verdict
    extra_time: float | None
    time: Ratio | None = None


@dataclass(frozen=True)
class Verdicts:
    """The answer to a study's question: `print(verdicts)` shows the table, `verdicts["Rope"]` is one arm.

    Iterating gives the arms. The control is always named, and has no verdict.
    """

    question: str
    metric: str  # such as test/loss
    better: str  # lower or higher
    title: str  # of a tuned study: own best, or shared
    control: str
    control_mean: float
    control_excluded: tuple[Excluded, ...]
    arms: tuple[ArmVerdict, ...]
    noise: Noise | None  # a new run of the control
    seeds: int
    scope: str
    notes: tuple[str, ...]
    chaos: Noise | None = None  # the control with perturbed weights
    planned: Design | None = None  # the analyses
    plan: str = ""  # what was planned, shown and changed, in sentences
    published: float | None = None  # a published difference
    training: str = ""  # how the control is trained: optimizer, schedule and clipping

    def __iter__(self) -> Iterator[ArmVerdict]:
        return iter(self.arms)

    def __len__(self) -> int:
        return len(self.arms)

    def __getitem__(self, arm: str) -> ArmVerdict:
        for row in self.arms:
            if row.arm == arm:
                return row
        raise InputError(f"no arm '{arm}' in this study: {nearest(arm, (row.arm for row in self.arms))}")

    def frame(self) -> pd.DataFrame:
        """One row per arm: difference, interval, p, verdict, pairs, cost."""
        import pandas as pd

        left_out = ("items", "crossed", "excluded", "differs", "worth")
        rows = [
            {k: v for k, v in row.to_json().items() if k not in left_out} | equivalents.columns(row.worth)
            for row in self.arms
        ]
        return pd.DataFrame(rows).set_index("arm") if rows else pd.DataFrame()

    def __str__(self) -> str:
        """The table as a terminal shows it."""
        import io

        from headtohead.display.console import Console
        from headtohead.display.study import show

        out = io.StringIO()
        show(self, Console(file=out, width=100))
        return out.getvalue()

    def to_json(self) -> dict[str, Any]:
        floors = {
            name: floor and {**floor.verdict.to_json(), "extra_time": floor.extra_time}
            for name, floor in (("noise_floor", self.noise), ("chaos_floor", self.chaos))
        }
        said = {k: v for k, v in vars(self).items() if k not in ("arms", "noise", "chaos")}
        said["control_excluded"] = [e._asdict() for e in self.control_excluded]
        said["planned"] = self.planned and dataclasses.asdict(self.planned)
        return {**said, "arms": [row.to_json() for row in self.arms], **floors}

    def _repr_html_(self) -> str:
        from headtohead.report.page import verdict_table

        return str(verdict_table(self))


@dataclass(frozen=True)
class Outcome:
    """What came of a study, read from the store: rows of runs, and a verdict for each arm.

    `Study.run()` and `Study.outcome()` return it.
    """

    folder: Path
    record: StudyRecord

    @property
    def home(self) -> Path:
        return self.folder.parent.parent

    @property
    def metric(self) -> str:
        """What the verdicts are about, such as "test/loss"."""
        return self.record.metric

    @property
    def titles(self) -> list[str]:
        return [table.title for table in self.record.tables]

    # -- runs ----------------------------------------------------------------------------------------------------------

    @cached_property
    def rows(self) -> dict[tuple[str, str], list[RunRow]]:
        """Every arm's runs, by its table and its name; seeds in order."""
        return {
            (table.title, arm.name): self._rows(arm.name, arm.runs)
            for table in self.record.tables
            for arm in table.arms
        }

    @cached_property
    def again(self) -> list[RunRow]:
        """The control's runs with reshuffled batches."""
        return self._rows("control again", self.record.again)

    @cached_property
    def perturbed(self) -> list[RunRow]:
        """The control's runs with perturbed weights."""
        return self._rows("control perturbed", self.record.chaos)

    @property
    def all_rows(self) -> list[RunRow]:
        return [row for rows in (*self.rows.values(), self.again, self.perturbed) for row in rows]

    def _rows(self, arm: str, runs: dict[int, str]) -> list[RunRow]:
        return [self._row(arm, seed, run) for seed, run in runs.items() if seed in self.record.seeds]

    def _row(self, arm: str, seed: int, run: str) -> RunRow:
        record = Record.at(self.home, run)
        if not record.exists:
            why = record.failure
            return RunRow(arm, seed, run, "failed" if why else "missing", why or "not trained yet", math.nan)
        try:
            return self._read(RunRow(arm, seed, run, "failed", "", math.nan), record)
        except InputError as error:
            status = "damaged" if record.has_result and record.damage else "failed"
            return RunRow(arm, seed, run, status, str(error), math.nan)
        except (KeyError, TypeError, ValueError):
            why = f"{record.folder / files.RESULT} is not whole: set it aside and train again"
            return RunRow(arm, seed, run, "failed", why, math.nan)

    def _read(self, row: RunRow, record: Record) -> RunRow:
        result, status = record.result, record.state
        if result is None:
            return dataclasses.replace(row, status=status, why=record.failure or f"its run is {status}")
        value, why = math.nan, result.ended
        if status == "complete":
            value = value_of(result, self.metric)
            why = "" if math.isfinite(value) else f"its {self.metric} is too large to be written"
            status = status if math.isfinite(value) else "diverged"
            stuck = _stuck(result.values, result.labels)
            if stuck and status == "complete":
                status, why, value = "collapsed", stuck, math.nan
        try:
            times = record.times
        except InputError:  # only its time is lost
            times = Times()
        return dataclasses.replace(
            row,
            status=status,
            why=why,
            value=value,
            parameters=result.parameters,
            flops=result.flops_per_step,
            step_ms=times.step_ms,
            steps=result.steps,
            finished=datetime.fromisoformat(times.finished).timestamp(),
            values=result.values,
        )

    def results(self) -> pd.DataFrame:
        """One row per run: arm, seed, status, the metric, cost, and every other figure."""
        import pandas as pd

        made = []
        for (title, _), rows in [*self.rows.items(), (("", ""), self.again), (("", ""), self.perturbed)]:
            for row in rows:
                said = {k: v for k, v in vars(row).items() if k not in ("values", "value")}
                held = {k: v for k, v in row.values.items() if isinstance(v, float)}
                made.append({**({"tuned": title} if title else {}), **said, self.metric: row.value} | held)
        return pd.DataFrame(made)

    def long(self, items: bool = False) -> pd.DataFrame:
        """One row per figure of a run: arm, seed, step, metric, value; with `items` also those of single texts."""
        from headtohead.outcome.long_table import long_table

        return long_table(self, items)

    def export(self, folder: str | Path, format: Literal["csv", "parquet"] = "csv", items: bool = False) -> list[Path]:
        """Write the long table into a new folder, with scripts in Python and R that reproduce the verdicts; return the
        paths."""
        from headtohead.outcome.long_table import export_table

        return export_table(self, folder, format, items)

    # -- verdicts ------------------------------------------------------------------------------------------------------

    @property
    def verdicts(self) -> Verdicts:
        """The verdict on every arm. In a tuned study, every arm is at its own best settings."""
        return self.table(self.titles[0])

    def table(self, title: str) -> Verdicts:
        """One table of the study by its title. A tuned study has two: "own best" and "shared"."""
        if title not in self._judged:
            self._judged[title] = self._judge(title)
        return self._judged[title]

    @cached_property
    def _judged(self) -> dict[str, Verdicts]:
        return {}

    @cached_property
    def _torn(self) -> list[str]:
        """Files of items that could not be read, for the notes."""
        return []

    @cached_property
    def _read_items(self) -> dict[str, Summary | None]:
        return {}

    def _judge(self, title: str) -> Verdicts:
        arms = self.record.table(title).arms
        control = self.rows[title, arms[0].name]
        base = _values(control)
        mean = float(np.nanmean(base)) if np.isfinite(base).any() else math.nan
        asked = self.record.margin
        margin = None if asked is None or not math.isfinite(mean) else absolute(asked, mean)
        variants = {arm.name: self.rows[title, arm.name] for arm in arms[1:]}
        judged = compare_all(
            base,
            {name: _values(rows, control) for name, rows in variants.items()},
            margin,
            better=self.record.better,
            design=self.record.planned,
            later=self.record.later,
            ended=self._ended_pairs(title),
        )
        judged = {name: not_by_survivors(verdict, control, variants[name]) for name, verdict in judged.items()}
        lengths = cache(partial(equivalents.read_lengths, self, title))
        made = [self._arm(arm, control, variants[arm.name], judged[arm.name], lengths) for arm in arms[1:]]
        return Verdicts(
            question=self.record.question,
            metric=self.metric,
            better=self.record.better,
            title=title,
            control=arms[0].name,
            control_mean=mean,
            control_excluded=_without(control),
            arms=tuple(made),
            noise=self._noise(control, self.again),
            seeds=len(self.record.seeds),
            scope=self._scope(control),
            notes=(*self._notes(control, variants), *plateau_warnings(self, title)),
            chaos=self._noise(control, self.perturbed),
            planned=self.record.planned,
            plan=plan_text(self.folder, self.record),
            published=self.record.published,
            training=training_text(arms[0].spec),
        )

    def _ended_pairs(self, title: str) -> int | None:
        """The number of pairs before the first that still has a run to train. A planned analysis waits for its pairs,
        or an interrupted study would make it twice, with different runs. None: all pairs of an older version."""
        if self.record.design is None:
            return None
        arms = [arm.name for arm in self.record.table(title).arms if not arm.dropped]
        planned = [self.rows[title, name] for name in arms if name not in self.record.later]
        to_come = {row.seed for rows in planned for row in rows if row.status in TO_COME}
        return next((n for n, row in enumerate(planned[0]) if row.seed in to_come), len(planned[0]))

    def differences(self, title: str) -> dict[str, dict[int, float]]:
        """The difference of each arm from the control, by arm and seed, where both have a value."""
        first, *others = (arm.name for arm in self.record.table(title).arms)
        base = {row.seed: row.value for row in self.rows[title, first]}
        found = {}
        for name in others:
            pairs = ((row.seed, row.value - base.get(row.seed, math.nan)) for row in self.rows[title, name])
            found[name] = {seed: d for seed, d in pairs if math.isfinite(d)}
        return found

    def to_json(self) -> dict[str, Any]:
        tables = [store.plain(self.table(title).to_json()) for title in self.titles]
        report = str(self.report())
        return {"folder": str(self.folder), "report": report, "warnings": self.warnings, "tables": tables}

    @property
    def warnings(self) -> list[str]:
        """Warnings of the runs, arm by arm; a warning of all arms is given once."""
        found: dict[str, list[str]] = {}
        arms = {name: rows for (_, name), rows in self.rows.items()}
        for name, rows in arms.items():
            ended = sorted((row for row in rows if row.status in ENDED), key=lambda row: row.status != "complete")
            result = Record.at(self.home, ended[0].run).result if ended else None
            for warning in result.warnings if result else ():
                found.setdefault(warning, []).append(name)
        return [line if len(names) == len(arms) else f"{', '.join(names)}: {line}" for line, names in found.items()]

    def report(self) -> Path:
        """The HTML report of the study. It is written again only if a run or the study has changed."""
        from headtohead.report.page import written_report

        return written_report(self)

    def serve(self, **options: Any) -> Served:
        """Show the study in the workbench, as `h2h serve` does; `options` are those of `outcome.serving.serve`. The
        server ends with `stop()`, with the block of a `with`, or with this process. A notebook shows the page."""
        from headtohead.outcome.serving import serve

        return serve(self.home, f"/study/{quote(self.folder.name, safe='')}", **options)

    @property
    def failed(self) -> bool:
        """Whether a run could not be trained."""
        return any(row.status == "failed" for row in self.all_rows)

    def _arm(
        self,
        arm: ArmRecord,
        control: list[RunRow],
        rows: list[RunRow],
        verdict: Verdict,
        lengths: Callable[[], Lengths | None],
    ) -> ArmVerdict:
        by_seed = {row.seed: row for row in rows}
        pairs = [(c, by_seed[c.seed]) for c in control if c.seed in by_seed]
        both = [(c, v) for c, v in pairs if c.status == v.status == "complete"]
        pairs_of_runs = [] if self.changes_tokens else [(c.run, v.run) for c, v in both]
        items = compare_items(self.home, self.metric, pairs_of_runs, self._read_items)
        self._torn.extend([items.trouble] if items.trouble else [])
        return ArmVerdict(
            arm=arm.name,
            differs=arm.differs,
            mean=float(np.mean([v.value for _, v in both])) if both else math.nan,
            verdict=verdict,
            extra_parameters=(both[0][1].parameters or 0) - (both[0][0].parameters or 0) if both else None,
            extra_time=equivalents.time_share(both),
            extra_flops=_extra_flops(both),
            items=items.texts,
            items_agree=items.agree,
            items_pairs=items.pairs,
            excluded=_without(rows),
            later=arm.name in self.record.later,
            dropped=arm.dropped,
            seeds=tuple(by_seed),
            crossed=items.crossed,
            time=equivalents.time_ratio(both),
            compute_worth=cache(lambda: equivalents.worth(both, lengths(), self.record.better)),
        )

    def _noise(self, control: list[RunRow], again: list[RunRow]) -> Noise | None:
        if not again:
            return None
        by_seed = {row.seed: row for row in again}
        both = [(c, by_seed[c.seed]) for c in control if c.seed in by_seed]
        both = [(c, a) for c, a in both if c.status == a.status == "complete"]
        verdict = compare(_values(control), _values(again, control), better=self.record.better)
        return Noise(verdict, equivalents.time_share(both), equivalents.time_ratio(both))

    @property
    def changes_tokens(self) -> bool:
        """Whether arms differ in tokens or texts, so that they have no items in common."""
        tuned = [path for arm in self.record.tuning for path in arm.best]
        return any(path.split(".")[0] in ("tokenizer", "data") for path in (*self.record.vary, *tuned))

    def _scope(self, control: list[RunRow]) -> str:
        done = next((row for row in control if row.status == "complete"), None)
        if done is None:
            ended = {row.status for row in control} & {"diverged", "collapsed", "failed"}
            return f"no run of the control was completed: {' and '.join(sorted(ended)) or 'none is trained yet'}"
        result = Record.at(self.home, done.run).result
        tokens = (result.tokens_per_step if result else 0) * (done.steps or 0)
        return (
            f"{done.parameters:,} parameters, {done.steps:,} steps, about {_rounded(tokens)} training tokens, "
            f"{corpus_name(self.record.corpus)}, seeds {_ranges(self.record.seeds)}"
            f"{limits_text(self.metric, result.data) if result else ''}"
        )

    def _notes(self, control: list[RunRow], variants: dict[str, list[RunRow]]) -> Iterator[str]:
        names = sets_of(self.metric, _facts(self, control)) if any(r.status == "complete" for r in control) else []
        measured: dict[tuple[Any, ...], str] = {}
        for arm, rows in {control[0].arm: control, **variants}.items():
            done = next((row for row in rows if row.status == "complete"), None)
            if done is not None:
                facts = _facts(self, rows)["sets"]
                sizes = tuple(
                    next((facts[n][k] for k in ("bytes", "texts", "answers") if k in facts.get(n, {})), None)
                    for n in names
                )
                measured.setdefault(sizes, arm)
        windows = self.record.tables[0].control.spec.get("evaluate", {}).get("windows")
        if self.changes_tokens and windows is not None:
            yield f"evaluate.windows={windows} is other text for other tokens: leave it out to compare on all of it"
        yield from dict.fromkeys(f"no test over texts: {trouble}" for trouble in self._torn)
        shown = {row.run for rows in (control, *variants.values()) for row in rows}  # their damage is told with them
        for run in self.record.runs:
            record = Record.at(self.home, run)
            if run not in shown and record.has_result and record.damage:
                yield record.damage_text
            elif run not in shown and record.lost_result:
                yield f"run {run}: {record.lost_result}; continue it: h2h train --resume {run}"
        if len(measured) > 1:
            yield f"{' and '.join(measured.values())} were measured on different texts: their figures do not compare"
        for arm, rows in variants.items():
            if gone := came_to_nothing(rows) ^ came_to_nothing(control):
                yield (
                    f"{arm} or the control diverged or collapsed where the other did not, in {len(gone)} of "
                    f"{len(rows)} pairs: those that are left do not speak for it"
                )
        yield from cautions(self.metric, self.record.task, self.record.tuning, control, variants)


def came_to_nothing(rows: Iterable[RunRow]) -> set[int]:
    """The seeds of runs that diverged or collapsed. They are in no mean."""
    return {row.seed for row in rows if row.status in ("diverged", "collapsed")}


def not_by_survivors(v: Verdict, control: Iterable[RunRow], variant: Iterable[RunRow]) -> Verdict:
    """The verdict, or `unresolved` if it favours an arm that lost seeds its opponent finished: such an arm is not
    judged by its surviving seeds."""
    variant_lost, control_lost = came_to_nothing(variant), came_to_nothing(control)
    in_doubt: set[str] = set()
    if variant_lost - control_lost:
        in_doubt |= {"better", "equivalent"}
    if control_lost - variant_lost:
        in_doubt |= {"worse", "equivalent"}
    return dataclasses.replace(v, verdict="unresolved") if v.verdict in in_doubt else v


def _without(rows: list[RunRow]) -> tuple[Excluded, ...]:
    return tuple(Excluded(row.seed, row.arm, row.why) for row in rows if row.status != "complete")


def _facts(outcome: Outcome, rows: list[RunRow]) -> dict[str, Any]:
    done = next(row for row in rows if row.status == "complete")
    return Record.at(outcome.home, done.run).require_result().data


def _values(rows: list[RunRow], like: list[RunRow] | None = None) -> np.ndarray:
    """Values by seed, in the order of `like`; NaN if a seed has none."""
    by_seed = {row.seed: row.value for row in rows}
    return np.array([by_seed.get(row.seed, math.nan) for row in (like or rows)], dtype=float)


def _extra_flops(both: list[tuple[RunRow, RunRow]]) -> float | None:
    """How many more FLOPs a step of the variant takes, as the median of the pairs."""
    ratios = [v.flops / c.flops for c, v in both if v.flops and c.flops]
    return float(np.median(ratios)) - 1 if ratios else None


def corpus_name(corpus: str) -> str:
    """What a corpus is called in a text: a file by its name, without the folders of this machine."""
    return Path(corpus).name if os.path.isabs(corpus) else corpus


def _rounded(count: int) -> str:
    for size, name in ((10**9, " billion"), (10**6, " million")):
        if count >= size:
            return f"{count / size:.3g}{name}"
    return f"{count:,}"


def _ranges(seeds: Sequence[int]) -> str:
    whole = list(seeds) == list(range(seeds[0], seeds[0] + len(seeds)))
    return f"{seeds[0]}–{seeds[-1]}" if whole else ", ".join(map(str, seeds))


def _stuck(values: dict[str, Any], labels: Sequence[str]) -> str:
    """Why a classifier has collapsed: it gives every text the same label. Such a run is not averaged with runs that
    have learned."""
    confusion = values.get("validation/confusion") or values.get("test/confusion")  # rows: truth; columns: predicted
    if not confusion or sum(map(any, confusion)) < 2:
        return ""
    said = [n for n, column in enumerate(zip(*confusion, strict=True)) if any(column)]
    if len(said) != 1:
        return ""
    return f"collapsed: it calls every text {labels[said[0]] if said[0] < len(labels) else said[0]}"
