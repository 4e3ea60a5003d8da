"""Training steps against peers: same sizes, same batches, same threads, in turns.

Every contender is a file in benchmarks/ that runs as a process of its own and waits while another has its turn, so that
a machine that slows down slows all of them down. Nothing here imports torch.

Words: a *setting* is so many processes of a contender at once with so many threads each; a *turn* is one contender in
one setting for a few steps; a *round* is one turn of everybody. Ratios below 1 are in our favour for step times,
above 1 for runs per hour.
"""

from steps.results import OURS, Comparison, Measure, Result, Row
from steps.running import run
from steps.tasks import LARGE, SINGLE, TASKS, Setting, Task

__all__ = ["LARGE", "OURS", "SINGLE", "TASKS", "Comparison", "Measure", "Result", "Row", "Setting", "Task", "run"]
