"""Recall beyond the reach of a window: full attention against a local window on multi-query associative recall.

h2h run tasks/recall
"""

from headtohead import Arm, Causal, Local, Mqar, Study

study = Study(
    question="Does a local window of attention recall pairs beyond its reach?",
    control=Arm.of("lm", Mqar()).settings(["train.steps=300"]),
    vary={"model.pattern": [Causal(), Causal() & Local(8)]},
    seeds=6,
    again=False,
    metric="test/accuracy",
    command="h2h run tasks/recall",
    takes="two minutes on two cores",
)
