"""003: gpt-nano with sinusoidal positions, and with its heads shuffled, shifted or re-weighted before they are fused.

h2h run recipes/published/nano.py:heads
h2h run recipes/published/nano.py:positions
"""

from documents import nano_run

from headtohead import Concat, Learned, Reweight, Shift, Shuffle, Sinusoidal, Study
from headtohead.reproduce import Alike, Audited, Better, Claim, Moves, Shown, cut_short, sentences

heads = Study(
    question="Does it matter how gpt-nano's heads are put together?",
    control=nano_run,
    vary={"model.fusion": [Concat(), Shuffle(), Shift(), Reweight(over="sequence"), Reweight(over="token")]},
    margin=0.02,
    seeds=10,
    metric="validation/loss",
    command="h2h run recipes/published/nano.py:heads",
    takes="twenty minutes on two cores",
)
positions = Study(
    question="Do sinusoidal positions hurt gpt-nano?",
    control=nano_run,
    vary={"model.position": [Learned(), Sinusoidal(), Sinusoidal(amplitude=0.02)]},
    tune={"train.optimizer.lr": [1e-3, 3e-3, 1e-2]},
    tuning_seeds=1,
    seeds=10,
    again=False,
    metric="validation/loss",
    command="h2h run recipes/published/nano.py:positions",
    takes="twenty minutes on two cores",
)

QUICK = ("train.steps=40",)  # of `h2h reproduce --quick`


def measure(record):
    """Perplexity of the report's sentences, each on its own; and of tokens where the text goes on or ends there."""
    return sentences(record) | cut_short(record)


ARMS = {"baseline": "Concat", "shuffle": "Shuffle", "shift": "Shift", "reweight": "Reweight(over='sequence')"}
FIGURES = {"train": "train/perplexity", "dev": "validation/perplexity"} | {
    name: f"{name}/perplexity" for name in ("normal", "weird", "long")
}
OTHER = "another corpus and vocabulary"
shown = [
    *(
        Shown(f"doc003.{row}.{name}", heads, arm, metric, unlike=OTHER)
        for row, arm in ARMS.items()
        for name, metric in FIGURES.items()
    ),
    *(
        Shown(f"doc003.sinusoidal.{name}", positions, "Sinusoidal", metric, unlike=OTHER)
        for name, metric in FIGURES.items()
    ),
]

SEQUENCE = "Reweight(over='sequence')"
claims = [
    Claim(
        "003.1",
        Better(positions, "Learned", than="Sinusoidal"),
        Better(positions, "Learned", than="Sinusoidal", table="shared"),
        also=(Better(positions, "Sinusoidal(amplitude=0.02)", than="Sinusoidal"),),
        because="Its embeddings start at 0.02, and waves of size 1 drown them. As quiet as the words, "
        "waves do no harm: see the interaction below.",
    ),
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
        because="The norm of a head over the whole sequence depends on what is still to come.",
    ),
]
