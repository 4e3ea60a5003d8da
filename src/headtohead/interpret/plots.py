"""Pictures of how heads develop over training, and of what each head adds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from headtohead.errors import InputError
from headtohead.figures.style import ARMS, GRID, INK, QUIET, looks
from headtohead.interpret.evolution import MEASURES, Evolution
from headtohead.interpret.surgery import ONE_HEAD_ONLY, Effect, Surgery

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MARKS = ("o", "s", "^", "D", "v", "P", "X", "*")  # so that heads differ by more than colour


def lines(e: Evolution) -> Figure:
    """Draw every measure over the steps: a column for each layer, a line for each head, a band over the seeds."""
    absent = e.not_applicable
    names = [name for name in MEASURES if name not in absent]
    if not names:
        raise InputError(f"there is nothing to draw: {next(iter(absent.values()))}")
    L, H = e.values[names[0]].shape[2:]
    with looks() as new:
        figure = new(figsize=(max(6.4, 2.6 * L + 1.2), 1.55 * len(names) + 1.3), layout="constrained")
        panels = figure.subplots(len(names), L, squeeze=False, sharex=True, sharey="row")
        for row, name in enumerate(names):
            for layer in range(L):
                _measure(panels[row, layer], e, name, layer, H)
            panels[row, 0].set_ylabel(name, fontsize=9, color=INK)
        for layer in range(L):
            panels[0, layer].set_title(f"layer {e.layers[layer]}", fontsize=9, loc="left")
            panels[-1, layer].set_xlabel("step", fontsize=8)
        handles, labels = panels[0, 0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=min(H, 8), frameon=False, fontsize=8)
        seeds = f"{len(e.seeds)} seed{'s' if len(e.seeds) > 1 else ''}"
        band = ", bands show the range over seeds" if len(e.seeds) > 1 else ""
        missing = "".join(f"\n{name} does not apply: {why}" for name, why in absent.items())
        figure.suptitle(
            f"{e.name}: attention over training\n{seeds}{band}; {e.texts} text{'s' if e.texts > 1 else ''}{missing}",
            fontsize=11,
            x=0.01,
            ha="left",
        )
        return figure


def _measure(axes: Any, e: Evolution, name: str, layer: int, heads: int) -> None:
    for h in range(heads):
        v = e.values[name][:, :, layer, h]  # (S, N)
        colour = ARMS[(h + 1) % len(ARMS)]
        mark = {"marker": MARKS[h % len(MARKS)], "ms": 3, "markevery": max(1, len(e.steps) // 6)}
        axes.plot(e.steps, v.mean(axis=1), color=colour, lw=1.4, label=f"head {h}", **mark)
        if v.shape[1] > 1:
            axes.fill_between(e.steps, v.min(axis=1), v.max(axis=1), color=colour, alpha=0.15, lw=0)
    axes.ticklabel_format(axis="y", useOffset=False)
    axes.grid(color=GRID)
    axes.tick_params(labelsize=7)
    axes.spines[["top", "right"]].set_visible(False)


def importance(s: Surgery) -> Figure:
    """Draw what silencing each head adds to the loss, and what rearranging all heads adds."""
    grid = s.importance()
    others = [effect for effect in s.effects if effect.head is None]
    with looks() as new:
        wide, high = max(3.2, 0.85 * s.heads + 1.8), max(2.6, 0.6 * s.layers + 1.4)
        figure = new(figsize=(wide + (5.2 if others else 0), max(high, 0.36 * len(others) + 1.6)), layout="constrained")
        axes = figure.subplots(1, 2 if others else 1, squeeze=False, width_ratios=[wide, 5.2] if others else None)[0]
        most = float(np.nanmax(np.abs(grid))) or 1e-9
        drawn = axes[0].imshow(grid, cmap="PuOr_r", vmin=-most, vmax=most)
        for (layer, head), value in np.ndenumerate(grid):
            dark = abs(value) > 0.6 * most
            text = "–" if np.isnan(value) else f"{value:+.4f}".replace("-", "−")
            axes[0].text(head, layer, text, ha="center", va="center", fontsize=8, color="white" if dark else INK)
        axes[0].set_xticks(range(s.heads), [f"head {h}" for h in range(s.heads)], fontsize=8)
        axes[0].set_yticks(range(s.layers), [f"layer {n}" for n in range(s.layers)], fontsize=8)
        axes[0].tick_params(length=0)
        axes[0].set_title("one head silenced", fontsize=9, loc="left")
        figure.colorbar(drawn, ax=axes[0], shrink=0.8, label="nats added to the loss")
        if others:
            _bars(axes[1], others)
        trained = f"{s.set} loss as trained {s.loss:.4f} nats; the model is not trained again"
        trained += f"\n{ONE_HEAD_ONLY}" if s.heads == 1 else ""
        figure.suptitle(f"{s.name}, {s.models}: what each head adds\n{trained}", fontsize=11, x=0.01, ha="left")
        return figure


def _bars(axes: Any, effects: list[Effect]) -> None:
    for y, effect in enumerate(effects):
        low, high = _interval(effect)
        axes.plot([low, high], [y, y], color=INK, lw=2, solid_capstyle="round")
        axes.plot([effect.difference], [y], "o", color=INK, ms=5)
    axes.axvline(0, color=QUIET, lw=1)
    axes.set_yticks(range(len(effects)), [effect.name for effect in effects], fontsize=8)
    axes.set_ylim(len(effects) - 0.5, -0.5)
    axes.set_xlabel(
        "nats added to the loss, 95 % interval over " + ("seeds" if effects[0].seeds else "texts"), fontsize=8
    )
    axes.set_title("a layer silenced; all heads averaged or arranged", fontsize=9, loc="left")
    axes.grid(axis="x", color=GRID)
    axes.tick_params(axis="y", length=0)
    axes.spines[["top", "right", "left"]].set_visible(False)


def _interval(effect: Effect) -> tuple[float, float]:
    if effect.seeds is not None and np.isfinite(effect.seeds.low):
        return effect.seeds.low, effect.seeds.high
    if effect.items.has_interval:
        return effect.items.low, effect.items.high
    return effect.difference, effect.difference
