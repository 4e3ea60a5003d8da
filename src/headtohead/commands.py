"""What the commands do, without a terminal: arguments to specs, specs to runs, runs to rows."""

from __future__ import annotations

import json
import math
import os
import sys
from collections.abc import Iterable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

from headtohead import store
from headtohead.arm import Arm, RunSpec, read_run, run_specs
from headtohead.data.corpora import Corpus, Files, Held, corpus_named
from headtohead.errors import InputError, nearest
from headtohead.imported import named
from headtohead.machine import check_threads, choose_device
from headtohead.outcome import find_runs
from headtohead.runs import Event, Finished, NotBegun, Options, Stopped
from headtohead.spec import Spec
from headtohead.trained import Trained
from headtohead.userfiles import load_file
from headtohead.workers import execute_many


def arm_in(where: str, settings: list[str]) -> Arm:
    """An arm of a Python file: recipes/published/documents.py:decoder_run."""
    path, marker, name = where.partition(".py:")
    if not marker:
        raise InputError(f"--arm takes FILE.py:NAME, such as recipes/published/documents.py:decoder_run, not '{where}'")
    module = load_file(path + ".py")
    arms = {k: v for k, v in vars(module).items() if isinstance(v, Arm)}
    if name not in arms:
        raise InputError(f"{path}.py has no arm '{name}': {nearest(name, arms)}")
    return arms[name].settings(settings)


def length(steps: int | None, epochs: int | None, settings: list[str]) -> list[str]:
    """--steps and --epochs as settings; whoever says twice how long to train is asked which."""
    short = {"--steps": ("train.steps", steps), "--epochs": ("train.epochs", epochs)}
    given = [option for option, (_, value) in short.items() if value is not None]
    for setting in settings:
        path, _, value = setting.replace(" ", "").partition("=")
        if path in ("train.steps", "train.epochs") and value.lower() != "none":
            given.append(f"--set {path}")
    if len(set(given)) > 1:
        raise InputError(f"{given[0]} and {given[1]} both say how long to train: give one of them")
    return [f"{path}={value}" for path, value in short.values() if value is not None]


def arm_for(
    task: Any,
    data: str | None,
    validation: str | None,
    test: str | None,
    text: str | None,
    label: str | None,
    settings: list[str],
) -> Arm:
    return Arm.of(task, corpus_for(data, validation, test, text, label)).settings(settings)


def corpus_for(
    data: str | None, validation: str | None, test: str | None, text: str | None, label: str | None
) -> Corpus | None:
    corpus = corpus_named(data) if data else None
    own = {"validation": validation, "test": test, "text": text, "label": label}
    given = {k: v for k, v in own.items() if v is not None}
    return _own(corpus, given) if given else corpus


def _own(corpus: Corpus | None, given: dict[str, str]) -> Corpus:
    if not isinstance(corpus, Files):
        raise InputError(f"--{next(iter(given))} goes with a file of yours: --data my.csv")
    changed: Corpus = corpus
    for name, value in given.items():
        changed = changed.set(name, Held(path=value) if name in ("validation", "test") else value)
    return changed


def runs_of(arm: Arm, seeds: Iterable[int], device: str, threads: int) -> list[RunSpec]:
    check_threads(threads)
    return list(run_specs(arm, seeds, choose_device(device), threads).values())


def missing(specs: Iterable[RunSpec]) -> int:
    """How many of them are not in the store, or not at their end."""
    return sum(store.Record(store.home() / "runs" / spec.id).result is None for spec in specs)


def resumed(name: str) -> RunSpec:
    spec = read_run(store.find_run(name).spec)
    choose_device(spec.device)  # says so where this machine has none
    return spec


def execute_all(specs: list[RunSpec], jobs: int | None, save_every: float, log_to: str | None) -> Iterator[Event]:
    yield from execute_many(specs, store.home(), jobs or os.cpu_count() or 1, options_for(save_every, log_to))


def options_for(save_every: float, log_to: str | None) -> Options:
    if log_to is None:
        return Options(save_every=save_every)
    from headtohead.tracking import Track

    return Options(save_every=save_every, track=Track(log_to))


def by_seed(ended: list[Event], seeds: dict[str, int]) -> list[Event]:
    """How runs ended, in the order of their seeds rather than of their ends. Who stopped when all was done stopped
    nothing."""
    ended = [event for event in ended if not (isinstance(event, NotBegun) and not event.runs)]
    return sorted(ended, key=lambda event: seeds.get(event.id, math.inf))


def summary(event: Event, seeds: dict[str, int]) -> dict[str, Any]:
    if isinstance(event, Finished):
        record = event.record
        assert record.result is not None
        seed = seeds[event.id]
        return {"run": event.id, "seed": seed, "folder": event.folder, **record.result, "times": record.times}
    if isinstance(event, NotBegun):
        return {"run": None, "status": "not begun", "runs": event.runs}
    assert isinstance(event, Stopped)  # nothing else ends a run whose failures are raised
    seed = seeds[event.id]
    return {"run": event.id, "seed": seed, "status": "stopped", "steps": event.done, "of": event.steps}


