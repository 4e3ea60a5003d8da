"""The time to an equally certain verdict: paired runs of ours, stopped when decided, and unpaired runs of a peer.

    python benchmarks/measure/verdict.py        # about half an hour on two cores

Three questions, with a large, a medium and a small effect. Ours is `h2h run` on an empty store: analyses after 6, 8,
10, 14 and 20 pairs, without noise floors. The usual way trains a fixed number of runs of each arm with other seeds and
compares them with Welch's test. Their number is the one that sees an effect as large as ours with 80 % power, given
how much the peer's runs differ; the peer is told both, which no user would know. The peer is x-transformers, the
fastest of `python benchmarks/run.py decoder`. Both sides are trained to their end, with one run per core. CPU seconds
are compared, because other programs on the machine do not change them much.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import platform
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats as scipy_stats

from headtohead import Arm, Study
from headtohead.run.executors.execution import Execution
from headtohead.study.workflow import run_study
from headtohead.training.tasks import LanguageModelling, task_of

HERE = Path(__file__).resolve().parents[1]
PEER = HERE / "measure" / "peer_runs.py"
FIRST = 12  # runs of each arm from which the peer's noise is measured; they count
MOST = 200  # runs of each arm
WINDOWS = 256  # of each test text
CONTROL = (
    Arm()
    .settings(
        [
            "model.layers=2",
            "model.position=Rope",
            "tokenizer=Bpe(vocab=512)",
            "train.steps=300",
            f"evaluate.windows={WINDOWS}",
        ]
    )
    .settings(["evaluate.along=64", "evaluate.train=0"])
)


@dataclass(frozen=True)
class Question:
    size: str
    path: str
    values: tuple[str, str]  # of the control and of the variant
    arms: tuple[dict[str, Any], dict[str, Any]]  # the same for peer_runs.py


QUESTIONS = (
    Question("large", "model.position", ("Learned", "Rope"), ({"rope": False}, {"rope": True})),
    Question("medium", "model.feedforward", ("Mlp", "Mlp(activation=relu)"), ({}, {"relu": True})),
    Question("small", "model.kv_heads", ("none", "1"), ({}, {"kv_heads": 1})),
)


def measured(command: list[str]) -> tuple[str, float]:
    """What a command prints, and the CPU seconds of all processes of its session, looked at five times a second."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True)
    used: dict[int, float] = {}
    done = threading.Event()

    def watch() -> None:
        while not done.wait(0.2):
            used.update(session_cpu(process.pid))

    watcher = threading.Thread(target=watch)
    watcher.start()
    printed = process.communicate()[0]
    done.set()
    watcher.join()
    if process.returncode:
        raise SystemExit(f"{' '.join(command)} failed")
    return printed, sum(used.values())


