"""The default study: does it matter how a small language model learns where its tokens stand?

    h2h demo

Usually two to four minutes on two cores. Expected: all four better than learned positions by a quarter to a third of
a nat, as far as six pairs tell; see docs/log.md for what came of it here.
"""

from headtohead.arm import Arm
from headtohead.evaluate import EvalSpec
from headtohead.model import ModelSpec
from headtohead.parts import Alibi, Learned, NoPosition, Rope, Sinusoidal
from headtohead.parts.optimizers import AdamW
from headtohead.parts.schedules import WarmupCosine
from headtohead.study import Study
from headtohead.train import TrainSpec

demo = Study(
    question="Does a small language model need to be told where its tokens stand, and how best?",
    control=Arm(
        model=ModelSpec(layers=2, block=32),
        train=TrainSpec(steps=400, batch=16, optimizer=AdamW(lr=3e-3), schedule=WarmupCosine()),
        evaluate=EvalSpec(windows=256, along=64, train=0),
    ),
    # waves as large as the token embeddings start: at their usual size of one they would drown them
    vary={"model.position": [Learned(), Sinusoidal(amplitude=0.02), Alibi(), Rope(), NoPosition()]},
    seeds=6,
    metric="test/loss",
    name="demo",
    command="h2h demo",
    takes="two to four minutes on two cores",
    expected="Sinusoidal −0.26, Alibi −0.33, Rope −0.34, NoPosition −0.32 nats against Learned, each p 0.031: better",
)
