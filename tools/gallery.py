"""Draw the README's pictures from the stored results into docs/pictures/published: python tools/gallery.py"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from headtohead.claims.evidence import measures_of, rows_of, value_in
from headtohead.errors import InputError
from headtohead.figures.style import ARMS, GRID, QUIET, looks
from headtohead.outcome.outcome import Outcome
from headtohead.run.store import Record
from stored_results import ROOT, Load, exit_with, stored_studies

WIDE, USUAL = (9.6, 3.8), (6.4, 3.8)  # inches


@dataclass(frozen=True)
class Picture:
    """A picture of the README, and how it is drawn."""

    name: str
    says: str  # the text below it and its alternative text
    studies: tuple[str, ...]
    draw: Callable[..., None]  # takes a figure and the outcomes of the studies
    size: tuple[float, float] = USUAL

    def is_stored(self, load: Load) -> bool:
        """Whether the results of its studies are stored."""
        try:
            return all(map(load, self.studies))
        except InputError:
            return False


def drawable(load: Load) -> list[Picture]:
    """The pictures whose studies are stored."""
    return [picture for picture in PICTURES if picture.is_stored(load)]


def draw(pictures: Sequence[Picture], load: Load, folder: Path) -> Iterator[Path]:
    """Write the pictures; yields each path."""
    folder.mkdir(parents=True, exist_ok=True)
    for picture in pictures:
        with looks() as new:
            figure = new(figsize=picture.size, layout="constrained")
            picture.draw(figure, *map(load, picture.studies))
            path = folder / f"{picture.name}.png"
            figure.savefig(path, dpi=130, facecolor="white", metadata={"Software": None})
            yield path


def _plain(axes: Any) -> None:
    axes.grid(color=GRID)
    axes.spines[["top", "right"]].set_visible(False)


def _slopes(
    axes: Any, series: dict[str, np.ndarray], ticks: Sequence[str], scale: float = 1.0, *, arms: bool = False
) -> None:
    """Draw a thin line for each seed and a thick one for the mean. `series` has (2, seeds) values by name. With `arms`,
    the first name is a study's control and has its colour."""
    for n, (name, values) in enumerate(series.items(), start=0 if arms else 1):
        style = ("o-", "s--", "^:")[n % 3 if arms else (n - 1) % 3]
        axes.plot([0, 1], scale * values, color=ARMS[n], alpha=0.25, lw=1)
        axes.plot([0, 1], scale * values.mean(axis=1), style, color=ARMS[n], lw=2.4, label=name)
    axes.set_xticks([0, 1], ticks)
    axes.set_xlim(-0.3, 1.3)
    _plain(axes)


def _values(outcome: Outcome, arm: str, metric: str, table: str | None = None) -> list[float]:
    return [value_in(outcome, row, metric) for row in rows_of(outcome, arm, table)]


def _contradiction(figure: Any, nano: Outcome, speeches: Outcome) -> None:
    """Learned and sinusoidal positions, with embeddings that start large and small, in the settings of 001 and 003."""
    panels = [
        ("003's setting, own best rates", nano, "test/loss", "own best"),
        ("001's setting, one rate for all", speeches, "train/loss", "shared"),
        ("001's setting, one rate for all", speeches, "test/loss", "shared"),
    ]
    for axes, (title, outcome, metric, table) in zip(figure.subplots(1, len(panels)), panels, strict=True):
        series = {
            f"embeddings start at {start}": np.array(
                [_values(outcome, f"{positions} (start {start})", metric, table) for positions in ("learned", "waves")]
            )
            for start in ("1", "0.02")
        }
        _slopes(axes, series, ("learned\npositions", "sinusoidal\npositions"))
        axes.set_ylabel(f"{metric}, nats")
        axes.set_title(title, loc="left")
    figure.legend(*axes.get_legend_handles_labels(), loc="outside lower center", ncols=2, frameon=False)


def _future(figure: Any, *outcomes: Outcome) -> None:
    """The loss of the same tokens followed by their own text and by another: equal for a causal model."""
    axes = figure.subplots()
    arms: dict[str, Outcome] = {}
    for outcome in outcomes:
        for _, name in outcome.rows:
            arms.setdefault(name, outcome)
    for n, (name, outcome) in enumerate(arms.items()):
        own, other = (np.array(_values(outcome, name, metric)) for metric in ("own/loss", "other/loss"))
        axes.plot(1000 * (other - own), np.full(len(own), n), "o", color=ARMS[1], alpha=0.35, ms=6)
    axes.axvline(0, color=QUIET, lw=1)
    axes.set_yticks(range(len(arms)), list(arms))
    axes.invert_yaxis()
    axes.set_xlabel("loss before another text − loss before its own,\nthousandths of a nat")
    _plain(axes)


