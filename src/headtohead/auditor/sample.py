"""Audit every part and many random valid models, in several processes."""

from __future__ import annotations

import multiprocessing
import random
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from typing import Any

import torch

from headtohead.auditor import audit_part, audit_spec
from headtohead.auditor.parts import SMALL
from headtohead.auditor.report import Report
from headtohead.auditor.subject import from_spec
from headtohead.errors import InputError
from headtohead.model.spec import ModelSpec
from headtohead.parts import Causal, Pattern
from headtohead.spec import Part, alternatives, families


@dataclass(frozen=True)
class Job:
    """One part or one model to audit, as JSON, so that it can be sent to another process."""

    spec: dict[str, Any]
    causal: bool | None = None

    def run(self) -> list[Report]:
        torch.set_num_threads(1)
        spec = Part.from_json(self.spec)
        if isinstance(spec, ModelSpec):
            return [audit_spec(spec, str(spec), causal=self.causal)]
        return audit_part(spec)


def jobs(models: int, seed: int) -> list[Job]:
    """Return a job for every part, then for random models."""
    parts = [Job(cls().to_json()) for members in families().values() for cls in members.values()]
    return parts + [Job(spec.to_json(), causal) for spec, causal in combinations(models, seed)]


def combinations(count: int, seed: int) -> list[tuple[ModelSpec, bool]]:
    """Draw distinct valid models, each with True for a language model or False for a classifier."""
    draw = random.Random(seed)
    models: dict[tuple[ModelSpec, bool], None] = {}
    while len(models) < count:
        spec, causal = _random_model(draw)
        try:
            from_spec(spec, "", causal=causal)
        except InputError:
            continue  # these parts do not fit together, such as Rope and heads of odd width
        models[spec, causal] = None
    return list(models)


def _random_model(draw: random.Random) -> tuple[ModelSpec, bool]:
    causal = draw.random() < 0.6
    spec = SMALL
    for family in families():
        part = _random_part(family, draw)
        while causal and family == "fusion" and not getattr(part, "causal", True):
            part = _random_part(family, draw)
        if causal and isinstance(part, Pattern) and not part.is_causal(SMALL.block):
            part = Causal() & part
        spec = spec.set(family, part)
    choices: dict[str, list[Any]] = {
        "kv_heads": [None, 2, 1],
        "qk_norm": [_random_part("norm", draw)],
        "embedding_norm": [_random_part("norm", draw)],
        "tied": [False, True],
        "head_bias": [False, True],
        "dropout": [0.0, 0.2],
        "biases.q": [False, True],
        "biases.k": [False, True],
        "biases.v": [False, True],
        "biases.out": [False, True],
        "layers": [1, 2],
    }
    for path, values in choices.items():
        spec = spec.set(path, draw.choice(values))
    return spec, causal


def _random_part(family: str, draw: random.Random) -> Part:
    """Draw a part of the family, in half of the cases with one knob changed."""
    cls = draw.choice(sorted(families()[family].values(), key=lambda c: c.__name__))
    variants = [other for _name, other in alternatives(cls())]
    return draw.choice(variants) if variants and draw.random() < 0.5 else cls()


def audit_many(todo: list[Job], workers: int) -> Iterator[Report]:
    """Yield reports as they are finished. Each process uses one thread."""
    if workers < 2:
        for job in todo:
            yield from job.run()
        return
    with ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("spawn")) as pool:
        for done in as_completed([pool.submit(Job.run, job) for job in todo]):
            yield from done.result()
