"""Puzzles of positions: pick a token by where it stands, whatever the text says.

Each is tried in the project's own model on random texts; the positions are the real parts.
Shapes: T tokens; maps (B, T, T), row i the weights of query i.
"""

from __future__ import annotations

import abc
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from headtohead.puzzles import reading
from headtohead.puzzles.base import Found, Measured, Puzzle
from headtohead.puzzles.reach import Array

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from headtohead.model import LanguageModel

NEAR = 0.001  # the share of the attention a solver leaves elsewhere
PREVIOUS_WIDTH = 16


@dataclass(frozen=True, eq=False)
class OfPlaces(Puzzle):
    """Every query must look at one place."""

    block: ClassVar[int] = 32  # tokens of a text

    @abc.abstractmethod
    def model(self, answer: dict[str, Array]) -> LanguageModel:
        """The head, set by the answer."""

    @abc.abstractmethod
    def place(self, i: int) -> int | None:
        """Where query i must look; none: it does not matter."""

    def scores(self, answer: dict[str, Array], back: Array) -> Array | None:
        """The score of a key so many tokens back, where that alone decides."""
        return None

    def measure(self, answer: dict[str, Array]) -> Measured:
        from headtohead.puzzles import heads

        found, _ = heads.run(self.model(answer), heads.texts(16, self.block))
        asked = [(i, j) for i in range(self.block) if (j := self.place(i)) is not None]
        i, j = np.array(asked).T
        shares = found[0][:, i, j]  # (B, rows)
        worst = int(shares.min(axis=0).argmin())
        target = found[0][0].copy()
        target[i] = np.eye(self.block)[j]
        says = f"worst: query {i[worst]} gives {shares.min():.4f} to token {j[worst]}; {found[0].shape[0]} random texts"
        return Measured(found[0][0], target, float(np.clip(1 - shares.min(), 0, 1)), says)

    def draw(self, figure: Figure, answer: dict[str, Array], measured: Measured) -> None:
        from headtohead.puzzles import pictures

        back = np.linspace(0, self.block - 1, 16 * (self.block - 1) + 1)
        pictures.places(figure, measured, back, self.scores(answer, back))


def _gap(frequencies: Array, shift: float, wanted: int, block: int) -> float:
    """How far Σ cos((back − shift)·w) at `wanted` is above its next highest value within the block."""
    back = np.arange(block)
    scores = np.cos((back[:, None] - shift) * frequencies).sum(axis=1)
    return float(scores[wanted] - np.delete(scores, wanted).max())


def sharp(gap: float, rivals: int) -> float:
    """So large that `rivals` keys, all `gap` behind, share no more than NEAR."""
    return math.log(rivals * (1 - NEAR) / NEAR) / gap


class Previous(OfPlaces):
    number, name, title = 7, "previous", "Look at the previous token"
    asks: ClassVar[dict[str, str]] = {
        "shift": "how many tokens back the query is turned, such as 1.3",
        "scale": "what scores are multiplied by, such as 5",
    }
    explanation = (
        "Sinusoidal positions are pairs (sin i·w, cos i·w), and a turn by the angle −s·w makes of position i the "
        "position i − s: one matrix for all i, so a head can learn it. The score of the token s' back is then Σ "
        "cos((s' − s)·w), highest at s' = s. One pair alone (w = 1) would take the token 7 back, almost a full turn "
        "away, for the previous one: 1 − cos 6 is 0.04. The slower pairs tell them apart. Without the tokens any "
        "shift between ½ and 1½ or so would do, if only the scale were large; but their vectors are in the same "
        "stream and disturb the scores, and at 1.3 some tokens look two back however large the scale. Weights are 1 "
        "only in the limit."
    )

    @property
    def statement(self) -> str:
        return (
            f"Sinusoidal positions of width {PREVIOUS_WIDTH} are added to token vectors of standard deviation 0.02. "
            "Keys are the sum itself; the query is the sum with every pair turned as if it stood `shift` tokens "
            f"earlier, times `scale`. Make every token look at the one before it, in random texts of {self.block} "
            "tokens."
        )

    def read(self, answer: dict[str, Any]) -> dict[str, Array]:
        return {
            "shift": np.array(reading.number("shift", answer["shift"], -self.block, self.block)),
            "scale": np.array(reading.number("scale", answer["scale"])),
        }

    def model(self, answer: dict[str, Array]) -> LanguageModel:
        from headtohead.puzzles import heads

        return heads.shifted(
            float(answer["shift"]), float(answer["scale"]), width=PREVIOUS_WIDTH, block=self.block, vocab=16
        )

    def place(self, i: int) -> int | None:
        return i - 1 if i else None

    def scores(self, answer: dict[str, Array], back: Array) -> Array:
        return answer["scale"] * np.cos((back[:, None] - answer["shift"]) * self._frequencies()).sum(axis=1)

    def find(self) -> Found:
        gap = _gap(self._frequencies(), 1.0, 1, self.block)
        answer = {"shift": np.array(1.0), "scale": np.array(round(4 * sharp(gap, self.block - 1)))}
        why = (
            f"without token vectors the previous token is {gap:.3g} above the next highest per unit of scale, and a "
            "weight of exactly 1 would take an endless scale"
        )
        method = "by construction: the turn by one token; four times the scale that would do without the tokens' noise"
        return Found(answer, "in the limit", method, why)

    @staticmethod
    def _frequencies() -> Array:
        return 10_000.0 ** (-np.arange(0, PREVIOUS_WIDTH, 2) / PREVIOUS_WIDTH)


