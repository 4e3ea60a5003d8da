"""Which optimizer fine-tunes a pretrained encoder best? At the rate they share, and each at its own best.

HEADTOHEAD_DATA=… h2h run recipes/optimizers.py
h2h run recipes/optimizers.py --set data.limit=400 --set train.epochs=1 --seeds 6       a quick form
"""

from headtohead import SGD, Adagrad, AdamW, Sst2, Study
from headtohead.finetune import arm_for

optimizers = Study(
    question="Which optimizer fine-tunes MiniLM on SST-2 best?",
    control=arm_for("minilm", Sst2()).set("data.limit", 2000).set("train.epochs", 2),
    vary={"train.optimizer": [AdamW(lr=1e-4), Adagrad(lr=1e-4), SGD(lr=1e-4, momentum=0), SGD(lr=1e-4)]},
    tune={"train.optimizer.lr": [1e-4, 1e-3, 1e-2, 1e-1]},
    tuning_seeds=1,
    seeds=6,
    metric="test/accuracy",
    command="h2h run recipes/optimizers.py",
)
