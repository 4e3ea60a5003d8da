"""Where does the noise of a paired difference come from, and which run would reduce it most?

The control and one arm are trained with L initial weights i crossed with L batch orders j, so that each source varies
while the other is fixed (dropout goes with the batch order):

    d_ij = effect + I_i + O_j + e_ij          two-way random effects, one difference per cell

Cell (k, k) is the study's own pair with seed k. Three more sources are measured at these cells:

    numerical chaos   the same pair with weights perturbed by 1e-6:  σ² = mean (d′ − d)² / 2
    training text     the same pair on a random half of the text and on the other half:  σ² = mean (d_A − d_B)² / 4,
                      less the noise of new batches, which the halves have too
    test texts        a bootstrap over the stored items of the pairs; no runs

More pairs average I, O, e and chaos. Training text, test texts and a tuned rate are the same for all pairs.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from textwrap import wrap
from typing import Any

import numpy as np

from headtohead.display.study import study_screen
from headtohead.display.training_screen import forecast_line
from headtohead.errors import InputError, nearest
from headtohead.outcome.metrics import UNITS, better_way, change_text, figure_of, is_share, value_of
from headtohead.outcome.outcome import Outcome, load_outcome
from headtohead.parts.samplings import HalfOfText
from headtohead.persistence.components import Component, components, shared
from headtohead.pretrained.start import Fresh, FreshFrom, Perturbed
from headtohead.report.text_table import TextTable
from headtohead.run import store
from headtohead.run.events import Cell, Note, Stage
from headtohead.run.executors.execution import Execution, train_all
from headtohead.run.forecast import forecast_runs
from headtohead.run.store import Record
from headtohead.run.studies import has_study
from headtohead.search.trials import Trial
from headtohead.stats import FIXED_PAIRS
from headtohead.study import tuning
from headtohead.study.execution import folder_of
from headtohead.study.layout import at_point
from headtohead.study.study import LONGEST_NAME, Study
from headtohead.study.workflow import Listener, StudyStopped, audit_models, train_and_load
from headtohead.training.arm import Arm, RunSpec, run_specs

LEVELS = 4  # initial weights and batch orders
CLEAR = 3.0  # sds of its mean from which on an effect is called clear
MOST_DRAWS = 3125  # of tuning seeds; up to five seeds are enumerated


# -- the result --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Decomposition:
    """The noise of one arm's difference by source. `str()` is what `h2h plan --variance` prints."""

    arm: str
    metric: str
    effect: float  # mean over the crossed runs
    pairs: int  # of the study
    levels: int
    runs: int
    components: tuple[Component, ...]
    next_run: str

    def __getitem__(self, source: str) -> Component:
        found = {c.source: c for c in self.components}
        if source not in found:
            raise InputError(f"no source '{source}' was measured: {nearest(source, found)}")
        return found[source]

    @property
    def sd_of_pair(self) -> float:
        """The sd of a pair's difference over seeds: what the study's own pairs show."""
        return math.sqrt(sum(c.sd**2 for c in self.components if c.averages))

    @property
    def sd_of_mean(self) -> float:
        """The sd of the study's mean difference if all sources were drawn again."""
        return math.sqrt(sum(c.sd**2 / (self.pairs if c.averages else 1) for c in self.components))

    def to_json(self) -> dict[str, Any]:
        sds = {"sd_of_pair": self.sd_of_pair, "sd_of_mean": self.sd_of_mean}
        return store.plain(dataclasses.asdict(self) | sds)

    def __str__(self) -> str:
        return "\n".join(self.lines())

    def lines(self) -> list[str]:
        metric, unit = self.metric, UNITS[figure_of(self.metric)]
        rows = []
        for c in self.components:
            span = "–" if math.isnan(c.low) else f"{_amount(metric, c.low)} … {_amount(metric, c.high)}"
            averaged = "yes" if c.averages else "no"
            rows.append([c.source, _amount(metric, c.sd), span, averaged, f"{100 * c.share:.0f} %"])
        title = f"Noise of the difference {self.arm} − control in {metric}" + (f", {unit}" if unit else "")
        head = ["source", "sd", "95 % interval", "averaged over pairs", "share"]
        table = TextTable(title, head, rows, left=(3,)).text(80).splitlines()
        about = [
            f"Share: of the variance of the mean of {self.pairs} pairs. {self.levels} initial weights and "
            f"{self.levels} batch orders ({self.runs} runs) give wide intervals.",
            f"Effect {change_text(metric, self.effect)} (mean of {self.levels**2} pairs). One pair has sd "
            f"{_amount(metric, self.sd_of_pair)} over seeds; the mean of {self.pairs} pairs has sd "
            f"{_amount(metric, self.sd_of_mean)} if every source were drawn again.",
        ]
        if not any(c.source == "choice of rate" for c in self.components):
            about.append("The study is not tuned: h2h run RECIPE --rates auto shows the influence of the rate.")
        about.append(f"The most useful next run is {self.next_run}.")
        return table + [line for sentence in about for line in wrap(sentence, 80)]