def exit_code(ended: list[Event]) -> int:
    if any(isinstance(event, Stopped | NotBegun) for event in ended):
        return 130
    finished = [event.record.result for event in ended if isinstance(event, Finished)]
    return 1 if any(r and r["status"] == "diverged" for r in finished) else 0


def trained(name: str, step: int | None) -> Trained:
    """The model of one run, of an arm with several that of the first seed; or of a checkpoint."""
    import torch

    torch.set_num_threads(1)
    return named(name, step)


def seeds_of(name: str) -> list[store.Record]:
    """Every complete run of the same arm: those of a study's arm, or those in the store that differ from the named one
    in nothing but the seed."""
    found = find_runs(name, store.home())
    if len(found) == 1:
        spec = read_run(found[0].spec)
        pattern = json.dumps({**found[0].spec, "seed": None}, sort_keys=True)
        alike = (r for r in store.runs() if isinstance(r.spec, dict) and r.spec.get("seed") != spec.seed)
        found += [r for r in alike if json.dumps({**r.spec, "seed": None}, sort_keys=True) == pattern]
    complete = [r for r in found if r.result is not None and r.result["status"] == "complete"]
    if not complete:
        raise InputError(f"{name} has no complete run: go on with it first: h2h train --resume {found[0].id}")
    return sorted(complete, key=lambda r: r.spec["seed"])


def given(text: str) -> str:
    """The text itself, or standard input for a dash."""
    try:
        raw = sys.stdin.buffer.read() if text == "-" else text.encode()
        return raw.decode()
    except UnicodeError:
        raise InputError("the text is not UTF-8: convert it, e.g. with iconv -f latin1 -t utf-8") from None


def given_lines(texts: list[str]) -> tuple[list[str], list[int]]:
    """The texts, a dash standing for the lines of standard input; and the numbers of its blank lines, left out."""
    found: list[str] = []
    blank: list[int] = []
    for text in texts:
        if text != "-":
            found.append(given(text))
            continue
        for number, line in enumerate(given(text).splitlines(), 1):
            if line.strip():
                found.append(line)
            else:
                blank.append(number)
    return found, blank


def run_rows() -> list[dict[str, Any]]:
    rows = []
    for record in store.runs():
        try:
            rows.append({"run": record.id, "state": record.state, **_row(record)})
        except InputError as error:
            rows.append({"run": record.id, "state": "unreadable", "what": str(error), "result": ""})
    return rows


def _row(record: store.Record) -> dict[str, Any]:
    """What it is, as it differs from the task's usual arm, and the figure that matters."""
    from headtohead.screen import figures

    said, result = record.spec, record.result
    arm, what, differs = _described(json.dumps(said["arm"]) if isinstance(said, dict) and "arm" in said else "")
    values = result["values"] if result else {}
    held = {k: v for k, v in values.items() if not k.startswith("train/")}
    return {
        "what": what.format(seed=said["seed"]),
        "result": figures(held) if held else (result["ended"] if result else ""),
        "task": arm.task,
        "corpus": arm.data.corpus.name,
        "seed": said["seed"],
        "steps": result["steps"] if result else None,
        "differs": differs,
        "values": values,
    }


@lru_cache(maxsize=4096)
def _described(text: str) -> tuple[Arm, str, dict[str, str]]:
    """An arm, what it is but for the seed, and how it differs from its task's usual one: once for all its seeds."""
    arm = Spec.from_json(json.loads(text)) if text else None
    if not isinstance(arm, Arm):
        raise InputError("run.json does not hold a run's spec: it is not ours")
    corpus = arm.data.corpus
    differs = {d.path: str(d.right) for d in Arm.of(arm.task, corpus).diff(arm)}
    unset = {f"train.{k}" for k in ("steps", "epochs") if arm.train.get(k) is None}  # the other one says it all
    changed = "".join(f", {path}={value}" for path, value in differs.items() if path not in unset)
    where, what = (t.replace("{", "{{").replace("}", "}}") for t in (corpus.path or corpus.name, changed))
    return arm, f"{arm.task} on {where}, seed {{seed}}{what}", differs


def bench(task: str, folder: str, rounds: int, steps: int, only: list[str] | None, out: str | None) -> list[Any]:
    from headtohead import bench

    if not Path(folder).is_dir():
        raise InputError(f"there is no folder {folder}: the contenders come with the repository; run this in its root")
    known = (*bench.TASKS, "generation", "finetune", "all")
    if task not in known:
        raise InputError(f"no task '{task}' to measure: {nearest(task, known)}")
    chosen = bench.TASKS if task == "all" else [t for t in bench.TASKS if t == task]
    results: list[Any] = [bench.run(t, Path(folder), rounds, steps, only=only) for t in chosen]
    if task in ("generation", "all"):
        from headtohead.bench_generation import measure

        results.append(measure(rounds))
    if task == "finetune":  # not among all: it needs SST-2 and the checkpoint
        from headtohead import bench_finetune

        results.append(bench_finetune.measure(corpus_named("sst2"), rounds, os.cpu_count() or 1))
    if out is not None:
        store.write_whole(Path(out), json.dumps([r.to_json() for r in results], indent=2) + "\n")
    return results
