"""The runs of a figure or a table: found by name, grouped over seeds and labelled by what differs between them."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headtohead.errors import InputError, nearest
from headtohead.outcome.metrics import FIGURES
from headtohead.run import files
from headtohead.run.store import Record
from headtohead.run.studies import find_arm, find_runs, find_study, other_seeds, read_study

Runs = Sequence[Record] | Mapping[str, Sequence[Record]]
AXES = ("step", "epoch")
BATCH_LOSS = "train/batch_loss"
LONGEST = 36  # letters of a label that says what differs; a run that differs in more goes by its id


@dataclass(frozen=True)
class RunGroup:
    """One line of a figure: one run, or several runs that differ in the seed."""

    label: str
    records: tuple[Record, ...]

    @property
    def seeds(self) -> list[int]:
        return [int(record.spec["seed"]) for record in self.records]


# -- by name -----------------------------------------------------------------------------------------------------------


def find_groups(names: Sequence[str], home: Path, all_seeds: bool = False) -> list[RunGroup]:
    """The runs that `names` stand for: a run's id, the beginning of it or `latest`; STUDY/ARM@SEED is one run,
    STUDY/ARM all seeds of an arm, STUDY every arm. With `all_seeds`, a run comes with the other seeds of its arm."""
    found: list[tuple[str, str, list[Record]]] = []  # study, arm and seed, runs
    for name in names:
        if "/" in name:
            arm = find_arm(name, home)
            seed = "" if arm.seed is None or all_seeds else f", seed {arm.seed}"
            records = find_arm(f"{arm.study}/{arm.arm}", home).records if all_seeds else arm.records
            found.append((arm.study, arm.arm + seed, records))
        elif study := _study_named(name, home):
            arms = [arm.name for arm in read_study(study).tables[0].arms]
            found += [(study.name, arm, find_arm(f"{study.name}/{arm}", home).records) for arm in arms]
        else:
            records = find_runs(name, home)
            found.append(("", "", records + other_seeds(records[0], home) if all_seeds else records))
    once = {frozenset(r.id for r in records): (study, arm, records) for study, arm, records in found}
    return _labelled(list(once.values()))


def _study_named(name: str, home: Path) -> Path | None:
    """The folder of the study with exactly this name; none where there is no such study."""
    if name == "latest":  # the latest run
        return None
    try:
        return find_study(name, home)
    except InputError:
        return None


def group_runs(runs: Runs) -> list[RunGroup]:
    """For Python: runs as they come, each a group, or groups of seeds by their label."""
    if isinstance(runs, Mapping):
        return [RunGroup(label, tuple(records)) for label, records in runs.items()]
    return _labelled([("", "", [record]) for record in runs])


def _labelled(found: list[tuple[str, str, list[Record]]]) -> list[RunGroup]:
    for _, _, records in found:
        for record in records:
            arm_of(record)
    studies = {study for study, _, _ in found}
    derived = _differences([arm_of(records[0]) for _, _, records in found])
    labels = []
    for (study, arm, records), differs in zip(found, derived, strict=True):
        if study:
            labels.append(arm if len(studies) == 1 else f"{study}/{arm}")
        else:
            seed = f"seed {records[0].spec['seed']}" if len(records) == 1 else f"{len(records)} seeds"
            if len(differs) > LONGEST:
                differs = f"run {records[0].id[:8]}"
            labels.append(f"{differs}, {seed}" if differs else seed)
    twice = {label for label in labels if labels.count(label) > 1}
    return [
        RunGroup(f"{label} ({records[0].id[:8]})" if label in twice else label, tuple(_by_seed(records)))
        for label, (_, _, records) in zip(labels, found, strict=True)
    ]


def _by_seed(records: list[Record]) -> list[Record]:
    return sorted(records, key=lambda record: int(record.spec["seed"]))


def split_names(text: str | None) -> list[str]:
    """Names parted by commas."""
    return [name.strip() for name in (text or "").split(",") if name.strip()]


# -- what a run is -----------------------------------------------------------------------------------------------------


def arm_of(record: Record) -> dict[str, Any]:
    """The arm as run.json has it."""
    spec = record.spec
    if not isinstance(spec, dict) or not isinstance(spec.get("arm"), dict) or "seed" not in spec:
        raise InputError(f"{record.folder / files.RUN} does not describe a run: set the folder aside and train again")
    found: dict[str, Any] = spec["arm"]
    return found


def task_of(groups: Sequence[RunGroup]) -> str:
    """lm or classifier; runs of both kinds share no figure or table."""
    tasks = {str(arm_of(record).get("task", "lm")) for group in groups for record in group.records}
    if len(tasks) > 1:
        raise InputError("some of these runs are language models and some are classifiers: give runs of one kind")
    return tasks.pop()


def kind_of(groups: Sequence[RunGroup]) -> str:
    """The task, or answers: of language models that were measured on generated examples."""
    records = [record for group in groups for record in group.records]
    answers = [any(key.endswith("/accuracy") for line in record.metrics for key in line) for record in records]
    if task_of(groups) == "classifier" or not any(answers):
        return task_of(groups)
    if not all(answers):
        raise InputError("some of these runs answer generated examples and some read texts: give runs of one kind")
    return "answers"


def metric_of(groups: Sequence[RunGroup], asked: str | None) -> str:
    """The figure that was asked for, else the task's main one. Losses per token of different vocabularies are not
    compared: bits per byte are."""
    task = kind_of(groups)
    vocabularies = {_vocabulary(record) for group in groups for record in group.records}
    differ = task == "lm" and len(vocabularies) > 1
    if asked is None:
        return "bits_per_byte" if differ else FIGURES[task][0]
    if asked not in FIGURES[task]:
        kind = {"lm": "language models", "answers": "answers to examples"}.get(task, "classifiers")
        raise InputError(f"{kind} have no {asked}: {nearest(asked, FIGURES[task])}")
    if differ and asked != "bits_per_byte":
        raise InputError(
            f"these runs have different tokenizers or texts, so their {asked} per token does not compare: "
            "give --metric bits_per_byte"
        )
    return asked


def _vocabulary(record: Record) -> str:
    """What decides the vocabulary: tokenizer, text and its split."""
    arm = arm_of(record)
    data = json.loads(json.dumps(arm.get("data", {})))
    data.get("corpus", {}).pop("path", None)  # where the text is, not what it is
    return json.dumps([arm.get("tokenizer"), data], sort_keys=True)


def about(groups: Sequence[RunGroup]) -> str:
    """lm on speeches: what all of them are."""
    arms = [arm_of(record) for group in groups for record in group.records]
    corpora = dict.fromkeys(_corpus(arm) for arm in arms)
    return f"{task_of(groups)} on {' and '.join(corpora)}"


def _corpus(arm: dict[str, Any]) -> str:
    corpus = arm.get("data", {}).get("corpus", {})
    return Path(corpus["path"]).name if corpus.get("path") else str(corpus.get("kind", "text")).lower()


def steps_per_epoch(record: Record) -> int | None:
    """Steps in one pass over the training data; none where a run that is not complete does not tell."""
    arm, result = arm_of(record), record.result
    train = arm["train"]
    if result is None:
        evaluated = [line["step"] for line in record.metrics if line["step"] > 0 and is_evaluation(line)]
        per_epoch = train.get("epochs") and arm["evaluate"].get("every") is None
        return int(evaluated[0]) if evaluated and per_epoch else None
    if train.get("epochs") and result.is_complete:
        return result.steps // int(train["epochs"])
    size = result.data["sets"].get("train", {})
    items = size.get("texts") or size.get("examples")
    if items:
        return math.ceil(items / train["batch"])
    if "tokens" not in size or "source" in train["sampling"]:  # a sampling of the user's own is not loaded for this
        return None
    from headtohead.spec import Spec

    block = arm["model"]["block"]
    return int(Spec.from_json(train["sampling"]).steps_per_epoch(size["tokens"] - block, block, train["batch"]))


def axis_of(groups: Sequence[RunGroup], asked: str | None) -> str:
    """step or epoch: as asked, else epochs where every run was trained by epochs and evaluated at their ends."""
    records = [record for group in groups for record in group.records]
    if asked is None:
        arms = [arm_of(record) for record in records]
        by_epochs = all(arm["train"].get("epochs") and arm["evaluate"].get("every") is None for arm in arms)
        return "epoch" if by_epochs and all(steps_per_epoch(record) for record in records) else "step"
    axis = asked.lower().removesuffix("s")
    if axis not in AXES:
        raise InputError(f"--by {asked}: choose step or epoch")
    if axis == "epoch":
        for record in records:
            if not steps_per_epoch(record):
                raise InputError(f"run {record.id[:8]} does not tell how many steps an epoch has: leave out --by epoch")
    return axis


def is_evaluation(line: Mapping[str, Any]) -> bool:
    """Whether a line of metrics.jsonl has figures of a data set, and not of training batches alone."""
    return any("/" in key and key != BATCH_LOSS for key in line)


def declared_tests(groups: Sequence[RunGroup]) -> list[str]:
    """The test sets of these runs' data, as far as complete runs tell."""
    found = (record.result for group in groups for record in group.records)
    return list(dict.fromkeys(name for result in found if result for name in result.data["tests"]))


