"""The model card of an exported model. It contains only facts that are stored with the run."""

from __future__ import annotations

import dataclasses
import html
import re
import shlex
from pathlib import Path
from typing import Any

from headtohead.data.corpora import Files
from headtohead.model.spec import ModelSpec
from headtohead.run.load import Trained
from headtohead.run.results import Result
from headtohead.training.arm import Arm

PIPELINES = {"lm": "text-generation", "classifier": "text-classification", "encoder": "feature-extraction"}
AUTO = {"lm": "AutoModelForCausalLM", "classifier": "AutoModelForSequenceClassification", "encoder": "AutoModel"}


def card(trained: Trained, architecture: str, notes: list[str], trusted: bool) -> str:
    """Return README.md. `trusted`: the folder contains code, so that loading needs trust_remote_code=True."""
    trust = ", trust_remote_code=True" if trusted else ""  # also for the tokenizer, which reads config.json
    title = Path(trained.checkpoint).name if trained.checkpoint else f"run {trained.record.id}"
    lines = [
        "---",
        "library_name: transformers",
        f"pipeline_tag: {PIPELINES[trained.task]}",
        "tags:",
        "- headtohead",
        "---",
        "",
        f"# {plain(title)}",
        "",
        f"{_description(trained)} It is a `{architecture}`.",
        "",
        *(f"> {plain(note)}\n" for note in notes),
        "```python",
        f"from transformers import {AUTO[trained.task]}, AutoTokenizer",
        "",
        'folder = "."  # the folder of this file, or the name on the Hub',
        f"model = {AUTO[trained.task]}.from_pretrained(folder{trust})",
        f"tokenizer = AutoTokenizer.from_pretrained(folder{trust})",
        "```",
        "",
    ]
    if not trained.checkpoint:
        result = trained.record.result  # its figures are those of the weights it kept, not of earlier ones
        figures = _figures(result) if result and trained.step == result.weights_of else []
        lines += [*figures, *_training(trained)]
    return "\n".join([*lines, *_model(trained)]) + "\n"


def _description(trained: Trained) -> str:
    arm = trained.spec.arm
    kind = {"lm": "A language model", "classifier": "A text classifier", "encoder": "A text encoder"}
    if trained.checkpoint:
        return f"{kind[trained.task]}, imported into headtohead and exported again."
    result = trained.record.result
    read = result.data.get("sets", {}).get("train", {}).get("tokens") if result else None
    steps = f"{trained.step or 0:,} steps" + (f" over {read:,} tokens of text" if read else "")
    labels = f" Classes: {', '.join(map(plain, trained.labels))}." if trained.labels else ""
    where = plain(_corpus(arm))
    return f"{kind[trained.task]}, trained with headtohead on {where}, seed {trained.spec.seed}, {steps}.{labels}"


def _corpus(arm: Arm) -> str:
    """The name of the corpus, without a path of this machine."""
    corpus = arm.data.corpus
    return Path(corpus.path).name if isinstance(corpus, Files) else corpus.name


def _figures(result: Result) -> list[str]:
    values = {name: v for name, v in result.values.items() if isinstance(v, int | float)}
    if not values:
        return []
    sets = list(dict.fromkeys(name.partition("/")[0] for name in values))
    figures = list(dict.fromkeys(name.partition("/")[2] for name in values if not name.endswith("/tokens")))
    rows = [[name, *(_number(values.get(f"{name}/{figure}")) for figure in figures)] for name in sets]
    head = ["set", *figures]
    table = [_row(head), _row(["---"] * len(head)), *map(_row, rows)]
    warnings = [f"- {plain(warning)}" for warning in result.warnings]
    return [
        "## Figures",
        "",
        *table,
        "",
        *(["Warnings of this run:", "", *warnings, ""] if warnings else []),
    ]


def plain(text: str) -> str:
    """Text of other people as text: neither Markdown, nor HTML, nor another line."""
    text = html.escape(_one_line(text), quote=False)
    return re.sub(r"([\\`*_\[\]{}<>#|!~])", r"\\\1", text)


def code(text: str) -> str:
    """Text as Markdown shows code, in as many backticks as it takes."""
    text, fence = _one_line(text), _fence(text, 1)
    return f"{fence} {text} {fence}" if len(fence) > 1 else f"{fence}{text}{fence}"


def _one_line(text: str) -> str:
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())


def _fence(text: str, least: int) -> str:
    """More backticks than the text has in a row."""
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    return "`" * max(least, longest + 1)


def _row(cells: list[str]) -> str:
    return f"| {' | '.join(map(plain, cells))} |"


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.4g}"


def _training(trained: Trained) -> list[str]:
    """The command that repeats the run, without settings that are defaults of the task."""
    arm = trained.spec.arm
    changed = [d for d in Arm.of(arm.task, arm.data.corpus).diff(arm) if not d.path.endswith("content")]
    words = ["h2h", "train", arm.task, "--data", _corpus(arm)]
    words += [word for d in changed for word in ("--set", f"{d.path}={_as_typed(d.right)}")]
    words += ["--seed", str(trained.spec.seed)] if trained.spec.seed else []
    words += ["--threads", str(trained.spec.threads)] if trained.spec.threads > 1 else []
    command = shlex.join(words)
    fence = _fence(command, 3)
    return ["## Training", "", f"{fence}sh", command, fence, ""]


def _as_typed(value: Any) -> Any:
    """A setting as a user types it: without fingerprints, and with the name of a checkpoint instead of its path."""
    if getattr(value, "content", ""):
        value = dataclasses.replace(value, content="")
    if Path(getattr(value, "checkpoint", "")).is_absolute():
        value = dataclasses.replace(value, checkpoint=Path(value.checkpoint).name)
    return value


def _model(trained: Trained) -> list[str]:
    spec = trained.spec.arm.model
    changed = [f"- `{d.path}` = {code(str(d.right))}" for d in ModelSpec().diff(spec)]
    parameters = sum(p.numel() for p in trained.model.parameters())
    return [
        "## Model",
        "",
        f"{parameters:,} parameters, {trained.vocabulary.size:,} tokens, a block of {spec.block}. "
        + (
            "Settings that differ from headtohead's defaults:" if changed else "All settings are headtohead's defaults."
        ),
        *(["", *changed] if changed else []),
    ]