def _amount(metric: str, value: float) -> str:
    """Noise to two digits; `text_of` would show a small one as zero."""
    if is_share(metric):
        return f"{100 * value:.2g} %"
    return f"{value:.2g}"


def next_run(found: Sequence[Component], effect: float, pairs: int, study: Study) -> str:
    """What to run next. The rule: if the effect is clear (3 sds of its mean), a test of whether it persists. Otherwise
    whatever reduces the largest part of the variance of the mean: more pairs for the sources that pairs average, else
    the remedy of the largest source that they do not."""
    parts = {"pairs": sum(c.sd**2 for c in found if c.averages) / pairs}
    parts |= {c.source: c.sd**2 for c in found if not c.averages}
    total = math.sqrt(sum(parts.values()))
    if total == 0 or abs(effect) >= CLEAR * total:
        return "one at another scale (--scales 1,4): the effect is clear of the noise here"
    largest = max(parts, key=lambda name: parts[name])
    if largest == "pairs":
        rest = max((v for name, v in parts.items() if name != "pairs"), default=0.0)
        enough = math.ceil(pairs * parts["pairs"] / rest) if rest else 4 * pairs
        return f"another pair: go from {pairs} to {max(pairs + 1, min(enough, 4 * pairs))} pairs (--seeds)"
    windows = study.control.evaluate.windows
    return {
        "test texts": f"an evaluation on more test texts (evaluate.windows={windows} limits it)"
        if windows
        else "an evaluation on more test texts: add test data",
        "training text": "one on another or a larger training text: more pairs on this one do not help",
        "choice of rate": f"tuning with more seeds than {study.tuning_seeds} (tuning_seeds=), or a finer grid",
    }[largest]


# -- the runs ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Design:
    """The runs of a decomposition: for each cell its name and the runs of control and arm."""

    crossed: dict[tuple[int, int], tuple[RunSpec, RunSpec]]  # by initial weights and batch order
    chaos: dict[int, tuple[RunSpec, RunSpec]]
    halves: dict[tuple[int, bool], tuple[RunSpec, RunSpec]]

    def cells(self, names: tuple[str, str]) -> list[tuple[Cell, RunSpec]]:
        """Every run with its place on the screen."""
        named = [(f"weights {i}", pair) for (i, _), pair in self.crossed.items()]
        named += [("perturbed", pair) for pair in self.chaos.values()]
        named += [("other half" if other else "half", pair) for (_, other), pair in self.halves.items()]
        return [
            (Cell(f"{name}, {what}", spec.seed, spec.id, name), spec)
            for what, pair in named
            for name, spec in zip(names, pair, strict=True)
        ]


