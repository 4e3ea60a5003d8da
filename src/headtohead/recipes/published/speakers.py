"""004: is perplexity lower on Obama because the training text is closest to him?

HEADTOHEAD_DATA=… h2h run published/speakers

If so, he loses his lead where the training text is a third his, and gains it where it is all his. The sentences to
classify say who spoke them: they are the training text here, without those that share eight words in a row with a test
text. Byte pairs and bits per byte, for words would be unknown in one text more than in another.
"""

import re
from pathlib import Path
from typing import ClassVar

from documents import SMALL, decoder_studied

from headtohead import Bpe, Speeches, Study, knob
from headtohead.claims import Claim, Closer, Moves, Not
from headtohead.data.corpora import Text, Texts


def runs(text: str, length: int = 8) -> set[tuple[str, ...]]:
    """Every so many words in a row, whatever stands between them."""
    words = re.findall(r"[a-z0-9]+", text.lower())
    return {tuple(words[n : n + length]) for n in range(len(words) - length + 1)}


class SpokenBy(Speeches):
    """Labelled sentences of some of the three, as running text; the test texts are those of the speeches."""

    name: ClassVar[str] = "spoken-by"
    tasks = ("lm",)

    who: str = knob(default="0,1,2", help="their labels: 0 Obama, 1 W. Bush, 2 H. Bush")
    count: int = knob(default=360, ge=1, help="sentences in all, as many of each")

    def folder(self) -> Path | None:
        return Speeches(path=self.path).folder()  # where the speeches lie

    def texts(self) -> Texts:
        tests = super().texts().tests
        held = set().union(*(runs("".join(test.pieces())) for test in tests.values()))
        labelled = [self.items(file) for file in ("train_CLS.tsv", "test_CLS.tsv")]
        spoken = [
            (label, text.strip()) for items in labelled for label, text in zip(items.labels, items.texts, strict=True)
        ]
        chosen = []
        speakers = self.who.split(",")
        for speaker in speakers:
            own = [text for label, text in spoken if label == speaker and not runs(text) & held]
            chosen += list(dict.fromkeys(own))[: self.count // len(speakers)]
        return Texts(Text.of("\n".join(chosen) + "\n"), None, tests)


published = decoder_studied.settings(["data.corpus=Speeches", "evaluate.windows=none", "evaluate.stride=none"])
published = published.set("tokenizer", Bpe(vocab=1000))
OBAMAS, WS, HS = (f"{name}/bits_per_byte" for name in ("obama", "wbush", "hbush"))
PUBLISHED, EQUAL = "the training text", "a third of each"
OBAMA, WBUSH, HBUSH = "Obama alone", "W. Bush alone", "H. Bush alone"

speakers = Study(
    question="Does the decoder do best on whoever it was trained on?",
    control=published,
    vary=["data.corpus"],
    arms={
        PUBLISHED: published,
        EQUAL: published.set("data.corpus", SpokenBy()),
        OBAMA: published.set("data.corpus", SpokenBy(who="0")),
        WBUSH: published.set("data.corpus", SpokenBy(who="1")),
        HBUSH: published.set("data.corpus", SpokenBy(who="2")),
    },
    seeds=10,
    again=False,
    metric="test/bits_per_byte",
    command="h2h run published/speakers",
    takes="five minutes on two cores",
)

QUICK = SMALL  # of `h2h reproduce --quick`

claims = [
    Claim(
        "004.3",
        parts={
            f"against {other}": (
                Moves(speakers, PUBLISHED, of, OBAMAS),
                Closer(speakers, OBAMA, EQUAL, own=OBAMAS, other=of),
                Not(Moves(speakers, EQUAL, of, OBAMAS), "with a third of each Obama does not lead"),
            )
            for other, of in {"W. Bush": WS, "H. Bush": HS}.items()
        },
        also=(
            Closer(speakers, WBUSH, OBAMA, own=WS, other=OBAMAS),
            Closer(speakers, HBUSH, OBAMA, own=HS, other=OBAMAS),
        ),
        because="In bits per byte, because word perplexity depends on how many words are unknown. With a third of each "
        "speaker in training, Obama loses his lead over W. Bush, of whom no sentence was found in the training "
        "text. His lead over H. Bush stays what it was. The two training texts differ in more than the speakers: "
        "the third of each is a fifth as long, is read 23 times instead of 5, and has its own byte pairs. A model"
        " of each speaker's own sentences also finds H. Bush the hardest of the three to predict, with a text "
        "that is a tenth shorter.",
        revised="What is tested was changed twice. That Obama has no lead where a third is his, which "
        "decides it, stood beside it at first.",
    )
]
