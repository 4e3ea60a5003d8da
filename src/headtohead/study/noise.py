"""The noise that earlier studies in the store tell about a study."""

from __future__ import annotations

from pathlib import Path

from headtohead.errors import InputError
from headtohead.outcome.noise import noise_of_arms
from headtohead.outcome.outcome import load_outcome
from headtohead.run import store
from headtohead.run.studies import read_study, study_folders
from headtohead.stats.noise import Noise
from headtohead.study.execution import folder_of
from headtohead.study.study import Study


def earlier_noise(study: Study, home: Path) -> dict[str, list[Noise]]:
    """The noise of arms of earlier studies with the same control and metric, by study."""
    control, own = store.plain(study.control.to_json()), folder_of(study, home)
    found: dict[str, list[Noise]] = {}
    for folder in study_folders(home):
        try:
            record = read_study(folder)
        except InputError:
            continue
        if folder != own and record.metric == study.measured and record.tables[0].control.spec == control:
            found[folder.name] = list(noise_of_arms(load_outcome(folder), f"study {folder.name}").values())
    return {name: arms for name, arms in found.items() if arms}
