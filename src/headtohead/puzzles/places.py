"""Puzzles about positions: attend to a token by its position, independent of its content. Puzzles 7, 8, 12 and 13.

Answers are checked in headtohead's own model with its position parts, on random texts.
Shapes: T tokens; maps (B, T, T), where row i holds the weights of query i.
"""

from __future__ import annotations

import abc
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from headtohead.puzzles import pictures, reading
from headtohead.puzzles.base import Found, Measured, Puzzle
from headtohead.puzzles.reach import Array

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from headtohead.model.transformer import LanguageModel

NEAR = 0.001  # the share of the attention that a solver leaves in the wrong place
PREVIOUS_WIDTH = 16


@dataclass(frozen=True, eq=False)
class OfPlaces(Puzzle):
    """A puzzle in which every query must attend to one position."""

    block: ClassVar[int] = 32  # tokens in a text

    @abc.abstractmethod
    def model(self, answer: dict[str, Array]) -> LanguageModel:
        """The model with the weights that the answer sets."""

    @abc.abstractmethod
    def place(self, i: Array) -> Array:
        """The positions that the queries i must attend to; negative: any."""

    def scores(self, answer: dict[str, Array], back: Array) -> Array | None:
        """The score of a key `back` tokens back, or None if the score depends on more than the distance."""
        return None

    def measure(self, answer: dict[str, Array]) -> Measured:
        from headtohead.puzzles import heads

        maps, _ = heads.run(self.model(answer), self._texts())
        i = np.arange(self.block)
        i, j = np.stack([i, self.place(i)])[:, self.place(i) >= 0]
        shares = maps[0][:, i, j]  # (B, rows)
        worst = int(shares.min(axis=0).argmin())
        target = maps[0][0].copy()
        target[i] = np.eye(self.block)[j]
        detail = f"worst: query {i[worst]} gives {shares.min():.4f} to token {j[worst]}; {len(maps[0])} random texts"
        return Measured(maps[0][0], target, float(np.clip(1 - shares.min(), 0, 1)), detail)

    def _texts(self) -> Array:
        return np.random.default_rng(0).integers(0, 16, size=(32, self.block))

    def draw(self, figure: Figure, answer: dict[str, Array], measured: Measured) -> None:
        back = np.linspace(0, self.block - 1, 16 * (self.block - 1) + 1)
        pictures.places(figure, measured, back, self.scores(answer, back))


def _gap(frequencies: Array, shift: float, wanted: int, block: int) -> float:
    """How much Σ cos((back − shift)·w) at `wanted` exceeds its next highest value within the block."""
    back = np.arange(block)
    scores = np.cos((back[:, None] - shift) * frequencies).sum(axis=1)
    return float(scores[wanted] - np.delete(scores, wanted).max())


def sharp(gap: float, rivals: int) -> float:
    """The scale at which `rivals` keys, whose scores are `gap` lower per unit of scale, share no more than NEAR."""
    return math.log(rivals * (1 - NEAR) / NEAR) / gap


