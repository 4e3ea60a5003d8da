"""002: does attention sharpen while the decoder learns?

h2h run published/sharpening

Then look: h2h attend sharpening/control --evolution
"""

from documents import NOT_ITS_LENGTH, OWN_START, SMALL, shakespeare_short

from headtohead import Study
from headtohead.claims import Claim, Moves, entropy

sharpening = Study(
    question="Does attention sharpen while the report's decoder learns?",
    control=shakespeare_short.set("evaluate.snapshots", 6),
    vary=(),
    seeds=10,
    again=False,
    metric="validation/loss",
    command="h2h run published/sharpening",
    takes="three minutes on two cores",
)

QUICK = SMALL  # of `h2h reproduce --quick`

measure = entropy

claims = [
    Claim(
        "002.4",
        Moves(sharpening, "control", "entropy/before", "entropy/after"),
        picture="sharpening",
        only=f"in 250 steps, by entropy: {NOT_ITS_LENGTH}",
        because="In 250 steps, a twentieth of one of the report's twenty epochs. Sharpness is the entropy of a token's "
        "attention weights, the mean over all heads of held-out windows; which tokens get the weight is not measured.",
        revised=OWN_START,
    )
]
