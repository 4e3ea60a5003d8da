"""The results stored with the recipes, for the programs that write docs from them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from headtohead.claims import run, stored
from headtohead.claims.experiments import experiments
from headtohead.claims.workflow import Results, results
from headtohead.errors import InputError, nearest
from headtohead.outcome.outcome import Outcome
from headtohead.spec.userfiles import published_recipes

ROOT = Path(__file__).parents[1]
Load = Callable[[str], Outcome]  # a stored study by its name


def judged() -> Results:
    """Every figure and claim. Damaged results are an error: a page without them would say that they were not tested."""
    found = results(experiments(), quick=False, stored=True, home=Path())
    if found.damaged:
        raise InputError(found.damaged[0])
    if not found.claims:
        raise InputError(f"no results are stored yet: {found.missing[0]}")
    return found


@contextmanager
def stored_studies() -> Iterator[Load]:
    """A function that loads a stored study by its name."""
    studies = {name: study for experiment in experiments() for name, study in experiment.studies.items()}
    with run.room() as room:

        @cache
        def load(name: str) -> Outcome:
            if name not in studies:
                raise InputError(f"no recipe has a study {name}: {nearest(name, list(studies))}")
            file = published_recipes() / run.STORED / f"{name}.json"
            stored.check(file, studies[name])
            return stored.unpacked(file, Path(room) / name)

        yield load


def exit_with(main: Callable[[], None]) -> None:
    """Run a program; an error of its input is one line and exit code 2."""
    try:
        main()
    except InputError as error:
        print(error, file=sys.stderr)
        sys.exit(2)
