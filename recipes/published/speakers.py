"""004: is perplexity lower on Obama because the training text is closest to him?

HEADTOHEAD_DATA=… h2h run recipes/published/speakers.py

If so, a decoder trained on as much text of one Bush alone does best on that Bush. The sentences to classify say who
spoke them: they are the training text here, without those that stand in a test text.
"""

from pathlib import Path
from typing import ClassVar

from documents import SMALL, decoder_studied

from headtohead import Speeches, Study, knob
from headtohead.data.corpora import Text, Texts
from headtohead.reproduce import Claim, Moves


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


published = decoder_studied.set("evaluate.windows", None).set("evaluate.stride", None)
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
        Moves(speakers, PUBLISHED, "wbush/bits_per_byte", "obama/bits_per_byte"),
        Moves(speakers, PUBLISHED, "hbush/bits_per_byte", "obama/bits_per_byte"),
        Moves(speakers, WBUSH, "obama/bits_per_byte", "wbush/bits_per_byte"),
        Moves(speakers, HBUSH, "obama/bits_per_byte", "hbush/bits_per_byte"),
        also=(
            Moves(speakers, EQUAL, "hbush/bits_per_byte", "obama/bits_per_byte"),
            Moves(speakers, EQUAL, "wbush/bits_per_byte", "obama/bits_per_byte"),
        ),
        because="Of the training lines whose speaker is known, most are Obama's, the others H. Bush's, none W. Bush's.",
    )
]
