"""002: can the decoder do without positions?

h2h run recipes/published/no_position.py
"""

from documents import SMALL, shakespeare_short

from headtohead import Learned, NoPosition, Sinusoidal, Study
from headtohead.reproduce import Better, Claim, NotBetter, frequencies

no_position = Study(
    question="Can the report's decoder do without positions?",
    control=shakespeare_short,
    vary={"model.position": [Sinusoidal(), NoPosition(), Learned()]},
    seeds=10,
    again=False,
    metric="validation/loss",
    command="h2h run recipes/published/no_position.py",
    takes="seven minutes on two cores",
)

QUICK = SMALL  # of `h2h reproduce --quick`

measure = frequencies("validation")

claims = [
    Claim(
        "002.3",
        NotBetter(no_position, "NoPosition", than="frequencies/loss", margin=0.05),
        also=(Better(no_position, "Sinusoidal", than="NoPosition"),),
        because="A causal mask tells order by itself: how many tokens a token can see says where it stands.",
    )
]