def session_cpu(session: int) -> dict[int, float]:
    """The CPU seconds of every process of a session, by its number."""
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            words = (folder / "stat").read_text().rpartition(")")[2].split()
            if int(words[3]) == session:
                found[int(folder.name)] = (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")
    return found


# -- ours --------------------------------------------------------------------------------------------------------------


def ours(question: Question, home: Path) -> dict[str, Any]:
    control = CONTROL.settings([f"{question.path}={question.values[0]}"])
    study = Study(
        question=f"{question.path}?",
        control=control,
        vary={question.path: list(question.values)},
        name=question.size,
        again=False,
        chaos=False,
    )
    started = time.monotonic()
    outcome = run_study(study, Execution(), home=home)
    verdict = outcome.verdicts.arms[0].verdict
    return {
        "word": verdict.verdict,
        "pairs": verdict.pairs,
        "runs": len(outcome.record.runs),
        "effect": verdict.difference,
        "sd": verdict.sd,
        "seconds": time.monotonic() - started,
    }


# -- the usual way -----------------------------------------------------------------------------------------------------


def write_data(path: Path) -> None:
    """The tokens that our runs are trained and tested on, and the sizes of the model."""
    task = task_of(CONTROL)
    assert isinstance(task, LanguageModelling)
    block, spec = CONTROL.model.block, CONTROL.train
    tests = [np.asarray(task.data.held[name].tokens[: WINDOWS * block + 1]) for name in task.data.tests]
    windows = [t[: len(t) - 1 - (len(t) - 1) % block] for t in tests]
    test = np.concatenate(
        [np.stack([t[n : n + block + 1] for n in range(0, len(w), block)]) for t, w in zip(tests, windows, strict=True)]
    )
    optimizer = json.loads(json.dumps(spec.optimizer.to_json()))
    sizes = {
        "vocab": task.vocabulary.size,
        "width": CONTROL.model.width,
        "layers": CONTROL.model.layers,
        "heads": CONTROL.model.heads,
        "block": block,
        "batch": spec.batch,
        "steps": spec.steps,
        "lr": optimizer["lr"],
        "decay": optimizer.get("weight_decay", 0.0),
        "warmup": spec.schedule.to_json().get("warmup", 0.0),
        "clip": spec.clip,
    }
    np.savez(path, train=np.asarray(task.data.train.tokens), test=test, sizes=json.dumps(sizes))


def runs_needed(effect: float, sd: float) -> int:
    """Runs of each arm that Welch's test needs to see the effect with 80 % power."""
    for n in range(2, 100_000):
        free = 2 * n - 2
        if scipy_stats.nct.sf(scipy_stats.t.ppf(0.975, free), free, abs(effect) / sd * math.sqrt(n / 2)) >= 0.8:
            return n
    return 100_000


def train_peers(data: Path, question: Question, start: int, stop: int) -> tuple[list[list[float]], float]:
    """The losses of both arms with new seeds, one process per arm and core, and their CPU seconds."""

    def train(arm: dict[str, Any], first: int) -> tuple[str, float]:
        seeds = ",".join(map(str, range(first + start, first + stop)))
        return measured([sys.executable, str(PEER), str(data), json.dumps(arm), seeds, "1"])

    with ThreadPoolExecutor(2) as pool:
        found = list(pool.map(train, question.arms, (0, 10_000)))
    losses = [[json.loads(line)["loss"] for line in printed.splitlines()] for printed, _ in found]
    return losses, sum(cpu for _, cpu in found)


def usual(question: Question, effect: float, data: Path) -> dict[str, Any]:
    losses: list[list[float]] = [[], []]
    cpu, started, wanted = 0.0, time.monotonic(), FIRST
    while True:
        more, used = train_peers(data, question, len(losses[0]), wanted)
        losses = [old + new for old, new in zip(losses, more, strict=True)]
        cpu += used
        sd = math.sqrt(float(np.mean([np.var(one, ddof=1) for one in losses])))
        needed = runs_needed(effect, sd)
        if needed <= wanted or wanted == MOST:
            break
        wanted = min(MOST, max(needed, wanted + 2))
    counted = min(max(needed, 2), len(losses[0]))  # a user with less noise than twelve runs show would train fewer
    p = scipy_stats.ttest_ind(losses[1][:counted], losses[0][:counted], equal_var=False).pvalue
    return {
        "runs": 2 * counted,
        "trained": 2 * len(losses[0]),
        "needed": 2 * needed,
        "sd": sd,
        "effect": float(np.mean(losses[1]) - np.mean(losses[0])),
        "p": float(p),
        "cpu": cpu * counted / len(losses[0]),
        "cpu_needed": cpu * needed / len(losses[0]),
        "seconds": time.monotonic() - started,
    }


def main() -> None:
    made = []
    with tempfile.TemporaryDirectory() as room:
        data = Path(room) / "data.npz"
        write_data(data)
        for question in QUESTIONS:
            command = [sys.executable, __file__, "--ours", question.size, str(Path(room) / question.size)]
            printed, cpu = measured(command)
            mine = {**json.loads(printed.splitlines()[-1]), "cpu": cpu}
            theirs = usual(question, mine["effect"], data)
            made.append({"question": question.size, "field": question.path, "ours": mine, "usual": theirs})
            print(json.dumps(made[-1]), flush=True)
    result = {
        "command": "python benchmarks/measure/verdict.py",
        "machine": f"{os.cpu_count()} cores, {platform.machine()}",
        "questions": made,
    }
    (HERE / "measured" / "verdict.json").write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--ours"]:  # a process of its own, so that its CPU time can be told from the rest
        asked = next(question for question in QUESTIONS if question.size == sys.argv[2])
        print(json.dumps(ours(asked, Path(sys.argv[3]))))
    else:
        main()