class FirstToken(OfPlaces):
    block: ClassVar[int] = 64
    number, name, title = 8, "first", "Look at the first token"
    asks: ClassVar[dict[str, str]] = {"score": "of the first position, the others having 0, such as 5"}
    explanation = (
        "Heads with nothing to do often look at the first token. All it takes is one entry that the first position "
        "has alone: keys read it, and a constant query (a bias) asks for it. Among T tokens the first gets e^s / "
        "(e^s + T − 1), so the score must grow like log T: 7.1 for 95 % of 64 tokens, 9.9 for 95 % of 1,000. A score "
        "that was enough in short texts is not in long ones. A bias that only falls with distance cannot do it at "
        "all (puzzle 13)."
    )

    @property
    def statement(self) -> str:
        return (
            "Learned positions: only the first has an entry that keys read, and every query asks for it. Choose its "
            f"score, so that every token looks at the first, in random texts of {self.block} tokens."
        )

    def read(self, answer: dict[str, Any]) -> dict[str, Array]:
        return {"score": np.array(reading.number("score", answer["score"]))}

    def model(self, answer: dict[str, Array]) -> LanguageModel:
        from headtohead.puzzles import heads

        return heads.marked(float(answer["score"]), block=self.block)

    def place(self, i: int) -> int | None:
        return 0

    def find(self) -> Found:
        score = sharp(1.0, self.block - 1)
        why = (
            f"{self.block - 1} other tokens share at least {self.block - 1} / (e^s + {self.block - 1}), for any score s"
        )
        return Found({"score": np.array(score)}, "in the limit", "closed form: s = log((T − 1)(1 − ε)/ε)", why)


