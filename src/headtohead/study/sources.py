"""Question, command, time and expected result of the studies in recipes. Reading them imports the recipes and torch, so
they are kept in the cache until a recipe or the package changes (run/derived.py)."""

from __future__ import annotations

import hashlib
from typing import Any

from headtohead.errors import InputError
from headtohead.run.derived import derived, digest_of, package_digest
from headtohead.spec.userfiles import RECIPES, load_file, recipe_names

TEXTS = ("question", "command", "takes", "expected")


def recipe_rows() -> list[dict[str, Any]]:
    """One row per study of every recipe: its question, its command, its usual time."""
    recipes = recipe_names()
    failed: list[str] = []

    def read() -> list[dict[str, Any]]:
        from headtohead.study.study import Study

        rows = []
        for name, file in recipes.items():
            try:
                studies = [value for value in vars(load_file(file)).values() if isinstance(value, Study)]
                rows += [{"recipe": name, **{text: getattr(study, text) for text in TEXTS}} for study in studies]
            except InputError as error:
                failed.append(name)
                rows.append({"recipe": name, **dict.fromkeys(TEXTS, ""), "question": str(error)})
        return rows

    contents = [f"{name} {hashlib.sha256(file.read_bytes()).hexdigest()}" for name, file in recipes.items()]
    digest = digest_of(RECIPES, (), package_digest(), *contents)
    found: list[dict[str, Any]] = derived("recipes", digest, read, keep=lambda _: not failed)
    return found
