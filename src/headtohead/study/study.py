"""Studies: a question, a control, the one thing that is varied, the seeds, the metric.

    Study(
        question="Do rotary positions help a small language model?",
        control=Arm(),
        vary={"model.position": [Learned(), Rope(), Alibi()]},
        metric="test/loss",
    )

Without `seeds` the study is sequential: it is analysed after 6, 8, 10, 14 and 20 pairs, and an arm is trained until it
is decided. With `seeds` it has one analysis, of that many pairs.

Arms differ from the control only in the declared fields. Every arm is trained with every seed. All arms of a seed have
the same initial weights where shapes agree, the same batches and the same dropout, so that differences within a seed
come from the arms.
"""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from headtohead.errors import InputError, nearest
from headtohead.outcome.metrics import FIGURES, better_way, figure_of, read_amount
from headtohead.spec import Spec
from headtohead.stats import FIXED_PAIRS, LEAST_PAIRS, MAX_PAIRS, MOST_PAIRS, Design, Rule, sequential_design
from headtohead.training.arm import Arm

if TYPE_CHECKING:
    from headtohead.outcome.outcome import Outcome
    from headtohead.run.locks import LockedPlan
    from headtohead.study.plan import StudyPlan

PLACES = ("model", "train", "start", "tokenizer", "data")
LONGEST_NAME = 100  # characters of a study's name
FIRST_TUNING_SEED = 1_000_000  # no verdict uses seeds from here on
AGAIN_PAIRS = 6  # of a sequential study, for which the control is trained again with reshuffled batches
CHAOS_PAIRS = 3  # and with perturbed weights: enough to see the size of numerical chaos


@dataclass(frozen=True)
class Variant:
    """An arm with the name it has in the table."""

    name: str
    arm: Arm
    differs: dict[str, str]  # from the control, by field path


