"""An arm: one spec of everything that decides a run's result, except the seed. A run is an arm and a seed."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Any, Literal

from headtohead.data.corpora import Corpus
from headtohead.data.splits import DataSpec
from headtohead.data.tokenizers import Bpe, Tokenizer, Word
from headtohead.errors import InputError
from headtohead.evaluate import EvalSpec
from headtohead.model import ModelSpec
from headtohead.parts import Full
from headtohead.pretrained.start import Fresh, Start
from headtohead.spec import Spec, knob
from headtohead.train import TrainSpec


class Arm(Spec):
    """Everything that decides a run's result, except the seed."""

    task: Literal["lm", "classifier"] = knob(default="lm", help="language model or classifier")
    data: DataSpec = knob(default=DataSpec(), help="what it reads")
    tokenizer: Tokenizer = knob(default=Bpe(), help="how text becomes tokens")
    model: ModelSpec = knob(default=ModelSpec(), help="what it is made of")
    start: Start = knob(default=Fresh(), help="what weights it starts from")
    train: TrainSpec = knob(default=TrainSpec(), help="how it is trained")
    evaluate: EvalSpec = knob(default=EvalSpec(), help="how it is looked at")

    @classmethod
    def of(cls, task: Literal["lm", "classifier"], corpus: Corpus | None = None) -> Arm:
        """A task's usual arm: byte pairs and a causal decoder, or words and an encoder."""
        data = DataSpec() if corpus is None else DataSpec(corpus=corpus)
        if task not in data.corpus.tasks:
            data.corpus.texts() if task == "lm" else data.corpus.sentences()  # says what it has instead
        if task == "lm":
            return cls(task="lm", data=data)
        return cls(
            task="classifier",
            data=data,
            tokenizer=Word(),
            model=ModelSpec(pattern=Full()),
            train=TrainSpec(steps=None, epochs=10),
        )

    def settings(self, settings: list[str]) -> Arm:
        """With `path=value` settings, such as model.position=Rope or train.steps=200."""
        arm = self
        for setting in settings:
            path, equals, value = setting.partition("=")
            if not equals or not path.strip():
                raise InputError(f"--set takes FIELD=VALUE, such as model.position=Rope, not '{setting}'")
            arm = arm.set(path.strip(), value.strip())
        return arm


class RunSpec(Spec):
    """One run: an arm, a seed, and the kind of machine that decides the bits. Its id names its folder in the store."""

    arm: Arm = knob(default=Arm(), help="what is trained")
    seed: int = knob(default=0, ge=0, help="of initial weights, order of batches and dropout, each a stream of its own")
    device: str = knob(default="cpu", help="cpu, cuda or mps")
    threads: int = knob(default=1, ge=1, help="of one run; sums are rounded otherwise with more")
    protocol: int = knob(default=1, help="raised when a change to the program changes results")

    def resolved(self) -> RunSpec:
        """With the fingerprints of the data and of what was learned elsewhere: the same name with another content is
        another run."""
        corpus = self.arm.data.corpus
        content = corpus.fingerprint()
        if corpus.content and corpus.content != content:
            raise InputError(
                f"{corpus.path or corpus.name} has changed since this run was made: bring the old text back, "
                "or train anew without --resume"
            )
        data = dataclasses.replace(self.arm.data, corpus=dataclasses.replace(corpus, content=content))
        start, tokenizer = self.arm.start.resolved(), self.arm.tokenizer.resolved()
        start.refuse_foreign(tokenizer)
        return dataclasses.replace(self, arm=dataclasses.replace(self.arm, data=data, start=start, tokenizer=tokenizer))


def run_specs(arm: Arm, seeds: Iterable[int], device: str, threads: int) -> dict[int, RunSpec]:
    """An arm's runs by seed; the data is looked at once."""
    first = RunSpec(arm=arm, device=device, threads=threads).resolved()
    return {seed: dataclasses.replace(first, seed=seed) for seed in seeds}


def read_run(data: Any) -> RunSpec:
    spec = Spec.from_json(data)
    if not isinstance(spec, RunSpec):
        raise InputError("run.json does not hold a run's spec: it is not ours")
    return spec
