"""From scratch against pretrained, as `src/headtohead/recipes/pretrained.py` asks it: accuracy, and what it costs.

HEADTOHEAD_DATA=… python benchmarks/measure/pretrained.py    # a quarter of an hour, the first time
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

from headtohead.outcome.metrics import text_of
from headtohead.outcome.outcome import load_outcome
from headtohead.outcome.wording import interval_text, word
from headtohead.run import store
from headtohead.run.doctor import processor
from headtohead.run.store import Record

HERE = Path(__file__).resolve().parents[1]
COMMAND = "h2h run pretrained"


def main() -> None:
    command = [str(Path(sys.executable).with_name("h2h")), *COMMAND.split()[1:], "--json"]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, cwd=HERE.parent)
    outcome = load_outcome(Path(json.loads(done.stdout)["folder"]))
    verdicts = outcome.verdicts()
    said = {row.arm: row for row in verdicts}
    rows = []
    for (_, arm), runs in outcome.rows.items():
        records = [Record(outcome.home / "runs" / run.run) for run in runs]
        times = [r.times["seconds"] + r.times["other_seconds"] for r in records]
        mean = statistics.mean(run.value for run in runs)
        found = said.get(arm)
        v = None if found is None else found.verdict
        rows.append(
            [
                arm,
                f"{(records[0].result or {})['parameters']:,}",
                text_of(outcome.metric, mean),
                "" if v is None else text_of(outcome.metric, v.difference, signed=True),
                "" if v is None else interval_text(outcome.metric, v.low, v.high),
                "" if found is None else word(found),
                f"{statistics.median(times):.0f} s",
            ]
        )
    told = {
        "command": COMMAND,
        "machine": f"{os.cpu_count()} cores of an {processor()}",
        "date": datetime.now(UTC).date().isoformat(),
        "columns": ["arm", "parameters", outcome.metric, "difference", "95 % interval", "verdict", "a run, one core"],
        "rows": rows,
    }
    store.write_whole(HERE / "measured" / "pretrained.json", json.dumps(told, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
