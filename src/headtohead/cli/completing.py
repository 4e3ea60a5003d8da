"""Words that the shell offers after TAB: recipes, settings, corpora, runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from headtohead.errors import InputError

Words = Callable[[str], list[str]]  # what begins with the text before the cursor


def _offering(words: Callable[[], Iterable[str]]) -> Words:
    def offered(incomplete: str) -> list[str]:
        try:
            return [word for word in words() if word.startswith(incomplete)]
        except (InputError, OSError):  # a store that cannot be read: offer nothing, and print nothing at the prompt
            return []

    return offered


def _recipes() -> Iterable[str]:
    from headtohead.spec.userfiles import recipe_names

    return ["lm", "classifier", *recipe_names()]


def _settings() -> Iterable[str]:
    from headtohead.display.catalogue import catalogue

    return [f"{setting.name}=" for setting in catalogue().settings]


def _corpora() -> Iterable[str]:
    from headtohead.data.corpora import corpora

    return [corpus.name for corpus in corpora()]


def _runs() -> Iterable[str]:
    from headtohead.run import store
    from headtohead.run.studies import study_folders

    return ["latest", *(folder.name for folder in study_folders(store.home())), *(run.id for run in store.runs())]


recipes, settings, corpora, runs = map(_offering, (_recipes, _settings, _corpora, _runs))
