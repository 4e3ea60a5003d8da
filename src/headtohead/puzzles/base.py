"""The base class of puzzles: a statement, a solver, a checker, an explanation and a picture."""

from __future__ import annotations

import abc
import dataclasses
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from headtohead.errors import InputError, nearest
from headtohead.figures.style import looks
from headtohead.puzzles import pictures, reading
from headtohead.puzzles.reach import Array, Kind

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from rich.console import Console

WITHIN = 0.05  # the largest share of the attention that may be in the wrong place


@dataclass(frozen=True)
class Measured:
    """The attention that an answer gives, and how far it is from the target."""

    weights: Array  # (rows, n)
    target: Array  # (rows, n)
    distance: float  # total variation between weights and target: the worst row of all texts
    detail: str  # what the distance refers to, in words
    accuracy: float | None = None  # share of right predictions, if the puzzle asks for predictions
    fault: str = ""  # the condition of the puzzle that the answer breaks
    plot_data: dict[str, Any] = field(default_factory=dict)  # what else the picture needs

    def is_right(self, within: float) -> bool:
        if self.fault:
            return False
        return self.distance <= within if self.accuracy is None else self.accuracy == 1.0

    def to_json(self) -> dict[str, Any]:
        accuracy = {} if self.accuracy is None else {"accuracy": self.accuracy}
        weights = {"weights": listed(self.weights), "target": listed(self.target)}
        return {"distance": self.distance, **accuracy, **weights}

    def lines(self) -> list[str]:
        small = len(self.weights) <= 8 and self.weights.shape[1] <= 16
        lines = [f"weights   {row(w)}" for w in self.weights] if small else []
        share = f"{self.distance:.2g}" if self.distance > 0 else "0"
        lines.append(f"distance  {share} of the attention is in the wrong place ({self.detail})")
        if self.accuracy is not None:
            lines.append(f"accuracy  {100 * self.accuracy:.1f} % of predictions are right")
        return lines


@dataclass(frozen=True)
class Found:
    """The answer of a solver, and why it is or is not exact."""

    answer: dict[str, Array]
    kind: Kind
    method: str
    reason: str
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Answer:
    """A puzzle and the best answer to it."""

    puzzle: Puzzle
    found: Found
    measured: Measured
    ok: bool  # whether the best answer is right

    @property
    def kind(self) -> Kind:
        return self.found.kind

    @property
    def distance(self) -> float:
        return self.measured.distance

    def to_json(self) -> dict[str, Any]:
        f = self.found
        found = {"kind": f.kind, "reason": f.reason, "method": f.method, "notes": list(f.notes)}
        answer = {name: listed(value) for name, value in f.answer.items()}
        return {**self.puzzle.head(), "ok": self.ok, "answer": answer, **found, **self.measured.to_json()}

    def show(self, console: Console) -> None:
        f = self.found
        lines = [f"puzzle {self.puzzle.number}: {self.puzzle.title}"]
        lines += [f"{name:<9} {row(numbers)}" for name, value in f.answer.items() for numbers in np.atleast_2d(value)]
        lines += [f"method    {f.method}", *self.measured.lines(), f"exact?    {f.kind}: {f.reason}"]
        lines += [f"note      {note}" for note in f.notes]
        typed = " ".join(f"--{name} {typed_as(value)}" for name, value in f.answer.items())
        if len(typed) < 150:
            lines.append(f"try       h2h puzzles check {self.puzzle.number} {typed}")
        show_lines(lines, console)


@dataclass(frozen=True)
class Checked:
    """The result of checking a user's answer."""

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
        verdict = {"ok": self.ok, "says": self.says, "answer": answer, "within": self.within}
        return {**self.puzzle.head(), **verdict, **self.measured.to_json()}

    def show(self, console: Console) -> None:
        show_lines([f"{'right' if self.ok else 'no'}: {self.says}", *self.measured.lines()], console)


