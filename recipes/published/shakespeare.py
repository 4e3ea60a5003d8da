"""002: the decoder on Tiny Shakespeare with 500 byte pairs, on a fiftieth of the published training tokens.

h2h run recipes/published/shakespeare.py
"""

from documents import SMALL, shakespeare_run

from headtohead import Study
from headtohead.reproduce import Shown

shakespeare = Study(
    question="What perplexity does the report's decoder reach on Tiny Shakespeare, from seed to seed?",
    control=shakespeare_run,
    vary=(),
    seeds=2,
    again=False,
    metric="validation/loss",
    command="h2h run recipes/published/shakespeare.py",
    takes="twelve minutes on two cores",
    expected="a lower perplexity on the validation text than the report's 20 epochs, which left it at 44.7",
)

QUICK = SMALL  # of `h2h reproduce --quick`

SHORTER = "a fiftieth of its tokens, at a hundred times its rate"
shown = [
    Shown(f"doc002.result.{name}", shakespeare, "control", "validation/perplexity", take=take, unlike=SHORTER)
    for name, take in {"best_val_ppl": "best", "final_val_ppl": "last"}.items()
]
