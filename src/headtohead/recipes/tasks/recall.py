"""Recall beyond the reach of a window: full attention against local windows on multi-query associative recall.

h2h run tasks/recall
"""

from headtohead import Arm, Causal, Local, Mqar, Study

study = Study(
    question="Does a local window of attention recall pairs beyond its reach?",
    control=Arm.of("lm", Mqar()),
    vary={"model.pattern": [Causal(), Causal() & Local(16), Causal() & Local(4)]},
    seeds=6,
    again=False,
    metric="test/accuracy",
    command="h2h run tasks/recall",
    takes="four minutes on two cores",
)
