"""What every puzzle has: a statement, a solver, a checker, an explanation and a picture."""

from __future__ import annotations

import abc
import dataclasses
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from headtohead.errors import InputError, nearest
from headtohead.puzzles.reach import Array, Kind

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from rich.console import Console

WITHIN = 0.05  # an answer is right when no more than this share of the attention is in the wrong place


@dataclass(frozen=True)
class Measured:
    """What an answer does, computed and not argued."""

    weights: Array  # (rows, n)
    target: Array  # (rows, n)
    distance: float  # total variation of weights and target; of all rows and texts the worst
    right: str  # what was looked at, in words
    accuracy: float | None = None  # of predictions, where the puzzle asks for predictions
    fault: str = ""  # a condition of the puzzle that the answer breaks
    shown: dict[str, Any] = field(default_factory=dict)  # what else the picture needs

    def is_right(self, within: float) -> bool:
        if self.fault:
            return False
        return self.distance <= within if self.accuracy is None else self.accuracy == 1.0

    def to_json(self) -> dict[str, Any]:
        said: dict[str, Any] = {"distance": self.distance}
        if self.accuracy is not None:
            said["accuracy"] = self.accuracy
        return {**said, "weights": listed(self.weights), "target": listed(self.target)}

    def lines(self) -> list[str]:
        said = []
        if len(self.weights) <= 8 and self.weights.shape[1] <= 16:
            said = [f"weights   {row(w)}" for w in self.weights]
        off = f"{self.distance:.2g}" if self.distance > 0 else "0"
        said.append(f"distance  {off} of the attention is in the wrong place ({self.right})")
        if self.accuracy is not None:
            said.append(f"accuracy  {100 * self.accuracy:.1f} % of predictions")
        return said


@dataclass(frozen=True)
class Found:
    """What a solver found, and what stands in the way of an exact answer."""

    answer: dict[str, Array]
    kind: Kind
    method: str
    reason: str
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Answer:
    """A puzzle solved as far as it can be."""

    puzzle: Puzzle
    found: Found
    measured: Measured
    within: float
    ok: bool  # whether the best there is counts as right

    @property
    def kind(self) -> Kind:
        return self.found.kind

    @property
    def distance(self) -> float:
        return self.measured.distance

    def to_json(self) -> dict[str, Any]:
        f = self.found
        return {
            **self.puzzle.head(),
            "ok": self.ok,
            "answer": {name: listed(value) for name, value in f.answer.items()},
            "kind": f.kind,
            "reason": f.reason,
            "method": f.method,
            "notes": list(f.notes),
            **self.measured.to_json(),
        }

    def show(self, console: Console) -> None:
        lines = [f"puzzle {self.puzzle.number}: {self.puzzle.title}"]
        lines += [f"{name:<9} {text}" for name, value in self.found.answer.items() for text in table(value)]
        lines += [f"method    {self.found.method}", *self.measured.lines()]
        lines.append(f"exact?    {self.found.kind}: {self.found.reason}")
        lines += [f"note      {note}" for note in self.found.notes]
        typed = " ".join(f"--{name} {typed_as(value)}" for name, value in self.found.answer.items())
        if len(typed) < 150:
            lines.append(f"try       h2h puzzles check {self.puzzle.number} {typed}")
        show_lines(lines, console)


@dataclass(frozen=True)
class Checked:
    """A user's answer, tried."""

    puzzle: Puzzle
    answer: dict[str, Array]
    measured: Measured
    within: float
    ok: bool
    says: str

    @property
    def distance(self) -> float:
        return self.measured.distance

    def to_json(self) -> dict[str, Any]:
        answer = {name: listed(value) for name, value in self.answer.items()}
        said = {"ok": self.ok, "says": self.says, "answer": answer, "within": self.within}
        return {**self.puzzle.head(), **said, **self.measured.to_json()}

    def show(self, console: Console) -> None:
        show_lines([f"{'right' if self.ok else 'no'}: {self.says}", *self.measured.lines()], console)


