"""Studies of tiny models that take a second or two."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from headtohead import Arm, Files
from headtohead.outcome.outcome import Outcome
from headtohead.run.executors.execution import Execution
from headtohead.study.execution import StudyEvent, train_study
from headtohead.study.study import Study
from headtohead.study.workflow import train_and_load
from helpers.runs import SMALL

# a file of the user's with a part that takes time and one that fails
SLOW = """
import time
from headtohead.parts.positions import NoPosition, PositionHooks
from headtohead import knob

class Sleepy(NoPosition):
    seconds: float = knob(default=0.01, help="of every forward pass")
    def build(self, dims):
        made = PositionHooks()
        made.embed = lambda x, i: (time.sleep(self.seconds), x)[1]
        return made

class Broken(NoPosition):
    def build(self, dims):
        raise RuntimeError("the floor gave way")

class Deadly(NoPosition):
    def build(self, dims):
        import os, signal, multiprocessing
        if multiprocessing.parent_process() is not None:
            os.kill(os.getpid(), signal.SIGKILL)
        return PositionHooks()

class DeadlyOnce(NoPosition):
    # kills its worker in the twelfth pass with gradients (the first is before training), once: it leaves a mark
    mark: str = knob(default="", help="a file: the worker was killed")
    def build(self, dims):
        import os, pathlib, signal, torch
        made, seen, mark = PositionHooks(), [], pathlib.Path(self.mark)
        def embed(x, i):
            seen.append(i) if torch.is_grad_enabled() else None
            if len(seen) == 12 and not mark.exists():
                mark.touch()
                os.kill(os.getpid(), signal.SIGKILL)
            return x
        made.embed = embed
        return made
"""


def control(text: Path, *settings: str) -> Arm:
    return Arm.of("lm", Files(path=str(text))).settings([*SMALL, "train.steps=6", "evaluate.every=3", *settings])


def study(text: Path, *settings: str, **given: Any) -> Study:
    chosen: dict[str, Any] = {
        "question": "Does it matter?",
        "control": control(text, *settings),
        "vary": {"model.position": ["Learned", "Rope", "NoPosition"]},
        "name": "tiny",
        "again": False,
    }
    return Study(**chosen | given)


def carried(what: Study, home: Path, jobs: int = 1, **options: Any) -> list[StudyEvent]:
    return list(train_study(what, Execution(jobs=jobs, **{"device": "cpu", **options}), home=home))


# -- sequential studies ------------------------------------------------------------------------------------------------

QUICK = ("train.steps=2", "model.width=8", "evaluate.every=2")  # a run takes 0.2 seconds


def sequential(text: Path, *settings: str, **given: Any) -> Study:
    """A study of a huge effect (`fast`) and of none (`null`, another batch order), analysed after 6 and 8 pairs."""
    base = control(text, *QUICK, "train.optimizer.lr=0.001", *settings)
    chosen: dict[str, Any] = {
        "question": "Does it matter?",
        "control": base,
        "vary": ["train.optimizer.lr", "train.order"],
        "arms": {"fast": base.set("train.optimizer.lr", 0.3), "null": base.set("train.order", 5)},
        "name": "sequential",
        "max_pairs": 8,
        "again": False,
        "chaos": False,
    }
    return Study(**chosen | given)


def shown(what: Study, home: Path, **options: Any) -> Outcome:
    """Train a study and note each of its analyses, as `h2h run` does, without audits and a report."""
    execution = Execution(**{"jobs": 1, "device": "cpu"} | options)
    return train_and_load(what, execution, home, lambda _: None)[0]
