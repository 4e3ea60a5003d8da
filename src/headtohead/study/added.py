"""What happens to arms that are added to a study whose verdicts were shown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from headtohead.outcome.unplanned import least_pairs
from headtohead.run import store
from headtohead.run.studies import StudyRecord, has_study, read_study
from headtohead.stats import Design
from headtohead.stats.anytime import reserve_parts
from headtohead.study.analyses import was_shown
from headtohead.study.execution import folder_of
from headtohead.study.study import Study

NOT_PLANNED = "these numbers are for planned analyses; an arm that is added needs more pairs"


@dataclass(frozen=True)
class AddedArms:
    """Arms that only the test for unplanned analyses judges, and the fewest pairs with which it can decide one."""

    arms: tuple[str, ...]
    least: int | None  # None: the plan keeps no error for unplanned analyses
    most: int  # pairs that the study will have

    @property
    def never(self) -> bool:
        """Whether no number of pairs of this study can decide one of them."""
        return self.least is None or self.least > self.most

    def says(self) -> str:
        """What will happen to them, in sentences."""
        many = len(self.arms) > 1
        names, is_are, them = ", ".join(self.arms), "are" if many else "is", "them" if many else "it"
        told = f"{names} {is_are} added after verdicts were shown: the planned analyses do not judge {them}. "
        if self.least is None:
            return f"{told}The plan keeps no error for unplanned analyses, so nothing can decide {them}."
        told += f"The test for unplanned analyses needs at least {self.least} pairs, and more if pairs disagree."
        if self.never:
            told += f" This study has at most {self.most} pairs and cannot decide {them}: ask for more pairs."
        return told


def added_arms(study: Study, home: Path) -> AddedArms | None:
    """The arms that the store's study of this name does not have yet, or got later; None if the plan judges all."""
    folder = folder_of(study, home)
    before = read_study(folder) if has_study(folder) else None
    if before is None or not was_shown(before):
        return None
    planned = [arm.spec for arm in before.arms if arm.name not in before.later]
    later = [variant.name for variant in study.variants[1:] if store.plain(variant.arm.to_json()) not in planned]
    if not later:
        return None
    return AddedArms(tuple(later), _least(before, later), max(study.design.analyses))


def _least(before: StudyRecord, later: Sequence[str]) -> int | None:
    """The fewest pairs that can decide one of these arms. The first arm that was ever added has the largest share."""
    design: Design = before.planned
    order = list(dict.fromkeys([*before.later, *later]))
    parts = reserve_parts(0, len(order))
    return least_pairs(design.alpha * design.reserve / min(parts[order.index(name)] for name in later))
