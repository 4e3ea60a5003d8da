"""Five ways to tell the reports' decoder where its tokens stand, on the presidents' speeches.

    HEADTOHEAD_DATA=… h2h run recipes/positions.py

The control is the reports' own: learned positions that start with unit variance, as plain torch embeddings do.
"""

from documents import decoder_run

from headtohead import Alibi, EvalSpec, Learned, NoPosition, Rope, Sinusoidal, Study

positions = Study(
    question="Does another position encoding help the reports' decoder?",
    control=decoder_run.set("evaluate", EvalSpec(stride=1, windows=1600, train=0, along=64)),
    vary={"model.position": [Learned(), Sinusoidal(), Alibi(), Rope(), NoPosition()]},
    seeds=10,
    metric="obama/loss",
    command="h2h run recipes/positions.py",
    takes="ten to fifteen minutes on two cores",
    expected="all four better than learned positions of unit variance, Rope by most: 0.06 to 0.12 nats",
)
