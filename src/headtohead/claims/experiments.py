"""The recipes of src/headtohead/recipes/published/, by report: what each runs, shows and claims."""

from __future__ import annotations

import dataclasses
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headtohead.claims.comparisons import Interaction
from headtohead.claims.evidence import Claim
from headtohead.claims.measures import Measure
from headtohead.claims.published_figures import Shown
from headtohead.errors import InputError, nearest
from headtohead.spec.userfiles import load_found_file, published_recipes
from headtohead.study.study import Study

PLAIN = ("documents",)  # files that only define models and arms
QUICK_SEEDS = 3


@dataclass(frozen=True)
class Experiment:
    """A recipe with its studies, figures and claims."""

    name: str
    studies: dict[str, Study]  # by their names in the store
    shown: tuple[Shown, ...]
    claims: tuple[Claim, ...]
    interactions: tuple[Interaction, ...]
    measure: Measure | None
    quick: tuple[str, ...]  # settings of its small version
    about: tuple[str, ...] = ()  # further reports

    @property
    def reports(self) -> set[str]:
        return {s.figure[3:6] for s in self.shown} | {c.id[:3] for c in self.claims} | set(self.about)

    def name_of(self, study: Study) -> str:
        """The name of a study that evidence refers to."""
        return next(name for name, own in self.studies.items() if own is study)

    def to_run(self, quick: bool) -> dict[str, Study]:
        """The studies to run, by name. The quick version has few seeds and short schedules."""
        if not quick:
            return {name: dataclasses.replace(study, name=name) for name, study in self.studies.items()}
        return {name: self._small(name, study) for name, study in self.studies.items()}

    def _small(self, name: str, study: Study) -> Study:
        seeds = study.all_seeds[:QUICK_SEEDS]
        return dataclasses.replace(study.set(*self.quick), seeds=seeds, tune={}, again=False, name=f"{name}-quick")


def experiments(where: Path | None = None) -> list[Experiment]:
    where = where or published_recipes()
    if not where.is_dir():
        raise InputError(f"there is no folder {where}: run this in a clone of the project")
    return [experiment(file) for file in sorted(where.glob("*.py")) if file.stem not in PLAIN]


def experiment(file: Path) -> Experiment:
    module = vars(load_found_file(file))
    held = {name: value for name, value in module.items() if isinstance(value, Study)}
    return Experiment(
        name=file.stem,
        studies={file.stem if len(held) == 1 else f"{file.stem}-{name}": study for name, study in held.items()},
        shown=tuple(module.get("shown", ())),
        claims=tuple(module.get("claims", ())),
        interactions=tuple(module.get("interactions", ())),
        measure=module.get("measure"),
        quick=tuple(module.get("QUICK", ())),
        about=tuple(module.get("REPORTS", ())),
    )


def asked_for(report: str, found: list[Experiment]) -> list[Experiment]:
    if report == "all":
        return found
    reports = sorted({name for experiment in found for name in experiment.reports})
    if report not in reports:
        raise InputError(f"there is no report '{report}': {nearest(report, [*reports, 'all'])}")
    return [e for e in found if report in e.reports]


def figures(where: Path | None = None) -> dict[str, Any]:
    file = (where or published_recipes()) / "figures.toml"
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError:
        raise InputError(f"{file} is missing, with all published figures: restore it") from None
    except ValueError as error:  # no TOML, or no text
        raise InputError(f"{file} cannot be read: {' '.join(str(error).split())}") from None
