"""Learning curves of runs: the numbers, a picture, and whether a run began to overfit."""

from __future__ import annotations

import io
import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from headtohead.errors import InputError, nearest
from headtohead.figures.style import DOTS, GRID, QUIET, columns_of, line_look, looks, shortened
from headtohead.outcome.metrics import SHARES, better_way, text_of
from headtohead.report.named_runs import (
    BATCH_LOSS,
    RunGroup,
    Runs,
    about,
    arm_of,
    axis_of,
    declared_tests,
    group_runs,
    kind_of,
    metric_of,
    steps_per_epoch,
)
from headtohead.report.text_table import TextTable
from headtohead.run.store import Record, plain

if TYPE_CHECKING:
    from matplotlib.figure import Figure

KINDS = ("png", "svg", "pdf")
BATCHES = "batches"  # the mean loss of training batches, between evaluations
ACROSS = 3  # panels in a row
DOTTED = 30  # points up to which each has a mark
UNTRAINED = 1.5  # times the later values: then the evaluation before training is not drawn on a linear axis
WATCH = "--set evaluate.watch_test=true"


@dataclass(frozen=True)
class Curve:
    """One figure of one data set over the training of one group of runs."""

    group: RunGroup
    set: str
    steps: list[int]
    epochs: list[float] | None
    values: np.ndarray  # (seeds, steps)

    @property
    def mean(self) -> np.ndarray:
        found: np.ndarray = self.values.mean(axis=0)
        return found

    def best(self, higher: bool) -> int:
        """The index of the best mean."""
        return int(self.mean.argmax() if higher else self.mean.argmin())


@dataclass(frozen=True)
class Curves:
    """What `read` found: a curve for each group of runs and each data set."""

    metric: str
    task: str  # or answers
    axis: str  # step or epoch
    groups: list[RunGroup]
    curves: list[Curve]
    notes: list[str]

    @property
    def sets(self) -> list[str]:
        return list(dict.fromkeys(curve.set for curve in self.curves))

    @property
    def higher(self) -> bool:
        return better_way(f"validation/{self.metric}") == "higher"

    @property
    def scale(self) -> int:
        """Accuracies are shown in percent."""
        return 100 if self.higher else 1

    @property
    def unit(self) -> str:
        return unit_of(self.metric, self.task)

    def x(self, curve: Curve) -> Sequence[float]:
        return curve.steps if self.axis == "step" or curve.epochs is None else curve.epochs

    def to_json(self) -> dict[str, Any]:
        lines = [
            {
                "label": curve.group.label,
                "runs": [record.id for record in curve.group.records],
                "seeds": curve.group.seeds,
                "set": curve.set,
                "steps": curve.steps,
                "epochs": curve.epochs,
                "mean": curve.mean.tolist(),
                "values": curve.values.tolist(),
            }
            for curve in self.curves
        ]
        said = {"metric": self.metric, "unit": "share" if self.higher else self.unit, "axis": self.axis}
        found: dict[str, Any] = plain({**said, "curves": lines, "notes": self.notes})
        return found


def unit_of(metric: str, task: str) -> str:
    each = {"lm": "token", "answers": "answer"}.get(task, "text")
    units = {"loss": f"nats per {each}", "perplexity": "per token", **dict.fromkeys(SHARES, "%")}
    return units.get(metric, "")


# -- the numbers -------------------------------------------------------------------------------------------------------


