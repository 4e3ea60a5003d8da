"""002: how high may the learning rate be? Constant rates, as in the report, from far too low to far too high.

h2h run published/learning_rates
"""

from documents import NOT_ITS_LENGTH, OWN_START, SMALL, shakespeare_short

from headtohead import Constant, Study
from headtohead.claims import Claim, NotBetter, frequencies

learning_rates = Study(
    question="Above which learning rate does the report's decoder learn nothing?",
    control=shakespeare_short.set("train.schedule", Constant()),
    vary={"train.optimizer.lr": [3e-3, 3e-5, 3e-4, 1e-3, 6e-3, 1e-2, 1e-1]},
    seeds=10,
    again=False,
    metric="validation/loss",
    command="h2h run published/learning_rates",
    takes="fifteen minutes on two cores",
)

QUICK = SMALL  # of `h2h reproduce --quick`

measure = frequencies("validation")

claims = [
    Claim(
        "002.1",
        *(NotBetter(learning_rates, arm, than="frequencies/loss", margin=0.05) for arm in ("lr=0.006", "lr=0.01")),
        also=tuple(
            NotBetter(learning_rates, arm, than="frequencies/loss", margin=0.05) for arm in ("lr=0.1", "lr=3e-05")
        ),
        only=f"in 250 steps: {NOT_ITS_LENGTH}",
        picture="learning-rates",
        because="In 250 steps, 0.2 % of the report's tokens, the decoder learns as much at 6e-3 and 1e-2 as at 3e-3, "
        "and a little more. At 1e-1 it learns hardly more than how frequent each token is. At 3e-5, which the report "
        "used for twenty epochs, 250 steps are too few to learn even that. The report says that the validation loss "
        "rises steadily above 3e-3; whether it does after whole epochs is not tested, nor whether the rate matters "
        "most.",
        revised=OWN_START,
    )
]
