"""Capacity: how many pairs does a model of which size recall? Every model is trained on up to 16 pairs and tested on
several numbers of pairs.

h2h run tasks/capacity
h2h curves capacity --over pairs --out capacity.png

Any list of arms takes the place of the widths.
"""

from headtohead import Arm, Mqar, Study

TASK = Mqar(pairs=16, least_pairs=1, test_pairs=(2, 4, 8, 12, 16), questions=32, length=64)

study = Study(
    question="How many pairs does a model of which width recall?",
    control=Arm.of("lm", TASK).settings(["train.steps=600"]),
    vary={"model.width": [64, 32, 16]},
    seeds=6,
    again=False,
    metric="pairs_16/accuracy",
    command="h2h run tasks/capacity",
    takes="ten minutes on two cores",
)
