"""What came of a study, read from the store: a row a run, a verdict an arm. Imports no torch."""

from __future__ import annotations

import dataclasses
import json
import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from headtohead import store
from headtohead.errors import InputError, nearest
from headtohead.metrics import absolute, figure_of, sets_of, value_of
from headtohead.stats import ItemTest, Verdict, compare, compare_all, mcnemar, over_items
from headtohead.store import Record

if TYPE_CHECKING:
    import pandas as pd

FORMAT = 1
ITEM_PAIRS = 12  # so many pairs of checkpoints are looked at item by item
CLUSTERS = 50  # of neighbouring windows, where a text has no documents


NEEDED = ("id", "question", "metric", "better", "margin", "vary", "seeds", "tables", "again", "tuning", "corpus")


def read_study(folder: Path) -> dict[str, Any]:
    path = folder / "study.json"
    try:
        said = json.loads(path.read_text(encoding="utf-8"))
        newer = said["format"] > FORMAT
        missing = not newer and not all(name in said for name in NEEDED)
        if missing:
            raise KeyError
    except (OSError, ValueError, KeyError, TypeError):
        raise InputError(
            f"{path} cannot be read: it is torn or not ours; set it aside and run the study again"
        ) from None
    if newer:
        raise InputError(f"{path} was written by a newer version of headtohead: update this one to read it")
    return said


def load_outcome(folder: Path) -> Outcome:
    return Outcome(folder, read_study(folder))


def find_study(name: str, home: Path) -> Path:
    """A study's folder by its name; `latest` is the one written last."""
    base = home / "studies"
    known = sorted(f for f in base.iterdir() if (f / "study.json").is_file()) if base.is_dir() else []
    if not known:
        raise InputError(f"there are no studies in {home}: run one with `h2h demo` or `h2h run`")
    if name == "latest":
        files = {f: [f / "study.json", *f.glob("report.html")] for f in known}
        return max(known, key=lambda f: max(file.stat().st_mtime_ns for file in files[f]))
    for folder in known:
        if folder.name == name:
            return folder
    raise InputError(f"no study '{name}' in {home}: {nearest(name, (f.name for f in known))}")


def find_runs(name: str, home: Path) -> list[Record]:
    """By a run's id, the beginning of it or `latest`; or by a study's arm: positions/Rope@3 is its seed 3, and
    positions/Rope all its seeds."""
    if "/" not in name:
        return [store.find_run(name, home)]
    study, _, rest = name.partition("/")
    arm, at, seed = rest.rpartition("@") if re.search(r"@\d+$", rest) else (rest, "", "")
    outcome = load_outcome(find_study(study, home))
    arms = {a["name"]: a["runs"] for table in outcome.said["tables"] for a in table["arms"]}
    arm = arm if arm in arms else next((a for a in arms if a.lower().startswith(arm.lower()) and arm), arm)
    if arm not in arms:
        raise InputError(f"study '{study}' has no arm '{arm}': {nearest(arm, arms)}")
    runs = {int(s): run for s, run in arms[arm].items()}
    if at and int(seed) not in runs:
        raise InputError(f"{study}/{arm} has no seed {seed}: it has {', '.join(map(str, sorted(runs)))}")
    records = [Record(home / "runs" / runs[s]) for s in ([int(seed)] if at else sorted(runs))]
    there = [r for r in records if (r.folder / "run.json").is_file()]
    if not there:
        raise InputError(f"{name} is not trained yet: go on with the study first")
    return there


@dataclass(frozen=True)
class RunRow:
    """One run of one arm, with what a verdict needs of it."""

    arm: str
    seed: int
    run: str
    status: str  # complete, diverged, collapsed, failed, running, stopped, missing
    why: str  # where there is no value
    value: float
    parameters: int | None = None
    flops: int | None = None
    step_ms: float | None = None
    steps: int | None = None
    finished: float = 0.0  # seconds since 1970
    values: dict[str, Any] = dataclasses.field(default_factory=dict)


