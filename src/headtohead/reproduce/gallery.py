"""Pictures of what the reports claimed and what stored runs say, for the README: no weights, nothing trained."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from headtohead.metrics import figure_of
from headtohead.outcome import Outcome
from headtohead.report.figures import ARMS, COLOURS, GRID, INK, QUIET, looks
from headtohead.reproduce.evidence import measures_of, rows_of, value_in
from headtohead.reproduce.ledger import Judged
from headtohead.store import Record

INKS = {"holds": COLOURS["better"], "does not hold": COLOURS["worse"], "unresolved": COLOURS["unresolved"]}
SIGNS = {"holds": "o", "does not hold": "X", "unresolved": "D"}

Loaded = Callable[[str], Outcome]


def draw(claims: Sequence[Judged], loaded: Loaded, folder: Path) -> Iterator[Path]:
    """Each picture as it is written."""
    pictures = {
        "claims": lambda figure: _claims(figure, claims),
        "contradiction": lambda figure: _contradiction(figure, loaded),
        "learning-rates": lambda figure: _rates(figure, loaded("learning_rates")),
        "sooner": lambda figure: _sooner(figure, loaded("classifier-tuned")),
        "sharpening": lambda figure: _sharpening(figure, loaded("sharpening")),
    }
    sizes = {"claims": (9.6, 5.4), "contradiction": (9.6, 3.8)}
    folder.mkdir(parents=True, exist_ok=True)
    for name, drawn in pictures.items():
        with looks() as new:
            figure = new(figsize=sizes.get(name, (6.4, 3.8)), layout="constrained")
            drawn(figure)
            path = folder / f"{name}.png"
            figure.savefig(path, dpi=130, facecolor="white", metadata={"Software": None})
            yield path


def _plain(axes: Any) -> None:
    axes.grid(color=GRID)
    axes.spines[["top", "right"]].set_visible(False)


def _claims(figure: Any, claims: Sequence[Judged]) -> None:
    """Each claim's first comparison as a multiple of half its interval: beyond ± 1 is resolved. Turned so that right is
    what was claimed."""
    axes = figure.subplots()
    for y, c in enumerate(claims):
        found = next((f for f in c.findings if f.verdict is not None and math.isfinite(f.verdict.low)), None)
        axes.text(
            -0.01, y, f"{c.claim.id}  {_short(c.says)}", transform=axes.get_yaxis_transform(), ha="right", va="center"
        )
        axes.text(1.01, y, c.word, transform=axes.get_yaxis_transform(), va="center", color=INKS[c.word], weight="bold")
        if found is None or found.verdict is None:
            continue
        half = (found.verdict.high - found.verdict.low) / 2
        agrees = 1 if found.word == "holds" or (found.word == "unresolved") else -1
        at = agrees * abs(found.verdict.difference) / half if half else 0.0
        shown = math.copysign(min(abs(at), 12.0), at)
        axes.plot([shown], [y], SIGNS[c.word], color=INKS[c.word], ms=8)
    axes.axvspan(-1, 1, color=GRID, lw=0, zorder=0)
    axes.axvline(0, color=INK, lw=1)
    axes.set_ylim(len(claims) - 0.4, -0.6)
    axes.set_yticks([])
    axes.set_xlim(-13, 13)
    axes.set_xlabel("difference, in half-widths of its 95 % interval (cut at 12); right: as claimed; grey: unresolved")
    axes.spines[["top", "right", "left"]].set_visible(False)


def _short(text: str, most: int = 58) -> str:
    return text if len(text) <= most else text[: most - 1].rstrip() + "…"


def _contradiction(figure: Any, loaded: Loaded) -> None:
    """Learned positions and waves where embeddings start large and where they start small, in both settings."""
    panels = [
        ("003's setting", "beginnings-nano", "validation/loss", "own best"),
        ("001's setting, training text", "beginnings-speeches", "train/loss", "shared"),
        ("001's setting, test texts", "beginnings-speeches", "test/loss", "own best"),
    ]
    pairs = {
        "embeddings start at 1": ("learned (start 1)", "waves (start 1)"),
        "embeddings start at 0.02": ("learned (start 0.02)", "waves (start 0.02)"),
    }
    for axes, (title, study, metric, table) in zip(figure.subplots(1, len(panels)), panels, strict=True):
        outcome = loaded(study)
        for n, (name, arms) in enumerate(pairs.items()):
            values = np.array([[value_in(outcome, row, metric) for row in rows_of(outcome, a, table)] for a in arms])
            axes.plot([0, 1], values, color=ARMS[n + 1], alpha=0.25, lw=1)
            axes.plot([0, 1], values.mean(axis=1), "o-" if n == 0 else "s--", color=ARMS[n + 1], lw=2.4, label=name)
        axes.set_xticks([0, 1], ["learned\npositions", "sinusoidal\npositions"])
        axes.set_xlim(-0.3, 1.3)
        axes.set_ylabel(f"{metric}, nats")
        axes.set_title(title, loc="left")
        _plain(axes)
    figure.legend(*axes.get_legend_handles_labels(), loc="outside lower center", ncols=2, frameon=False)


def _rates(figure: Any, outcome: Outcome) -> None:
    axes = figure.subplots()
    rows = {float(name.split("=")[1]): runs for (_, name), runs in outcome.rows.items()}
    found = {rate: [value_in(outcome, row, outcome.metric) for row in runs] for rate, runs in sorted(rows.items())}
    there = {rate: [v for v in values if math.isfinite(v)] for rate, values in found.items()}
    for rate, values in there.items():
        axes.plot([rate] * len(values), values, "o", color=ARMS[1], alpha=0.35, ms=5)
    axes.plot([r for r, v in there.items() if v], [np.mean(v) for v in there.values() if v], color=ARMS[1], lw=1.8)
    first = next(iter(outcome.rows.values()))[0]
    known = measures_of(Record(outcome.home / "runs" / first.run)).get("frequencies/loss")
    if known is not None:
        axes.axhline(known, color=ARMS[2], ls="--")
        axes.annotate("token frequencies alone", (min(rows), known), (0, 4), textcoords="offset points", color=ARMS[2])
    axes.set_xscale("log")
    axes.set_xlabel("learning rate")
    axes.set_ylabel(f"{outcome.metric}, nats")
    _plain(axes)


def _sooner(figure: Any, outcome: Outcome) -> None:
    axes = figure.subplots()
    title = outcome.titles[0]
    for n, ((_, name), runs) in enumerate((k, v) for k, v in outcome.rows.items() if k[0] == title):
        curves = [
            {
                look["step"]: look["validation/accuracy"]
                for look in Record(outcome.home / "runs" / row.run).metrics
                if "validation/accuracy" in look
            }
            for row in runs
        ]
        steps = sorted(set.intersection(*(set(c) for c in curves)))
        values = 100 * np.array([[c[s] for s in steps] for c in curves])
        axes.plot(steps, values.mean(axis=0), ["-", "--", ":"][n % 3], color=ARMS[n], lw=2, label=name)
        axes.fill_between(steps, values.min(axis=0), values.max(axis=0), color=ARMS[n], alpha=0.1, lw=0)
    axes.set_xlabel("step")
    axes.set_ylabel(f"validation/{figure_of(outcome.metric)}, %")
    axes.legend(frameon=False, loc="lower right")
    _plain(axes)


def _sharpening(figure: Any, outcome: Outcome) -> None:
    axes = figure.subplots()
    runs = rows_of(outcome, "control", None)
    found = [measures_of(Record(outcome.home / "runs" / row.run)) for row in runs]
    steps = sorted(int(k.split("/")[1]) for k in found[0] if k.startswith("entropy/") and k.split("/")[1].isdigit())
    values = np.array([[f[f"entropy/{s}"] for s in steps] for f in found])
    axes.plot(steps, values.T, color=ARMS[1], alpha=0.25, lw=1)
    axes.plot(steps, values.mean(axis=0), "o-", color=ARMS[1], lw=2.4)
    axes.set_xlabel("step")
    axes.set_ylabel("entropy of attention, nats")
    axes.text(0.99, 0.95, "lower is sharper", transform=axes.transAxes, ha="right", color=QUIET)
    _plain(axes)
