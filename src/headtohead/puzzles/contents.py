"""Puzzles about contents: find a token by its content, count tokens, continue a repeated text. Puzzles 9 to 11.

Answers are checked in headtohead's own model, on random texts.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from headtohead.errors import InputError
from headtohead.puzzles import pictures, reading
from headtohead.puzzles.base import Found, Measured, Puzzle
from headtohead.puzzles.places import NEAR, sharp
from headtohead.puzzles.reach import Array

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, eq=False)
class Copy(Puzzle):
    number, name, title = 9, "copy", "Copy by content"
    asks: ClassVar[dict[str, str]] = {"scale": "factor of the scores, such as 5"}
    explanation = (
        "The query is the vector of the item asked for, and the keys are the vectors of the items in the text. The "
        "right item scores 1, another item scores the cosine between the two vectors. Vectors of length 1 are all "
        "corners of their hull, so every item can be selected in the limit. The scale must separate the two most "
        "similar items. In few dimensions some items are very similar and the scale must be huge. In many dimensions "
        "they are nearly orthogonal, and a few times log n is enough. In one dimension there are only two vectors of "
        "length 1, so several items share a vector and no scale separates them."
    )
    items: ClassVar[int] = 16

    width: int = 8

    def __post_init__(self) -> None:
        object.__setattr__(self, "width", reading.whole("width", self.width, 1, 64))

    @property
    def statement(self) -> str:
        return (
            f"A text contains {self.items} items in random order, each a random vector of length 1 in {self.width} "
            "dimensions. The last token asks for one item. Its query is the vector of that item times `scale`. The "
            "keys are the vectors of the items. Choose the scale, so that the last token attends to the item "
            "that it asks for and returns it."
        )

    def find(self) -> Found:
        similarity = self.largest_similarity()
        if similarity > 1 - 1e-9:
            why = f"in {self.width} dimension several items have the same vector, and no scale separates them"
            return Found({"scale": np.array(sharp(1.0, self.items))}, "impossible", "closed form", why)
        gap = 1 - similarity
        why = (
            f"the cosine of the two most similar items is {similarity:.3f}, so the right key scores at least {gap:.3g} "
            "more per unit of scale"
        )
        method = "the scale that separates the two most similar items"
        return Found({"scale": np.array(sharp(gap, self.items))}, "in the limit", method, why)

    def largest_similarity(self) -> float:
        """The largest cosine between two items."""
        from headtohead.puzzles import heads

        u = heads.names(self.items, self.width).numpy()
        return float((u @ u.T - 2 * np.eye(len(u))).max())

    def measure(self, answer: dict[str, Array]) -> Measured:
        from headtohead.puzzles import heads

        n = self.items
        items = self._texts()
        asked = np.arange(8 * n) % n
        model = heads.copying(float(answer["scale"]), count=n, width=self.width, block=n + 1)
        maps, logits = heads.run(model, np.column_stack([items, n + asked]))
        last = maps[0][:, -1]  # (B, T)
        target = np.column_stack([items == asked[:, None], np.zeros(8 * n)]).astype(float)
        share = (last * target).sum(axis=1)
        right = (logits[:, -1, :n].argmax(axis=1) == asked).mean()
        detail = f"worst of {8 * n} random texts; {100 * right:.1f} % return the right item"
        distance = float(np.clip(1 - share.min(), 0, 1))
        return Measured(last[:n], target[:n], distance, detail, plot_data={"share": share})

    def _texts(self) -> Array:
        rng = np.random.default_rng(0)
        return np.stack([rng.permutation(self.items) for _ in range(8 * self.items)])

    def material(self) -> dict[str, Array]:
        from headtohead.puzzles import heads

        return {"texts": self._texts(), "vectors": heads.names(self.items, self.width).numpy()}

    def draw(self, figure: Figure, answer: dict[str, Array], measured: Measured) -> None:
        pictures.copying(figure, measured, self.items, self.width)


@dataclass(frozen=True, eq=False)
class Majority(Puzzle):
    number, name, title = 10, "majority", "Which of two tokens is more frequent?"
    asks: ClassVar[dict[str, str]] = {"tilt": "how much higher token a scores than token b, such as 0.1"}
    explanation = (
        "With equal weights, attention counts: its output is the share of a among n tokens. The query must therefore "
        "give all tokens the same score. Tilt 0 does so exactly, for any length. A head that scores a higher by t "
        "multiplies the count of a by e^t. It is wrong as soon as this changes the result of the closest vote, (n − "
        "1)/2 against (n + 1)/2. It stays right for |t| below log((n + 1)/(n − 1)): 0.134 for 15 tokens, 0.02 for 101 "
        "tokens. This condition is weaker than equal weights, but it gets stricter with the length of the text."
    )

    length: int = 15

    def __post_init__(self) -> None:
        length = reading.whole("length", self.length, 3, 101)
        if length % 2 == 0:
            raise InputError(f"--length {length} allows a tie: give an odd number")
        object.__setattr__(self, "length", length)

    @property
    def bound(self) -> float:
        """The largest tilt with which every prediction is right."""
        return math.log((self.length + 1) / (self.length - 1))

    @property
    def statement(self) -> str:
        return (
            f"Texts have {self.length} tokens, each a or b. At the last token, one head must predict which of the two "
            "is more frequent, from the weighted mean of the tokens. Its query scores a higher than b by `tilt`. "
            "Choose the tilt, so that every prediction is right."
        )

    def find(self) -> Found:
        why = f"equal weights count; a tilt within ± log((n + 1)/(n − 1)) = {self.bound:.4f} gives the same predictions"
        return Found({"tilt": np.array(0.0)}, "exact", "the zero query, as in puzzle 3", why)

    def measure(self, answer: dict[str, Array]) -> Measured:
        from headtohead.puzzles import heads

        n, ids = self.length, self._texts()
        counts = ids.sum(axis=1)  # of b
        maps, logits = heads.run(heads.counting(float(answer["tilt"]), kinds=2, block=n), ids)
        predicted = logits[:, -1].argmax(axis=1)
        right = predicted == (counts > n / 2)
        last, even = maps[0][:, -1], np.full((1, n), 1 / n)
        worst = 0.5 * np.abs(last - even).sum(axis=1)
        closest = int(np.argmax(counts == (n + 1) // 2))
        shares = np.array([logits[counts == c, -1, 1].mean() for c in range(n + 1)])
        detail = f"worst of {len(ids)} texts, every count of a and b in four random orders"
        return Measured(
            *(last[closest][None], even, float(worst.max()), detail, float(right.mean())),
            plot_data={"shares": shares, "ids": ids[closest]},
        )

    def _texts(self) -> Array:
        """Every count of b, in four random orders."""
        n, rng = self.length, np.random.default_rng(0)
        return np.stack([rng.permutation(np.arange(n) < c).astype(int) for c in np.repeat(np.arange(n + 1), 4)])

    def material(self) -> dict[str, Array]:
        return {"texts": self._texts()}

    def draw(self, figure: Figure, answer: dict[str, Array], measured: Measured) -> None:
        pictures.voting(figure, measured, float(answer["tilt"]), self.bound)


@dataclass(frozen=True, eq=False)
class Induction(Puzzle):
    number, name, title = 11, "induction", "Continue a repeated text: induction in two layers"
    asks: ClassVar[dict[str, str]] = {"scale": "scale of the first and of the second layer, such as 2,3"}
    explanation = (
        "After … A B … A the next token should be B. The first layer copies to every position the token before it "
        "(puzzle 7). The second layer attends to positions whose previous token is the current token (puzzle 9) and "
        "returns the token at that position. One head in one layer cannot do this, with any weights and positions: "
        "what a position adds to the answer depends only on its own token, so the votes for B over C add up over "
        "positions. Take the texts A B x C, A C x B, x B A C, x C A B, each followed by A. The right answers are B, C, "
        "C, B. At every position, the first and the last text together have the same two tokens as the second and the "
        "third. Their votes therefore have the same sum, but this sum would have to be above zero for one pair of "
        "texts and below zero for the other. Weights are 1 only in the limit, but predictions are right from a finite "
        "scale on."
    )
    vocab: ClassVar[int] = 16
    block: ClassVar[int] = 24

    @property
    def statement(self) -> str:
        return (
            f"Random texts have {self.block} positions: a start token, then tokens from a vocabulary of "
            f"{self.vocab - 1}. Where a token has occurred exactly once before, predict the token that followed it. "
            "The model has two layers with one head each. The first attends to the previous position, the second to "
            "positions whose previous token is the current token. Choose the scale of the scores in each layer."
        )

    def read(self, answer: dict[str, Any]) -> dict[str, Array]:
        return {"scale": reading.vector("scale", answer["scale"], 2)}

    def find(self) -> Found:
        scale = np.full(2, math.ceil(sharp(1 - NEAR, self.block)))
        without_first = self.measure({"scale": np.array([0.0, scale[1]])}).accuracy or 0.0
        why = "softmax of finite scores gives every position a share; predictions are right at much smaller scales"
        note = f"without the first layer (--scale 0,{scale[1]:g}) {100 * without_first:.1f} % of predictions are right"
        method = "construction: previous token in layer 1, copy by content in layer 2"
        return Found({"scale": scale}, "in the limit", method, why, (note,))

    def measure(self, answer: dict[str, Array]) -> Measured:
        from headtohead.puzzles import heads

        ids = self._texts()
        model = heads.induction(*answer["scale"].tolist(), vocab=self.vocab, block=self.block)
        (first, second), logits = heads.run(model, ids)
        text, i, place = np.array(list(self._asked(ids))).T  # where to predict, and the position of the answer
        share = second[text, i, place]
        right = logits[text, i].argmax(axis=1) == ids[text, place]
        target = second[0].copy()
        target[i[text == 0]] = np.eye(self.block)[place[text == 0]]
        detail = f"worst of {len(text)} predictions in {len(ids)} random texts"
        return Measured(
            *(second[0], target, float(np.clip(1 - share.min(), 0, 1)), detail, float(right.mean())),
            plot_data={"first": first[0], "ids": ids[0], "asked": i[text == 0], "place": place[text == 0]},
        )

    def _texts(self) -> Array:
        ids = np.random.default_rng(0).integers(1, self.vocab, size=(64, self.block))
        ids[:, 0] = 0  # a start token: every other token has a previous token
        return ids

    def material(self) -> dict[str, Array]:
        return {"texts": self._texts()}

    @staticmethod
    def _asked(ids: Array) -> Any:
        """Yield (text, query position, position after the only earlier occurrence of the token)."""
        for text, tokens in enumerate(ids.tolist()):
            for i, token in enumerate(tokens):
                if tokens[:i].count(token) == 1:
                    yield text, i, tokens.index(token) + 1

    def draw(self, figure: Figure, answer: dict[str, Array], measured: Measured) -> None:
        pictures.layers(figure, measured)
