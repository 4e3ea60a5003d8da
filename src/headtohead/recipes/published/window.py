"""000: does the decoder lose anything when a token sees only itself and the seven before it? And its own table, every
hundred iterations.

HEADTOHEAD_DATA=… h2h run published/window:window
HEADTOHEAD_DATA=… h2h run published/window:everywhere
HEADTOHEAD_DATA=… h2h run published/window:retraced
"""

import dataclasses

from documents import FIRST_WORDS, PERPLEXITIES, SMALL, VOCABULARY, decoder_everywhere, decoder_run, decoder_studied

from headtohead import Causal, Local, Study
from headtohead.claims import Better, Claim, Shown

window = Study(
    question="Does a local window of eight tokens cost the reports' decoder anything?",
    control=decoder_studied,
    vary={"model.pattern": [Causal(), Causal() & Local(8)]},
    seeds=10,
    metric="test/loss",
    command="h2h run published/window:window",
    takes="five minutes on two cores",
    expected="no loss, but a small gain",
)

everywhere = dataclasses.replace(
    window,
    question="Does the window cost the reports' decoder anything on the whole of the test texts?",
    control=decoder_everywhere,
    again=False,
    command="h2h run published/window:everywhere",
    takes="two minutes on two cores",
    expected="",
)

retraced = Study(
    question="How does the reports' decoder come to its perplexities, iteration by iteration?",
    control=decoder_run,
    vary=(),
    seeds=6,
    again=False,
    metric="test/loss",
    command="h2h run published/window:retraced",
    takes="four minutes on two cores",
)

QUICK = SMALL  # of `h2h reproduce --quick`

UNSAID = "004 says nothing of rate, batch and length: they are 000's here"
ARMS = {
    "doc000.decoder": ("Causal", ""),
    "doc000.window8": ("Causal & Local", ""),
    "doc004.decoder": ("Causal", UNSAID),
}
shown = [
    Shown(f"{row}.{name}", window, arm, metric, unlike=unlike)
    for row, (arm, unlike) in ARMS.items()
    for name, metric in PERPLEXITIES.items()
] + [
    Shown(f"doc000.at{step}.{name}", retraced, "control", metric, at=step)
    for step in (100, 200, 300, 400)  # the last is the decoder's above
    for name, metric in PERPLEXITIES.items()
]

claims = [
    Claim(
        "000.1",
        Better(window, "Causal & Local"),
        also=(Better(everywhere, "Causal & Local"),),
        only=FIRST_WORDS,
        because="The gain is the same on the whole of the test texts. Why is not tested. Perhaps near words predict a "
        "word best, and a model with full attention has not learned that after 500 steps.",
        revised=VOCABULARY,
    )
]