class Excluded(NamedTuple):
    """A run without a value, and the pair that is left out for it."""

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
    extra_time: float | None  # share of the control's time a step, the middle of the pairs
    extra_flops: float | None  # share of the control's
    items: ItemTest | None  # other texts, these checkpoints
    items_agree: int | None  # of those pairs, how many have an exact McNemar p of at most 0.05
    items_pairs: int  # pairs that were looked at item by item
    excluded: tuple[Excluded, ...]
    dropped: bool = False  # no longer in the recipe, yet part of the family

    def to_json(self) -> dict[str, Any]:
        said = {k: v for k, v in vars(self).items() if k not in ("verdict", "items")}
        items = None if self.items is None else dataclasses.asdict(self.items)
        return {
            **said,
            **dataclasses.asdict(self.verdict),
            "items": items,
            "excluded": [e._asdict() for e in self.excluded],
        }


@dataclass(frozen=True)
class Noise:
    """The control against itself with its batches in another order: what a difference of nothing looks like."""

    verdict: Verdict
    extra_time: float | None


@dataclass(frozen=True)
class Verdicts:
    """The answer to a study's question. The control is always there."""

    question: str
    metric: str
    better: str
    title: str  # of a tuned study: own best, or shared
    control: str
    control_mean: float
    control_excluded: tuple[Excluded, ...]
    arms: tuple[ArmVerdict, ...]
    noise: Noise | None
    seeds: int
    scope: str
    notes: tuple[str, ...]

    def __iter__(self) -> Iterator[ArmVerdict]:
        return iter(self.arms)

    def __len__(self) -> int:
        return len(self.arms)

    def __getitem__(self, arm: str) -> ArmVerdict:
        for row in self.arms:
            if row.arm == arm:
                return row
        raise InputError(f"no arm '{arm}' in this study: {nearest(arm, (row.arm for row in self.arms))}")

    def to_json(self) -> dict[str, Any]:
        noise = self.noise and {**dataclasses.asdict(self.noise.verdict), "extra_time": self.noise.extra_time}
        said = {k: v for k, v in vars(self).items() if k not in ("arms", "noise")}
        said["control_excluded"] = [e._asdict() for e in self.control_excluded]
        return {**said, "arms": [row.to_json() for row in self.arms], "noise_floor": noise}

    def _repr_html_(self) -> str:
        from headtohead.report.page import verdict_table

        return str(verdict_table(self))


