"""From scratch or pretrained? The reports' encoder trained on SST-2 alone, and MiniLM fine-tuned on the same sentences.

HEADTOHEAD_DATA=… h2h run pretrained
HEADTOHEAD_DATA=… h2h run pretrained --set data.limit=none       all 6,920 sentences, an hour

On 2,000 sentences of training, with all of the validation and test sets.
"""

from headtohead import Arm, Sst2, Study
from headtohead.study.finetune import arm_for

tuned = arm_for("minilm", Sst2()).settings(["data.limit=2000", "train.epochs=2"])
scratch = Arm.of("classifier", Sst2()).settings(
    [
        "data.limit=2000",
        "train.epochs=10",
        "train.optimizer.lr=1e-3",
        "train.schedule=Constant",
        "train.clip=none",
        "evaluate.keep=best",
        "evaluate.along=none",
        "model.dropout=0.2",
        "model.block=64",
    ]
)

pretrained = Study(
    question="How much does pretraining give on SST-2, and at what cost?",
    control=scratch,
    vary=["model", "train", "start", "tokenizer"],
    arms={"from scratch": scratch, "MiniLM, fine-tuned": tuned},
    seeds=6,
    metric="test/accuracy",
    command="h2h run pretrained",
)
