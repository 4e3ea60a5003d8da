"""What all synthetic tasks share: examples, sets that have no example in common, batches, the best possible result.

Shapes: N examples, T symbols of an example. A symbol is its place in the task's `symbols`.
"""

from __future__ import annotations

import abc
import dataclasses
import functools
import hashlib
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple, Self

import numpy as np

from headtohead.data.corpora import Corpus, Sentences, Texts
from headtohead.errors import InputError
from headtohead.spec import knob, knobs
from headtohead.spec.streams import stream

NO_ANSWER = -1
AT_ONCE = 2048  # examples that are drawn for a set at a time
IDLE = 8  # draws without a new example, after which a task is thought to have no more

Side = Literal["train", "validation", "test"]


@dataclass(frozen=True)
class Examples:
    """Rows of symbols, and the right answers at the positions where the model is asked."""

    ids: np.ndarray  # (N, T)
    answers: np.ndarray  # (N, T), NO_ANSWER where the model is not asked

    def __len__(self) -> int:
        return len(self.ids)

    def __getitem__(self, which: Any) -> Examples:
        return Examples(self.ids[which], self.answers[which])

    @property
    def asked(self) -> np.ndarray:
        """(N, T), true where the model must answer."""
        return self.answers != NO_ANSWER

    @property
    def are_shown(self) -> bool:
        """Whether the example itself shows most answers one position later, as a text shows the next word."""
        asked = self.asked[:, :-1]
        return bool(asked.any()) and bool((self.ids[:, 1:] == self.answers[:, :-1])[asked].mean() > 0.75)

    @classmethod
    def blank(cls, count: int, length: int, symbol: int = 0) -> Examples:
        """Return examples of one symbol in which nothing is asked, to be filled."""
        return cls(np.full((count, length), symbol), np.full((count, length), NO_ANSWER))

    @classmethod
    def joined(cls, pieces: Sequence[Examples]) -> Examples:
        return cls(np.concatenate([p.ids for p in pieces]), np.concatenate([p.answers for p in pieces]))


class Level(NamedTuple):
    """A result: share of right answers, and nats per answer."""

    accuracy: float
    loss: float


