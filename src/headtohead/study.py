"""Studies: a question, a control, the one thing that is varied, the seeds, the metric.

    Study(
        question="Do rotary positions help a small language model?",
        control=Arm(),
        vary={"model.position": [Learned(), Rope(), Alibi()]},
        seeds=6,
        metric="test/loss",
    )

Arms differ from the control in the declared fields and in nothing else. Every arm is trained with every seed; a seed
decides initial weights, batches and dropout alike for all arms, so that differences within a seed are the arms' own.
"""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from headtohead.arm import Arm
from headtohead.errors import InputError, nearest
from headtohead.metrics import FIGURES, better_way, figure_of, read_amount
from headtohead.spec import Spec
from headtohead.stats import LEAST_PAIRS
from headtohead.userfiles import load_file

PLACES = ("model", "train", "start", "tokenizer", "data")
FIRST_TUNING_SEED = 1_000_000  # far from any seed that a verdict is made of


@dataclass(frozen=True)
class Variant:
    """An arm with the name it has in the table."""

    name: str
    arm: Arm
    differs: dict[str, str]  # from the control, by field path


@dataclass(frozen=True)
class Study:
    """What to find out, and how. `vary` maps field paths to values; several make a factorial. Where arms cannot be
    written so, give them whole in `arms` and only the paths in `vary`. With vary=() it is the control alone, over its
    seeds."""

    question: str
    control: Arm
    vary: Mapping[str, Sequence[Any]] | Sequence[str]
    seeds: int | Sequence[int] = LEAST_PAIRS
    metric: str = ""  # SET/FIGURE, such as test/loss, obama/perplexity, validation/accuracy; empty: the task's own
    margin: float | str | None = None  # a difference too small to matter: 0.01, or "1%" of the control's mean
    arms: Mapping[str, Arm] = field(default_factory=dict)
    tune: Mapping[str, Sequence[Any]] = field(default_factory=dict)  # the same grid for every arm
    tuning_seeds: int = 3
    again: bool = True  # the control once more with batches in another order: the noise floor
    name: str = ""  # of its folder in the store; empty: that of the recipe's file
    command: str = ""
    takes: str = ""  # its usual run time
    expected: str = ""

    def __post_init__(self) -> None:
        if not isinstance(self.control, Arm):
            raise InputError(f"a study's control is an Arm, not {type(self.control).__name__}")
        self._check_kinds()
        seeds = self.all_seeds
        if len(seeds) < 2:
            raise InputError(
                f"{'one seed makes one pair, and one pair' if seeds else 'no seed makes no pair, and that'} decides "
                f"nothing: take {LEAST_PAIRS} or more, such as --seeds 6"
            )
        if len(set(seeds)) < len(seeds) or min(seeds) < 0:
            raise InputError(f"seeds must be different numbers from 0 on, not {list(seeds)}")
        if self.tune and any(FIRST_TUNING_SEED <= s < FIRST_TUNING_SEED + self.tuning_seeds for s in seeds):
            raise InputError(f"seeds from {FIRST_TUNING_SEED:,} on are for tuning: take others for the verdict")
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
        self._check_metric()
        if len(self.variants) < 2 and self.vary:
            raise InputError(
                "every value is the control's own: name another one, so that there is something to compare"
            )

    def _check_kinds(self) -> None:
        """What was given is of the kind that is meant; a recipe is typed by hand."""
        whole = isinstance(self.seeds, int) and not isinstance(self.seeds, bool)
        listed = isinstance(self.seeds, Sequence | range) and not isinstance(self.seeds, str)
        if not whole and not (listed and all(isinstance(s, int) for s in self.seeds)):  # type: ignore[union-attr]
            raise InputError(
                f"seeds is a number or a list of whole numbers, such as 6 or [0, 1, 2], not {self.seeds!r}"
            )
        for name in ("question", "metric", "name", "command", "takes", "expected"):
            if not isinstance(getattr(self, name), str):
                raise InputError(f"a study's {name} is a text, not {getattr(self, name)!r}")
        odd = "/" in self.name or self.name.startswith(".") or not self.name.isprintable() or len(self.name) > 100
        if self.name and odd:
            raise InputError(f"a study's name is that of a folder: {self.name[:40]!r} will not do")
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
        if self.tune and (not isinstance(self.tuning_seeds, int) or self.tuning_seeds < 1):
            raise InputError(f"tuning_seeds is a number from 1 on, not {self.tuning_seeds!r}")

    # -- what it is made of --------------------------------------------------------------------------------------------

    @property
    def paths(self) -> tuple[str, ...]:
        """The declared fields."""
        return tuple(self.vary)

    @property
    def all_seeds(self) -> tuple[int, ...]:
        return tuple(range(self.seeds)) if isinstance(self.seeds, int) else tuple(self.seeds)

    @property
    def measured(self) -> str:
        """The metric, the task's own where none was named."""
        if self.metric:
            return self.metric
        if self.control.task == "classifier":
            return "test/accuracy"
        return "test/bits_per_byte" if self._changes_tokens else "test/loss"

    @property
    def better(self) -> str:
        return better_way(self.measured)

    @property
    def _changes_tokens(self) -> bool:
        return any(path.split(".")[0] in ("tokenizer", "data") for path in (*self.paths, *self.tune))

    @cached_property
    def variants(self) -> tuple[Variant, ...]:
        """The control, then the others."""
        made = self._given() if self.arms or not self.vary else self._factorial()
        known: dict[str, str] = {}
        for variant in made:
            same = known.setdefault(variant.arm.id, variant.name)
            if same != variant.name:
                raise InputError(f"{same} and {variant.name} are the same arm: leave one out")
        if len({v.name for v in made}) < len(made):
            raise InputError(f"two arms have one name: {', '.join(v.name for v in made)}")
        return tuple(made)

    def _given(self) -> list[Variant]:
        made = [Variant(self._control_name(), self.control, {})]
        for name, arm in self.arms.items():
            for difference in self.control.diff(arm):
                if not any(f"{difference.path}.".startswith(f"{path}.") for path in self.paths):
                    raise InputError(
                        f"{name} differs from the control in {difference.path} too ({_label(difference.left)} and "
                        f"{_label(difference.right)}), which vary does not declare: add it, or make it equal"
                    )
            if arm == self.control:
                made[0] = dataclasses.replace(made[0], name=name)
                continue
            made.append(
                Variant(name, arm, {d: _label(arm.get(d)) for d in self.paths if arm.get(d) != self.control.get(d)})
            )
        return made

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
            own = self.control.get(path)
            choices.append([(path, own), *((path, value) for value in read if value != own)])
        made = []
        for chosen in itertools.product(*choices):
            arm = self.control
            for path, value in chosen:
                if value != self.control.get(path):
                    arm = arm.set(path, value)
            differs = {path: _label(value) for path, value in chosen if value != self.control.get(path)}
            name = ", ".join(_name(path, arm.get(path)) for path in differs) or self._control_name()
            made.append(Variant(name, arm, differs))
        return made

    def _control_name(self) -> str:
        return ", ".join(_name(path, self.control.get(path)) for path in self.paths) or "control"

    def _check_path(self, path: str) -> None:
        place = path.split(".")[0]
        if place not in PLACES:
            known = [f.name for f in dataclasses.fields(self.control)]
            hint = f"{place} is not for comparing" if place in known else nearest(place, PLACES)
            raise InputError(f"a study varies fields of {', '.join(PLACES)}, not '{path}': {hint}")
        self.control.get(path)  # says the nearest name

    def _check_metric(self) -> None:
        figure = figure_of(self.measured)
        known = FIGURES[self.control.task]
        if figure not in known:
            raise InputError(f"a {_task(self.control)} has no '{figure}': {nearest(figure, known)}")
        if self._changes_tokens and figure in ("loss", "perplexity") and self.control.task == "lm":
            name = self.measured.partition("/")[0]
            raise InputError(f"{figure} a token does not compare across vocabularies: take {name}/bits_per_byte")

    # -- runs ----------------------------------------------------------------------------------------------------------

    def set(self, *settings: str) -> Study:
        """The same study with FIELD=VALUE settings made in every arm."""
        arms = {name: arm.settings(list(settings)) for name, arm in self.arms.items()}
        return dataclasses.replace(self, control=self.control.settings(list(settings)), arms=arms)

    @property
    def id(self) -> str:
        """Names the family of comparisons: arms and seeds that are added later belong to it. So do files: two of the
        same name in two folders are two studies, though a run is known by what is in them."""
        tuned = sorted((k, str(v)) for k, v in self.tune.items())
        said = [self.control.to_json(), sorted(self.paths), self.measured, tuned, self.tuning_seeds if tuned else 0]
        return hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()[:16]

    def grid(self) -> Iterator[dict[str, Any]]:
        for chosen in itertools.product(*self.tune.values()):
            yield dict(zip(self.tune, chosen, strict=True))

    # -- what users call -----------------------------------------------------------------------------------------------

    def run(self, jobs: int | None = None, home: Path | None = None, on: str = "local") -> Any:
        """Train what is not in the store yet, and give the verdicts."""
        from headtohead.carry import Carried, carry_out

        events = list(carry_out(self, home, jobs=jobs, on=on))
        if not isinstance(events[-1], Carried):
            raise KeyboardInterrupt  # everything is saved, and the same call goes on with it
        outcome = self._outcome(home)
        if not any(row.status in ("complete", "diverged", "collapsed") for row in outcome.all_rows):
            raise InputError(f"no run of the study was completed: {outcome.all_rows[0].why}")
        return outcome.verdicts()

    def results(self, home: Path | None = None) -> Any:
        """A pandas table, one row a run."""
        return self._outcome(home).frame()

    def verdicts(self, home: Path | None = None) -> Any:
        """What can be said of each arm against the control, as values that notebooks show."""
        return self._outcome(home).verdicts()

    def _outcome(self, home: Path | None) -> Any:
        from headtohead.carry import written
        from headtohead.outcome import load_outcome

        return load_outcome(written(self, home))


