"""001: do padded positions attract less attention after training? Its encoder had no padding mask, and its query, key
and value weights were never trained: the published count of 427,600 parameters holds none of them.

HEADTOHEAD_DATA=… h2h run published/padding

Heads and epochs are 000's, not 001's. Sentences are filled up to the block with a word of their own, which attention
may look at as at any other. Measured is the weight that words put on the filling, as a multiple of what equal weights
would: 1 is indifference.
"""

import re
from collections.abc import Iterable, Iterator
from typing import ClassVar

import torch
from documents import RULE, VOCABULARY, Untrained, classifier_studied
from torch import nn

from headtohead import Preparation, Study
from headtohead.claims import AuditedModule, Better, Claim, Moves, weight_on

FILLING = "paddingpadding"


class Filled(Preparation):
    """Each sentence is followed by the filling, up to the block's end."""

    equation: ClassVar[str] = "text + filling · 32"
    reference: ClassVar[str] = "what a model without a padding mask sees"

    def prepare(self, pieces: Iterable[str]) -> Iterator[str]:
        return (re.sub(r"\s+$", "", piece) + f" {FILLING}" * 32 for piece in pieces)


filled = classifier_studied.set("data.prepare", Filled()).set("train.epochs", 10)

padding = Study(
    question="What does a missing padding mask cost, and what do attention weights that are never trained?",
    control=filled,
    vary=["start", "data.prepare"],
    arms={
        "no mask": filled,
        "no mask and attention never trained": filled.set("start", Untrained()),
        "masked, not filled": filled.set("data.prepare", classifier_studied.data.prepare),
    },
    seeds=10,
    again=False,
    metric="test/accuracy",
    command="h2h run published/padding",
    takes="five minutes on two cores",
)

QUICK = ("train.epochs=2",)  # of `h2h reproduce --quick`

measure = weight_on(FILLING, "filling")


class ListedHeads(nn.Module):
    """An encoder whose queries, keys and values sit in a plain Python list, of which torch knows nothing."""

    def __init__(self, vocab: int = 23, block: int = 16, width: int = 16, heads: int = 2, classes: int = 3) -> None:
        super().__init__()
        self.embed, self.place = nn.Embedding(vocab, width), nn.Embedding(block, width)
        self.heads = [[nn.Linear(width, width // heads, bias=False) for _ in "qkv"] for _ in range(heads)]
        self.fuse, self.classify = nn.Linear(width, width), nn.Linear(width, classes)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.embed(ids) + self.place(torch.arange(ids.shape[1]))
        outs = [nn.functional.scaled_dot_product_attention(q(x), k(x), v(x)) for q, k, v in self.heads]
        return self.classify((x + self.fuse(torch.cat(outs, dim=-1))).mean(dim=1))


claims = [
    Claim(
        "001.3",
        Moves(padding, "no mask and attention never trained", "filling/before", "filling/after"),
        also=(
            Moves(padding, "no mask", "filling/before", "filling/after"),
            AuditedModule(ListedHeads, "heads in a plain list", check="registered"),
            Better(padding, "masked, not filled"),
        ),
        only="in the report's own form",
        because="The report's queries, keys and values were never trained, as its parameter count shows, and ten pairs "
        "of such a model do not decide. Where attention is trained, padded positions do attract less. With a mask they "
        "get no weight at all.",
        revised=VOCABULARY + RULE,
    )
]
