"""Find an arm: the default arm of a task with a corpus and settings, or an arm that a Python file defines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from headtohead.data.corpora import Corpus, Files, Held, corpus_named
from headtohead.errors import InputError, nearest
from headtohead.spec.userfiles import find_recipe, load_file
from headtohead.training.arm import Arm


def arm_in(where: str, settings: list[str]) -> Arm:
    """Load an arm from a Python file, named as in published/documents:decoder_run, and apply settings."""
    file, name = find_recipe(where)
    if not name:
        raise InputError(f"--arm takes FILE.py:NAME, such as published/documents:decoder_run, not '{where}'")
    module = load_file(file)
    arms = {k: v for k, v in vars(module).items() if isinstance(v, Arm)}
    if name not in arms:
        raise InputError(f"{file} has no arm '{name}': {nearest(name, arms)}")
    return arms[name].settings(settings)


def length(steps: int | None, epochs: int | None, settings: list[str]) -> list[str]:
    """Turn --steps and --epochs into settings. Refuse two settings of the training length."""
    options = {"--steps": ("train.steps", steps), "--epochs": ("train.epochs", epochs)}
    given = [option for option, (_, value) in options.items() if value is not None]
    for setting in settings:
        path, _, value = setting.replace(" ", "").partition("=")
        if path in ("train.steps", "train.epochs") and value.lower() != "none":
            given.append(f"--set {path}")
    if len(set(given)) > 1:
        raise InputError(f"{given[0]} and {given[1]} both set the training length: give one of them")
    return [f"{path}={value}" for path, value in options.values() if value is not None]


def arm_for(
    task: Any,
    data: str | None = None,
    validation: str | None = None,
    test: str | None = None,
    text: str | None = None,
    label: str | None = None,
    settings: Sequence[str] = (),
) -> Arm:
    """Return the default arm of a task with a corpus and settings. Settings of the corpus come first, because the
    default arm of a synthetic task depends on them."""
    corpus = corpus_for(data, validation, test, text, label)
    given = [(path.strip(), value.strip()) for path, equals, value in (s.partition("=") for s in settings) if equals]
    own = {path.removeprefix("data.corpus."): value for path, value in given if path.startswith("data.corpus.")}
    if corpus is not None:
        corpus = corpus.set_all(own)
    return Arm.of(task, corpus).settings(list(settings))


def corpus_for(
    data: str | None, validation: str | None, test: str | None, text: str | None, label: str | None
) -> Corpus | None:
    """Return the corpus that --data, --validation, --test, --text and --label describe; None without --data."""
    corpus = corpus_named(data) if data else None
    options = {"validation": validation, "test": test, "text": text, "label": label}
    given = {k: v for k, v in options.items() if v is not None}
    if given and not isinstance(corpus, Files):
        raise InputError(f"--{next(iter(given))} needs your own data file: add --data my.csv")
    for name, value in given.items():
        assert corpus is not None
        corpus = corpus.set(name, Held(path=value) if name in ("validation", "test") else value)
    return corpus
