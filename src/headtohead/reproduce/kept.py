"""A study's results without its weights, in one JSON file: small enough to be kept beside the recipe, and unpacked into
a store that verdicts, tables and reports are read from as from any other."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from headtohead import store
from headtohead.errors import InputError
from headtohead.outcome import Outcome, load_outcome
from headtohead.store import Record
from headtohead.study import Study

FORMAT = 1
ALONG = ("loss", "perplexity", "accuracy")
LEFT_OUT = ("data", "warnings")  # of a result: the same for all runs on the same text, kept once


def packed(outcome: Outcome, name: str) -> dict[str, Any]:
    """Everything that a verdict or a curve needs, under the study's own name, whatever a store calls it. Arms that are
    no longer the recipe's are left behind."""
    own = [
        {**table, "arms": [arm for arm in table["arms"] if not arm.get("dropped")]} for table in outcome.said["tables"]
    ]
    said = {**outcome.said, "name": name, "tables": own}
    ids = _runs(said)
    data: list[Any] = []
    runs: dict[str, Any] = {}
    environment: dict[str, Any] = {}
    for run in ids:
        record = Record(outcome.home / "runs" / run)
        if record.result is None:
            raise InputError(f"run {run} of study {outcome.said['name']} is not complete: {outcome.said['command']}")
        facts = {name: record.result.get(name) for name in LEFT_OUT}
        if facts not in data:
            data.append(facts)
        environment = environment or record.environment
        runs[run] = {
            "result": {k: v for k, v in record.result.items() if k not in LEFT_OUT},
            "data": data.index(facts),
            "times": record.times,
            "curve": _curve(record),
            "measures": record.measures,
        }
    return {"format": FORMAT, "study": said, "environment": environment, "data": data, "runs": runs}


def _runs(said: dict[str, Any]) -> list[str]:
    tables = [arm["runs"] for table in said["tables"] for arm in table["arms"]]
    return list(dict.fromkeys(run for runs in (*tables, said["again"]) for run in runs.values()))


def _curve(record: Record) -> list[dict[str, Any]]:
    """What a reader may want to see of every look, of every set."""
    looks = ({k: v for k, v in line.items() if k == "step" or k.rpartition("/")[2] in ALONG} for line in record.metrics)
    return [look for look in looks if len(look) > 1]


def write(outcome: Outcome, file: Path) -> None:
    """One run a line: a run that changes is a line that changes."""
    said = store.plain(packed(outcome, file.stem))
    runs = said.pop("runs")
    head = json.dumps(said, indent=1, ensure_ascii=False)[:-2]
    lines = ",\n".join(
        f"  {json.dumps(run)}: {json.dumps(value, separators=(',', ':'))}" for run, value in runs.items()
    )
    store.write_whole(file, f'{head},\n "runs": {{\n{lines}\n }}\n}}\n')


class Absent(InputError):  # noqa: N818
    """A study whose results are not kept here: others can be shown without it, as they cannot beside a damaged one."""


def read(file: Path) -> dict[str, Any]:
    if not file.is_file():
        raise Absent(f"{file} is not there: h2h reproduce, then h2h reproduce --keep")
    try:
        said: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
        newer = said["format"] > FORMAT
        whole = newer or _whole(said)
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        whole = newer = False
    if newer:
        raise InputError(f"{file} was written by a newer version of headtohead: update this one to read it")
    if not whole:
        raise InputError(f"{file} cannot be read: it is torn or not ours; bring it back from the repository")
    return said


def _whole(said: dict[str, Any]) -> bool:
    """Whether every run that the study names is there, with numbers where numbers belong: a verdict of what is left
    would look like any other."""
    runs, data = said["runs"], said["data"]
    parts = ("id", "name", "margin", "seeds", "tuning")
    return (
        all(name in said["study"] for name in parts)
        and bool(said["study"]["tables"])
        and runs.keys() == set(_runs(said["study"]))
        and all(_whole_run(run, data) for run in runs.values())
    )


def _whole_run(run: dict[str, Any], data: list[Any]) -> bool:
    values = [run["result"]["values"], *run["measures"].values(), *run["curve"]]
    figures = (value for one in values for value in one.values() if not isinstance(value, list))
    return (
        isinstance(run["times"], dict)
        and isinstance(run["result"]["status"], str)
        and isinstance(data[run["data"]], dict)
        and all(value is None or isinstance(value, int | float) for value in figures)
    )


def check(file: Path, study: Study) -> None:
    """Refuse results of what the recipe no longer says."""
    said = read(file)["study"]
    tuned = list(study.tune)
    arms = {arm["name"]: _without(arm["spec"], tuned) for arm in said["tables"][0]["arms"]}
    wanted = {v.name: _without(store.plain(v.arm.to_json()), tuned) for v in study.variants}
    same = (
        said["id"] == study.id
        and (said["margin"], said["seeds"]) == (study.margin, list(study.all_seeds))
        and list(arms.items()) == list(wanted.items())
    )
    if not same:
        raise InputError(f"{file} is of another version of its recipe: h2h reproduce, then h2h reproduce --keep")


def _without(spec: Any, paths: list[str]) -> Any:
    """A spec but for what tuning chose."""
    if not isinstance(spec, dict):
        return spec
    return {
        key: _without(value, [p.partition(".")[2] for p in paths if p.partition(".")[0] == key])
        for key, value in spec.items()
        if key not in paths
    }


def unpacked(file: Path, home: Path) -> Outcome:
    """The study in a store of its own; `home` is a folder that may go when the outcome has been read."""
    said = read(file)
    for run, kept in said["runs"].items():
        folder = home / "runs" / run
        if (folder / "result.json").is_file():
            continue  # another study's run too
        folder.mkdir(parents=True, exist_ok=True)
        files = {
            "run.json": {},
            "env.json": said["environment"],
            "times.json": kept["times"],
            "result.json": {**kept["result"], **said["data"][kept["data"]]},
        }
        if kept["measures"]:
            files[store.MEASURES] = kept["measures"]
        for name, value in files.items():
            (folder / name).write_text(json.dumps(value), encoding="utf-8")
        lines = "".join(json.dumps(line) + "\n" for line in kept["curve"])
        (folder / "metrics.jsonl").write_text(lines, encoding="utf-8")
    folder = home / "studies" / said["study"]["name"]
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "study.json").write_text(json.dumps(said["study"]), encoding="utf-8")
    return load_outcome(folder)


def differences(mine: dict[str, Any], stored: dict[str, Any]) -> tuple[int, int]:
    """Of the runs that both have, how many differ in any bit of what they measured; and how many both have."""
    common = mine["runs"].keys() & stored["runs"].keys()
    values = [(mine["runs"][run]["result"]["values"], stored["runs"][run]["result"]["values"]) for run in common]
    return sum(a != b for a, b in values), len(common)