def load_study(recipe: str) -> Study:
    """The study of a Python file, or FILE.py:NAME where it holds several; named after the file unless it has a name."""
    path, marker, which = recipe.partition(".py:")
    file = path + ".py" if marker else recipe
    studies = {k: v for k, v in vars(load_file(file)).items() if isinstance(v, Study)}
    if marker and which not in studies:
        raise InputError(f"{file} has no study '{which}': {nearest(which, studies)}")
    if not marker and len(studies) != 1:
        problem = "holds no Study" if not studies else f"holds {len(studies)} studies"
        remedy = f"say which: {file}:{next(iter(studies))}" if studies else "write one: study = Study(question=…, …)"
        raise InputError(f"{file} {problem}: {remedy}")
    name = which if marker else next(iter(studies))
    study, stem = studies[name], Path(file).stem
    return study if study.name else dataclasses.replace(study, name=stem if len(studies) == 1 else f"{stem}-{name}")


def _task(arm: Arm) -> str:
    return "language model" if arm.task == "lm" else arm.task


def _name(path: str, value: Any) -> str:
    """Rope for a part, lr=0.01 for a number."""
    shown = f"{value:g}" if isinstance(value, float) and float(f"{value:g}") == value else _label(value)
    return _label(value) if isinstance(value, Spec) else f"{path.rpartition('.')[2]}={shown}"


def _label(value: Any) -> str:
    """Rope, Causal & Local: without the parentheses that say nothing."""
    text = str(value).replace("()", "")
    return text[1:-1] if text.startswith("(") and text.endswith(")") and text.count("(") == 1 else text


def split_values(text: str) -> list[str]:
    """Learned,Rope(theta=500),Causal & Local(8) → three; commas within parentheses part nothing."""
    parts, depth = [""], 0
    for letter in text:
        depth += (letter in "([") - (letter in ")]")
        if letter == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return [part.strip() for part in parts if part.strip()]
