"""Arms of the published studies: changed defaults must not change them, because stored results belong to their ids."""

from __future__ import annotations

import json
from typing import Any

import pytest

from headtohead import Arm, Study
from headtohead.spec.userfiles import RECIPES, load_file

MEASURED = sorted((RECIPES / "published" / "measured").glob("*.json"))
OTHERS = {
    ("demo.py", "control"): "b4ecea726c582bcb",
    ("pretrained.py", "scratch"): "c8635e26c2d1ba64",
    ("pretrained.py", "tuned"): "c68ba755434438a0",
}


def without_content(spec: Any) -> Any:
    """A spec as JSON without the fingerprints of data, which need the data."""
    if isinstance(spec, dict):
        return {k: without_content(v) for k, v in spec.items() if k != "content"}
    return [without_content(v) for v in spec] if isinstance(spec, list) else spec


@pytest.fixture(scope="module")
def arms() -> dict[str, dict[str, Arm]]:
    """The arms of all studies, by the study's id, which several studies with one control share, and by name."""
    files = (RECIPES / "published").glob("*.py")
    found: dict[str, dict[str, Arm]] = {}
    for study in (value for file in files for value in vars(load_file(file)).values() if isinstance(value, Study)):
        found.setdefault(study.id, {}).update({variant.name: variant.arm for variant in study.variants})
    return found


@pytest.mark.parametrize("file", MEASURED, ids=lambda file: file.stem)
def test_stored_results_belong_to_the_recipes(file, arms: dict[str, dict[str, Arm]]):
    stored = json.loads(file.read_text(encoding="utf-8"))["study"]
    of_recipe = arms[stored["id"]]
    if not stored["tuning"]:  # tuned arms have the rate that was best
        for arm in stored["tables"][0]["arms"]:
            assert without_content(arm["spec"]) == without_content(of_recipe[arm["name"]].to_json()), arm["name"]


@pytest.mark.parametrize(("where", "id"), OTHERS.items(), ids=lambda said: ":".join(said) if len(said) == 2 else "")
def test_other_recipes_keep_their_arms(where: tuple[str, str], id: str):
    arm = vars(load_file(RECIPES / where[0]))[where[1]]
    assert isinstance(arm, Arm)
    assert arm.id == id
