"""The recipes of recipes/published/, by report: what each runs, shows and claims."""

from __future__ import annotations

import dataclasses
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headtohead.errors import InputError, nearest
from headtohead.reproduce.evidence import Claim
from headtohead.reproduce.kinds import Interaction
from headtohead.reproduce.measures import Measure
from headtohead.reproduce.tables import Shown
from headtohead.study import Study
from headtohead.userfiles import load_file

WHERE = Path("recipes/published")
PLAIN = ("documents",)  # models and arms that the others share
QUICK_SEEDS = 3


@dataclass(frozen=True)
class Experiment:
    """One recipe."""

    name: str
    studies: dict[str, Study]  # by the names they have in the store
    shown: tuple[Shown, ...]
    claims: tuple[Claim, ...]
    interactions: tuple[Interaction, ...]
    measure: Measure | None
    quick: tuple[str, ...]  # settings of its small version
    about: tuple[str, ...] = ()  # reports, beyond those it has figures or claims of

    @property
    def reports(self) -> set[str]:
        return {s.figure[3:6] for s in self.shown} | {c.id[:3] for c in self.claims} | set(self.about)

    def name_of(self, study: Study) -> str:
        """Of a study that its evidence refers to."""
        return next(name for name, own in self.studies.items() if own is study)

    def to_run(self, quick: bool) -> dict[str, Study]:
        """By the names that evidence refers to. The small version has few seeds and short schedules: it shows that
        everything runs, and roughly where it leads."""
        if not quick:
            return {name: dataclasses.replace(study, name=name) for name, study in self.studies.items()}
        return {name: self._small(name, study) for name, study in self.studies.items()}

    def _small(self, name: str, study: Study) -> Study:
        seeds = study.all_seeds[:QUICK_SEEDS]
        return dataclasses.replace(study.set(*self.quick), seeds=seeds, tune={}, again=False, name=f"{name}-quick")


def experiments(where: Path = WHERE) -> list[Experiment]:
    if not where.is_dir():
        raise InputError(f"there is no folder {where} here: give the command in a clone of the project")
    return [experiment(file) for file in sorted(where.glob("*.py")) if file.stem not in PLAIN]


def experiment(file: Path) -> Experiment:
    module = vars(load_file(file))
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


def figures(where: Path = WHERE) -> dict[str, Any]:
    file = where / "figures.toml"
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError:
        raise InputError(f"{file} is not there: it holds the published figures; bring it back") from None
    except ValueError as error:  # of TOML, or no text at all
        raise InputError(f"{file} cannot be read: {' '.join(str(error).split())}") from None
