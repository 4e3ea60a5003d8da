"""000: does the decoder lose anything when a token sees only the eight before it?

HEADTOHEAD_DATA=… h2h run recipes/published/window.py
"""

from documents import PERPLEXITIES, SMALL, decoder_studied

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

shown = [
    *(Shown(f"doc000.decoder.{name}", window, "Causal", metric) for name, metric in PERPLEXITIES.items()),
    *(Shown(f"doc000.window8.{name}", window, "Causal & Local", metric) for name, metric in PERPLEXITIES.items()),
    *(Shown(f"doc004.decoder.{name}", window, "Causal", metric) for name, metric in PERPLEXITIES.items()),
]

claims = [
    Claim(
        "000.1",
        Better(window, "Causal & Local"),
        because="The bias of a window helps a model that has seen little; what predicts a word mostly stands close by.",
    )
]
