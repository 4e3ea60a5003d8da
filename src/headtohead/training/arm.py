"""Arm and RunSpec. An arm is a spec of everything that decides a run's result except the seed; a run is an arm with a
seed."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable
from typing import Any, Literal

from headtohead.data.corpora import Corpus
from headtohead.data.splits import DataSpec
from headtohead.data.tokenizers import Bpe, Tokenizer, Word
from headtohead.errors import InputError
from headtohead.model.spec import ModelSpec
from headtohead.parts import Full
from headtohead.pretrained.start import Fresh, Start
from headtohead.spec import Spec, knob
from headtohead.spec.stored_code import Copies
from headtohead.training.evaluate import EvalSpec
from headtohead.training.trainer import TrainSpec


class Arm(Spec):
    """Everything that decides a run's result, except the seed.

    Examples:
        >>> arm = h2h.Arm.of("lm").set("model.position", "Rope(theta=500)")
        >>> arm.get("model.position.theta")
        500.0
        >>> arm.settings(["train.steps=200"]).train.steps
        200
    """

    task: Literal["lm", "classifier"] = knob(default="lm", help="language model or classifier")
    data: DataSpec = knob(default=DataSpec(), help="the corpus and its split into sets")
    tokenizer: Tokenizer = knob(default=Bpe(), help="how text becomes tokens")
    model: ModelSpec = knob(default=ModelSpec(), help="sizes and parts of the model")
    start: Start = knob(default=Fresh(), help="which weights training starts from")
    train: TrainSpec = knob(default=TrainSpec(), help="how the model is trained")
    evaluate: EvalSpec = knob(default=EvalSpec(), help="when and how the model is evaluated")

    @classmethod
    def of(cls, task: Literal["lm", "classifier"], corpus: Corpus | None = None) -> Arm:
        """Return the default arm of a task: byte pairs, a causal decoder and a rate that rises and falls; or words, an
        encoder and a constant rate."""
        data = DataSpec() if corpus is None else DataSpec(corpus=corpus)
        if task not in data.corpus.tasks:
            data.corpus.texts() if task == "lm" else data.corpus.sentences()  # raises an error that names its tasks
        if task == "lm":
            return cls(task="lm", data=data)
        return cls(
            task="classifier",
            data=data,
            tokenizer=Word(),
            model=ModelSpec(pattern=Full()),
            # a constant rate: with a warm-up, classifiers of 200 steps collapsed (docs/log.md, 2026-11-18)
            train=TrainSpec(steps=None, epochs=10, clip=None).set("schedule", "Constant").set("optimizer.lr", 1e-3),
        )

    @property
    def is_causal(self) -> bool:
        """Whether the model predicts next tokens, so that no token may see a later one."""
        return self.task == "lm" and not self.train.objective.sees_both_sides

    def refuse_misfits(self) -> None:
        """Raise InputError for an objective that this task or model cannot have. Not part of `check`, because settings
        are changed one after the other."""
        objective = self.train.objective
        name = type(objective).__name__
        if self.task not in objective.tasks:
            raise InputError(f"{name} is an objective of language models: set train.objective=NextToken")
        if objective.sees_both_sides and self.model.pattern.is_causal(self.model.block):
            raise InputError(f"{name} needs a model that sees both sides: set model.pattern=Full")
        if objective.extra_tokens and self.start.pretrained:
            raise InputError(f"{name} adds a token that a checkpoint does not have: set start=Fresh")
        if objective.extra_heads >= self.model.block:
            raise InputError(f"{name} looks farther than model.block={self.model.block}: predict fewer tokens")
        if objective.taught and not objective.teacher:
            raise InputError(f"{name} needs a teacher: set train.objective.run to the id of a run (h2h list runs)")

    def settings(self, settings: list[str]) -> Arm:
        """Return a copy with `path=value` settings, such as model.position=Rope or train.steps=200."""
        arm = self
        for setting in settings:
            path, equals, value = setting.partition("=")
            if not equals or not path.strip():
                raise InputError(f"--set takes FIELD=VALUE, such as model.position=Rope, not '{setting}'")
            arm = arm.set(path.strip(), value.strip())
        return arm


class RunSpec(Spec):
    """One run: an arm, a seed, device and thread count. Its id is the name of its folder in the store."""

    arm: Arm = knob(default=Arm(), help="what is trained")
    seed: int = knob(default=0, ge=0, help="seed of initial weights, batch order and dropout, in separate streams")
    device: str = knob(default="cpu", help="cpu, cuda or mps")
    threads: int = knob(default=1, ge=1, help="threads of one run; the number changes how sums are rounded")
    protocol: int = knob(default=1, help="raised when a change to the program changes results")

    def resolved(self) -> RunSpec:
        """Return a copy with fingerprints of data, tokenizer and pretrained weights, so that the same name with other
        contents is another run. A run that was resolved before keeps its form and its id."""
        corpus = self.arm.data.corpus
        if corpus.content and corpus.content != corpus.fingerprint():
            raise InputError(
                f"{corpus.path or corpus.name} has changed since this run was made: restore the old text, "
                "or start a new run without --resume"
            )
        corpus = corpus if corpus.content else corpus.resolved(self.arm.task)
        data = dataclasses.replace(self.arm.data, corpus=corpus)
        start, tokenizer = self.arm.start.resolved(), self.arm.tokenizer.resolved()
        start.refuse_foreign(tokenizer)
        return dataclasses.replace(self, arm=dataclasses.replace(self.arm, data=data, start=start, tokenizer=tokenizer))


MOST_SEEDS = 10_000  # of one arm


def run_specs(arm: Arm, seeds: Iterable[int], device: str, threads: int) -> dict[int, RunSpec]:
    """Return an arm's runs by seed. The data is fingerprinted once."""
    seeds = list(itertools.islice(seeds, MOST_SEEDS + 1))
    if len(seeds) > MOST_SEEDS:
        raise InputError(f"more than {MOST_SEEDS:,} seeds are more than a store takes: give fewer")
    first = RunSpec(arm=arm, device=device, threads=threads).resolved()
    return {seed: dataclasses.replace(first, seed=seed) for seed in seeds}


def is_causal(arm: dict[str, Any], code: Copies = None) -> bool:
    """`Arm.is_causal` of an arm's JSON. Only the objective is read."""
    objective = arm["train"].get("objective")
    return arm["task"] == "lm" and not (objective and Spec.from_json(objective, code).sees_both_sides)


def read_run(data: Any, code: Copies = None) -> RunSpec:
    """A run's spec from its JSON; `code` has the classes that are not known here."""
    spec = Spec.from_json(data, code)
    if not isinstance(spec, RunSpec):
        raise InputError("run.json does not hold a run's spec: it was not written by headtohead")
    return spec