class Puzzle(abc.ABC):
    """One puzzle. Its fields are what is given; they have defaults, and a user may give others."""

    number: ClassVar[int]
    name: ClassVar[str]  # one word or two, for those who do not like numbers
    title: ClassVar[str]
    asks: ClassVar[dict[str, str]]  # what an answer is made of: option → help
    explanation: ClassVar[str]  # why it comes out so, and when it cannot

    @property
    @abc.abstractmethod
    def statement(self) -> str:
        """The question, with what is given."""

    @abc.abstractmethod
    def find(self) -> Found:
        """The best answer there is."""

    @abc.abstractmethod
    def read(self, answer: dict[str, Any]) -> dict[str, Array]:
        """An answer as arrays of the right shapes, or an InputError."""

    @abc.abstractmethod
    def measure(self, answer: dict[str, Array]) -> Measured:
        """What an answer does."""

    @abc.abstractmethod
    def draw(self, figure: Figure, answer: dict[str, Array], measured: Measured) -> None:
        """The answer as a picture."""

    def solve(self, within: float = WITHIN) -> Answer:
        found = self.find()
        measured = self.measure(found.answer)
        return Answer(self, found, measured, within, measured.is_right(within))

    def check(self, within: float = WITHIN, **answer: Any) -> Checked:
        """Whether an answer is right: `puzzle(3).check(query=[0, 0, 0])`."""
        for name in answer:
            if name not in self.asks:
                raise InputError(f"puzzle {self.number} takes no --{name}: {nearest(name, self.asks)}")
        missing = [f"--{name}" for name in self.asks if name not in answer]
        if missing:
            raise InputError(f"puzzle {self.number} asks for {' and '.join(missing)}: {self.example()}")
        read = self.read(answer)
        measured = self.measure(read)
        ok = measured.is_right(within)
        return Checked(self, read, measured, within, ok, measured.fault or self._verdict(measured, within, ok))

    def picture(self, answer: Answer | Checked | None = None) -> Figure:
        """Of an answer, a user's or (by default) the solver's."""
        from headtohead.puzzles.pictures import drawn

        answer = answer or self.solve()
        vectors = answer.found.answer if isinstance(answer, Answer) else answer.answer
        return drawn(self, vectors, answer.measured)

    def example(self) -> str:
        return f"such as h2h puzzles check {self.number} " + " ".join(
            f"--{n} {_shape(h)}" for n, h in self.asks.items()
        )

    def head(self) -> dict[str, Any]:
        return {"puzzle": self.number, "name": self.name, "title": self.title}

    def to_json(self) -> dict[str, Any]:
        given = {f.name: listed(getattr(self, f.name)) for f in dataclasses.fields(self)}  # type: ignore[arg-type]
        said = {"statement": self.statement, "given": given, "answer": self.asks, "explanation": self.explanation}
        return {**self.head(), **said}

    def _verdict(self, measured: Measured, within: float, ok: bool) -> str:
        if measured.accuracy is not None:
            wrong = round(100 * (1 - measured.accuracy), 1) or 0.1
            return "every prediction is the right one" if ok else f"{wrong:g} % of the predictions are wrong"
        share = f"{measured.distance:.2g} of the attention is in the wrong place"
        return (
            f"{share}, at most {within:g} may be"
            if measured.distance
            else "the weights asked for, to the last digit kept"
        )


def _shape(help: str) -> str:
    """The example that ends an option's help: `d numbers, such as 1,2,3`."""
    return help.rpartition("such as ")[2]


def listed(value: Any) -> Any:
    return value.tolist() if isinstance(value, np.ndarray | np.generic) else value


def row(numbers: Array) -> str:
    return "  ".join(f"{x:8.4f}" for x in np.round(np.atleast_1d(numbers), 4) + 0.0)  # no −0


def table(value: Array) -> list[str]:
    return [row(r) for r in np.atleast_2d(value)]


def typed_as(value: Array) -> str:
    """As it would be typed; a semicolon ends a command unless it is quoted."""
    text = ";".join(",".join(f"{x:.6g}" for x in r + 0.0) for r in np.atleast_2d(value))
    return f"'{text}'" if ";" in text else text


def show_lines(lines: list[str], console: Console) -> None:
    for line in lines:
        console.print(line, markup=False, soft_wrap=True)
