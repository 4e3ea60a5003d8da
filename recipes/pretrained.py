"""From scratch or pretrained? The reports' encoder trained on SST-2 alone, and MiniLM fine-tuned on the same sentences.

HEADTOHEAD_DATA=… h2h run recipes/pretrained.py
"""

from headtohead import Arm, Sst2, Study
from headtohead.finetune import arm_for

tuned = arm_for("minilm", Sst2())
scratch = Arm.of("classifier", Sst2()).settings(
    ["train.epochs=5", "evaluate.keep=best", "evaluate.along=none", "model.dropout=0.2", "model.block=64"]
)

pretrained = Study(
    question="How much does pretraining give on SST-2, and at what cost?",
    control=scratch,
    vary=["model", "train", "start", "tokenizer"],
    arms={"MiniLM, fine-tuned": tuned},
    seeds=6,
    metric="test/accuracy",
    command="h2h run recipes/pretrained.py",
)
