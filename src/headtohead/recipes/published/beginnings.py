"""001 says that sinusoidal positions beat learned ones, 003 that they hurt. 001's embeddings start with unit variance,
003's with a standard deviation of 0.02: both starts, in 001's setting and in 003's.

HEADTOHEAD_DATA=… h2h run published/beginnings:speeches
h2h run published/beginnings:nano
"""

from documents import ANOTHER, SMALL, decoder_studied, nano_run

from headtohead import Arm, Sinusoidal, Study
from headtohead.claims import Better, Claim, Interaction, Shown, sentences

LOUD, LOUD_WAVES = "learned (start 1)", "waves (start 1)"
LEARNED, WAVES, QUIET = "learned (start 0.02)", "waves (start 0.02)", "quiet waves (start 0.02)"


def arms(learned: Arm) -> dict[str, Arm]:
    loud, small = (learned.set("model.init.embedding_std", std) for std in (1.0, 0.02))
    return {
        LOUD: loud,
        LOUD_WAVES: loud.set("model.position", Sinusoidal()),
        LEARNED: small,
        WAVES: small.set("model.position", Sinusoidal()),
        QUIET: small.set("model.position", Sinusoidal(amplitude=0.02)),
    }


on_speeches = decoder_studied.set("data.validation", 0.1)

# 001's setting: 500 steps on a short text, which small embeddings learn by heart
speeches = Study(
    question="In 001's setting: does the better position depend on how large embeddings start?",
    control=arms(on_speeches)[LOUD],
    vary=["model.init.embedding_std", "model.position"],
    arms={name: arm for name, arm in arms(on_speeches).items() if name != QUIET},
    tune={"train.optimizer.lr": [1e-4, 3e-4, 1e-3, 3e-3, 1e-2]},  # small embeddings may want another rate
    tuning_seeds=1,
    seeds=10,
    again=False,
    metric="test/loss",
    command="h2h run published/beginnings:speeches",
    takes="a quarter of an hour on two cores",
)

# 003's setting: 400 steps on a text that is not read twice
nano = Study(
    question="In 003's setting: does the better position depend on how large embeddings start?",
    control=arms(nano_run)[LEARNED],
    vary=["model.init.embedding_std", "model.position"],
    arms=arms(nano_run),
    tune={"train.optimizer.lr": [1e-3, 3e-3, 1e-2, 3e-2]},
    tuning_seeds=1,
    seeds=10,
    again=False,
    metric="test/loss",
    command="h2h run published/beginnings:nano",
    takes="twenty minutes on two cores",
)

QUICK = SMALL  # of `h2h reproduce --quick`
REPORTS = ("001",)  # beside those of its claims

measure = sentences

FIGURES = {"train": "train/perplexity", "dev": "validation/perplexity"} | {
    name: f"{name}/perplexity" for name in ("normal", "weird", "long")
}
RATES = f"{ANOTHER}; at its own best rate, the others at 3e-3"
shown = [Shown(f"doc003.sinusoidal.{name}", nano, WAVES, metric, unlike=RATES) for name, metric in FIGURES.items()]

claims = [
    Claim(
        "003.1",
        Better(nano, LEARNED, than=WAVES),
        Better(nano, LEARNED, than=WAVES, table="shared"),
        also=(
            Better(nano, QUIET, than=LEARNED),
            Better(nano, QUIET, than=WAVES),
            Better(nano, LOUD_WAVES, than=LOUD),
        ),
        only="where embeddings start at 0.02",
        picture="contradiction",
        because="The report's embeddings start at 0.02, and sinusoidal positions of size 1 are much larger than they "
        "are. Sinusoidal positions as small as the embeddings do no harm (see where two reports contradict each "
        "other). The best rate of every arm is the same.",
    ),
]

STARTS = (LOUD, LOUD_WAVES), (LEARNED, WAVES)
interactions = [
    Interaction(
        "003's setting",
        nano,
        *STARTS,
        because="Where embeddings start at 0.02, sinusoidal positions of size 1 are much larger, and 400 steps do not "
        "make up for it. Where embeddings start at 1, learned positions are noise as large as the embeddings.",
    ),
    Interaction(
        "001's setting, on the training text and at one rate for all",
        speeches,
        *STARTS,
        value="train/loss",
        table="shared",
        because="The training loss depends on the start in the same way.",
    ),
    Interaction(
        "001's setting, on the test texts and at one rate for all",
        speeches,
        *STARTS,
        table="shared",
        because="The test texts do not show it: at this rate small embeddings memorise the short training text. "
        "Sinusoidal positions slow that down, and so are better at both starts. So 001 is right at both starts. 003 is "
        "right where embeddings start at 0.02 and the training text is not memorised.",
    ),
    Interaction(
        "001's setting, on the training text and each at its own best rate",
        speeches,
        *STARTS,
        value="train/loss",
        because="The validation text chooses the rates. For learned positions that start at 0.02 it chose a lower rate "
        "than for the others, which keeps the training text from being memorised. So this compares rates.",
    ),
]
