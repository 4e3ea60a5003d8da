"""003: gpt-nano with its heads shuffled, shifted or re-weighted before they are fused. Its sinusoidal positions are in
beginnings.py.

h2h run recipes/published/nano.py
"""

from documents import ANOTHER, SMALL, nano_run

from headtohead import Concat, Reweight, Shift, Shuffle, Study
from headtohead.reproduce import Alike, Audited, Better, Claim, Moves, Shown, cut_short, sentences

NORMS = Reweight(over="sequence", by="norm")  # "re-weight the output value from each head by their matrix norm"
SHUFFLED, FRESH, SHIFTED = "shuffled", "shuffled each step", "shifted"
NORM, CAUSAL, SHARE = "norm of the sequence", "norm of the token", "share of the sequence's norms"
TRAINING = "norm of the sequence, in training alone"  # the report's own remedy, which it did not try

heads = Study(
    question="Does it matter how gpt-nano's heads are put together?",
    control=nano_run,
    vary=["model.fusion"],
    arms={
        "as they are": nano_run.set("model.fusion", Concat()),
        SHUFFLED: nano_run.set("model.fusion", Shuffle()),
        FRESH: nano_run.set("model.fusion", Shuffle(order="each forward")),
        SHIFTED: nano_run.set("model.fusion", Shift()),
        NORM: nano_run.set("model.fusion", NORMS),
        CAUSAL: nano_run.set("model.fusion", Reweight(over="token", by="norm")),
        SHARE: nano_run.set("model.fusion", Reweight(over="sequence")),
        TRAINING: nano_run.set("model.fusion", Reweight(over="sequence", by="norm", at="training")),
    },
    margin="1%",
    seeds=10,
    metric="validation/loss",
    command="h2h run recipes/published/nano.py",
    takes="twenty minutes on two cores",
)
QUICK = SMALL  # of `h2h reproduce --quick`


def measure(record):
    """Perplexity of the report's sentences, each on its own; and of tokens where the text goes on or ends there."""
    return sentences(record) | cut_short(record)


ARMS = {"baseline": "as they are", "shuffle": SHUFFLED, "shift": SHIFTED, "reweight": NORM}
FIGURES = {"train": "train/perplexity", "dev": "validation/perplexity"} | {
    name: f"{name}/perplexity" for name in ("normal", "weird", "long")
}
shown = [
    Shown(f"doc003.{row}.{name}", heads, arm, metric, unlike=ANOTHER)
    for row, arm in ARMS.items()
    for name, metric in FIGURES.items()
]

claims = [
    Claim(
        "003.2",
        Alike(heads, SHUFFLED),
        Alike(heads, SHIFTED),
        also=(Alike(heads, FRESH),),
        because="The projection that follows learns any fixed order as well as any other.",
    ),
    Claim(
        "003.3",
        Better(heads, NORM, value="validation/loss"),
        Better(heads, NORM, value="train/loss"),
        also=(
            Audited("model.fusion", NORMS, nano_run),
            Moves(heads, NORM, "cut/loss", "whole/loss"),
            Better(heads, CAUSAL, value="validation/loss"),
            Better(heads, CAUSAL, than=NORM, value="validation/loss"),
            Better(heads, SHARE, value="validation/loss"),
            Better(heads, TRAINING, value="validation/loss"),
        ),
        picture="future",
        because="",
    ),
]
