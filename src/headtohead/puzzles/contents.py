"""Puzzles of contents: find a token by what it is, count, and go on as the text went on before.

Each is tried in the project's own model on random texts.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from headtohead.errors import InputError
from headtohead.puzzles import reading
from headtohead.puzzles.base import Found, Measured, Puzzle
from headtohead.puzzles.places import NEAR, sharp
from headtohead.puzzles.reach import Array

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, eq=False)
class Copy(Puzzle):
    number, name, title = 9, "copy", "Copy by content"
    asks: ClassVar[dict[str, str]] = {"scale": "what scores are multiplied by, such as 5"}
    explanation = (
        "The query is the vector of the thing asked for, the keys are the vectors of the things there are: the right "
        "one scores 1, another the cosine between the two. Vectors of one length are all corners of their hull, so "
        "everything can be found in the limit; how large the scale must be depends on the two most alike. In few "
        "dimensions many things crowd together and the scale must be huge; in many they are nearly at right angles, "
        "and a few times log n is enough. In one dimension there are only two vectors of length 1, so things share "
        "them and nothing helps."
    )
    things: ClassVar[int] = 16

    width: int = 8

    def __post_init__(self) -> None:
        object.__setattr__(self, "width", reading.whole("width", self.width, 1, 64))

    @property
    def statement(self) -> str:
        return (
            f"{self.things} things, each a random vector of length 1 in {self.width} dimensions, stand in random "
            "order; the last token asks for one of them. Its query is that vector times `scale`, keys are the "
            "things' vectors. Make it look at the thing asked for, so that what it returns is that thing."
        )

    def read(self, answer: dict[str, Any]) -> dict[str, Array]:
        return {"scale": np.array(reading.number("scale", answer["scale"]))}

    def find(self) -> Found:
        alike = self.alikeness()
        if alike > 1 - 1e-9:
            why = f"in {self.width} dimension several things have the same vector, and share the attention for ever"
            return Found({"scale": np.array(sharp(1.0, self.things))}, "impossible", "closed form", why)
        why = f"the two most alike have cosine {alike:.3f}: the right key is {1 - alike:.3g} above per unit of scale"
        return Found(
            {"scale": np.array(sharp(1 - alike, self.things))}, "in the limit", "the scale from the closest pair", why
        )

    def alikeness(self) -> float:
        """The largest cosine between two things."""
        from headtohead.puzzles import heads

        u = heads.names(self.things, self.width).numpy()
        return float((u @ u.T - 2 * np.eye(len(u))).max())

    def measure(self, answer: dict[str, Array]) -> Measured:
        from headtohead.puzzles import heads

        n = self.things
        rng = np.random.default_rng(0)
        things = np.stack([rng.permutation(n) for _ in range(8 * n)])
        asked = np.arange(8 * n) % n
        model = heads.copying(float(answer["scale"]), count=n, width=self.width, block=n + 1)
        found, logits = heads.run(model, np.column_stack([things, n + asked]))
        last = found[0][:, -1]  # (B, T)
        target = np.column_stack([things == asked[:, None], np.zeros(8 * n)]).astype(float)
        share = (last * target).sum(axis=1)
        right = (logits[:, -1, :n].argmax(axis=1) == asked).mean()
        says = f"worst of {8 * n} random texts; {100 * right:.1f} % return the right thing"
        return Measured(last[:n], target[:n], float(np.clip(1 - share.min(), 0, 1)), says, shown={"share": share})

    def draw(self, figure: Figure, answer: dict[str, Array], measured: Measured) -> None:
        from headtohead.puzzles import pictures

        pictures.copying(figure, measured, self.things, self.width)


@dataclass(frozen=True, eq=False)
class Majority(Puzzle):
    number, name, title = 10, "majority", "Which of two tokens is the more frequent?"
    asks: ClassVar[dict[str, str]] = {"tilt": "how much higher token a scores than token b, such as 0.1"}
    explanation = (
        "Equal weights make of attention a count: the share of a among n tokens. So the query must be blind to the "
        "tokens: with tilt 0 it is exact, for any length. A head that likes a by t multiplies its count by e^t, and is "
        "wrong as soon as that turns the closest vote, (n − 1)/2 against (n + 1)/2: it stays right for |t| below "
        "log((n + 1)/(n − 1)), 0.134 for 15 tokens and 0.02 for 101. A softer condition than equal weights, and "
        "one that long texts make hard."
    )

    length: int = 15

    def __post_init__(self) -> None:
        length = reading.whole("length", self.length, 3, 101)
        if length % 2 == 0:
            raise InputError(f"--length {length} allows a tie: give an odd number")
        object.__setattr__(self, "length", length)

    @property
    def bound(self) -> float:
        return math.log((self.length + 1) / (self.length - 1))

    @property
    def statement(self) -> str:
        return (
            f"Texts of {self.length} tokens, each a or b. The last token must say which of the two is the more "
            "frequent, by one head that adds up what it sees. Its query scores a higher than b by `tilt`: which tilt "
            "may it have?"
        )

    def read(self, answer: dict[str, Any]) -> dict[str, Array]:
        return {"tilt": np.array(reading.number("tilt", answer["tilt"]))}

    def find(self) -> Found:
        why = f"equal weights count; a tilt within ± log((n + 1)/(n − 1)) = {self.bound:.4f} does no harm either"
        return Found({"tilt": np.array(0.0)}, "exact", "the zero query, as in puzzle 3", why)

    def measure(self, answer: dict[str, Array]) -> Measured:
        from headtohead.puzzles import heads

        n, rng = self.length, np.random.default_rng(0)
        counts = np.repeat(np.arange(n + 1), 4)  # of b; every count, in four orders
        ids = np.stack([rng.permutation(np.arange(n) < c).astype(int) for c in counts])
        found, logits = heads.run(heads.counting(float(answer["tilt"]), kinds=2, block=n), ids)
        said = logits[:, -1].argmax(axis=1)
        right = said == (counts > n / 2)
        last, even = found[0][:, -1], np.full((1, n), 1 / n)
        worst = 0.5 * np.abs(last - even).sum(axis=1)
        closest = int(np.argmax(counts == (n + 1) // 2))
        shares = np.array([logits[counts == c, -1, 1].mean() for c in range(n + 1)])
        says = f"worst of {len(ids)} texts, every count of a and b in four orders"
        return Measured(
            *(last[closest][None], even, float(worst.max()), says, float(right.mean())),
            shown={"shares": shares, "ids": ids[closest]},
        )

    def draw(self, figure: Figure, answer: dict[str, Array], measured: Measured) -> None:
        from headtohead.puzzles import pictures

        pictures.voting(figure, measured, float(answer["tilt"]), self.bound)


@dataclass(frozen=True, eq=False)
class Induction(Puzzle):
    number, name, title = 11, "induction", "Go on as before: induction in two layers"
    asks: ClassVar[dict[str, str]] = {"scale": "of the first and of the second layer, such as 2,3"}
    explanation = (
        "In … A B … A the next token should be B. The first layer copies to every place the token before it (puzzle "
        "7); the second looks for places whose token before is the present one (puzzle 9) and returns the token that "
        "stands there. One head in one layer cannot do it, whatever its weights and positions: what a place adds to "
        "the answer depends on its own token alone, so the votes for B over C add up over places. Take the texts A B "
        "x C, A C x B, x B A C, x C A B, each followed by A. The right answers are B, C, C, B. The first and the "
        "last have at every place the same two tokens as the second and the third, so their votes sum to the same "
        "number, which must be above and below zero. Weights are 1 only in the limit; predictions are right from a "
        "finite scale on."
    )
    vocab: ClassVar[int] = 16
    block: ClassVar[int] = 24

    @property
    def statement(self) -> str:
        return (
            f"Random texts of {self.block} tokens out of {self.vocab - 1}, after a start token. Where a token has "
            "occurred once before, predict the token that followed it then. Two layers, one head each: the first "
            "looks at the previous place, the second at places whose previous token is the present one. Choose how "
            "sharp each is."
        )

    def read(self, answer: dict[str, Any]) -> dict[str, Array]:
        return {"scale": reading.vector("scale", answer["scale"], 2)}

    def find(self) -> Found:
        scale = np.full(2, math.ceil(sharp(1 - NEAR, self.block)))
        blind = self.measure({"scale": np.array([0.0, scale[1]])}).accuracy or 0.0
        why = "a softmax over finite scores leaves every place a share; predictions are right long before it is gone"
        note = f"with the first layer blind (--scale 0,{scale[1]:g}) {100 * blind:.1f} % of the predictions are right"
        method = "by construction: previous token, then copy by content"
        return Found({"scale": scale}, "in the limit", method, why, (note,))

    def measure(self, answer: dict[str, Array]) -> Measured:
        from headtohead.puzzles import heads

        ids = np.random.default_rng(0).integers(1, self.vocab, size=(64, self.block))
        ids[:, 0] = 0  # a start token, so that the second token has one before it
        model = heads.induction(*answer["scale"].tolist(), vocab=self.vocab, block=self.block)
        (first, second), logits = heads.run(model, ids)
        text, i, place = np.array(list(self._asked(ids))).T  # where to predict, and where the answer stands
        share = second[text, i, place]
        right = logits[text, i].argmax(axis=1) == ids[text, place]
        target = second[0].copy()
        target[i[text == 0]] = np.eye(self.block)[place[text == 0]]
        says = f"worst of {len(text)} predictions in {len(ids)} random texts"
        return Measured(
            *(second[0], target, float(np.clip(1 - share.min(), 0, 1)), says, float(right.mean())),
            shown={"first": first[0], "ids": ids[0], "asked": i[text == 0], "place": place[text == 0]},
        )

    @staticmethod
    def _asked(ids: Array) -> Any:
        """(text, query, the place after the token's only earlier occurrence)"""
        for text, tokens in enumerate(ids.tolist()):
            for i, token in enumerate(tokens):
                if tokens[:i].count(token) == 1:
                    yield text, i, tokens.index(token) + 1

    def draw(self, figure: Figure, answer: dict[str, Array], measured: Measured) -> None:
        from headtohead.puzzles import pictures

        pictures.layers(figure, measured)