def read(
    runs: Runs | Sequence[RunGroup],
    *,
    metric: str | None = None,
    sets: Sequence[str] = (),
    axis: str | None = None,
) -> Curves:
    """The curves of runs that are complete, under way or stopped. `sets` are train, batches, validation, test (all test
    sets) or a set's name; by default all that were evaluated during training."""
    groups = as_groups(runs)
    figure, axis = metric_of(groups, metric), axis_of(groups, axis)
    tests = declared_tests(groups)
    curves: list[Curve] = []
    notes: list[str] = []
    for group in groups:
        per_seed = [points(record, figure) for record in group.records]
        for name in dict.fromkeys(name for found in per_seed for name in found):
            seeds = [found[name] for found in per_seed if found.get(name)]
            steps = sorted(set.intersection(*(set(found) for found in seeds)))
            if steps:
                curves.append(_curve(group, name, steps, np.array([[found[s] for s in steps] for found in seeds])))
        notes += [said for record in group.records if (said := _unfinished(record))]
    chosen = _chosen(sets, list(dict.fromkeys(c.set for c in curves)), tests, figure, groups)
    curves = [curve for name in chosen for curve in curves if curve.set == name]
    if not curves:
        raise InputError(f"{_named(groups)} has no {figure} yet: nothing was evaluated")
    notes += _sampled(groups)
    unwatched = [name for name in tests if name not in {c.set for c in curves}]
    if unwatched and not sets:
        notes.append(f"test sets were evaluated at the end only; for their curves train with {WATCH}")
    return Curves(figure, kind_of(groups), axis, groups, curves, notes)


def as_groups(runs: Runs | Sequence[RunGroup]) -> list[RunGroup]:
    if not isinstance(runs, Mapping) and runs and isinstance(runs[0], RunGroup):
        groups = [run for run in runs if isinstance(run, RunGroup)]
    else:
        groups = group_runs(runs)  # type: ignore[arg-type]
    if not groups or not all(group.records for group in groups):
        raise InputError("no run was given: name one, such as latest")
    return groups


def points(record: Record, figure: str) -> dict[str, dict[int, float]]:
    """One figure of every data set that a run evaluated, by step; `batches` is the loss of training batches."""
    found: dict[str, dict[int, float]] = {}
    for line in record.metrics:
        for key, value in line.items():
            name, slash, what = key.partition("/")
            if slash and what == figure and value is not None:
                found.setdefault(name, {})[int(line["step"])] = float(value)
    losses = _evenly(batch_losses(record)) if figure in ("loss", "perplexity") else []
    if losses:
        found[BATCHES] = {b.step: math.exp(min(b.loss, 700)) if figure == "perplexity" else b.loss for b in losses}
    return found


class BatchLoss(NamedTuple):
    """The mean loss of the training batches of some steps."""

    after: int  # the step before the first of them
    step: int  # the last of them
    loss: float


def batch_losses(record: Record) -> list[BatchLoss]:
    """As metrics.jsonl has them."""
    found: list[BatchLoss] = []
    for line in record.metrics:
        if line.get(BATCH_LOSS) is not None:
            found.append(BatchLoss(found[-1].step if found else 0, int(line["step"]), float(line[BATCH_LOSS])))
    return found


def mean_loss(losses: Sequence[BatchLoss]) -> float:
    steps = [b.step - b.after for b in losses]
    return float(np.average([b.loss for b in losses], weights=steps))


def _evenly(losses: Sequence[BatchLoss]) -> list[BatchLoss]:
    """Few batches, such as those between an evaluation and the next line, are joined with those that follow: alone they
    would be spikes."""
    usual = float(np.median([b.step - b.after for b in losses])) if losses else 0.0
    joined: list[BatchLoss] = []
    waiting: list[BatchLoss] = []
    for b in losses:
        waiting.append(b)
        if b.step - waiting[0].after >= 0.5 * usual or b is losses[-1]:
            joined.append(BatchLoss(waiting[0].after, b.step, mean_loss(waiting)))
            waiting = []
    return joined


def _curve(group: RunGroup, name: str, steps: list[int], values: np.ndarray) -> Curve:
    each = steps_per_epoch(group.records[0])
    return Curve(group, name, steps, [step / each for step in steps] if each else None, values)