class Synthetic(Corpus):
    """A corpus of generated examples with known answers. Only answers count in loss and accuracy.

    A task states its `symbols`, how many answers are possible, and how to `draw` examples. A knob `test_length` gives
    test sets of other lengths: `test_length=(64, 128)` gives length_64 and length_128, and likewise for every knob.
    A knob `least_length` lets an example have any length from it to `length`; these test sets do without.
    """

    tasks = ("lm",)
    separates: ClassVar[str] = ""  # which models solve it, and which do not

    examples: int | None = knob(
        default=None, ge=1, help="different training examples, read in passes; none: new ones in every step"
    )
    tested: int = knob(default=1000, ge=1, help="different examples in the validation set and in each test set")
    held: float = knob(default=0.2, gt=0, lt=1, help="share of all possible examples that training never reads")
    seed: int = knob(default=0, ge=0, help="another number draws other examples")

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "name" not in cls.__dict__:  # SelectiveCopying is selective-copying
            cls.name = re.sub(r"(?<=[a-z])(?=[A-Z])", "-", cls.__name__).lower()

    # -- what a task states --------------------------------------------------------------------------------------------

    @property
    @abc.abstractmethod
    def symbols(self) -> tuple[str, ...]:
        """The names of all symbols, without white space."""

    @property
    @abc.abstractmethod
    def choices(self) -> int:
        """How many answers are equally likely before the example is read."""

    @abc.abstractmethod
    def draw(self, rng: np.random.Generator, count: int) -> Examples:
        """Draw examples, independent of each other."""

    def optimum(self, examples: Examples) -> Level:
        """Return the best possible result on these examples. Where the example decides every answer, it is perfect."""
        return Level(1.0, 0.0)

    # -- what follows --------------------------------------------------------------------------------------------------

    @property
    def guess(self) -> Level:
        """The result without reading the example."""
        return Level(1 / self.choices, math.log(self.choices))

    def limits(self) -> tuple[Level, Level]:
        """Return the best possible result, on a sample of examples, and the result of guessing."""
        return self.optimum(self.draw(np.random.default_rng(0), 1000)), self.guess

    @property
    def longest(self) -> int:
        """Symbols of the longest example, in training or in a test set."""
        return max(task._length for task in (self, *self.others().values()))

    @property
    def _length(self) -> int:
        return self.draw(np.random.default_rng(0), 1).ids.shape[1]

    def others(self) -> dict[str, Self]:
        """Return the task of each further test set, by the name of the set."""
        known = {k.name for k in knobs(type(self))}
        tests = [name for name in known if name.startswith("test_") and name.removeprefix("test_") in known]
        found = {}
        for test in sorted(tests):
            name = test.removeprefix("test_")
            for value in getattr(self, test):
                changed = {**dict.fromkeys(tests, ()), name: value}
                if f"least_{name}" in known:
                    changed[f"least_{name}"] = None
                found[f"{name}_{value}"] = dataclasses.replace(self, **changed)
        return found

    def sets(self) -> dict[str, Examples]:
        """Return validation, test and the further test sets. No example is in two of validation, test and training."""
        return _sets(self._plain)

    def example(self) -> tuple[str, str]:
        """Return the first test example as a text, and the same text up to its first question."""
        shown = self.sets()["test"][0]
        names = [self.symbols[i] for i in shown.ids]
        return " ".join(names), " ".join(names[: int(shown.asked.argmax()) + 1])

    def train(self) -> Examples | None:
        """Return the training examples if there is a fixed number of them."""
        return None if self.examples is None else _train(self._plain)

    def batch(self, count: int, seed: int, step: int) -> Examples:
        """Draw new training examples: a function of the task, the seed and the step."""
        rng = self._stream("batch", seed, step)
        found: list[Examples] = []
        while (missing := count - sum(map(len, found))) > 0:
            if len(found) > IDLE * count:
                raise self._too_few("training")
            drawn = self.draw(rng, missing + missing // 2)
            found.append(drawn[self._on("train", drawn, _hashes(drawn.ids))][:missing])
        return Examples.joined(found)

    @property
    def _plain(self) -> Self:
        return dataclasses.replace(self, content="")

    def _stream(self, *names: object) -> np.random.Generator:
        return np.random.Generator(np.random.Philox(key=stream(self.seed, *names)))

    def _on(self, side: Side, drawn: Examples, hashes: np.ndarray) -> np.ndarray:
        """Which examples belong to a side and ask something. The side depends on the symbols alone, so that no example
        is on two sides."""
        share = hashes / 2.0**64
        test, held = share < self.held / 2, share < self.held
        own = {"test": test, "validation": held & ~test, "train": ~held}[side]
        return own & drawn.asked.any(axis=1)

    def _different(self, side: Side, count: int, *names: object) -> Examples:
        """Draw up to `count` different examples of one side: fewer if there are not as many."""
        rng, seen, idle = self._stream(*names), np.empty(0, np.uint64), 0
        found: list[Examples] = []
        while len(seen) < count and idle < IDLE:
            drawn = self.draw(rng, AT_ONCE)
            hashes = _hashes(drawn.ids)
            first = np.zeros(len(drawn), bool)
            first[np.unique(hashes, return_index=True)[1]] = True
            new = np.flatnonzero(first & self._on(side, drawn, hashes) & ~np.isin(hashes, seen))[: count - len(seen)]
            seen, idle = np.concatenate([seen, hashes[new]]), 0 if len(new) else idle + 1
            found.append(drawn[new])
        if not len(seen):
            raise self._too_few(side)
        return Examples.joined(found)

    def _too_few(self, side: str) -> InputError:
        return InputError(
            f"{self.name} has too few different examples for a {side} set: make its examples longer, or its "
            "vocabulary larger"
        )

    # -- as a corpus ---------------------------------------------------------------------------------------------------

    def lacks(self) -> str:
        return ""

    def fingerprint(self) -> str:
        """Return a digest of the held-out sets and of one batch."""
        digest = hashlib.sha256(" ".join(self.symbols).encode())
        for examples in (*self.sets().values(), self._plain.batch(64, 0, 0)):
            for array in (examples.ids, examples.answers):
                digest.update(np.ascontiguousarray(array, dtype="<i8").tobytes())
        return digest.hexdigest()[:16]

    def texts(self) -> Texts:
        raise InputError(
            f"{self.name} has examples with answers and no running text: use h2h train lm --data {self.name}"
        )

    def sentences(self) -> Sentences:
        raise InputError(f"{self.name} has examples for a language model and no labels: use `h2h train lm`")


@functools.lru_cache(maxsize=16)  # all arms and seeds of a study ask for the same
def _sets(task: Synthetic) -> dict[str, Examples]:
    found = {"validation": task._different("validation", task.tested, "validation")}
    for name, other in {"test": task, **task.others()}.items():
        if other.symbols != task.symbols:
            raise InputError(f"the test set {name} has other symbols than the training examples: leave it out")
        found[name] = other._different("test", task.tested, name)
    return found


@functools.lru_cache(maxsize=4)
def _train(task: Synthetic) -> Examples:
    assert task.examples is not None
    return task._different("train", task.examples, "train")


def _hashes(ids: np.ndarray) -> np.ndarray:
    """Return a random-looking number (N,) for each example that depends on its symbols alone."""
    keys = np.random.Generator(np.random.Philox(key=0)).integers(0, 2**64, ids.shape[1], dtype=np.uint64)
    with np.errstate(over="ignore"):  # uint64 wraps around on purpose
        x = (ids.astype(np.uint64) + np.uint64(1)) @ (keys | np.uint64(1))
        for shift in (33, 29):
            x = (x ^ (x >> np.uint64(shift))) * np.uint64(0xFF51AFD7ED558CCD)
        mixed: np.ndarray = x ^ (x >> np.uint64(32))
        return mixed


# -- for the tasks -----------------------------------------------------------------------------------------------------


def named(prefix: str, count: int) -> tuple[str, ...]:
    """Names of symbols: k0, k1, k2, …"""
    return tuple(f"{prefix}{n}" for n in range(count))


def different(rng: np.random.Generator, rows: int, among: int, count: int) -> np.ndarray:
    """Draw `count` different numbers below `among` for each row, in random order."""
    return rng.random((rows, among)).argsort(axis=1)[:, :count]


def sizes(rng: np.random.Generator, rows: int, least: int | None, most: int) -> np.ndarray:
    """Draw a size (rows, 1) from `least` to `most`; without `least` always `most`."""
    return rng.integers(most if least is None else least, most + 1, (rows, 1))
