"""Does a plan hold? Ten studies are planned from an empty store, then trained for forty pairs.

    python benchmarks/measure/plans.py [STUDY …]        # about a quarter of an hour for all on two cores

The plan names the pairs that an effect needs, by the noise of its pilot. The outcome is the number by the noise of all
forty pairs, of which the pilot is a part. Both are of the arm that needs the most pairs. None of these studies was used
to build the plan.
"""

from __future__ import annotations

import dataclasses
import json
import os
import platform
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from headtohead import Arm, Study, stats
from headtohead.outcome.noise import noise_of_arms
from headtohead.run.executors.execution import Execution
from headtohead.study.plan import plan_study
from headtohead.study.workflow import run_study

HERE = Path(__file__).resolve().parents[1]
PAIRS = 40
WITHIN = 1.5
SMALL = ["model.layers=2", "model.width=32", "model.heads=2", "evaluate.windows=128", "tokenizer=Bpe(vocab=512)"]
LM = Arm().settings([*SMALL, "train.steps=200"])
ROPE = LM.settings(["model.position=Rope"])
BYTES = LM.settings(["tokenizer=Byte", "model.block=64", "train.batch=8"])
TEXTS = Arm.of("classifier").settings(["model.layers=1", "model.width=32", "model.heads=2", "train.epochs=3"])


@dataclass(frozen=True)
class Question:
    control: Arm
    path: str
    values: tuple[str, ...]
    effect: str


QUESTIONS = {
    "positions": Question(LM, "model.position", ("Learned", "Alibi", "RelativeBias"), "0.3%"),
    "bytes, positions": Question(BYTES, "model.position", ("Learned", "Rope"), "0.3%"),
    "query norm": Question(ROPE, "model.qk_norm", ("NoNorm", "RMSNorm"), "0.2%"),
    "residuals": Question(ROPE, "model.residual", ("PreNorm", "Sandwich"), "0.3%"),
    "layers": Question(ROPE, "model.layers", ("2", "3"), "0.2%"),
    "hidden width": Question(ROPE, "model.feedforward", ("Mlp", "Mlp(hidden=96)", "Gated"), "0.2%"),
    "fusion": Question(ROPE, "model.fusion", ("Concat", "Shuffle", "Reweight(over=token)"), "0.2%"),
    "schedule": Question(ROPE, "train.schedule", ("WarmupCosine(warmup=0.3)", "OneCycle"), "0.5%"),
    "classifier, pooling": Question(TEXTS, "model.pooling", ("Mean", "Max"), "5%"),
    "classifier, positions": Question(TEXTS, "model.position", ("Learned", "NoPosition"), "5%"),
}


def study_of(name: str) -> Study:
    q = QUESTIONS[name]
    return Study(
        question=f"{q.path}?", control=q.control, vary={q.path: list(q.values)}, max_pairs=PAIRS, name=name, again=False
    )


def measure(name: str, home: Path) -> tuple[list[str], bool]:
    study, effect = study_of(name), QUESTIONS[name].effect
    plan = plan_study(study, effect, home=home)
    pilot = max(int(arm.sd_from.split()[0]) for arm in plan.arms.values())
    outcome = run_study(dataclasses.replace(study, seeds=PAIRS), Execution(), home=home)
    noise, alpha = noise_of_arms(outcome, ""), study.design.planned
    needed = [
        stats.pairs_for(plan.effect / one.sd, len(noise), alpha=alpha) or stats.MOST_PAIRS for one in noise.values()
    ]
    planned, real = plan.pairs or stats.MOST_PAIRS, max(needed)
    ratio = planned / real
    row = [name, effect, str(pilot), plan.of_noisiest.likely, str(real), f"{ratio:.2f}"]
    return row, 1 / WITHIN <= ratio <= WITHIN


def main(names: list[str]) -> None:
    rows, good = [], 0
    with tempfile.TemporaryDirectory() as room:
        for name in names or QUESTIONS:
            row, within = measure(name, Path(room) / name)
            rows.append(row)
            good += within
            print(row, flush=True)
    made = {
        "command": "python benchmarks/measure/plans.py",
        "machine": f"{os.cpu_count()} cores, {platform.machine()}",
        "columns": ["study", "effect", "pilot pairs", "plan", "pairs by the noise of 40 pairs", "plan / outcome"],
        "rows": rows,
        "within": good,
    }
    text = json.dumps(made, indent=2, ensure_ascii=False) + "\n"
    (HERE / "measured" / "plans.json").write_text(text, encoding="utf-8")
    print(f"{good} of {len(rows)} within a factor of {WITHIN}")


if __name__ == "__main__":
    main(sys.argv[1:])