def _memorised(figure: Any, outcome: Outcome) -> None:
    axes = figure.subplots()
    series = {
        name: np.array([_values(outcome, name, metric) for metric in ("seen/accuracy", "unseen/accuracy")])
        for _, name in outcome.rows
    }
    _slopes(
        axes, series, ("test sentences that\nare in the training set", "test sentences\nthat are not"), 100, arms=True
    )
    axes.set_ylabel("accuracy, %")
    axes.axhline(100 / 3, color=QUIET, lw=1, ls=":")
    axes.annotate("chance", (-0.27, 100 / 3), (0, 4), textcoords="offset points", color=QUIET)
    axes.set_ylim(0, 103)
    axes.legend(frameon=False, loc="lower left", bbox_to_anchor=(0, 0.35))


def _rates(figure: Any, outcome: Outcome) -> None:
    axes = figure.subplots()
    rows = {float(name.split("=")[1]): runs for (_, name), runs in outcome.rows.items()}
    by_rate = {rate: [value_in(outcome, row, outcome.metric) for row in runs] for rate, runs in sorted(rows.items())}
    finite = {rate: [v for v in values if math.isfinite(v)] for rate, values in by_rate.items()}
    for rate, values in finite.items():
        axes.plot([rate] * len(values), values, "o", color=ARMS[1], alpha=0.35, ms=5)
    axes.plot([r for r, v in finite.items() if v], [np.mean(v) for v in finite.values() if v], color=ARMS[1], lw=1.8)
    first = next(iter(outcome.rows.values()))[0]
    known = measures_of(Record.at(outcome.home, first.run)).get("frequencies/loss")
    if known is not None:
        axes.axhline(known, color=ARMS[2], ls="--")
        middle = math.sqrt(min(rows) * max(rows))
        axes.annotate("token frequencies alone", (middle, known), (0, 4), textcoords="offset points", color=ARMS[2])
    axes.set_xscale("log")
    axes.set_xticks(list(finite), [f"{rate:.0e}".replace("e-0", "e-") for rate in finite], fontsize=8)
    axes.set_xticks([], minor=True)
    axes.set_xlabel("learning rate")
    axes.set_ylabel(f"{outcome.metric}, nats")
    _plain(axes)


def _sooner(figure: Any, outcome: Outcome) -> None:
    axes = figure.subplots()
    for n, ((_, name), runs) in enumerate(outcome.rows.items()):
        looks = [Record.at(outcome.home, row.run).metrics for row in runs]
        curves = [{x["step"]: x["train/loss"] for x in one if x.get("train/loss") is not None} for one in looks]
        steps = sorted(set.intersection(*(set(c) for c in curves)))
        values = np.array([[c[s] for s in steps] for c in curves])
        axes.plot(steps, values.mean(axis=0), ["-", "--", ":"][n % 3], color=ARMS[n], lw=2, label=name)
        axes.fill_between(steps, values.min(axis=0), values.max(axis=0), color=ARMS[n], alpha=0.1, lw=0)
    axes.set_xlabel("step")
    axes.set_ylabel("train/loss, nats")
    axes.legend(frameon=False, loc="upper right")
    _plain(axes)


def _sharpening(figure: Any, outcome: Outcome) -> None:
    axes = figure.subplots()
    runs = rows_of(outcome, "control", None)
    found = [measures_of(Record.at(outcome.home, row.run)) for row in runs]
    steps = sorted(int(k.split("/")[1]) for k in found[0] if k.startswith("entropy/") and k.split("/")[1].isdigit())
    values = np.array([[f[f"entropy/{s}"] for s in steps] for f in found])
    axes.plot(steps, values.T, color=ARMS[1], alpha=0.25, lw=1)
    axes.plot(steps, values.mean(axis=0), "o-", color=ARMS[1], lw=2.4)
    axes.set_xlabel("step")
    axes.set_ylabel("entropy of attention, nats")
    axes.text(0.99, 0.95, "lower is sharper", transform=axes.transAxes, ha="right", color=QUIET)
    _plain(axes)


PICTURES = (
    Picture(
        "contradiction",
        "Learned against sinusoidal positions where embeddings start large and where they start small",
        ("beginnings-nano", "beginnings-speeches"),
        _contradiction,
        WIDE,
    ),
    Picture(
        "memorised",
        "The reports' classifiers on test sentences that they were trained on, and on those that they were not",
        ("classifier-published",),
        _memorised,
    ),
    Picture(
        "future",
        "What the same tokens cost before another future: nothing, unless a model reads it",
        ("nano-heads", "nano-readings"),
        _future,
    ),
    Picture(
        "learning-rates",
        "Validation loss by learning rate, and what knowing no more than token frequencies would give",
        ("learning_rates",),
        _rates,
    ),
    Picture(
        "sooner",
        "Training loss of the encoder with three kinds of positions, step by step",
        ("classifier-fresh",),
        _sooner,
    ),
    Picture(
        "sharpening",
        "Entropy of attention while the decoder learns, a line for each seed",
        ("sharpening",),
        _sharpening,
    ),
)


def main() -> None:
    with stored_studies() as load:
        for path in draw(drawable(load), load, ROOT / "docs/pictures/published"):
            print(f"drew {path}")


if __name__ == "__main__":
    exit_with(main)
