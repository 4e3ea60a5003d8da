"""A store with a small study, made once."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from headtohead.run.executors.execution import Execution
from headtohead.study.workflow import run_study
from helpers.browser import browser, chromium  # noqa: F401  (fixtures)
from helpers.studies import study

EVIL = "<img src=x onerror=\"document.title='hacked'\"><script>document.title='hacked'</script>"


def story(folder: Path) -> Path:
    """Sentences that a tiny model can learn something from."""
    draw = random.Random(0)
    words = ["the", "king", "and", "queen", "of", "spain", "went", "to", "town", "with", "a", "dog"]
    file = folder / "story.txt"
    file.write_text("\n".join(" ".join(draw.choices(words, k=9)) + "." for _ in range(300)) + "\n")
    return file


@pytest.fixture(scope="session")
def store(tmp_path_factory) -> Path:
    """A study of three arms and six pairs whose question tries to be a script."""
    home = tmp_path_factory.mktemp("home")
    made = study(story(tmp_path_factory.mktemp("text")), seeds=6, name="tiny", question=f"Does it matter? {EVIL}")
    run_study(made, Execution(jobs=1, device="cpu"), home=home)
    return home