class Previous(OfPlaces):
    number, name, title = 7, "previous", "Attend to the previous token"
    asks: ClassVar[dict[str, str]] = {
        "shift": "how many tokens back the query is rotated, such as 1.3",
        "scale": "factor of the scores, such as 5",
    }
    limits: ClassVar[dict[str, tuple[float, float]]] = {"shift": (-32, 32)}
    explanation = (
        "Sinusoidal positions are pairs (sin i·w, cos i·w). A rotation by the angle −s·w turns position i into "
        "position i − s. This rotation is the same matrix for all i, so a head can learn it. The score of the token s' "
        "back is then Σ cos((s' − s)·w), highest at s' = s. One pair alone (w = 1) would confuse the previous token "
        "with the token 7 back, almost a full turn away: 1 − cos 6 is only 0.04. The slower pairs separate the two. "
        "Without token vectors, every shift from about ½ to 1½ would work with a large scale. But the token vectors "
        "are in the same stream and disturb the scores: at shift 1.3 some tokens attend two tokens back at any scale. "
        "Weights are 1 only in the limit."
    )

    @property
    def statement(self) -> str:
        return (
            f"Sinusoidal positions of width {PREVIOUS_WIDTH} are added to token vectors of standard deviation 0.02. "
            "The key is this sum. The query is this sum with every pair rotated as if the token were `shift` tokens "
            "earlier, times `scale`. Choose both, so that every token attends to the token before it, in random texts "
            f"of {self.block} tokens."
        )

    def model(self, answer: dict[str, Array]) -> LanguageModel:
        from headtohead.puzzles import heads

        return heads.shifted(float(answer["shift"]), float(answer["scale"]), width=PREVIOUS_WIDTH, block=self.block)

    def place(self, i: Array) -> Array:
        return i - 1

    def scores(self, answer: dict[str, Array], back: Array) -> Array:
        return answer["scale"] * np.cos((back[:, None] - answer["shift"]) * self._frequencies()).sum(axis=1)

    def find(self) -> Found:
        gap = _gap(self._frequencies(), 1.0, 1, self.block)
        answer = {"shift": np.array(1.0), "scale": np.array(round(4 * sharp(gap, self.block - 1)))}
        why = (
            f"without token vectors the previous token scores {gap:.3g} more than any other per unit of scale; a "
            "weight of exactly 1 would need an infinite scale"
        )
        method = "construction: rotation by one token; four times the scale that is enough without token vectors"
        return Found(answer, "in the limit", method, why)

    def material(self) -> dict[str, Array]:
        from headtohead.puzzles import heads

        vectors = heads.NOISE * heads.noise(16, PREVIOUS_WIDTH).numpy()
        return {"texts": self._texts(), "vectors": vectors, "frequencies": self._frequencies()}

    @staticmethod
    def _frequencies() -> Array:
        return 10_000.0 ** (-np.arange(0, PREVIOUS_WIDTH, 2) / PREVIOUS_WIDTH)


class FirstToken(OfPlaces):
    block: ClassVar[int] = 64
    number, name, title = 8, "first", "Attend to the first token"
    asks: ClassVar[dict[str, str]] = {"score": "score of the first position, where all others have 0, such as 5"}
    explanation = (
        "Heads without a task often attend to the first token. One entry that only the first position has is enough: "
        "keys read it, and a constant query (a bias) asks for it. Among T tokens the first gets e^s / (e^s + T − 1) of "
        "the attention, so the score must grow like log T: 7.1 for 95 % with 64 tokens, 9.9 for 95 % with 1,000 "
        "tokens. A score that is enough in short texts is too small in long ones. A bias that only falls with distance "
        "cannot do this (puzzle 13)."
    )

    @property
    def statement(self) -> str:
        return (
            "Positions are learned. Only the first position has an entry that keys read, and every query asks for it. "
            f"Choose its score, so that every token attends to the first token, in random texts of {self.block} tokens."
        )

    def model(self, answer: dict[str, Array]) -> LanguageModel:
        from headtohead.puzzles import heads

        return heads.marked(float(answer["score"]), block=self.block)

    def place(self, i: Array) -> Array:
        return 0 * i

    def find(self) -> Found:
        score = sharp(1.0, self.block - 1)
        why = (
            f"{self.block - 1} other tokens share at least {self.block - 1} / (e^s + {self.block - 1}), for any score s"
        )
        return Found({"score": np.array(score)}, "in the limit", "closed form: s = log((T − 1)(1 − ε)/ε)", why)