def _chosen(
    asked: Sequence[str], there: list[str], tests: list[str], figure: str, groups: Sequence[RunGroup]
) -> list[str]:
    """Names of data sets as they were evaluated, in their order."""
    if not asked:
        evaluated = [name for name in there if name != BATCHES]
        return evaluated if "train" in evaluated else [name for name in there if name == BATCHES] + evaluated
    wanted: list[str] = []
    for name in asked:
        several = name == "test" and name not in {*there, *tests}
        names = (tests or _but_known(there)) if several else [name]
        absent = [n for n in names if n not in there]
        if (absent and (several or absent[0] in tests)) or not names:
            raise InputError(
                f"{_named(groups)} has no test curve: test sets were evaluated at the end only; train with {WATCH}"
            )
        if absent and absent[0] == BATCHES:
            raise InputError(f"batches have no {figure}: give --metric loss, or leave batches out")
        if absent and absent[0] == "train":
            raise InputError(f"{_named(groups)} evaluated no training data: give --sets batches --metric loss")
        if absent:
            raise InputError(f"{_named(groups)} evaluated no set '{absent[0]}': {nearest(absent[0], there)}")
        wanted += names
    return [name for name in there if name in wanted]


def _but_known(there: list[str]) -> list[str]:
    return [name for name in there if name not in ("train", "validation", BATCHES)]


def _named(groups: Sequence[RunGroup]) -> str:
    first = groups[0].records[0]
    return f"run {first.id[:8]}" if len(groups) == 1 else f"none of these {len(groups)} runs"


def _sampled(groups: Sequence[RunGroup]) -> list[str]:
    """What to say where evaluations during training read a part of what the last one reads."""
    specs = [arm_of(record)["evaluate"] for group in groups for record in group.records]
    part = [s["along"] for s in specs if s.get("along") and s["along"] < (s.get("windows") or math.inf)]
    if not part:
        return []
    return [f"evaluations during training use up to {max(part):,} windows or texts of a held-out set; end uses all"]


def _unfinished(record: Record) -> str:
    if record.state == "complete":
        return ""
    last = record.metrics[-1]["step"] if record.metrics else 0
    how = record.result.ended if record.result else f"{record.state} at step {last:,}"
    return f"run {record.id[:8]}: {how}"


def summary(found: Curves) -> TextTable:
    """Each curve in a line: first, best and last value, and the finished model's on the whole set."""
    several = len(found.groups) > 1
    unit = f" ({found.unit})" if found.unit else ""
    rows = []
    for group in found.groups:
        ends = _ends(group, found.metric)
        curves = {curve.set: curve for curve in found.curves if curve.group is group}
        unwatched = (
            [] if set(found.sets) < set(curves) else [n for n in ends if n not in curves and n not in found.sets]
        )
        for name in [*curves, *unwatched]:
            cells = ["–"] * 4
            if curve := curves.get(name):
                at = curve.best(found.higher)
                places = (0, at, None, -1)
                cells = [_at(found, curve, at) if n is None else _said(found, curve.mean[n]) for n in places]
            end = _said(found, ends[name]) if name in ends else "–"
            rows.append([*([group.label] if several else []), name, *cells, end])
    head = [*(["run"] if several else []), "set", "first", "best", f"at {found.axis}", "last", "end"]
    return TextTable(f"{found.metric.replace('_', ' ')}{unit}: {title(found.groups, 'mean')}", head, rows)


def _ends(group: RunGroup, metric: str) -> dict[str, float]:
    """The finished model's figure of each set, the mean over seeds."""
    results = [record.result for record in group.records if record.result and record.result.is_complete]
    names = dict.fromkeys(key.partition("/")[0] for result in results for key in result.values)
    values: dict[str, list[Any]] = {n: [result.values.get(f"{n}/{metric}") for result in results] for n in names}
    return {name: float(np.mean(found)) for name, found in values.items() if found and None not in found}


def _said(found: Curves, value: float) -> str:
    return text_of(f"validation/{found.metric}", float(value)).removesuffix(" %")


def _at(found: Curves, curve: Curve, index: int) -> str:
    return f"{found.x(curve)[index]:,.4g}" if found.axis == "epoch" else f"{curve.steps[index]:,}"


# -- the picture -------------------------------------------------------------------------------------------------------


