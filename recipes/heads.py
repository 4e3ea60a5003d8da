"""Are heads experts? The reports' decoder with its heads shuffled, shifted by one, and re-weighted at each token.

HEADTOHEAD_DATA=… h2h run recipes/heads.py
HEADTOHEAD_DATA=… h2h heads heads/Concat          what the same does to a model that was not trained with it
"""

from documents import decoder_run

from headtohead import Concat, EvalSpec, Reweight, Shift, Shuffle, Study

heads = Study(
    question="Does it matter to the reports' decoder how its heads are arranged?",
    control=decoder_run.set("evaluate", EvalSpec(stride=1, windows=1600, train=0, along=64)),
    vary={"model.fusion": [Concat(), Shuffle(), Shift(), Shuffle(order="each forward"), Reweight(over="token")]},
    seeds=6,
    metric="obama/loss",
    command="h2h run recipes/heads.py",
    takes="five minutes on two cores",
    expected="nothing resolved: +0.003 for a fixed shuffle and for re-weighting, +0.008 for a new shuffle each step",
)
