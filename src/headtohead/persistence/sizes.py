"""The rule of scales: how a study becomes larger, how large it is then, and how long it takes.

Scale s multiplies the training compute of the blocks: their parameters (layers · width²) times the training tokens.

    heads, width × r        r = s^(1/6), rounded so that heads are whole; the head size stays
    layers       × √s / r²  rounded, so that the blocks have about √s times the parameters
    steps        × s / (ratio of the blocks' parameters)
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headtohead.display.training_screen import duration
from headtohead.errors import InputError
from headtohead.report.text_table import TextTable
from headtohead.run import store
from headtohead.run.executors.execution import Execution
from headtohead.run.forecast import Forecast, forecast_runs
from headtohead.stats import FIXED_PAIRS
from headtohead.study import tuning
from headtohead.study.layout import layout_of
from headtohead.study.study import LONGEST_NAME, Study
from headtohead.training.arm import Arm
from headtohead.training.tasks import task_of

RULE = (
    "Scale s multiplies the training compute of the blocks (their parameters × training tokens) by s. "
    "Parameters and tokens each grow by about √s, the even split of compute-optimal training (Hoffmann et al. 2022). "
    "Heads and width × s^(1/6) with the same head size, then layers, and steps take up what rounding leaves. "
    "Batch, context, vocabulary and learning rate stay."
)


def scaled(study: Study, scale: float) -> Study:
    """The study with every arm at another scale and a fixed number of pairs. At scale 1 it has the study's own runs."""
    if not (isinstance(scale, int | float) and 0 < scale < math.inf):
        raise InputError(f"a scale is a number above zero, such as 4, not {scale!r}")
    if study.control.start.pretrained:
        raise InputError("a pretrained checkpoint has one size: --scales needs a study with random initial weights")
    if scale == 1 and not study.is_sequential:
        return study
    resize = _resize(study, scale)
    return dataclasses.replace(
        study,
        control=resize(study.control),
        arms={variant.name: resize(variant.arm) for variant in study.variants},
        vary=list(study.paths),
        # a sequential study would end at a scale when it is decided there, which says nothing of the change
        seeds=FIXED_PAIRS if study.is_sequential else study.seeds,
        again=False,  # noise floors do not enter the comparison of scales
        chaos=False,
        published=None,  # like the usual time and the expected result, said of the study at scale 1
        name=f"{study.folder_name[: LONGEST_NAME - 10]}-x{scale:g}",
        takes="",
        expected="",
    )


def _resize(study: Study, scale: float) -> Callable[[Arm], Arm]:
    """A function that scales an arm. All arms get the same ratios, so they differ in nothing that is not declared."""
    models = [variant.arm.model for variant in study.variants]
    counts = [n for m in models for n in (m.width, m.heads, m.kv_heads or m.heads) if n > 1 or n == m.heads]
    unit = math.gcd(*counts)  # heads, key/value heads and width stay whole in steps of 1 / unit
    ratio = max(1, round(unit * scale ** (1 / 6))) / unit
    deeper = math.sqrt(scale) / ratio**2
    deeper = max(1.0, deeper) if scale > 1 else min(1.0, deeper)

    def layers(arm: Arm) -> int:
        return max(1, round(arm.model.layers * deeper))

    longer = scale / (ratio**2 * layers(study.control) / study.control.model.layers)

    def resize(arm: Arm) -> Arm:
        model, train = arm.model, arm.train
        sizes: dict[str, Any] = {
            "width": round(model.width * ratio),
            "heads": round(model.heads * ratio),
            "layers": layers(arm),
        }
        if model.kv_heads is not None and model.kv_heads > 1:  # one key/value head is multi-query attention at any size
            sizes["kv_heads"] = round(model.kv_heads * ratio)
        hidden = getattr(model.feedforward, "hidden", None)
        if hidden is not None:
            sizes["feedforward"] = dataclasses.replace(model.feedforward, hidden=max(1, round(hidden * ratio)))  # type: ignore[call-arg]
        length = {name: max(1, round(n * longer)) for name in ("steps", "epochs") if (n := getattr(train, name))}
        return dataclasses.replace(
            arm, model=dataclasses.replace(model, **sizes), train=dataclasses.replace(train, **length)
        )

    return resize


@dataclass(frozen=True)
class Size:
    """The control at one scale."""

    scale: float
    width: int
    heads: int
    layers: int
    steps: int
    parameters: int
    tokens: int  # about as many are trained on


def size_of(study: Study, scale: float) -> Size:
    """The size of a study's control, without training it."""
    import torch

    task, arm = task_of(study.control), study.control
    with torch.device("meta"):
        parameters = sum(p.numel() for p in task.new_model(0).parameters())
    length: float = arm.model.block
    if task.lengths is not None:
        length = float(task.lengths.clip(1, arm.model.block).mean())
    tokens = round(task.steps * arm.train.batch * length)
    return Size(scale, arm.model.width, arm.model.heads, arm.model.layers, task.steps, parameters, tokens)


def forecast(study: Study, how: Execution, home: Path) -> Forecast:
    """How many runs the store lacks, and how long they take. Tuning runs are counted."""
    trials = tuning.runs_of(tuning.trials_of(study, how.device, how.threads))
    specs = [*trials, *layout_of(study, {}, how.device, how.threads).in_order()]
    missing = [spec.arm for spec in specs if not store.Record.at(home, spec.id).has_ended]
    return forecast_runs(missing, how.jobs or 1, how.threads) if missing else Forecast(0, how.jobs or 1, 0.0)


def size_table(sizes: Sequence[Size], forecasts: Sequence[Forecast]) -> list[str]:
    """The control at each scale and the time that its study takes, as lines of a table."""
    rows = []
    for s, f in zip(sizes, forecasts, strict=True):
        numbers = (s.width, s.heads, s.layers, s.steps, s.parameters, s.tokens, f.runs)
        rows.append([f"× {s.scale:g}", *(f"{n:,}" for n in numbers), _time(f)])
    head = ["scale", "width", "heads", "layers", "steps", "parameters", "tokens", "new runs", "time"]
    return TextTable("", head, rows).text(80).strip("\n").splitlines()


def _time(forecast: Forecast) -> str:
    if not forecast.runs:
        return "in the store"
    return "unknown" if forecast.seconds is None else duration(forecast.seconds)
