"""A run's learning curves as a picture, and whether it began to learn its training texts by heart."""

from __future__ import annotations

import io
import math
from typing import Any

from headtohead.report.figures import ARMS, QUIET, looks
from headtohead.store import Record

FIGURES = ("loss", "accuracy")
SETS = ("train", "validation")


def looks_of(record: Record, name: str, figure: str) -> tuple[list[int], list[float]]:
    """Steps and values of one figure of one set."""
    key = f"{name}/{figure}"
    found = [(line["step"], line[key]) for line in record.metrics if line.get(key) is not None]
    return [step for step, _ in found], [value for _, value in found]


def overfits(record: Record) -> str:
    """What to say where the validation loss rises from its best look on while the training loss still falls."""
    (steps, held), (_, own) = looks_of(record, "validation", "loss"), looks_of(record, "train", "loss")
    if len(held) < 3 or len(own) != len(held) or not all(map(math.isfinite, held)):
        return ""
    best = min(range(len(held)), key=held.__getitem__)
    if best == len(held) - 1 or held[-1] < 1.02 * held[best] or own[-1] >= own[best]:
        return ""
    return (
        f"overfitting: the validation loss is best at step {steps[best]} ({held[best]:.4f}) and {held[-1]:.4f} at the "
        f"end, while the training loss falls to {own[-1]:.4f}: fewer epochs, or a lower learning rate, may do as well"
    )


def picture(record: Record, kind: str = "png") -> bytes:
    """Loss and accuracy of training and validation texts over the steps; the look whose weights were kept is marked."""
    result: dict[str, Any] = record.result or {}
    with looks() as new:
        shown = [f for f in FIGURES if looks_of(record, "validation", f)[0] or looks_of(record, "train", f)[0]]
        figure = new(figsize=(4.8 * max(1, len(shown)), 3.4), layout="constrained")
        for axes, name in zip(figure.subplots(1, max(1, len(shown)), squeeze=False)[0], shown, strict=False):
            scale = 100 if name == "accuracy" else 1
            for colour, style, part in zip(ARMS[1:], ("--", "-"), SETS, strict=False):
                steps, values = looks_of(record, part, name)
                axes.plot(steps, [scale * v for v in values], style, marker="o", ms=3.5, color=colour, label=part)
            axes.axvline(result.get("weights_of", 0), color=QUIET, lw=1, ls=":", label="weights kept")
            axes.set(xlabel="step", ylabel=f"{name}, %" if scale == 100 else f"{name}, nats")
            axes.spines[["top", "right"]].set_visible(False)
            axes.legend(frameon=False, fontsize=8)
        figure.suptitle(f"run {record.id[:8]}, seed {record.spec['seed']}", fontsize=10, x=0.01, ha="left")
        buffer = io.BytesIO()
        figure.savefig(buffer, format=kind, dpi=120, metadata={"Software": None} if kind == "png" else {"Date": None})
        return buffer.getvalue()
