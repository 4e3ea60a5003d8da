"""004: is perplexity lower on Obama because the training text is closest to him?

HEADTOHEAD_DATA=… h2h run recipes/published/speakers.py

If so, training on one Bush instead of Obama, on as many sentences, makes that Bush easier against Obama. The sentences
to classify say who spoke them: they are the training text here, without those that stand in a test text. Byte pairs and
bits per byte, for words would be unknown in one text more than in another.
"""

from pathlib import Path
from typing import ClassVar

from documents import SMALL, decoder_studied

from headtohead import Bpe, Speeches, Study, knob
from headtohead.data.corpora import Text, Texts
from headtohead.reproduce import Claim, Closer, Moves


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
        held = {line.strip() for test in tests.values() for piece in test.pieces() for line in piece.splitlines()}
        labelled = [self.items(file) for file in ("train_CLS.tsv", "test_CLS.tsv")]
        spoken = [
            (label, text.strip()) for items in labelled for label, text in zip(items.labels, items.texts, strict=True)
        ]
        chosen = []
        speakers = self.who.split(",")
        for speaker in speakers:
            own = [text for label, text in spoken if label == speaker and text not in held]
            chosen += own[: self.count // len(speakers)]
        return Texts(Text.of("\n".join(chosen) + "\n"), None, tests)


published = decoder_studied.set("evaluate.windows", None).set("evaluate.stride", None).set("tokenizer", Bpe(vocab=1000))
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
    command="h2h run recipes/published/speakers.py",
    takes="eight minutes on two cores",
)

QUICK = SMALL  # of `h2h reproduce --quick`

claims = [
    Claim(
        "004.3",
        Moves(speakers, PUBLISHED, WS, OBAMAS),
        Moves(speakers, PUBLISHED, HS, OBAMAS),
        Closer(speakers, WBUSH, OBAMA, own=WS, other=OBAMAS),
        Closer(speakers, HBUSH, OBAMA, own=HS, other=OBAMAS),
        also=(Moves(speakers, EQUAL, WS, OBAMAS), Moves(speakers, EQUAL, HS, OBAMAS)),
        because="",
    )
]
