"""Draw what benchmarks/measure/mixers.py measured into docs/pictures/mixers.png: python tools/mixer_picture.py"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from headtohead.figures.style import ARMS, DASHES, DOTS, GRID, looks
from stored_results import ROOT

MEASURED, PICTURE = ROOT / "benchmarks/measured/mixers.json", ROOT / "docs/pictures/mixers.png"
PANELS = {
    "step_ms": "milliseconds a step",
    "peak_mb": "MB beyond the model",
    "tokens_per_second": "tokens a second in generation",
}


def draw(results: dict[str, Any], path: Path) -> None:
    """One panel for each quantity, one line for each contender; peers are thin."""
    with looks() as new:
        figure = new(figsize=(12, 5.2), layout="constrained")
        panels = figure.subplots(1, len(PANELS))
        for axes, (quantity, label) in zip(panels, PANELS.items(), strict=True):
            for n, row in enumerate(results["rows"]):
                _line(axes, n, row, quantity)
            axes.set(xscale="log", yscale="log", xlabel="tokens", ylabel=label)
            axes.set_xticks(results["lengths"], [f"{length:,}" for length in results["lengths"]], fontsize=7)
            axes.minorticks_off()
            axes.grid(color=GRID)
            axes.spines[["top", "right"]].set_visible(False)
        figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=4, frameon=False)
        figure.savefig(path, dpi=110, facecolor="white", metadata={"Software": None})


def _line(axes: Any, n: int, row: dict[str, Any], quantity: str) -> None:
    values = {int(length): (v[0] if quantity == "step_ms" else v) for length, v in row[quantity].items()}
    style = {"color": ARMS[n % len(ARMS)], "marker": DOTS[n % len(DOTS)], "ms": 4, "dashes": DASHES[n % len(DASHES)]}
    ours = row["library"] == "headtohead"
    name = row["name"] if ours else f"{row['name']} ({row['library']})"
    axes.plot(*zip(*values.items(), strict=True) if values else ([], []), label=name, lw=1.8 if ours else 0.8, **style)


if __name__ == "__main__":
    draw(json.loads(MEASURED.read_text(encoding="utf-8")), PICTURE)
