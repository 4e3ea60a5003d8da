"""001: do dropout or another number of heads help the decoder? Its control is the decoder of 000, 001 and 004.

HEADTOHEAD_DATA=… h2h run published/decoder
"""

from documents import SMALL, decoder_studied

from headtohead import Study

decoder = Study(
    question="Do dropout or another number of heads help the reports' decoder?",
    control=decoder_studied,
    vary=["model.dropout", "model.heads"],
    arms={
        "as published": decoder_studied,
        "dropout 0.1": decoder_studied.set("model.dropout", 0.1),
        "one head": decoder_studied.set("model.heads", 1),
        "four heads": decoder_studied.set("model.heads", 4),
    },
    seeds=6,
    again=False,
    metric="test/loss",
    command="h2h run published/decoder",
    takes="five minutes on two cores",
)

QUICK = SMALL  # of `h2h reproduce --quick`
REPORTS = ("001",)  # which says that it tried them, and gives no figures
