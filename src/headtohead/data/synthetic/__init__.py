"""Synthetic tasks: corpora of generated examples with known answers. A new task is one class in one of these files, or
in a file of yours.

    synthetic.py    what all tasks share: sets, batches, what is known of the best answers
    recall.py       an answer stands beside a key in the context
    copying.py      the answer is the context itself
    states.py       the answer is a state that every symbol changes
    chains.py       the answer is a random next symbol, of which the best forecast is known
    groups.py       products of finite groups as tables
"""

from headtohead.data.synthetic import chains, copying, recall, states  # their classes are listed once they are imported
from headtohead.data.synthetic.synthetic import Examples, Level, Synthetic

__all__ = ["Examples", "Level", "Synthetic", "chains", "copying", "recall", "states"]