def plot(
    runs: Runs | Sequence[RunGroup],
    *,
    metric: str | None = None,
    sets: Sequence[str] = (),
    axis: str | None = None,
    log: bool = False,
) -> Figure:
    """A picture of training, validation and test curves: of one run in one panel, of several a panel for each set."""
    return draw([read(runs, metric=metric, sets=sets, axis=axis)], log)


def draw(found: Sequence[Curves], log: bool = False) -> Figure:
    """One row of panels for each figure in `found`, all of the same runs."""
    groups = found[0].groups
    alone = len(groups) == 1
    panels = [(curves, name) for curves in found for name in ([""] if alone else curves.sets)]
    across = 2 if len(panels) == 4 else min(ACROSS, len(panels))
    if not alone and len(found) > 1:
        across = max(len(c.sets) for c in found)
    down = math.ceil(len(panels) / across)
    labels = shortened([*dict.fromkeys(n for c in found for n in c.sets)] if alone else [g.label for g in groups], 36)
    rows = math.ceil(len(labels) / columns_of(labels))
    with looks() as new:
        size = (max(6.4, 3.4 * across + 0.6), 3.0 * down + 0.9 + 0.22 * rows)
        figure = new(figsize=size, layout="constrained")
        grid = figure.subplots(down, across, squeeze=False)
        handles: dict[str, Any] = {}
        for number, axes in enumerate(grid.flat):
            if number >= len(panels):
                axes.set_visible(False)
                continue
            curves, name = panels[number]
            for curve in curves.curves:
                if not name or curve.set == name:
                    place = curves.sets.index(curve.set) if alone else groups.index(curve.group)
                    handles.setdefault(labels[place], _line(axes, curves, curve, place, log))
            _finish(axes, curves, name, log)
            if len(found) == 1 and number % across:
                axes.set_ylabel("")
                axes.tick_params(labelleft=False)
            if number + across < len(panels):
                axes.set_xlabel("")
        for curves in found:  # the same scale for one figure: sets can be compared
            _share_y([axes for axes, (own, _) in zip(grid.flat, panels, strict=False) if own is curves])
        if kept := _kept(groups):
            for axes in grid.flat[: len(panels)]:
                at = kept if found[0].axis == "step" else kept / (steps_per_epoch(groups[0].records[0]) or 1)
                handles["weights kept"] = axes.axvline(at, color=QUIET, lw=1.2, ls=":", zorder=1)
        names = list(handles)
        figure.legend(
            handles.values(),
            names,
            loc="outside lower center",
            frameon=False,
            ncols=columns_of(names),
            handlelength=3.6,
        )
        figure.suptitle(title(groups), fontsize=10, x=0.01, ha="left")
    return figure


def title(groups: Sequence[RunGroup], spread: str = "mean and range") -> str:
    """lm on speeches, seed 0 (run 9adccaea); of several seeds, what is shown of them."""
    one, most = groups[0], max(len(group.records) for group in groups)
    seeds = f"{most} seeds"
    which = [one.label] if len(groups) == 1 and one.label != seeds else []
    if most == 1 and which:
        which = [f"{one.label} (run {one.records[0].id[:8]})"]
    return ", ".join([about(groups), *which, *([f"{spread} of {seeds}"] if most > 1 else [])])


def _line(axes: Any, curves: Curves, curve: Curve, place: int, log: bool) -> Any:
    scale, x = curves.scale, np.asarray(curves.x(curve), float)
    values = scale * curve.values
    if not log and not curves.higher and _far_above(curve):
        x, values = x[1:], values[:, 1:]
    look = line_look(place)
    lines = len(curves.groups)
    apart = lines if len(x) > 2 * lines else 1  # each run has its marks at other points, so that none hides another's
    marks: Any = {"marker": DOTS[place % len(DOTS)], "ms": 4.5, "markevery": (place % apart, apart)}
    if len(x) > DOTTED:
        marks = {}
    (handle,) = axes.plot(x, values.mean(axis=0), lw=1.7, **look, **marks, zorder=3)
    if len(values) > 1:
        axes.fill_between(x, values.min(axis=0), values.max(axis=0), color=look["color"], alpha=0.12, lw=0)
    return handle


