"""002: can the decoder do without positions?

h2h run recipes/published/no_position.py
"""

from documents import OWN_START, SMALL, shakespeare_short

from headtohead import Causal, Learned, Local, NoPosition, Sinusoidal, Study
from headtohead.reproduce import Better, Claim, Not

WAVES, NONE, LEARNED, ALONE = "sinusoidal", "no position", "learned", "no position, no other token"

no_position = Study(
    question="Can the report's decoder do without positions?",
    control=shakespeare_short,
    vary=["model.position", "model.pattern"],
    arms={
        WAVES: shakespeare_short.set("model.position", Sinusoidal()),
        NONE: shakespeare_short.set("model.position", NoPosition()),
        LEARNED: shakespeare_short.set("model.position", Learned()),
        ALONE: shakespeare_short.set("model.position", NoPosition()).set("model.pattern", Causal() & Local(1)),
    },
    seeds=10,
    again=False,
    metric="validation/loss",
    command="h2h run recipes/published/no_position.py",
    takes="ten minutes on two cores",
)

QUICK = SMALL  # of `h2h reproduce --quick`

claims = [
    Claim(
        "002.3",
        Not(Better(no_position, NONE, than=ALONE), "without positions the context is of no use"),
        also=(Better(no_position, NONE), Better(no_position, NONE, than=LEARNED)),
        because="A causal decoder sees what stands before a token without being told where. After so few tokens waves "
        "are worth too little to be seen, and learned positions, which start as noise, do harm.",
        revised=OWN_START
        + " It was held against token frequencies, and is held against a model that sees no other token.",
    )
]
