"""002: the decoder on Tiny Shakespeare with 500 byte pairs, on a fiftieth of the published training tokens.

h2h run published/shakespeare

Then, with the report's own sentences:

h2h attend shakespeare/control "Python Here! Hello World!" --out map.png
h2h attend sharpening/control "I would say the truth; but to accuse" --film --layer 0 --head 0 --out film.png
h2h generate shakespeare/control "Hello world! This is Python! " --greedy --tokens 18
h2h generate shakespeare/control "Against him first: he's a very dog to the commonalty. " --greedy --tokens 18

As published, 20 epochs at a constant 3e-5, four hours on one core:

h2h train --arm published/documents:shakespeare_published
"""

from documents import SMALL, shakespeare_run

from headtohead import Study
from headtohead.claims import Shown

shakespeare = Study(
    question="What perplexity does the report's decoder reach on Tiny Shakespeare, from seed to seed?",
    control=shakespeare_run,
    vary=(),
    seeds=2,
    again=False,
    metric="validation/loss",
    command="h2h run published/shakespeare",
    takes="twelve minutes on two cores",
    expected="a lower perplexity on the validation text than the report's 20 epochs, which left it at 44.7",
)

QUICK = SMALL  # of `h2h reproduce --quick`

SHORTER = "a fiftieth of its tokens, at a hundred times its rate"
shown = [
    Shown(f"doc002.result.{name}", shakespeare, "control", "validation/perplexity", take=take, unlike=SHORTER)
    for name, take in {"best_val_ppl": "best", "final_val_ppl": "last"}.items()
]
