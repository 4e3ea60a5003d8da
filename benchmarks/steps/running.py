"""A benchmark: everybody's processes started, then rounds of turns."""

from __future__ import annotations

import sys
import time
from pathlib import Path

from headtohead.errors import InputError, nearest
from steps.contenders import Contender
from steps.results import OURS, WARM_UP_ROUNDS, Measure, Result, Row
from steps.tasks import SINGLE, TASKS, Setting, cores

YARDSTICK = "large_product"
NO_CONTENDERS = {"contender", YARDSTICK}
PRODUCTS_A_TURN = 3
SETTLE_SECONDS = 0.02  # OpenMP threads spin a little after their last work: let the last contender's fall asleep


def run(
    task: str,
    folder: Path,
    rounds: int,
    steps: int,
    threads: tuple[int, ...] = (1, 2),
    only: list[str] | None = None,
) -> Result:
    """Measure the contenders in `folder` (or `only` some of them) by turns, and the machine itself among them."""
    if task not in TASKS:
        raise InputError(f"no task '{task}' to measure: {nearest(task, TASKS)}")
    if min(rounds, steps, *threads) < 1:
        raise InputError("rounds, steps and threads must be at least 1")
    names = _contenders(folder, only)
    settings = _settings(threads)
    everybody = [Contender(name) for name in (*names, YARDSTICK)]
    tell = _Progress(task)
    try:
        for contender in everybody:
            contender.start(folder / f"{contender.name}.py", task, settings)
        tell(f"starting {sum(len(c.processes()) for c in everybody)} processes of {len(names)} contenders")
        for contender in everybody:
            with contender.failing():
                contender.wait()
        order = _rounds(everybody, settings, rounds, steps, tell)
        for contender in everybody:
            if not contender.problem:
                with contender.failing():
                    contender.end()
    finally:
        tell.done()
        for contender in everybody:
            contender.close()
    _same_batches([c for c in everybody if c.name != YARDSTICK])
    *rows, machine = (_row(contender) for contender in everybody)
    measured = next((c.ends[SINGLE] for c in everybody if SINGLE in c.ends and c.name != YARDSTICK), {})
    return Result(
        TASKS[task],
        rounds,
        steps,
        tuple(settings),
        tuple(rows),
        machine,
        order,
        float(measured.get("tokens", 0)),
        float(measured.get("pairs", 0)),
        str(measured.get("lengths", "")),
    )


def _contenders(folder: Path, only: list[str] | None) -> list[str]:
    found = sorted({file.stem for file in folder.glob("*.py")} - NO_CONTENDERS)
    if not found:
        raise InputError(f"no contenders in {folder}: give the folder benchmarks/contenders of a checkout")
    for name in only or []:
        if name not in found:
            raise InputError(f"no contender '{name}' in {folder}: {nearest(name, found)}")
    return sorted(only or found, key=lambda name: (name != OURS, name))


def _settings(threads: tuple[int, ...]) -> list[Setting]:
    """One process with each number of threads that there are cores for; then one process a core."""
    most = min(max(threads), cores())
    alone = [Setting(1, n) for n in sorted({1, *threads}) if n <= most]
    return [*alone, Setting(most, 1)] if most > 1 else alone


def _rounds(
    everybody: list[Contender], settings: list[Setting], rounds: int, steps: int, tell: _Progress
) -> tuple[tuple[str, ...], ...]:
    """Every contender in every setting once a round. Each round begins one turn later than the last, so that nobody
    always follows the same neighbour at the same moment of the round."""
    turns = [(contender, setting) for contender in everybody for setting in settings]
    order: list[tuple[str, ...]] = []
    started = time.monotonic()
    total = WARM_UP_ROUNDS + rounds
    for n in range(total):
        taken: list[str] = []
        for contender, setting in turns[n % len(turns) :] + turns[: n % len(turns)]:
            if contender.problem:
                continue
            time.sleep(SETTLE_SECONDS)
            count = min(steps, PRODUCTS_A_TURN) if contender.name == YARDSTICK else steps
            with contender.failing():
                contender.turn(setting, count, keep=n >= WARM_UP_ROUNDS)
                taken.append(f"{contender.name}, {setting}")
        order.append(tuple(taken))
        left = (time.monotonic() - started) / (n + 1) * (total - n - 1)
        tell(f"round {n + 1} of {total}, {f'{left / 60:.0f} min' if left > 90 else f'{left:.0f} s'} left")
    return tuple(order)


def _same_batches(contenders: list[Contender]) -> None:
    """Nobody is compared who was given something else to learn."""
    whole = [c for c in contenders if not c.problem]
    for contender in whole[1:]:
        for setting, end in contender.ends.items():
            if end.get("batches") != whole[0].ends[setting].get("batches"):
                contender.problem = f"it trained on other batches than {whole[0].name}: draw them with contender.py"


def _row(c: Contender) -> Row:
    if c.problem:
        return Row(c.name, c.library, c.parameters, {}, 0.0, 0.0, "", c.problem)
    measures = {
        setting: Measure(
            tuple(tuple(tuple(s) for s in processes) for processes in taken),
            tuple(c.cpu[setting]),
            c.ends[setting]["peak_mb"] if setting in c.ends else None,
        )
        for setting, taken in c.seconds.items()
    }
    return Row(c.name, c.library, c.parameters, measures, c.losses[0], c.losses[-1], str(c.ends[SINGLE]["batches"]))


class _Progress:
    """One line on stderr, rewritten on a terminal. Not rich's: its refreshing would take time from who is measured."""

    def __init__(self, task: str) -> None:
        self.task, self.rewrite = task, sys.stderr.isatty()

    def __call__(self, text: str) -> None:
        line = f"bench {self.task}: {text}"
        print(f"\r{line:<79}" if self.rewrite else line, end="" if self.rewrite else "\n", file=sys.stderr, flush=True)

    def done(self) -> None:
        if self.rewrite:
            print(f"\r{'':<79}\r", end="", file=sys.stderr, flush=True)