def design_of(arms: tuple[Arm, Arm], seeds: Sequence[int], device: str = "cpu", threads: int = 1) -> Design:
    """The runs, as they stand in the store. Cell (k, k) is the study's own pair with seed k."""

    def pair(seed: int, **settings: Any) -> tuple[RunSpec, RunSpec]:
        made = [at_point(arm, {path.replace("_", "."): value for path, value in settings.items()}) for arm in arms]
        first, second = (run_specs(arm, [seed], device, threads)[seed] for arm in made)
        return first, second

    crossed = {
        (i, j): pair(j) if i == j else pair(j, start=FreshFrom(seed=i)) for i, j in itertools.product(seeds, seeds)
    }
    chaos = {k: pair(k, start=Perturbed()) for k in seeds}
    within = arms[0].train.sampling
    halves = {
        (k, other): pair(k, train_sampling=HalfOfText(within=within, draw=k, other=other))
        for k in seeds
        for other in (False, True)
    }
    return Design(crossed, chaos, halves)


def decompose(
    study: Study,
    arm: str | None = None,
    execution: Execution | None = None,
    *,
    levels: int = LEVELS,
    home: Path | None = None,
    progress: bool = True,
) -> Decomposition:
    """Train the runs that separate the sources of noise, and estimate them: what `h2h plan --variance` does.

    `arm` is the first variant unless given. A call that was stopped continues: finished runs are in the store.
    """
    variant = _variant(study, arm)
    if not all(isinstance(arm.start, Fresh) for arm in (study.control, variant.arm)):
        raise InputError("--variance varies the initial weights: it needs a study that starts from random weights")
    if not 2 <= levels <= len(study.all_seeds):
        raise InputError(f"levels is a number from 2 to the {len(study.all_seeds)} seeds of the study, not {levels}")
    if variant.arm.train.sampling != study.control.train.sampling:
        raise InputError("the arm reads other batches than the control: their noise cannot be separated by source")
    home, how = home or store.home(), (execution or Execution()).checked()
    control = study.variants[0]
    own = dataclasses.replace(
        study,
        arms={control.name: control.arm, variant.name: variant.arm},
        vary=list(study.paths),
        seeds=study.all_seeds[:levels],
        again=False,
        chaos=False,
        margin=None,
        published=None,
        name=f"{study.folder_name[: LONGEST_NAME - 9]}-variance",
        takes="",
        expected="",
    )
    with study_screen(study.measured, quiet=not progress) as screen:
        audit_models(own, home, screen.hear)
        outcome, _ = train_and_load(own, how, home, screen.hear)
        trials = tuning.trials_of(own, how.device, how.threads)
        best = {record.arm: record.best for record in outcome.record.tuning}
        arms = tuple(at_point(v.arm, best.get(v.name, {})) for v in (control, variant))
        design = design_of((arms[0], arms[1]), own.all_seeds, how.device, how.threads)
        cells = design.cells((control.name, variant.name))
        missing = [spec for _, spec in cells if not Record.at(home, spec.id).has_ended]
        if missing:
            timed = forecast_runs([spec.arm for spec in missing], how.jobs or 1, how.threads)
            screen.hear(Note(forecast_line(timed)))
        if not _train(cells, how, home, screen.hear):
            raise StudyStopped
    measured = _differences(design, study.measured, home)
    rate = rate_noise(trials, own, home) if trials else None
    found = components(*measured, _texts(outcome), rate)
    effect, pairs = float(np.mean(measured[0])), _pairs(study, variant.name, home)
    return Decomposition(
        arm=variant.name,
        metric=study.measured,
        effect=effect,
        pairs=pairs,
        levels=levels,
        runs=len({spec.id for _, spec in cells}),
        components=tuple(shared(found, pairs)),
        next_run=next_run(found, effect, pairs, study),
    )


