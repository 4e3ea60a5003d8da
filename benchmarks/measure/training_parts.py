"""What a training step costs with each optimizer, objective and average, against the default.

    python benchmarks/measure/training_parts.py          # two minutes; the addresses, the default decoder, one thread

Every round makes one step of each, in turn. CPU time is measured, because other work on the machine hardly changes it.
"""

from __future__ import annotations

import json
import os
import statistics
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import torch

from headtohead import Arm
from headtohead.disk.writing import write_whole
from headtohead.run.doctor import processor
from headtohead.run.machine import keep_memory
from headtohead.training.tasks import task_of
from headtohead.training.trainer import Trainer

HERE = Path(__file__).resolve().parents[1]
ROUNDS = 60
SETTINGS = [
    "train.optimizer=AdamW",
    "train.optimizer=Muon",
    "train.optimizer=Lion",
    "train.optimizer=SOAP",
    "train.optimizer=ScheduleFreeAdamW",
    "train.optimizer=ScheduleFreeSGD",
    "train.optimizer=AdaMuon",
    "train.optimizer=NorMuon",
    "train.average=Ema",
    "train.average=MeanOfLast",
    "train.accumulate=4",
    "train.objective=NextToken(smoothing=0.1)",
    "train.objective=NextToken(smoothing=0.1, z_loss=1e-4)",
    "train.objective=MultiToken",
    "train.objective=MultiToken(tokens=4)",
]


def steps(setting: str) -> Iterator[object]:
    """Steps of a run that never ends."""
    arm = Arm.of("lm").settings([setting, "train.steps=100000"])
    task = task_of(arm)
    model = task.build(0)
    return Trainer(model, arm.train, task.steps, 0).fit(lambda n: task.losses(model, task.batch(0, n), "cpu"))


def main() -> None:
    torch.set_num_threads(1)
    keep_memory()
    runs = {setting: steps(setting) for setting in SETTINGS}
    cpu: dict[str, list[float]] = {setting: [] for setting in SETTINGS}
    for n in range(ROUNDS + 3):
        for setting, run in runs.items():
            before = time.process_time()
            next(run)
            if n >= 3:  # the first steps allocate memory
                cpu[setting].append(time.process_time() - before)
    plain = cpu[SETTINGS[0]]
    rows = []
    for setting in SETTINGS:
        ratio = statistics.median(a / b for a, b in zip(cpu[setting], plain, strict=True))
        mean = 1000 * statistics.fmean(cpu[setting])  # SOAP does most of its work in every tenth step
        rows.append([setting, f"{mean:.1f}", f"{ratio:.2f}"])
    told = {
        "command": "python benchmarks/measure/training_parts.py",
        "machine": f"{os.cpu_count()} cores of an {processor()}, torch {torch.__version__}, one thread",
        "date": datetime.now(UTC).date().isoformat(),
        "columns": ["setting", "CPU ms per step, mean", "median ratio to AdamW"],
        "rows": rows,
    }
    text = json.dumps(told, indent=1, ensure_ascii=False) + "\n"
    write_whole(HERE / "measured" / "training_parts.json", text)
    print(text)


if __name__ == "__main__":
    main()
