"""h2h demo: the first study."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from headtohead.cli.entry import ASK, app
from headtohead.cli.options import AsJson, Jobs, On
from headtohead.cli.screens import show_study

if TYPE_CHECKING:
    from headtohead.outcome.outcome import Outcome

NEXT = (
    "Next: open the report in a browser, or ask your own question: h2h run lm --vary model.position=Learned,Rope,Alibi"
)


@app.command(rich_help_panel=ASK)
def demo(jobs: Jobs = None, on: On = "local", as_json: AsJson = False) -> None:
    """Run a first study, in two to three minutes.

    Four small changes to a small language model, on the corpus that is installed with h2h.
    """
    from headtohead.outcome.conclusion import certain, found
    from headtohead.run.executors.execution import Execution
    from headtohead.spec.userfiles import RECIPES
    from headtohead.study.recipes import load_study

    def conclusion(outcome: Outcome) -> Iterator[str]:
        yield f"\nFound: {found(outcome.verdicts)}"
        yield f"Certain: {certain(outcome.verdicts)}"
        yield NEXT

    show_study(load_study(str(RECIPES / "demo.py")), Execution(jobs, on, "cpu"), as_json, afterwards=conclusion)
