"""001 says that sinusoidal positions beat learned ones, 003 that they hurt. Both are right: 001's embeddings start with
unit variance, 003's with a standard deviation of 0.02.

HEADTOHEAD_DATA=… h2h run recipes/published/beginnings.py
"""

from documents import decoder_studied

from headtohead import Sinusoidal, Study
from headtohead.reproduce import Interaction

loud = decoder_studied.set("data.validation", 0.1)  # embeddings start with unit variance
small = loud.set("model.init.embedding_std", 0.02)

beginnings = Study(
    question="Does the better position depend on how large embeddings start?",
    control=loud,
    vary=["model.init.embedding_std", "model.position"],
    arms={
        "learned, starting at 1": loud,
        "waves, starting at 1": loud.set("model.position", Sinusoidal()),
        "learned, starting at 0.02": small,
        "waves, starting at 0.02": small.set("model.position", Sinusoidal()),
        "quiet waves, starting at 0.02": small.set("model.position", Sinusoidal(amplitude=0.02)),
    },
    tune={"train.optimizer.lr": [3e-4, 1e-3, 3e-3, 1e-2]},  # small embeddings may want another rate
    tuning_seeds=1,
    seeds=10,
    again=False,
    metric="test/loss",
    command="h2h run recipes/published/beginnings.py",
    takes="five minutes on two cores",
    expected="waves better than learned positions at 1, worse at 0.02, and harmless where as quiet as the words",
)

QUICK = ("train.steps=100",)  # of `h2h reproduce --quick`
REPORTS = ("001", "003")

interaction = Interaction(
    "How much more the waves help where embeddings start at 1 than where they start at 0.02",
    beginnings,
    ("learned, starting at 1", "waves, starting at 1"),
    ("learned, starting at 0.02", "waves, starting at 0.02"),
)
