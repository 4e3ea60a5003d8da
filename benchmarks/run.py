"""Training steps, generation and fine-tuning against peers, in turns, with the same sizes on the same machine.

python benchmarks/run.py decoder
python benchmarks/run.py all --rounds 40 --out bench.json
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path
from typing import Any

from rich.console import Console

import steps
from headtohead.data.corpora import corpus_named
from headtohead.errors import InputError

CONTENDERS = Path(__file__).parent / "contenders"
TASKS = (
    *steps.TASKS,
    "generation",
    "finetune",
    "all",
)  # all: the first three; fine-tuning needs SST-2 and a checkpoint


def measure(task: str, rounds: int, count: int, only: list[str] | None, folder: Path = CONTENDERS) -> list[Any]:
    """The results of one task, or of all."""
    chosen = steps.TASKS if task == "all" else [t for t in steps.TASKS if t == task]
    results: list[Any] = [steps.run(t, folder, rounds, count, only=only) for t in chosen]
    if task in ("generation", "all"):
        import generation

        results.append(generation.measure(rounds))
    if task == "finetune":
        import finetuning

        results.append(finetuning.measure(corpus_named("sst2"), rounds, os.cpu_count() or 1))
    return results


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("task", nargs="?", default="all", choices=TASKS)
    parser.add_argument("--rounds", type=int, default=20, help="interleaved rounds")
    parser.add_argument("--steps", type=int, default=10, help="steps of each contender in a round")
    parser.add_argument("--only", action="append", help="only this contender; repeatable")
    parser.add_argument("--folder", type=Path, default=CONTENDERS, help="where the contenders are")
    parser.add_argument("--out", type=Path, help="write the figures there as JSON")
    parser.add_argument("--json", action="store_true", help="print JSON instead of text")
    given = parser.parse_args(arguments)
    try:
        results = measure(given.task, given.rounds, given.steps, given.only, given.folder)
    except InputError as error:
        print(f"benchmarks: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
    text = json.dumps([result.to_json() for result in results], indent=2) + "\n"
    if given.out:
        given.out.write_text(text, encoding="utf-8")
    if given.json:
        print(text, end="")
    else:
        for result in results:
            result.show(Console(highlight=False))


if __name__ == "__main__":
    main()