@dataclass(frozen=True)
class Study:
    """What to find out, and how. `vary` maps field paths to values; several paths make a factorial design. Arms that
    cannot be written this way go into `arms`, and `vary` lists only the paths. With vary=() the study is the control
    alone, over its seeds.

    Examples:
        >>> vary = {"model.norm": ["LayerNorm", "RMSNorm"], "model.layers": [2, 4]}
        >>> study = h2h.Study(question="Which norm?", control=h2h.Arm(), vary=vary)
        >>> len(study.variants)  # the control among them
        4
    """

    question: str  # in words
    control: Arm  # what the other arms are compared with
    vary: Mapping[str, Sequence[Any]] | Sequence[str]  # path of a setting → its values
    seeds: int | Sequence[int] | None = None  # None: pairs are added until every arm is decided
    max_pairs: int = MAX_PAIRS  # of a sequential study
    rule: Rule = "flips"  # t: limits that assume normal noise
    futility: bool = False  # a sequential study also stops arms that will hardly be decided
    metric: str = ""  # SET/FIGURE, such as test/loss, obama/perplexity, validation/accuracy; empty: the task's default
    margin: float | str | None = None  # a difference too small to matter: 0.01, or "1%" of the control's mean
    arms: Mapping[str, Arm] = field(default_factory=dict)  # by name, in place of values in `vary`
    tune: Mapping[str, Sequence[Any]] = field(default_factory=dict)  # the same grid for every arm
    tuning_seeds: int = 3  # with which settings are tuned; no verdict uses them
    published: float | None = None  # a published difference, variant − control: excluded or compatible?
    again: bool = True  # train the control again with reshuffled batches: the noise of a new run
    chaos: bool | None = None  # and with weights perturbed by 1e-6; None: in sequential studies
    name: str = ""  # of its folder in the store; empty: the name of the recipe's file, or one made from what is varied
    command: str = ""  # that runs it
    takes: str = ""  # its usual run time
    expected: str = ""  # what a run of it found
    lengths: Sequence[float] = ()  # (0.5, 2): train the control at half and twice its steps too (lengths.py)

    def __post_init__(self) -> None:
        if not isinstance(self.control, Arm):
            raise InputError(f"a study's control is an Arm, not {type(self.control).__name__}")
        self._check_kinds()
        seeds = self.all_seeds
        if len(seeds) < 2:
            raise InputError(
                f"a study needs at least 2 seeds, and {LEAST_PAIRS} to decide anything, not {len(seeds)}: "
                f"give more, such as --seeds {FIXED_PAIRS}"
            )
        if len(set(seeds)) < len(seeds) or min(seeds) < 0:
            raise InputError(f"seeds must be different numbers, 0 or larger, not {list(seeds)}")
        if self.tune and any(FIRST_TUNING_SEED <= s < FIRST_TUNING_SEED + self.tuning_seeds for s in seeds):
            raise InputError(f"seeds from {FIRST_TUNING_SEED:,} on are for tuning: choose smaller ones for the verdict")
        if isinstance(self.vary, Mapping) and not self.vary:
            raise InputError(
                'a study varies something: vary={"model.position": [Learned(), Rope()]}; vary=() is the control alone'
            )
        for path in (*self.paths, *self.tune):
            self._check_path(path)
        both = set(self.paths) & set(self.tune)
        if both:
            raise InputError(f"{both.pop()} is varied and tuned: choose one")
        if self.margin is not None:
            read_amount(self.margin)
        _ = self.design  # refuses impossible numbers of pairs
        self._check_metric()
        self._check_objectives()
        if len(self.variants) < 2 and self.vary:
            raise InputError("you listed only values that the control has: add another value to compare")

    def _check_kinds(self) -> None:
        """Refuse values of wrong types, because recipes are typed by hand."""
        whole = self.seeds is None or (isinstance(self.seeds, int) and not isinstance(self.seeds, bool))
        listed = isinstance(self.seeds, Sequence | range) and not isinstance(self.seeds, str)
        if not whole and not (listed and all(isinstance(s, int) for s in self.seeds)):  # type: ignore[union-attr]
            raise InputError(
                f"seeds is a number or a list of whole numbers, such as 8 or [0, 1, 2], not {self.seeds!r}"
            )
        if not isinstance(self.max_pairs, int) or isinstance(self.max_pairs, bool):
            raise InputError(f"max_pairs is a number of pairs, such as {MAX_PAIRS}, not {self.max_pairs!r}")
        for name, count in (("seeds", self.seeds), ("max_pairs", self.max_pairs)):
            if isinstance(count, int) and count > MOST_PAIRS:
                raise InputError(f"{name} is at most {MOST_PAIRS:,}, not {count:,}")
        for name, value in (("futility", self.futility), ("again", self.again), ("chaos", self.chaos)):
            if not isinstance(value, bool) and not (name == "chaos" and value is None):
                raise InputError(f"{name} is True or False, not {value!r}")
        real = isinstance(self.published, int | float) and not isinstance(self.published, bool)
        if self.published is not None and not (real and math.isfinite(self.published)):
            raise InputError(f"published is a difference, such as -0.097, not {self.published!r}")
        for name in ("question", "metric", "name", "command", "takes", "expected"):
            if not isinstance(getattr(self, name), str):
                raise InputError(f"a study's {name} is a text, not {getattr(self, name)!r}")
        long = len(self.name) > LONGEST_NAME
        odd = "/" in self.name or self.name.startswith(".") or not self.name.isprintable() or long
        if self.name and odd:
            raise InputError(f"a study's name must be usable as a folder name: {self.name[:40]!r} is not")
        if isinstance(self.vary, str) or not isinstance(self.vary, Mapping | Sequence):
            raise InputError('vary names fields and their values: vary={"model.position": [Learned(), Rope()]}')
        if not isinstance(self.arms, Mapping) or not all(isinstance(arm, Arm) for arm in self.arms.values()):
            raise InputError('arms are named: arms={"mine": control.set("model.heads", 1)}')
        for name in self.arms:
            if not isinstance(name, str) or not name.strip() or not name.isprintable():
                raise InputError(f"an arm's name is a line of text, not {name!r}")
        lists = isinstance(self.tune, Mapping) and all(
            isinstance(values, Sequence) and not isinstance(values, str) and values for values in self.tune.values()
        )
        if not lists:
            raise InputError('tune names fields and the values to try: tune={"train.optimizer.lr": [1e-3, 3e-3]}')
        if isinstance(self.lengths, str) or not all(
            isinstance(k, int | float) and 0 < k < float("inf") and k != 1 for k in self.lengths
        ):
            raise InputError(f"lengths are factors of the control's steps, such as (0.5, 2), not {self.lengths!r}")
        if self.tune and (not isinstance(self.tuning_seeds, int) or self.tuning_seeds < 1):
            raise InputError(f"tuning_seeds is a number, 1 or larger, not {self.tuning_seeds!r}")

    # -- arms and metric -----------------------------------------------------------------------------------------------

    @property
    def paths(self) -> tuple[str, ...]:
        """The declared fields."""
        return tuple(self.vary)

    @property
    def is_sequential(self) -> bool:
        return self.seeds is None

    @property
    def all_seeds(self) -> tuple[int, ...]:
        """The seeds, in the order of their pairs; of a sequential study those that it may come to use."""
        if self.seeds is None:
            return tuple(range(self.max_pairs))
        return tuple(range(self.seeds)) if isinstance(self.seeds, int) else tuple(self.seeds)

    @property
    def design(self) -> Design:
        """When the study is analysed."""
        if self.seeds is None:
            return sequential_design(self.max_pairs, rule=self.rule)
        return Design((len(self.all_seeds),), rule=self.rule)

    @property
    def floors(self) -> dict[str, tuple[int, ...]]:
        """The seeds with which the control is trained again, by kind: `again` and `chaos`."""
        wanted = {"again": self.again, "chaos": self.is_sequential if self.chaos is None else self.chaos}
        most = {"again": AGAIN_PAIRS if self.is_sequential else len(self.all_seeds), "chaos": CHAOS_PAIRS}
        return {kind: self.all_seeds[: most[kind]] for kind, trained in wanted.items() if trained}

    @property
    def measured(self) -> str:
        """The metric; the task's default if none is given."""
        if self.metric:
            return self.metric
        if self.control.task == "classifier":
            return "test/accuracy"
        return "test/bits_per_byte" if self._changes_tokens else "test/loss"

    @property
    def better(self) -> Literal["lower", "higher"]:
        return better_way(self.measured)

    @property
    def _changes_tokens(self) -> bool:
        return any(path.split(".")[0] in ("tokenizer", "data") for path in (*self.paths, *self.tune))

    @cached_property
    def variants(self) -> tuple[Variant, ...]:
        """The control, then the other arms."""
        variants = self._given() if self.arms or not self.vary else self._factorial()
        known: dict[str, str] = {}
        for variant in variants:
            same = known.setdefault(variant.arm.id, variant.name)
            if same != variant.name:
                raise InputError(f"{same} and {variant.name} are the same arm: leave one out")
        if len({v.name for v in variants}) < len(variants):
            raise InputError(f"two arms have the same name: {', '.join(v.name for v in variants)}")
        return tuple(variants)

    def _given(self) -> list[Variant]:
        variants = [Variant(self._control_name(), self.control, {})]
        for name, arm in self.arms.items():
            for difference in self.control.diff(arm):
                if not any(f"{difference.path}.".startswith(f"{path}.") for path in self.paths):
                    raise InputError(
                        f"{name} differs from the control in {difference.path} too ({_label(difference.left)} and "
                        f"{_label(difference.right)}), which vary does not declare: add it, or make it equal"
                    )
            if arm == self.control:
                variants[0] = dataclasses.replace(variants[0], name=name)
                continue
            variants.append(
                Variant(name, arm, {d: _label(arm.get(d)) for d in self.paths if arm.get(d) != self.control.get(d)})
            )
        return variants

    def _factorial(self) -> list[Variant]:
        if not isinstance(self.vary, Mapping):
            raise InputError('vary names fields and their values: vary={"model.position": [Learned(), Rope()]}')
        choices: list[list[tuple[str, Any]]] = []
        for path, values in self.vary.items():
            if isinstance(values, str) or not isinstance(values, Sequence) or not values:
                raise InputError(f'vary["{path}"] is a list of values, such as [Learned(), Rope()], not {values!r}')
            read = [self.control.set(path, value).get(path) for value in values]
            twice = next((v for n, v in enumerate(read) if v in read[:n]), None)
            if twice is not None:
                raise InputError(f"{path} has {_label(twice)} twice: two arms would be the same")
            default = self.control.get(path)
            choices.append([(path, default), *((path, value) for value in read if value != default)])
        variants = []
        for chosen in itertools.product(*choices):
            arm = self.control
            for path, value in chosen:
                if value != self.control.get(path):
                    arm = arm.set(path, value)
            differs = {path: _label(value) for path, value in chosen if value != self.control.get(path)}
            name = ", ".join(_name(path, arm.get(path)) for path in differs) or self._control_name()
            variants.append(Variant(name, arm, differs))
        return variants

    def _control_name(self) -> str:
        return ", ".join(_name(path, self.control.get(path)) for path in self.paths) or "control"

    def _check_path(self, path: str) -> None:
        place = path.split(".")[0]
        if place not in PLACES:
            known = [f.name for f in dataclasses.fields(self.control)]
            hint = f"{place} is the same for all arms" if place in known else nearest(place, PLACES)
            raise InputError(f"a study varies fields of {', '.join(PLACES)}, not '{path}': {hint}")
        self.control.get(path)  # raises an error with the nearest name

    def _check_metric(self) -> None:
        figure = figure_of(self.measured)
        known = FIGURES[self.control.task]
        if figure not in known:
            raise InputError(f"a {task_name(self.control)} has no '{figure}': {nearest(figure, known)}")
        if self._changes_tokens and figure in ("loss", "perplexity") and self.control.task == "lm":
            name = self.measured.partition("/")[0]
            raise InputError(f"{figure} per token cannot be compared across vocabularies: use {name}/bits_per_byte")

    def _check_objectives(self) -> None:
        """Refuse arms whose losses measure different things."""
        for variant in self.variants:
            variant.arm.refuse_misfits()
        predicted = {v.arm.train.objective.predicts: v.name for v in self.variants if v.arm.task == "lm"}
        if len(predicted) > 1:
            arms = " and ".join(f"that of {name} is of {what}" for what, name in predicted.items())
            raise InputError(
                f"the losses of these arms cannot be compared: {arms}; vary objectives that predict the same"
            )

    # -- runs ----------------------------------------------------------------------------------------------------------

    def set(self, *settings: str) -> Study:
        """Return a copy with FIELD=VALUE settings in every arm."""
        arms = {name: arm.settings(list(settings)) for name, arm in self.arms.items()}
        return dataclasses.replace(self, control=self.control.settings(list(settings)), arms=arms)

    @property
    def id(self) -> str:
        """Names the family of comparisons: arms and seeds that are added later belong to it. The path of a data file is
        part of it, while the id of a run depends only on the file's content."""
        tuned = sorted((k, str(v)) for k, v in self.tune.items())
        seeds = self.tuning_seeds if tuned else 0
        identity = [self.control.to_json(), sorted(self.paths), self.measured, tuned, seeds]
        return hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()[:16]

    @property
    def folder_name(self) -> str:
        """The study's name, or one made from the task, the corpus and the varied fields, such as lm-sotu-position."""
        return self.name or folder_name(self.control, self.paths)

    def grid(self) -> Iterator[dict[str, Any]]:
        for chosen in itertools.product(*self.tune.values()):
            yield dict(zip(self.tune, chosen, strict=True))

    # -- running -------------------------------------------------------------------------------------------------------

    def run(
        self,
        *,
        jobs: int | None = None,
        on: str = "local",
        device: str = "auto",
        threads: int = 1,
        home: str | Path | None = None,
        progress: bool = True,
        budget: str | float | None = None,
    ) -> Outcome:
        """Audit the models, train what the store lacks, write the report, and return the outcome: what `h2h run` does.

        `on` is local, ray or ray:ADDRESS. `budget` limits the time of a sequential study: seconds, "30min" or "2h".
        Ctrl-C saves everything and raises KeyboardInterrupt; call again to continue.
        """
        from headtohead.display.study import study_screen
        from headtohead.run.executors.execution import Execution, read_duration
        from headtohead.study.workflow import run_study

        seconds = None if budget is None else read_duration(budget)
        how = Execution(jobs=jobs, on=on, device=device, threads=threads, budget=seconds)
        with study_screen(self.measured, quiet=not progress) as screen:
            return run_study(self, how, home=Path(home) if home else None, listen=screen.hear)

    def plan(self, effect: float | str = "1%", *, jobs: int | None = None, home: str | Path | None = None) -> StudyPlan:
        """Forecast how many pairs and minutes detect an effect: what `h2h plan` does. It may train a pilot."""
        from headtohead.study.plan import plan_study

        return plan_study(self, effect, jobs=jobs, home=Path(home) if home else None)

    def lock(self, home: str | Path | None = None) -> LockedPlan:
        """Write and hash the plan before the first run: what `h2h plan --lock` does."""
        from headtohead.study.plan import lock_plan

        return lock_plan(self, home=Path(home) if home else None)[0]

    def outcome(self, home: str | Path | None = None) -> Outcome:
        """Read the outcome from the store, without training anything."""
        from headtohead.outcome.outcome import load_outcome
        from headtohead.study.execution import existing_folder

        return load_outcome(existing_folder(self, Path(home) if home else None))


def folder_name(control: Arm, paths: Sequence[str]) -> str:
    """A folder name for a study without a name."""
    corpus = control.data.corpus
    text = Path(corpus.path).stem if corpus.path else corpus.name
    name = "-".join([control.task, text.strip(".") or "file", *(path.rpartition(".")[2] for path in paths)])
    return "".join(c if c.isprintable() and c != "/" else "-" for c in name)[:LONGEST_NAME]


def task_name(arm: Arm) -> str:
    return "language model" if arm.task == "lm" else arm.task


def _name(path: str, value: Any) -> str:
    """Rope for a part, lr=0.01 for a number."""
    shown = f"{value:g}" if isinstance(value, float) and float(f"{value:g}") == value else _label(value)
    return _label(value) if isinstance(value, Spec) else f"{path.rpartition('.')[2]}={shown}"


def _label(value: Any) -> str:
    """Rope, Causal & Local: without empty parentheses."""
    text = str(value).replace("()", "")
    return text[1:-1] if text.startswith("(") and text.endswith(")") and text.count("(") == 1 else text
