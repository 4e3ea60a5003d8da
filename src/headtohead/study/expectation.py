"""What can be said about a study before its first pair: the noise of earlier studies with the same control.

Nothing is trained here; `plan_study` trains a pilot and knows more.
"""

from __future__ import annotations

from pathlib import Path

from headtohead.outcome.noise import noise_of_arms
from headtohead.outcome.outcome import load_outcome
from headtohead.run import files
from headtohead.run.studies import has_study
from headtohead.stats.noise import expected
from headtohead.study.execution import folder_of
from headtohead.study.noise import earlier_noise
from headtohead.study.plan import StudyPlan, forecast_from, with_others
from headtohead.study.study import Study


def expected_plan(study: Study, effect: float | str, seconds: float, jobs: int, home: Path) -> StudyPlan | None:
    """The plan by the noise of the study's own pairs and of earlier studies with the same control and metric; None if
    the store has no such pair. `seconds` is the time of one run."""
    folder, earlier = folder_of(study, home), earlier_noise(study, home)
    own = noise_of_arms(load_outcome(folder), f"study {folder.name}") if has_study(folder) else {}
    noise = with_others(own, earlier)
    source = " and ".join(f"study {name}" for name in earlier) or f"study {folder.name}"
    other = expected([*own.values(), *(one for arms in earlier.values() for one in arms)], f"other arms ({source})")
    if other is None:
        return None
    names = [variant.name for variant in study.variants[1:]]
    known = folder if own else home / files.STUDIES / next(iter(earlier))
    mean = load_outcome(known).verdicts.control_mean
    return forecast_from(study, {name: noise.get(name, other) for name in names}, effect, mean, seconds, jobs)
