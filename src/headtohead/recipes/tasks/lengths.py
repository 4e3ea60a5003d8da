"""Length generalisation: which positions copy texts longer than those of training?

h2h run tasks/lengths
h2h curves lengths --over length --out lengths.png
"""

from headtohead import Alibi, Arm, Copying, Learned, NoPosition, Rope, Study

study = Study(
    question="Which position encoding copies more symbols than it was trained on?",
    control=Arm.of("lm", Copying(length=8, test_length=(4, 8, 10, 12, 16))).settings(["train.steps=400"]),
    vary={"model.position": [Rope(), Learned(), NoPosition(), Alibi()]},
    seeds=6,
    again=False,
    metric="length_12/accuracy",
    command="h2h run tasks/lengths",
    takes="three minutes on two cores",
)