def _far_above(curve: Curve) -> bool:
    """Whether the untrained model's value would press all later ones together."""
    mean = curve.mean
    return len(mean) > 2 and curve.steps[0] == 0 and mean[0] > UNTRAINED * mean[1:].max()


def hidden(found: Curves) -> list[str]:
    """What to say where the evaluation before training is left out of a linear axis."""
    if found.higher or not any(map(_far_above, found.curves)):
        return []
    return ["the untrained model (step 0) lies far above and is not drawn: --log shows it"]


def _finish(axes: Any, curves: Curves, name: str, log: bool) -> None:
    if log:
        axes.set_yscale("log")
        _plain_log_ticks(axes.yaxis)
    said = curves.metric.replace("_", " ")
    unit = f" ({curves.unit})" if curves.unit else ""
    axes.set(xlabel="training step" if curves.axis == "step" else "epoch", ylabel=f"{said}{unit}")
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.set_xlim(left=-0.03 * axes.get_xlim()[1])  # training starts at 0, also where that value is not drawn
    if name:
        axes.set_title(name, fontsize=10, loc="left")
    axes.grid(color=GRID)
    axes.spines[["top", "right"]].set_visible(False)


def _plain_log_ticks(axis: Any) -> None:
    """100, 200, 500 in place of powers."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
    axis.set_minor_locator(LogLocator(subs=tuple(range(1, 10)), numticks=50))
    axis.set_minor_formatter(NullFormatter())


def _share_y(panels: list[Any]) -> None:
    low = min(axes.get_ylim()[0] for axes in panels)
    high = max(axes.get_ylim()[1] for axes in panels)
    for axes in panels:
        axes.set_ylim(low, high)


def _kept(groups: Sequence[RunGroup]) -> int:
    """The step whose weights a single run kept, where that is not its last one."""
    result = groups[0].records[0].result if len(groups) == 1 and len(groups[0].records) == 1 else None
    return result.weights_of if result and result.weights_of != result.steps else 0


def render(figure: Figure, kind: str = "png") -> bytes:
    """The figure as a png, svg or pdf file; the same figure gives the same bytes."""
    if kind not in KINDS:
        raise InputError(f"a picture is png, svg or pdf, not '{kind}'")
    metadata: dict[str, dict[str, Any]] = {
        "png": {"Software": None},
        "svg": {"Date": None, "Creator": None},
        "pdf": {"CreationDate": None},
    }
    buffer = io.BytesIO()
    with looks(), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing from font", UserWarning)
        figure.savefig(buffer, format=kind, dpi=200, metadata=metadata[kind])
    return buffer.getvalue()


# -- fine-tuning -------------------------------------------------------------------------------------------------------


def picture(record: Record, kind: str = "png") -> bytes:
    """Loss and accuracy of a classifier side by side; the step whose weights were kept is marked."""
    return render(draw([read([record], metric=figure) for figure in ("loss", "accuracy")]), kind)


def overfits(record: Record) -> str:
    """What to say where the validation loss rises from its best evaluation on while the training loss still falls."""
    (steps, held), (_, own) = _loss_of(record, "validation"), _loss_of(record, "train")
    if len(held) < 3 or len(own) != len(held) or not all(map(math.isfinite, held)):
        return ""
    best = min(range(len(held)), key=held.__getitem__)
    if best == len(held) - 1 or held[-1] < 1.02 * held[best] or own[-1] >= own[best]:
        return ""
    return (
        f"overfitting: the validation loss is best at step {steps[best]} ({held[best]:.4f}) and {held[-1]:.4f} at the "
        f"end, while the training loss falls to {own[-1]:.4f}: fewer epochs, or a lower learning rate, may do as well"
    )


def _loss_of(record: Record, name: str) -> tuple[list[int], list[float]]:
    found = points(record, "loss").get(name, {})
    return list(found), list(found.values())