# -- labels ------------------------------------------------------------------------------------------------------------


def _differences(arms: Sequence[dict[str, Any]]) -> list[str]:
    """For each arm, the settings that are not the same in all of them: Rope, or position=Rope, lr=0.001."""
    varied = _varied(list(arms), "")
    if len(varied) == 1:
        ((path, texts),) = varied.items()
        named = all(text[:1].isalpha() and text[:1].isupper() for text in texts)  # parts speak for themselves
        return texts if named else [f"{_last(path)}={text}" for text in texts]
    return [", ".join(f"{_last(path)}={texts[n]}" for path, texts in varied.items()) for n in range(len(arms))]


def _last(path: str) -> str:
    return path.rpartition(".")[2]


def _varied(values: list[Any], path: str) -> dict[str, list[str]]:
    if all(value == values[0] for value in values):
        return {}
    kinds = {value.get("kind") if isinstance(value, dict) else None for value in values}
    if len(kinds) == 1 and None not in kinds and len({frozenset(value) for value in values}) == 1:
        inner = [key for key in values[0] if key not in ("kind", "file", "source", "path", "content")]
        deeper = {k: v for key in inner for k, v in _varied([v[key] for v in values], f"{path}.{key}").items()}
        if deeper:
            return deeper
    return {path.removeprefix("."): [_text(value) for value in values]}


def _text(value: Any) -> str:
    """A part as it is typed, Causal & Local(8); a part of the user's own by its name, for its file is not loaded."""
    if not isinstance(value, dict):
        return f"{value:g}" if isinstance(value, float) else str(value)
    if '"source"' in json.dumps(value):
        return str(value.get("kind", ""))
    from headtohead.spec import Spec

    return str(Spec.from_json(value)).removesuffix("()")