class Puzzle(abc.ABC):
    """One puzzle. Its fields are its inputs; they have defaults that a user can replace."""

    number: ClassVar[int]
    name: ClassVar[str]  # short name for the command line
    title: ClassVar[str]
    asks: ClassVar[dict[str, str]]  # the numbers that make an answer: option → help
    limits: ClassVar[dict[str, tuple[float, float]]] = {}  # option → smallest and largest value
    explanation: ClassVar[str]  # why the answer is as it is, and when there is none

    @property
    @abc.abstractmethod
    def statement(self) -> str:
        """The question and its inputs."""

    @abc.abstractmethod
    def find(self) -> Found:
        """Find the best answer."""

    @abc.abstractmethod
    def measure(self, answer: dict[str, Array]) -> Measured:
        """Compute the attention that an answer gives."""

    @abc.abstractmethod
    def draw(self, figure: Figure, answer: dict[str, Array], measured: Measured) -> None:
        """Draw the answer."""

    def read(self, answer: dict[str, Any]) -> dict[str, Array]:
        """Convert an answer to arrays, or raise InputError. Here, each option is one number."""
        return {name: np.array(reading.number(name, answer[name], *self.limits.get(name, ()))) for name in self.asks}

    def solve(self, within: float = WITHIN) -> Answer:
        """Find the best answer and measure it: `puzzle(1).solve()`."""
        found = self.find()
        measured = self.measure(found.answer)
        return Answer(self, found, measured, measured.is_right(within))

    def check(self, within: float = WITHIN, **answer: Any) -> Checked:
        """Check whether an answer is right: `puzzle(3).check(query=[0, 0, 0])`."""
        for name in answer:
            if name not in self.asks:
                raise InputError(f"puzzle {self.number} takes no --{name}: {nearest(name, self.asks)}")
        missing = [f"--{name}" for name in self.asks if name not in answer]
        if missing:
            example = " ".join(f"--{name} {help.rpartition('such as ')[2]}" for name, help in self.asks.items())
            raise InputError(
                f"puzzle {self.number} asks for {' and '.join(missing)}: "
                f"such as h2h puzzles check {self.number} {example}"
            )
        read = self.read(answer)
        measured = self.measure(read)
        ok = measured.is_right(within)
        return Checked(self, read, measured, within, ok, measured.fault or self._verdict(measured, within, ok))

    def picture(self, answer: Answer | Checked | None = None) -> Figure:
        """Draw an answer; without one, the answer of the solver."""
        answer = answer or self.solve()
        with looks(pictures.STYLE) as new:
            figure = new(figsize=(9.2, 4.0), layout="constrained")
            figure.suptitle(f"{self.number}  {self.title}", x=0.01, ha="left", fontsize=12, fontweight="bold")
            vectors = answer.found.answer if isinstance(answer, Answer) else answer.answer
            self.draw(figure, vectors, answer.measured)
        return figure

    def head(self) -> dict[str, Any]:
        return {"puzzle": self.number, "name": self.name, "title": self.title}

    def material(self) -> dict[str, Array]:
        """The texts and vectors that answers are measured on, for a page that computes the same."""
        return {}

    def to_json(self) -> dict[str, Any]:
        given = {f.name: listed(getattr(self, f.name)) for f in dataclasses.fields(self)}  # type: ignore[arg-type]
        texts = {"statement": self.statement, "given": given, "answer": self.asks, "explanation": self.explanation}
        return {**self.head(), **texts}

    def _verdict(self, measured: Measured, within: float, ok: bool) -> str:
        if measured.accuracy is not None:
            wrong = round(100 * (1 - measured.accuracy), 1) or 0.1
            return "every prediction is right" if ok else f"{wrong:g} % of the predictions are wrong"
        if not measured.distance:
            return "the weights equal the target exactly"
        return f"{measured.distance:.2g} of the attention is in the wrong place, at most {within:g} is allowed"


def listed(value: Any) -> Any:
    """Convert numpy values to lists and numbers, for JSON."""
    return value.tolist() if isinstance(value, np.ndarray | np.generic) else value


def row(numbers: Array) -> str:
    """Numbers in columns, with four decimals."""
    return "  ".join(f"{x:8.4f}" for x in np.round(np.atleast_1d(numbers), 4) + 0.0)  # no −0


def typed_as(value: Array) -> str:
    """Numbers as an option takes them; quoted if they contain a semicolon, which would end a shell command."""
    text = ";".join(",".join(f"{x:.6g}" for x in r + 0.0) for r in np.atleast_2d(value))
    return f"'{text}'" if ";" in text else text


def show_lines(lines: list[str], console: Console) -> None:
    for line in lines:
        console.print(line, markup=False, soft_wrap=True)
