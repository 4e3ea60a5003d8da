"""Length generalisation: which positions copy texts twice as long as those of training?

h2h run tasks/lengths
h2h curves lengths --over length --out lengths.png
"""

from headtohead import Alibi, Arm, Copying, Learned, NoPosition, Rope, Study

study = Study(
    question="Which position encoding copies beyond the training length?",
    control=Arm.of("lm", Copying(test_length=(8, 16, 20, 24, 32))),
    vary={"model.position": [Rope(), Learned(), NoPosition(), Alibi()]},
    seeds=6,
    again=False,
    metric="length_24/accuracy",
    command="h2h run tasks/lengths",
    takes="six minutes on two cores",
)
