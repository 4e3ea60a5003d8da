"""002: can the decoder do without positions?

h2h run published/no_position
"""

from documents import NOT_ITS_LENGTH, OWN_START, SMALL, shakespeare_short

from headtohead import Causal, Learned, Local, NoPosition, Sinusoidal, Study
from headtohead.claims import Better, Claim, Not

WAVES, NONE, LEARNED, ALONE = "sinusoidal", "no position", "learned", "no position, no other token"
base = shakespeare_short.set("train.steps", 600)  # in 250 steps hardly any use is made of other tokens yet

no_position = Study(
    question="Can the report's decoder do without positions?",
    control=base,
    vary=["model.position", "model.pattern"],
    arms={
        WAVES: base.set("model.position", Sinusoidal()),
        NONE: base.set("model.position", NoPosition()),
        LEARNED: base.set("model.position", Learned()),
        ALONE: base.set("model.position", NoPosition()).set("model.pattern", Causal() & Local(1)),
    },
    seeds=10,
    again=False,
    metric="validation/loss",
    command="h2h run published/no_position",
    takes="twenty minutes on two cores",
)

QUICK = SMALL  # of `h2h reproduce --quick`

claims = [
    Claim(
        "002.3",
        Not(Better(no_position, NONE, than=ALONE), "without positions, the tokens before are of no use"),
        also=(
            Better(no_position, WAVES, than=ALONE),
            Better(no_position, LEARNED, than=ALONE),
            Better(no_position, NONE),
            Better(no_position, NONE, than=LEARNED),
        ),
        because="The report says that the model could not function without positions. That is read here as: it makes "
        "no use of the tokens before the current one. After 600 steps, 0.6 % of the report's tokens, it does make "
        "use of them, and gains two fifths of what it gains with sinusoidal positions. So positions matter much, "
        "but a causal decoder works without them.",
        only=f"in 600 steps, if to function is to make use of the tokens before: {NOT_ITS_LENGTH}",
        revised=OWN_START
        + " It was held against token frequencies, and is held against a model that sees no other token. It was "
        "judged after 250 steps, when nobody makes much use of other tokens yet, and is judged after 600, which one "
        "trial of another seed had shown to be enough.",
    )
]
