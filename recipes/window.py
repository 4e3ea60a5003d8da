"""Does the reports' decoder lose anything when a token sees only the eight before it?

HEADTOHEAD_DATA=… h2h run recipes/window.py
"""

from documents import decoder_run

from headtohead import Causal, EvalSpec, Local, Study

window = Study(
    question="Does a local window of eight tokens cost the reports' decoder anything?",
    control=decoder_run.set("evaluate", EvalSpec(stride=1, windows=1600, train=0, along=64)),
    vary={"model.pattern": [Causal(), Causal() & Local(8)]},
    seeds=10,
    metric="obama/loss",
    command="h2h run recipes/window.py",
    takes="five minutes on two cores",
    expected="no loss: about 0.01 nats better, with a correlation between the arms above 0.9",
)
