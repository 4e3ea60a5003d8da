"""What checking costs: lists a store of 2,000 runs with and without checks, and times the checks of a study.

    python benchmarks/measure/integrity.py          # two minutes

Times are those of the processor, because other programs may share the machine.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

MEASURED = Path(__file__).resolve().parents[1] / "measured" / "integrity.json"
RUNS, CALLS = 2_000, 5
LIST = """
import sys, time
from pathlib import Path
from headtohead.run.store import Record
if sys.argv[2] == "without":
    Record.damage = ""
from headtohead.display.run_list import run_rows
began = time.process_time()
rows = run_rows(Path(sys.argv[1]))
print(len(rows), time.process_time() - began)
"""
SMALL = ["model.width=16", "model.layers=1", "model.block=16", "tokenizer=Byte", "train.batch=4", "train.steps=4"]


def fill(home: Path, text: Path) -> None:
    """Train one run, and write copies of it as runs of other seeds."""
    from headtohead import Arm, Files, RunSpec
    from headtohead.run import seal, store
    from headtohead.run.session import execute

    spec = RunSpec(arm=Arm.of("lm", Files(path=str(text))).settings(SMALL)).resolved()
    list(execute(spec, home))
    first = store.Record.at(home, spec.id)
    result, times = first.require_result().to_json(), first.times.to_json()
    contents = {path.name: path.read_bytes() for path in first.folder.iterdir() if path.is_file()}
    for seed in range(1, RUNS):
        other = spec.set("seed", seed)
        folder = home / "runs" / other.id
        folder.mkdir()
        for name, content in contents.items():
            (folder / name).write_bytes(content)
        (folder / "run.json").write_text(store.to_text(other.to_json()))
        (folder / "times.json").write_text(store.to_text(seal.times_of(folder, other.id, times)))
        (folder / "result.json").write_text(store.to_text(seal.result_of(folder, other.id, result, {})))


def listed(home: Path, how: str) -> float:
    """Seconds to list the runs in a new process."""
    done = subprocess.run([sys.executable, "-c", LIST, str(home), how], capture_output=True, text=True, check=True)
    count, seconds = done.stdout.split()
    assert int(count) == RUNS
    return float(seconds)


def timed(spent: list[float], call: Callable[..., Any]) -> Callable[..., Any]:
    def wrapper(*given: Any, **named: Any) -> Any:
        began = time.process_time()
        try:
            return call(*given, **named)
        finally:
            spent.append(time.process_time() - began)

    return wrapper


def study_share(home: Path) -> tuple[float, float]:
    """Seconds of a study of four runs with its verdicts, and seconds of them spent in checksums and syncs."""
    from headtohead import Arm, Study
    from headtohead.data import encoded
    from headtohead.disk import checksums
    from headtohead.outcome.outcome import load_outcome
    from headtohead.run import seal, session
    from headtohead.run.executors.execution import Execution
    from headtohead.study.execution import folder_of, train_study

    spent: list[float] = []
    for module, name in ((seal, "times_of"), (seal, "result_of"), (seal, "damage"), (checksums, "damage")):
        setattr(module, name, timed(spent, getattr(module, name)))
    for module, name in ((session, "sync_folder"), (checksums, "sums_of")):
        setattr(module, name, timed(spent, getattr(module, name)))
    control = Arm.of("lm").settings(["train.steps=100"])
    study = Study(question="?", control=control, vary={"model.position": ["Learned", "Rope"]}, seeds=2, again=False)
    encoded.encode_texts(control.data, control.tokenizer)
    began = time.process_time()
    for _ in train_study(study, Execution(jobs=1, device="cpu"), home=home):
        pass
    assert len(load_outcome(folder_of(study, home)).verdicts) == 1
    return time.process_time() - began, sum(spent)


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        base = Path(folder)
        os.environ |= {"HEADTOHEAD_CACHE": str(base / "cache"), "HEADTOHEAD_HOME": str(base / "home")}
        (base / "mine.txt").write_text("we the people of this union " * 300)
        fill(base / "home", base / "mine.txt")
        time.sleep(1.5)  # younger files are not remembered
        first = listed(base / "home", "with")
        each = {how: min(listed(base / "home", how) for _ in range(CALLS)) for how in ("without", "with")}
        whole, checks = study_share(base / "study")
        said = {
            "command": "python benchmarks/measure/integrity.py",
            "machine": f"{os.cpu_count()} cores",
            "date": datetime.now(UTC).date().isoformat(),
            "columns": ["processor time", "seconds"],
            "rows": [
                [f"list {RUNS:,} runs without checks (best of {CALLS})", f"{each['without']:.3f}"],
                [f"list {RUNS:,} runs with checks (best of {CALLS})", f"{each['with']:.3f}"],
                [f"list {RUNS:,} runs for the first time, when all are hashed", f"{first:.1f}"],
                ["a study of four runs of 100 steps, with its verdicts", f"{whole:.1f}"],
                ["checksums and syncs in that study", f"{checks:.3f} ({100 * checks / whole:.2f} %)"],
            ],
        }
        text = json.dumps(said, indent=1, ensure_ascii=False) + "\n"
        MEASURED.write_text(text, encoding="utf-8")
        print(text)


if __name__ == "__main__":
    main()