@dataclass(frozen=True, eq=False)
class RotaryBack(OfPlaces):
    number, name, title = 12, "rotary", "Attend n tokens back with rotary positions only"
    asks: ClassVar[dict[str, str]] = {
        "angle": "one angle for each pair, in radians, such as 3,1",
        "scale": "factor of the scores, such as 50",
    }
    explanation = (
        "Pair m of the query and of the key is rotated by w_m radians per token. For a constant query and key its "
        "score is cos((i − j)·w_m − angle_m), a wave over the distance. The angle n·w_m puts a crest of this wave n "
        "tokens back. The score is highest where the crests of all pairs meet. All rotated keys have the same length, "
        "so each is a corner of their hull, and any distance can be selected in the limit. How large the scale must be "
        "depends on the next crest of the fastest pair, 2π ≈ 6.28 tokens away: at 6 tokens this pair has lost only "
        "0.04, and the slower pairs must make the difference. With width 4 and theta 10,000 the second pair hardly "
        "moves in 32 tokens; with theta 100 a seventh of the scale is enough."
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
            f"Positions are rotary, with head width {self.width} and theta {self.theta:g}: {self.width // 2} pairs "
            f"rotate by {', '.join(f'{w:.3g}' for w in self._frequencies()[:4])}{', …' * (self.width > 8)} radians per "
            "token. All tokens have the same key and the same query: the key with each pair rotated by an angle, times "
            f"`scale`. Choose both, so that every token attends to the token {self.back} back, in texts of "
            f"{self.block} tokens."
        )

    def read(self, answer: dict[str, Any]) -> dict[str, Array]:
        angle = reading.vector("angle", answer["angle"], self.width // 2)
        return {"angle": angle, "scale": np.array(reading.number("scale", answer["scale"]))}

    def model(self, answer: dict[str, Array]) -> LanguageModel:
        from headtohead.puzzles import heads

        return heads.turned(answer["angle"], float(answer["scale"]), theta=self.theta, block=self.block)

    def place(self, i: Array) -> Array:
        return i - self.back

    def scores(self, answer: dict[str, Array], back: Array) -> Array:
        return answer["scale"] * np.cos(back[:, None] * self._frequencies() - answer["angle"]).sum(axis=1)

    def find(self) -> Found:
        w = self._frequencies()
        gap = _gap(w, self.back, self.back, self.block)
        answer = {"angle": self.back * w, "scale": np.array(sharp(gap, self.block - 1))}
        why = (
            "the rotated keys have the same length, so each is a corner of their hull; the right key scores "
            f"{gap:.3g} more than any other per unit of scale"
        )
        method = "construction: angle_m = back · w_m, and the scale that this difference needs"
        return Found(answer, "in the limit", method, why)

    def material(self) -> dict[str, Array]:
        return {"frequencies": self._frequencies()}

    def _frequencies(self) -> Array:
        return self.theta ** (-np.arange(0, self.width, 2) / self.width)


@dataclass(frozen=True, eq=False)
class LinearBack(OfPlaces):
    number, name, title = 13, "linear", "Attend n tokens back with linear biases only"
    asks: ClassVar[dict[str, str]] = {"slope": "slope of the bias, above 0, such as 0.5"}
    limits: ClassVar[dict[str, tuple[float, float]]] = {"slope": (1e-9, 1e9)}
    explanation = (
        "The bias −slope·|i − j| falls with distance, so a nearer token always has a larger weight. The only token "
        "that a query can select is its own. In a long text the token n back gets e^(−n·m)·(1 − e^(−m)) of the "
        "attention, where m is the slope. This is at most n^n/(n + 1)^(n + 1), at slope log((n + 1)/n): 25 % one token "
        "back, 10.5 % three tokens back. The published slopes 2^(−8h/H) do not select even the own token: they are "
        "below 1, so it gets less than 1 − 1/e = 63 %. Linear biases give near tokens more weight. To select a "
        "position, a head needs content, or positions that queries can rotate (puzzle 12)."
    )

    back: int = 3

    def __post_init__(self) -> None:
        object.__setattr__(self, "back", reading.whole("back", self.back, 0, self.block - 1))

    @property
    def statement(self) -> str:
        return (
            "Queries and keys are zero, so the score is the bias −slope·|i − j|. Choose the slope, so that every token "
            f"attends to the token {self.back} back, in texts of {self.block} tokens."
        )

    def model(self, answer: dict[str, Array]) -> LanguageModel:
        from headtohead.puzzles import heads

        return heads.sloped(float(answer["slope"]), block=self.block)

    def place(self, i: Array) -> Array:
        return i - self.back

    def scores(self, answer: dict[str, Array], back: Array) -> Array:
        return -answer["slope"] * back

    def find(self) -> Found:
        n = self.back
        if n == 0:
            why = "in a long text the own token gets 1 − e^(−slope), which is below 1 for every slope"
            return Found({"slope": np.array(-math.log(NEAR))}, "in the limit", "closed form: slope = log(1/ε)", why)
        from scipy.optimize import minimize_scalar

        def wrong_share(log_slope: float) -> float:
            a = np.exp(-math.exp(log_slope) * np.arange(self.block))
            return float(1 - a[n] / a.sum())

        best = minimize_scalar(wrong_share, bounds=(-12, 3), method="bounded", options={"xatol": 1e-9})
        why = (
            f"a nearer token always has a larger weight, and the own token the largest; the token {n} back gets at "
            f"most {1 - best.fun:.4f} here, and {n**n / (n + 1) ** (n + 1):.4f} in infinitely long texts, at slope "
            f"log({n + 1}/{n}) = {math.log((n + 1) / n):.4f}"
        )
        return Found({"slope": np.array(math.exp(best.x))}, "impossible", "a search over the slope", why)
