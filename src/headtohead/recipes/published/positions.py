"""001: learned, sinusoidal or ALiBi positions in the decoder? As published, and each at its own best learning rate.

HEADTOHEAD_DATA=… h2h run published/positions:positions
HEADTOHEAD_DATA=… h2h run published/positions:tuned
HEADTOHEAD_DATA=… h2h run published/positions:never_learned

The control is the reports' own: learned positions that start with unit variance, as plain torch embeddings do.
"""

import dataclasses

from documents import PERPLEXITIES, RULE, SMALL, VOCABULARY, Untrained, decoder_studied, listed

from headtohead import Alibi, Learned, NoPosition, Rope, Sinusoidal, Study
from headtohead.claims import Better, Claim, Shown

positions = Study(
    question="Does another position encoding help the reports' decoder?",
    control=decoder_studied,
    vary={"model.position": [Learned(), Sinusoidal(), Alibi(slope=1), Alibi(), Rope(), NoPosition()]},
    seeds=10,
    metric="test/loss",
    command="h2h run published/positions:positions",
    takes="a quarter of an hour on two cores",
    expected="all better than learned positions of unit variance, Rope by most",
)

# the rate may decide: every arm gets the same grid, on validation text carved from the training text
tuned = Study(
    question="Is it the position encoding, or the learning rate it was given?",
    control=decoder_studied.set("data.validation", 0.1).set("model.position", Sinusoidal()),
    vary={"model.position": [Sinusoidal(), Learned(), Alibi(slope=1), Alibi()]},
    tune={"train.optimizer.lr": [3e-4, 1e-3, 3e-3]},
    tuning_seeds=1,
    again=False,
    seeds=10,
    metric="test/loss",
    command="h2h run published/positions:tuned",
    takes="a quarter of an hour on two cores",
)

# the same runs, held against sinusoidal positions
from_sinusoidal = dataclasses.replace(
    positions,
    question="Does ALiBi beat sinusoidal positions in the reports' decoder?",
    control=positions.control.set("model.position", Sinusoidal()),
    vary={"model.position": [Sinusoidal(), Alibi(slope=1), Alibi()]},
    again=False,
    command="h2h run published/positions:from_sinusoidal",
    expected="",
)

# 001 as it was built: its count of parameters holds no query, key or value
as_built = decoder_studied.set("model", listed).set("start", Untrained())
never_learned = Study(
    question="What do positions do where queries, keys and values never learn?",
    control=as_built,
    vary={"model.position": [Learned(), Sinusoidal(), Alibi(slope=1)]},
    seeds=10,
    again=False,
    metric="test/loss",
    command="h2h run published/positions:never_learned",
    takes="eight minutes on two cores",
)
never_from_sinusoidal = dataclasses.replace(
    never_learned,
    question="Does ALiBi beat sinusoidal positions where queries, keys and values never learn?",
    control=as_built.set("model.position", Sinusoidal()),
    vary={"model.position": [Sinusoidal(), Alibi(slope=1)]},
    command="h2h run published/positions:never_from_sinusoidal",
)

QUICK = SMALL  # of `h2h reproduce --quick`

OTHER_HEADS = "001 had other heads and dropout by then, and does not say which"
ARMS = {"decoder": "Learned", "learned": "Learned", "sinusoidal": "Sinusoidal", "alibi": "Alibi(slope=1.0)"}
shown = [
    Shown(f"doc001.{name}.{figure}", never_learned, arm, metric, unlike="" if name == "decoder" else OTHER_HEADS)
    for name, arm in ARMS.items()
    for figure, metric in PERPLEXITIES.items()
]

claims = [
    Claim(
        "001.1",
        Better(positions, "Sinusoidal"),
        also=(
            Better(tuned, "Sinusoidal", than="Learned"),
            Better(never_learned, "Sinusoidal"),
            Better(positions, "NoPosition"),
        ),
        because="Learned positions that start with unit variance are noise as loud as the words: without any positions "
        "the decoder is better too. That is not all of it, for where embeddings start small the lead on the test texts "
        "is no smaller: see where two reports contradict each other.",
        revised=VOCABULARY + RULE,
    ),
    Claim(
        "001.2",
        Better(from_sinusoidal, "Alibi(slope=1.0)"),
        also=(
            Better(tuned, "Alibi(slope=1.0)"),
            Better(from_sinusoidal, "Alibi"),
            Better(tuned, "Alibi"),
            Better(never_from_sinusoidal, "Alibi(slope=1.0)"),
        ),
        only="with slope 1",
        because="With slope 1 for every head, which is the report's own form; with the usual slopes, a different one "
        "for each head, the lead is unresolved. So it is where each has its own best rate.",
        revised=VOCABULARY + RULE,
    ),
]