@dataclass(frozen=True, eq=False)
class RotaryBack(OfPlaces):
    number, name, title = 12, "rotary", "Look n tokens back by rotary positions alone"
    asks: ClassVar[dict[str, str]] = {
        "angle": "one for each pair, in radians, such as 3,1",
        "scale": "what scores are multiplied by, such as 50",
    }
    explanation = (
        "Pair m of query and key is turned by w_m radians a token, so for a constant query and key its score is "
        "cos((i − j)·w_m − angle_m): a wave over the distance. The angle n·w_m puts its crest n tokens back, and "
        "where the crests of all pairs meet is the highest score. All turned keys have the same length, so each is a "
        "corner of their hull and any distance can be picked in the limit. How large the scale must be depends on "
        "the next crest of the fastest pair, 2π ≈ 6.28 tokens away: six tokens off it has lost only 0.04, and slower "
        "pairs must help. At theta 10,000 the second pair of four numbers hardly moves in 32 tokens; at theta 100 a "
        "seventh of the scale does."
    )

    back: int = 3
    theta: float = 10_000.0
    width: int = 4

    def __post_init__(self) -> None:
        object.__setattr__(self, "back", reading.whole("back", self.back, 0, self.block - 2))
        object.__setattr__(self, "theta", reading.number("theta", self.theta, 1.0001, 1e9))
        object.__setattr__(self, "width", 2 * math.ceil(reading.whole("width", self.width, 2, 64) / 2))

    @property
    def statement(self) -> str:
        return (
            f"Rotary positions, head width {self.width}, theta {self.theta:g}: {self.width // 2} pairs that turn by "
            f"{', '.join(f'{w:.3g}' for w in self._frequencies()[:4])}{', …' * (self.width > 8)} radians a token. The "
            "key is the same for every token, and so is the query: the key with each pair turned by an angle, times "
            f"`scale`. Make every token look at the one {self.back} back, in texts of {self.block} tokens."
        )

    def read(self, answer: dict[str, Any]) -> dict[str, Array]:
        angle = reading.vector("angle", answer["angle"], self.width // 2)
        return {"angle": angle, "scale": np.array(reading.number("scale", answer["scale"]))}

    def model(self, answer: dict[str, Array]) -> LanguageModel:
        from headtohead.puzzles import heads

        return heads.turned(answer["angle"], float(answer["scale"]), theta=self.theta, block=self.block)

    def place(self, i: int) -> int | None:
        return i - self.back if i >= self.back else None

    def scores(self, answer: dict[str, Array], back: Array) -> Array:
        return answer["scale"] * np.cos(back[:, None] * self._frequencies() - answer["angle"]).sum(axis=1)

    def find(self) -> Found:
        w = self._frequencies()
        gap = _gap(w, self.back, self.back, self.block)
        answer = {"angle": self.back * w, "scale": np.array(sharp(gap, self.block - 1))}
        why = (
            f"the turned keys have one length, so each is a corner of their hull; the right one is {gap:.3g} above the "
            "next highest per unit of scale"
        )
        return Found(answer, "in the limit", "by construction: angle_m = back · w_m, the scale from that gap", why)

    def _frequencies(self) -> Array:
        return self.theta ** (-np.arange(0, self.width, 2) / self.width)


@dataclass(frozen=True, eq=False)
class LinearBack(OfPlaces):
    number, name, title = 13, "linear", "Look n tokens back by linear biases alone"
    asks: ClassVar[dict[str, str]] = {"slope": "of the bias, above 0, such as 0.5"}
    explanation = (
        "The bias −slope·|i − j| falls with the distance, so a nearer token always has the larger weight: the head "
        "can look at its own token and nowhere else. The token n back gets e^(−n·m)·(1 − e^(−m)) in a long text, at "
        "most n^n/(n + 1)^(n + 1), at slope log((n + 1)/n): 25 % one token back, 10.5 % three back. Even the own "
        "token is not picked sharply by the published slopes 2^(−8h/H): they stay below 1, so it gets less than 1 − "
        "1/e = 63 %. Linear biases make near things count more; to pick a place takes content, or positions that "
        "queries can turn (puzzle 12)."
    )

    back: int = 3

    def __post_init__(self) -> None:
        object.__setattr__(self, "back", reading.whole("back", self.back, 0, self.block - 1))

    @property
    def statement(self) -> str:
        return (
            "Queries and keys are zero; the score is the bias −slope·|i − j| alone. Choose the slope, so that every "
            f"token looks at the one {self.back} back, in texts of {self.block} tokens."
        )

    def read(self, answer: dict[str, Any]) -> dict[str, Array]:
        return {"slope": np.array(reading.number("slope", answer["slope"], 1e-9, 1e9))}

    def model(self, answer: dict[str, Array]) -> LanguageModel:
        from headtohead.puzzles import heads

        return heads.sloped(float(answer["slope"]), block=self.block)

    def place(self, i: int) -> int | None:
        return i - self.back if i >= self.back else None

    def scores(self, answer: dict[str, Array], back: Array) -> Array:
        return -answer["slope"] * back

    def find(self) -> Found:
        n = self.back
        if n == 0:
            why = "the own token gets 1 − e^(−slope) in a long text, which is below 1 for every slope"
            return Found({"slope": np.array(-math.log(NEAR))}, "in the limit", "closed form: slope = log(1/ε)", why)
        from scipy.optimize import minimize_scalar

        def left(log_slope: float) -> float:
            a = np.exp(-math.exp(log_slope) * np.arange(self.block))
            return float(1 - a[n] / a.sum())

        best = minimize_scalar(left, bounds=(-12, 3), method="bounded", options={"xatol": 1e-9})
        why = (
            f"a nearer token always has the larger weight, and the own token the largest; the token {n} back gets at "
            f"most {1 - best.fun:.4f} here, and {n**n / (n + 1) ** (n + 1):.4f} in endless texts, at slope "
            f"log({n + 1}/{n}) = {math.log((n + 1) / n):.4f}"
        )
        return Found({"slope": np.array(math.exp(best.x))}, "impossible", "a search over the slope", why)
