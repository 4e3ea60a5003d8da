"""Induction: what followed this symbol the last time? One layer of attention against two.

h2h run tasks/induction
"""

from headtohead import Arm, Induction, Study

study = Study(
    question="Does one layer of attention do induction?",
    control=Arm.of("lm", Induction()).settings(["train.steps=300"]),
    vary={"model.layers": [2, 1]},
    seeds=6,
    again=False,
    metric="test/accuracy",
    command="h2h run tasks/induction",
    takes="two minutes on two cores",
)
