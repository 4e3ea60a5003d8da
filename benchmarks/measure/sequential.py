"""Real studies trained sequentially from an empty store, against ten fixed pairs of the same arms.

    python benchmarks/measure/sequential.py [STUDY …]        # about half an hour for all on two cores

Each study runs as `h2h run` would run it. Then the pairs that ten fixed pairs would have had are trained too, and
judged once. The table has the runs of both, without noise floors, and counts verdicts with opposite signs.
"""

from __future__ import annotations

import dataclasses
import json
import os
import platform
import sys
import tempfile
import time
from pathlib import Path

from headtohead import Arm, Study
from headtohead.outcome.outcome import Outcome, Verdicts
from headtohead.run.executors.execution import Execution
from headtohead.study.workflow import run_study

HERE = Path(__file__).resolve().parents[1]
PAIRS = 10
SMALL = ["model.layers=2", "model.width=32", "model.heads=2", "train.steps=300", "evaluate.windows=256"]
LM = Arm().settings(
    [
        *SMALL,
        "train.optimizer.lr=1e-3",
        "train.clip=1.0",
        "train.schedule=WarmupCosine(warmup=0.3)",
        "tokenizer=Bpe(vocab=512)",
    ]
)
TEXTS = Arm.of("classifier").settings(["model.layers=1", "model.width=32", "model.heads=2", "train.epochs=4"])


def study(name: str, control: Arm, path: str, values: list[str], margin: str | None = None) -> Study:
    return Study(
        question=f"{path}?", control=control, vary={path: values}, margin=margin, name=name, again=False, chaos=False
    )


STUDIES = {
    s.name: s
    for s in (
        study("positions", LM, "model.position", ["Learned", "Rope", "NoPosition"]),
        study("feed-forward", LM, "model.feedforward", ["Mlp", "Mlp(activation=relu)", "Gated"]),
        study("norm", LM, "model.norm", ["LayerNorm", "RMSNorm"], margin="0.5%"),
        study("window", LM, "model.pattern", ["Causal", "Causal & Local(8)", "Causal & Local(2)"]),
        study("optimizer", LM, "train.optimizer", ["AdamW(lr=1e-3)", "AdamW(lr=3e-3)", "SGD(lr=1e-1)"]),
        study("pooling", TEXTS, "model.pooling", ["Mean", "First", "Max"], margin="2%"),
    )
}


def words(verdicts: Verdicts) -> dict[str, str]:
    return {row.arm: row.verdict.verdict for row in verdicts}


def runs_of(outcome: Outcome) -> int:
    return len(outcome.record.runs)


def measure(asked: Study, home: Path) -> list[str]:
    start = time.monotonic()
    sequential = run_study(asked, Execution(), home=home)
    minutes = (time.monotonic() - start) / 60
    fixed = run_study(dataclasses.replace(asked, seeds=PAIRS, name=f"{asked.name}-fixed"), Execution(), home=home)
    mine, theirs = words(sequential.verdicts), words(fixed.verdicts)
    opposite = sum({mine[arm], theirs[arm]} == {"better", "worse"} for arm in mine)
    told = "; ".join(
        f"{row.arm}: {row.verdict.verdict} ({row.verdict.pairs} pairs, "
        f"{abs(row.verdict.difference) / row.verdict.sd:.1f} sd)"
        for row in sequential.verdicts
    )
    said = "; ".join(f"{arm}: {word}" for arm, word in theirs.items())
    a, b = runs_of(sequential), runs_of(fixed)
    return [
        asked.name,
        told,
        said,
        f"{a} / {b} ({100 * (a / b - 1):+.0f} %)".replace("-", "−"),
        str(opposite),
        f"{minutes:.1f}",
    ]


def main(names: list[str]) -> None:
    rows = []
    with tempfile.TemporaryDirectory() as room:
        for name in names or STUDIES:
            rows.append(measure(STUDIES[name], Path(room) / name))
            print(rows[-1], flush=True)
    made = {
        "command": "python benchmarks/measure/sequential.py",
        "machine": f"{os.cpu_count()} cores, {platform.machine()}",
        "columns": ["study", "sequential", "ten fixed pairs", "runs, sequential / fixed", "opposite signs", "minutes"],
        "rows": rows,
    }
    text = json.dumps(made, indent=2, ensure_ascii=False) + "\n"
    (HERE / "measured" / "sequential.json").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
