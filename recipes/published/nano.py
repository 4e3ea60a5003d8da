"""003: gpt-nano with its heads shuffled, shifted or re-weighted before they are fused. Its sinusoidal positions are in
beginnings.py.

h2h run recipes/published/nano.py
"""

from documents import SMALL, nano_run

from headtohead import Concat, Reweight, Shift, Shuffle, Study
from headtohead.reproduce import Alike, Audited, Better, Claim, Moves, Shown, cut_short, sentences

heads = Study(
    question="Does it matter how gpt-nano's heads are put together?",
    control=nano_run,
    vary={"model.fusion": [Concat(), Shuffle(), Shift(), Reweight(over="sequence"), Reweight(over="token")]},
    margin=0.02,
    seeds=10,
    metric="validation/loss",
    command="h2h run recipes/published/nano.py",
    takes="twenty minutes on two cores",
)
QUICK = SMALL  # of `h2h reproduce --quick`


def measure(record):
    """Perplexity of the report's sentences, each on its own; and of tokens where the text goes on or ends there."""
    return sentences(record) | cut_short(record)


ARMS = {"baseline": "Concat", "shuffle": "Shuffle", "shift": "Shift", "reweight": "Reweight(over='sequence')"}
FIGURES = {"train": "train/perplexity", "dev": "validation/perplexity"} | {
    name: f"{name}/perplexity" for name in ("normal", "weird", "long")
}
shown = [
    Shown(f"doc003.{row}.{name}", heads, arm, metric, unlike="another corpus and vocabulary")
    for row, arm in ARMS.items()
    for name, metric in FIGURES.items()
]

SEQUENCE = "Reweight(over='sequence')"
claims = [
    Claim(
        "003.2",
        Alike(heads, "Shuffle"),
        Alike(heads, "Shift"),
        because="The projection that follows learns any fixed order as well as any other.",
    ),
    Claim(
        "003.3",
        Better(heads, SEQUENCE, value="validation/loss"),
        Better(heads, SEQUENCE, value="train/loss"),
        also=(
            Audited("model.fusion", Reweight(over="sequence"), nano_run),
            Moves(heads, SEQUENCE, "cut/loss", "whole/loss"),
            Better(heads, "Reweight", value="validation/loss"),
        ),
        picture="future",
        because="The norm of a head over the whole sequence depends on what is still to come.",
    ),
]