@dataclass(frozen=True)
class Outcome:
    folder: Path
    said: dict[str, Any]

    @property
    def home(self) -> Path:
        return self.folder.parent.parent

    @property
    def metric(self) -> str:
        return str(self.said["metric"])

    @property
    def titles(self) -> list[str]:
        return [table["title"] for table in self.said["tables"]]

    # -- runs ----------------------------------------------------------------------------------------------------------

    @cached_property
    def rows(self) -> dict[tuple[str, str], list[RunRow]]:
        """Every arm's runs, by its table and its name; seeds in order."""
        return {
            (table["title"], arm["name"]): self._rows(arm["name"], arm["runs"])
            for table in self.said["tables"]
            for arm in table["arms"]
        }

    @cached_property
    def again(self) -> list[RunRow]:
        """The control's runs with batches in another order."""
        return self._rows("control again", self.said["again"])

    @property
    def all_rows(self) -> list[RunRow]:
        return [row for rows in (*self.rows.values(), self.again) for row in rows]

    def _rows(self, arm: str, runs: dict[str, str]) -> list[RunRow]:
        return [self._row(arm, int(seed), run) for seed, run in runs.items() if int(seed) in self.said["seeds"]]

    def _row(self, arm: str, seed: int, run: str) -> RunRow:
        record = Record(self.home / "runs" / run)
        if not (record.folder / "run.json").is_file():
            why = record.failure
            return RunRow(arm, seed, run, "failed" if why else "missing", why or "not trained yet", math.nan)
        try:
            return self._read(RunRow(arm, seed, run, "failed", "", math.nan), record)
        except InputError as error:
            return RunRow(arm, seed, run, "failed", str(error), math.nan)
        except (KeyError, TypeError, ValueError):
            why = f"{record.folder / 'result.json'} is not whole: set it aside and train again"
            return RunRow(arm, seed, run, "failed", why, math.nan)

    def _read(self, row: RunRow, record: Record) -> RunRow:
        result, status = record.result, record.state
        if result is None:
            return dataclasses.replace(row, status=status, why=record.failure or f"its run is {status}")
        value, why = math.nan, str(result.get("ended", status))
        if status == "complete":
            value = value_of(result, self.metric)
            why = "" if math.isfinite(value) else f"its {self.metric} is too large to be written"
            status = status if math.isfinite(value) else "diverged"
            stuck = _stuck(result["values"], result["data"].get("says", ()))
            if stuck and status == "complete":
                status, why, value = "collapsed", stuck, math.nan
        try:
            times = record.times
        except InputError:  # what it cost in time is lost, and nothing else
            times = {}
        return dataclasses.replace(
            row,
            status=status,
            why=why,
            value=value,
            parameters=result["parameters"],
            flops=result.get("flops_per_step"),
            step_ms=times.get("step_ms"),
            steps=result["steps"],
            finished=datetime.fromisoformat(times.get("finished", "1970-01-01T00:00:00+00:00")).timestamp(),
            values=result["values"],
        )

    def frame(self) -> pd.DataFrame:
        """One row a run."""
        import pandas as pd

        made = []
        for (title, _), rows in [*self.rows.items(), (("", ""), self.again)]:
            for row in rows:
                said = {k: v for k, v in vars(row).items() if k not in ("values", "value")}
                held = {k: v for k, v in row.values.items() if isinstance(v, float)}
                made.append({**({"tuned": title} if title else {}), **said, self.metric: row.value} | held)
        return pd.DataFrame(made)

    # -- verdicts ------------------------------------------------------------------------------------------------------

    def verdicts(self, title: str | None = None) -> Verdicts:
        """Of a tuned study the arms at their own best, unless `title` says "shared"."""
        title = self.titles[0] if title is None else title
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
    def _read_items(self) -> dict[str, tuple[np.ndarray, np.ndarray, np.ndarray]]:
        return {}

    def _judge(self, title: str) -> Verdicts:
        if title not in self.titles:
            raise InputError(f"no table '{title}' in this study: {nearest(title, self.titles)}")
        table = next(t for t in self.said["tables"] if t["title"] == title)
        arms = table["arms"]
        control = self.rows[title, arms[0]["name"]]
        base = _values(control)
        mean = float(np.nanmean(base)) if np.isfinite(base).any() else math.nan
        asked = self.said["margin"]
        margin = None if asked is None or not math.isfinite(mean) else absolute(asked, mean)
        variants = {arm["name"]: self.rows[title, arm["name"]] for arm in arms[1:]}
        judged = compare_all(
            base, {name: _values(rows, control) for name, rows in variants.items()}, margin, better=self.said["better"]
        )
        judged = {name: not_by_survivors(verdict, control, variants[name]) for name, verdict in judged.items()}
        made = [self._arm(arm, control, variants[arm["name"]], judged[arm["name"]]) for arm in arms[1:]]
        return Verdicts(
            question=self.said["question"],
            metric=self.metric,
            better=self.said["better"],
            title=title,
            control=arms[0]["name"],
            control_mean=mean,
            control_excluded=_without(control),
            arms=tuple(made),
            noise=self._noise(control),
            seeds=len(self.said["seeds"]),
            scope=self._scope(control),
            notes=tuple(self._notes(control, variants)),
        )

    def differences(self, title: str) -> dict[str, dict[int, float]]:
        """Of every arm of a table but the control, its difference from it seed by seed, where both have a value."""
        first, *others = (arm["name"] for arm in next(t for t in self.said["tables"] if t["title"] == title)["arms"])
        base = {row.seed: row.value for row in self.rows[title, first]}
        found = {}
        for name in others:
            pairs = ((row.seed, row.value - base.get(row.seed, math.nan)) for row in self.rows[title, name])
            found[name] = {seed: d for seed, d in pairs if math.isfinite(d)}
        return found

    def to_json(self) -> list[dict[str, Any]]:
        return [store.plain(self.verdicts(title).to_json()) for title in self.titles]

    def _arm(self, arm: dict[str, Any], control: list[RunRow], rows: list[RunRow], verdict: Verdict) -> ArmVerdict:
        by_seed = {row.seed: row for row in rows}
        pairs = [(c, by_seed[c.seed]) for c in control if c.seed in by_seed]
        both = [(c, v) for c, v in pairs if c.status == v.status == "complete"]
        items, agree = self._items(both)
        return ArmVerdict(
            arm=arm["name"],
            differs=arm["differs"],
            mean=float(np.mean([v.value for _, v in both])) if both else math.nan,
            verdict=verdict,
            extra_parameters=(both[0][1].parameters or 0) - (both[0][0].parameters or 0) if both else None,
            extra_time=_share(both, "step_ms"),
            extra_flops=_share(both, "flops"),
            items=items,
            items_agree=agree,
            items_pairs=min(len(both), ITEM_PAIRS),
            excluded=_without(rows),
            dropped=bool(arm.get("dropped")),
        )

    def _noise(self, control: list[RunRow]) -> Noise | None:
        again = self.again
        if not again:
            return None
        by_seed = {row.seed: row for row in again}
        both = [(c, by_seed[c.seed]) for c in control if c.seed in by_seed]
        both = [(c, a) for c, a in both if c.status == a.status == "complete"]
        verdict = compare(_values(control), _values(again, control), better=self.said["better"])
        return Noise(verdict, _share(both, "step_ms"))

    def _items(self, both: list[tuple[RunRow, RunRow]]) -> tuple[ItemTest | None, int | None]:
        """Item by item, the mean over the pairs of checkpoints."""
        if not both or self._changes_tokens:
            return None, None
        right = figure_of(self.metric) in ("accuracy", "macro_f1")
        try:
            read = [[self._item_values(row, right) for row in pair] for pair in both[:ITEM_PAIRS]]
        except InputError as error:
            self._torn.append(str(error))
            return None, None
        if any(len(c[0]) != len(v[0]) or (c[1] != v[1]).any() for c, v in read):
            return None, None  # other tokens, other windows: nothing to pair
        differences = np.mean([v[0] - c[0] for c, v in read], axis=0)
        weights, clusters = read[0][0][1], read[0][0][2]
        agree = sum(mcnemar(c[0] > 0.5, v[0] > 0.5) <= 0.05 for c, v in read) if right else None
        return over_items(differences, weights, clusters), agree

    @property
    def _changes_tokens(self) -> bool:
        """Arms with other tokens or texts have no items in common."""
        tuned = [path for arm in self.said["tuning"] for path in arm["best"]]
        return any(path.split(".")[0] in ("tokenizer", "data") for path in (*self.said["vary"], *tuned))

    def _item_values(self, row: RunRow, right: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Values, weights and clusters of the metric's sets."""
        if row.run in self._read_items:
            return self._read_items[row.run]
        record = Record(self.home / "runs" / row.run)
        assert record.result is not None
        values, weights, clusters = [], [], []
        for number, name in enumerate(sets_of(self.metric, record.result["data"])):
            items = record.items(name)
            if right:
                values.append((items["predicted"] == items["label"]).astype(float))
            else:
                values.append(items["loss"])
            count = len(values[-1])
            weights.append(items["tokens"].astype(float) if "tokens" in items else np.ones(count))
            texts = "label" in items  # each a document; windows of running text are not
            group = np.arange(count) if texts else np.arange(count) * min(CLUSTERS, count) // count
            clusters.append(number * 10**9 + group)
        found = np.concatenate(values), np.concatenate(weights), np.concatenate(clusters)
        self._read_items[row.run] = found
        return found

    def _scope(self, control: list[RunRow]) -> str:
        done = next((row for row in control if row.status == "complete"), None)
        if done is None:
            ended = {row.status for row in control} & {"diverged", "collapsed", "failed"}
            return f"no run of the control was completed: {' and '.join(sorted(ended)) or 'none is trained yet'}"
        result = Record(self.home / "runs" / done.run).result or {}
        tokens = int(result.get("tokens_per_step", 0)) * (done.steps or 0)
        return (
            f"{done.parameters:,} parameters, {done.steps:,} steps, about {_rounded(tokens)} training tokens, "
            f"{self.said['corpus']}, seeds {_ranges(self.said['seeds'])}"
        )

    def _notes(self, control: list[RunRow], variants: dict[str, list[RunRow]]) -> Iterator[str]:
        names = sets_of(self.metric, _facts(self, control)) if any(r.status == "complete" for r in control) else []
        measured: dict[tuple[Any, ...], str] = {}
        for arm, rows in {control[0].arm: control, **variants}.items():
            done = next((row for row in rows if row.status == "complete"), None)
            if done is not None:
                facts = (Record(self.home / "runs" / done.run).result or {})["data"]["sets"]
                sizes = tuple(facts.get(n, {}).get("bytes", facts.get(n, {}).get("texts")) for n in names)
                measured.setdefault(sizes, arm)
        windows = self.said["tables"][0]["arms"][0]["spec"].get("evaluate", {}).get("windows")
        if self._changes_tokens and windows is not None:
            yield f"evaluate.windows={windows} is other text for other tokens: leave it out to compare on all of it"
        yield from dict.fromkeys(f"no test over texts: {trouble}" for trouble in self._torn)
        if len(measured) > 1:
            yield f"{' and '.join(measured.values())} were measured on different texts: their figures do not compare"
        for arm, rows in variants.items():
            if gone := came_to_nothing(rows) ^ came_to_nothing(control):
                yield (
                    f"{arm} or the control diverged or collapsed where the other did not, in {len(gone)} of "
                    f"{len(rows)} pairs: those that are left do not speak for it"
                )
        for tuned in self.said["tuning"]:
            for path in tuned["edge"]:
                yield (
                    f"{tuned['arm']} was best at {path} = {tuned['best'][path]}, the edge of the grid: "
                    "a better value may lie beyond"
                )


def came_to_nothing(rows: Iterable[RunRow]) -> set[int]:
    return {row.seed for row in rows if row.status in ("diverged", "collapsed")}


def not_by_survivors(v: Verdict, control: Iterable[RunRow], variant: Iterable[RunRow]) -> Verdict:
    """Runs that came to nothing are in no mean. Whoever lost some that the other completed must not look good by those
    that are left."""
    lost, spared = came_to_nothing(variant), came_to_nothing(control)
    flattered = ({"better", "equivalent"} if lost - spared else set()) | (
        {"worse", "equivalent"} if spared - lost else set()
    )
    return dataclasses.replace(v, verdict="unresolved") if v.verdict in flattered else v


def _without(rows: list[RunRow]) -> tuple[Excluded, ...]:
    return tuple(Excluded(row.seed, row.arm, row.why) for row in rows if row.status != "complete")


def _facts(outcome: Outcome, rows: list[RunRow]) -> dict[str, Any]:
    done = next(row for row in rows if row.status == "complete")
    return (Record(outcome.home / "runs" / done.run).result or {})["data"]


def _values(rows: list[RunRow], like: list[RunRow] | None = None) -> np.ndarray:
    """Values by seed, in the order of `like`; not a number where there is none."""
    by_seed = {row.seed: row.value for row in rows}
    return np.array([by_seed.get(row.seed, math.nan) for row in (like or rows)], dtype=float)


def _share(both: list[tuple[RunRow, RunRow]], what: str) -> float | None:
    """How much more the variant takes, the middle of the pairs. Times only of pairs that ran within the same half hour:
    another day the machine may have been busy with something else."""
    if what == "step_ms":
        both = [(c, v) for c, v in both if abs(c.finished - v.finished) < 1800]
    ratios = [getattr(v, what) / getattr(c, what) for c, v in both if getattr(v, what) and getattr(c, what)]
    return float(np.median(ratios)) - 1 if ratios else None


def _rounded(count: int) -> str:
    for size, name in ((10**9, " billion"), (10**6, " million")):
        if count >= size:
            return f"{count / size:.3g}{name}"
    return f"{count:,}"


def _ranges(seeds: list[int]) -> str:
    whole = seeds == list(range(seeds[0], seeds[0] + len(seeds)))
    return f"{seeds[0]}–{seeds[-1]}" if whole else ", ".join(map(str, seeds))


def _stuck(values: dict[str, Any], labels: Sequence[str]) -> str:
    """Why a classifier has not learned at all, if so: it gives every text the same label. Averaged with runs that have
    learned, it would be the mean of two different things."""
    confusion = values.get("validation/confusion") or values.get("test/confusion")  # rows: truth; columns: predicted
    if not confusion or sum(map(any, confusion)) < 2:
        return ""
    said = [n for n, column in enumerate(zip(*confusion, strict=True)) if any(column)]
    if len(said) != 1:
        return ""
    return f"collapsed: it calls every text {labels[said[0]] if said[0] < len(labels) else said[0]}"
