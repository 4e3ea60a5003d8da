"""000: does the decoder lose anything when a token sees only itself and the seven before it?

HEADTOHEAD_DATA=… h2h run recipes/published/window.py
"""

from documents import PERPLEXITIES, SMALL, VOCABULARY, decoder_studied

from headtohead import Causal, Local, Study
from headtohead.reproduce import Better, Claim, Shown

window = Study(
    question="Does a local window of eight tokens cost the reports' decoder anything?",
    control=decoder_studied,
    vary={"model.pattern": [Causal(), Causal() & Local(8)]},
    seeds=10,
    metric="test/loss",
    command="h2h run recipes/published/window.py",
    takes="five minutes on two cores",
    expected="no loss, but a small gain",
)

QUICK = SMALL  # of `h2h reproduce --quick`

ARMS = {"doc000.decoder": "Causal", "doc000.window8": "Causal & Local", "doc004.decoder": "Causal"}
shown = [
    Shown(f"{row}.{name}", window, arm, metric, unlike=VOCABULARY)
    for row, arm in ARMS.items()
    for name, metric in PERPLEXITIES.items()
]

claims = [
    Claim(
        "000.1",
        Better(window, "Causal & Local"),
        because="The bias of a window helps a model that has seen little; what predicts a word mostly stands close by.",
    )
]
