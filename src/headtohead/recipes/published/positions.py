"""001: learned, sinusoidal or ALiBi positions in the decoder? As published, and each at its own best learning rate.

HEADTOHEAD_DATA=… h2h run published/positions:positions
HEADTOHEAD_DATA=… h2h run published/positions:tuned
HEADTOHEAD_DATA=… h2h run published/positions:never_learned
HEADTOHEAD_DATA=… h2h run published/positions:everywhere

The control is the reports' own: learned positions that start with unit variance, as plain torch embeddings do.
"""

import dataclasses

from documents import (
    FIRST_WORDS,
    PERPLEXITIES,
    RULE,
    SMALL,
    VOCABULARY,
    Untrained,
    decoder_everywhere,
    decoder_studied,
    listed,
)

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

# the same comparisons, judged by the whole of the test texts
everywhere = dataclasses.replace(
    positions,
    question="Do sinusoidal positions beat learned ones on the whole of the test texts?",
    control=decoder_everywhere,
    vary={"model.position": [Learned(), Sinusoidal()]},
    again=False,
    command="h2h run published/positions:everywhere",
    takes="two minutes on two cores",
    expected="",
)
everywhere_from_sinusoidal = dataclasses.replace(
    from_sinusoidal,
    question="Does ALiBi beat sinusoidal positions on the whole of the test texts?",
    control=decoder_everywhere.set("model.position", Sinusoidal()),
    command="h2h run published/positions:everywhere_from_sinusoidal",
    takes="three minutes on two cores",
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
            Better(everywhere, "Sinusoidal"),
            Better(tuned, "Sinusoidal", than="Learned"),
            Better(never_learned, "Sinusoidal"),
            Better(positions, "NoPosition"),
        ),
        only=FIRST_WORDS,
        because="The lead is the same on the whole of the test texts. Learned positions that start with unit variance "
        "are noise as large as the word embeddings: without any positions the decoder is better too. That is not the "
        "only reason: where embeddings start small, the lead on the test texts is no smaller (see where two reports "
        "contradict each other).",
        revised=VOCABULARY + RULE,
    ),
    Claim(
        "001.2",
        Better(from_sinusoidal, "Alibi(slope=1.0)"),
        also=(
            Better(everywhere_from_sinusoidal, "Alibi(slope=1.0)"),
            Better(tuned, "Alibi(slope=1.0)"),
            Better(from_sinusoidal, "Alibi"),
            Better(tuned, "Alibi"),
            Better(never_from_sinusoidal, "Alibi(slope=1.0)"),
        ),
        only=f"with slope 1, {FIRST_WORDS}",
        because="Slope 1 for every head is the report's own form, and the lead is the same on the whole of the test "
        "texts. With the usual slopes, a different one for each head, the lead is unresolved. It is also unresolved "
        "where each arm has its own best rate.",
        revised=VOCABULARY + RULE,
    ),
]
