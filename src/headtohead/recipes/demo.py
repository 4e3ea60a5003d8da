"""The first study: which of four small changes help a small language model?

    h2h demo

Two to three minutes on two cores. The corpus (State of the Union addresses) is installed with headtohead.
"""

from headtohead.data.tokenizers import Bpe
from headtohead.model.spec import ModelSpec
from headtohead.parts import Causal, Local, Mlp, RMSNorm, Rope
from headtohead.parts.optimizers import AdamW
from headtohead.parts.schedules import WarmupCosine
from headtohead.study.study import Study
from headtohead.training.arm import Arm
from headtohead.training.evaluate import EvalSpec
from headtohead.training.trainer import TrainSpec

control = Arm(
    tokenizer=Bpe(vocab=512),
    model=ModelSpec(layers=2, block=32, position=Rope()),
    train=TrainSpec(steps=300, batch=16, optimizer=AdamW(lr=3e-3), schedule=WarmupCosine(warmup=0.1), clip=None),
    evaluate=EvalSpec(windows=256, along=64, train=0),
)

demo = Study(
    question="Which of four small changes help a small language model?",
    control=control,
    vary=["model.pattern", "model.feedforward", "model.norm", "model.kv_heads"],
    arms={
        "plain": control,
        "window of 8": control.set("model.pattern", Causal() & Local(8)),
        "ReLU": control.set("model.feedforward", Mlp(activation="relu")),
        "RMSNorm": control.set("model.norm", RMSNorm()),
        "one key/value head": control.set("model.kv_heads", 1),
    },
    metric="test/loss",
    margin="0.3%",
    name="demo",
    command="h2h demo",
    takes="two to three minutes on two cores",
    expected="window of 8 −0.06 and ReLU −0.03 nats: better; RMSNorm: equivalent; one key/value head +0.01: worse",
)
