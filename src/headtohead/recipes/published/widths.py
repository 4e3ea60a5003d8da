"""002: does the width of the feed-forward layer matter?

h2h run published/widths
"""

from documents import NOT_ITS_LENGTH, OWN_START, SMALL, shakespeare_short

from headtohead import Study
from headtohead.claims import Alike, Claim

widths = Study(
    question="Does the width of the feed-forward layer matter to the report's decoder?",
    control=shakespeare_short,
    vary={"model.feedforward.hidden": [128, 16, 32, 512]},
    margin="1%",
    seeds=10,
    metric="validation/loss",
    command="h2h run published/widths",
    takes="ten minutes on two cores",
)

QUICK = SMALL  # of `h2h reproduce --quick`

claims = [
    Claim(
        "002.2",
        *(Alike(widths, f"hidden={width}") for width in (16, 32, 512)),
        Alike(widths, "hidden=512", than="hidden=16"),
        also=(Alike(widths, "hidden=32", than="hidden=16"),),
        only=f"in 250 steps: {NOT_ITS_LENGTH}",
        because="In 250 steps, 0.2 % of the report's tokens, only the change from 16 to 32 is within the margin. What "
        "remains of the others after whole epochs is not tested.",
        revised=OWN_START + " That 16 and 512 are compared with each other was added.",
    )
]
