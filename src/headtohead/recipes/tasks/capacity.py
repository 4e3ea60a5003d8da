"""Capacity: how many pairs does a model of which size recall? Every model is trained on one to eight pairs and tested
on each of several numbers.

h2h run tasks/capacity
h2h curves capacity --over pairs --out capacity.png

Any list of arms can take the place of the widths.
"""

from headtohead import Arm, Mqar, Study

TASK = Mqar(pairs=8, least_pairs=1, test_pairs=(1, 2, 4, 6, 8), questions=16, keys=32, values=32)

study = Study(
    question="How many pairs does a model of which width recall?",
    control=Arm.of("lm", TASK).settings(["train.steps=400"]),
    vary={"model.width": [64, 32, 16]},
    seeds=6,
    again=False,
    metric="pairs_8/accuracy",
    command="h2h run tasks/capacity",
    takes="three minutes on two cores",
)
