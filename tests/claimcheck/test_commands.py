"""The commands that test a claim are ones that h2h understands."""

from __future__ import annotations

from pathlib import Path

import pytest

from headtohead import check_claim
from helpers.docs import understood
from helpers.stores import stored

POINTS = "by 1.2 points, one run each"


@pytest.mark.parametrize(
    ("claim", "options", "command"),
    [
        (f"Rope beats Learned {POINTS}", {"sd": 0.8}, "h2h run classifier --vary model.position=Learned,Rope"),
        (
            f"RoPE beats learned ones {POINTS}",
            {"sd": 0.8},
            "h2h run classifier --vary model.position=Learned,Rope",
        ),
        (
            "Alibi(slope=1.0) beats Rope by 0.02 nats, 1 run",
            {"sd": 0.03},
            "h2h run lm --vary 'model.position=Rope,Alibi(slope=1.0)' --max-pairs 39",
        ),
        ("Muon beats AdamW by 0.1 nats, 1 run", {"sd": 0.03}, "h2h run lm --vary train.optimizer=AdamW,Muon"),
        (
            "Causal & Local beats Causal by 3%, perplexity, 1 run",
            {"sd": 1.0},
            "h2h run lm --vary 'model.pattern=Causal,Causal & Local' --metric test/perplexity",
        ),
        (
            f"Rope beats Mlp {POINTS}",
            {"sd": 0.8},
            "h2h compare results.csv --metric accuracy --control Mlp",
        ),
        (f"ours beats theirs {POINTS}", {"sd": 0.8}, "h2h compare results.csv --metric accuracy --control theirs"),
        (f"Rope beats Learned {POINTS}", {"sd": 50.0}, "h2h compare results.csv --metric accuracy --control Learned"),
    ],
)
@pytest.mark.usefixtures("home")
def test_parts_become_a_study(claim: str, options: dict[str, float], command: str):
    found = check_claim(claim, **options)  # type: ignore[arg-type]
    assert found.commands[0] == command
    assert found.commands[-1].startswith("h2h compare results.csv")
    for one in found.commands:
        understood(one)


def test_a_study_in_the_store_is_continued(home: Path):
    stored(home, command="h2h run mine.py --seeds 6")
    few, many = (check_claim(f"Rope beats Learned by {d} nats, 1 run", home=home) for d in (0.3, 0.002))
    assert few.commands[0] == "h2h run mine.py"
    assert many.needs[0].pairs is not None
    assert many.commands[0] == f"h2h run mine.py --max-pairs {many.needs[0].pairs}"
    published = check_claim(f"Rope beats Learned {POINTS}", study="classifier-fresh", home=home)
    assert published.commands[0] == "h2h run published/classifier:fresh"