def _variant(study: Study, arm: str | None) -> Any:
    names = [variant.name for variant in study.variants[1:]]
    if not names:
        raise InputError("this study compares nothing: --variance needs a study that varies something")
    if arm is not None and arm not in names:
        raise InputError(f"no arm '{arm}' in this study: {nearest(arm, names)}")
    return study.variants[1 + (names.index(arm) if arm else 0)]


def _pairs(study: Study, arm: str, home: Path) -> int:
    """The pairs that the study has in the store, or else will have."""
    folder = folder_of(study, home)
    found = load_outcome(folder).verdicts if has_study(folder) else ()
    stored = next((row.verdict.pairs for row in found if row.arm == arm), 0)
    return stored or (FIXED_PAIRS if study.is_sequential else len(study.all_seeds))


def _train(cells: list[tuple[Cell, RunSpec]], how: Execution, home: Path, listen: Listener) -> bool:
    """Train the runs that the store lacks; False if the user stopped."""
    listen(Stage("runs", [cell for cell, _ in cells]))
    events = train_all(how.executor(), list({spec.id: spec for _, spec in cells}.values()), home)
    while True:
        try:
            listen(next(events))
        except StopIteration as end:
            return bool(end.value)


def _differences(design: Design, metric: str, home: Path) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The difference of every cell: crossed (L, L), chaos (L,), halves (L, 2)."""

    def value(spec: RunSpec) -> float:
        record = Record.at(home, spec.id)
        result = record.result if record.exists else None
        found = value_of(result, metric) if result is not None and result.is_complete else math.nan
        if not math.isfinite(found):
            why = record.failure or (result.ended if result else "it was not trained")
            raise InputError(f"run {spec.id} of the decomposition has no {metric}: {why}; lower the learning rate")
        return found

    def difference(pair: tuple[RunSpec, RunSpec]) -> float:
        return value(pair[1]) - value(pair[0])

    levels = len(design.chaos)
    crossed = np.array([difference(pair) for pair in design.crossed.values()]).reshape(levels, levels)
    chaos = np.array([difference(pair) for pair in design.chaos.values()])
    halves = np.array([difference(pair) for pair in design.halves.values()]).reshape(levels, 2)
    return crossed, chaos, halves


def _texts(outcome: Outcome) -> tuple[float, int] | None:
    """The sd of the mean difference if the test texts were resampled, and the number of clusters."""
    items = outcome.verdicts.arms[0].items
    if items is None or not math.isfinite(items.high - items.low):
        return None
    return (items.high - items.low) / (2 * 1.96), items.clusters


def rate_noise(trials: Sequence[Trial], study: Study, home: Path) -> float:
    """The sd of the difference due to the choice of settings, if tuning were repeated with other seeds.

    Tuning seeds are resampled, and each arm chooses again. The difference is that of the validation means at the
    chosen points, because tuning never reads a test set.
    """
    metric = f"validation/{figure_of(study.measured)}"
    count = study.tuning_seeds
    by_arm = {
        variant.name: np.array([_by_seed(t, metric, home) for t in trials if t.arm == variant.name])
        for variant in study.variants
    }  # (points, seeds)
    if count**count <= MOST_DRAWS:
        draws = np.array(list(itertools.product(range(count), repeat=count)))
    else:
        draws = np.random.default_rng(0).integers(0, count, (MOST_DRAWS, count))
    sign = -1.0 if better_way(metric) == "higher" else 1.0
    chosen = {}
    for name, values in by_arm.items():
        usable = values[np.isfinite(values).all(axis=1)]  # a point that lost a run is not chosen
        resampled = usable[:, draws].mean(axis=2)  # (points, draws)
        chosen[name] = usable.mean(axis=1)[(sign * resampled).argmin(axis=0)]
    control, arm = (chosen[variant.name] for variant in study.variants[:2])
    return float((arm - control).std())


def _by_seed(trial: Trial, metric: str, home: Path) -> list[float]:
    results = [record.result for record in trial.records(home)]
    return [value_of(r, metric) if r is not None and r.is_complete else math.nan for r in results]
