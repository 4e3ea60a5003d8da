"""Learning curves to hover, zoom and toggle: Altair says what is drawn, Vega draws it, and both go into the page.

What a reader does is a parameter of the chart: the arms that are shown, the steps from and to, whether bands are drawn,
the step that is looked at. templates/curves.js sets them, from a mouse, a finger or a keyboard alike.
"""

from __future__ import annotations

import contextlib
import hashlib
import math
import re
from importlib.metadata import version
from pathlib import Path
from typing import Any

from headtohead.data.cache import cache_folder, on_stderr
from headtohead.errors import InputError
from headtohead.figures.style import ARMS, DASHES, GRID, INK, QUIET
from headtohead.report.study_curves import Along
from headtohead.run import store

HEIGHT = 330  # pixels
MARK = "// sha256 "  # before the checksum in the last line of the cached script
SNIPPET = "window.vegaEmbed = vegaEmbed;"  # what curves.js calls; it brings Vega and Vega-Lite
SHOWN = "indexof(shown, datum.arm) >= 0 && datum.step >= firstStep && datum.step <= lastStep"


def chart(found: Along) -> dict[str, Any]:
    """The data of templates/curves.js: the chart, and the name and style of the arms that it calls a0, a1, …"""
    arms = [
        {"key": f"a{n}", "name": name, "colour": ARMS[n % len(ARMS)], "dash": list(DASHES[n % len(DASHES)])}
        for n, name in ((found.numbers[name], name) for name in found.lines)
    ]
    steps = sorted({step for steps, _ in found.lines.values() for step in steps})
    return {
        "arms": arms,
        "steps": steps,
        "first": found.first,
        "bands": found.bands,
        "digits": 2 if found.percent else 4,
        "unit": " %" if found.percent else "",
        "spec": _spec(found, arms),
    }


def _spec(found: Along, arms: list[dict[str, Any]]) -> dict[str, Any]:
    import altair as alt

    keys = [arm["key"] for arm in arms]
    axis = alt.Axis(tickCount=8, tickMinStep=1)
    x = alt.X("step:Q", title="step", scale=alt.Scale(zero=False, nice=False), axis=axis)
    title = found.name + (", %" if found.percent else "")
    y, low = (alt.Y(f"{name}:Q", title=title, scale=alt.Scale(zero=False)) for name in ("_mean", "_low"))
    colour = alt.Color("arm:N", scale=alt.Scale(domain=keys, range=[a["colour"] for a in arms]), legend=None)
    dash = alt.StrokeDash("arm:N", scale=alt.Scale(domain=keys, range=[a["dash"] or [1, 0] for a in arms]), legend=None)
    # values above the top are drawn at the top and read out unchanged
    top = f"(datum.step < {found.first} ? datum.high : {1e300 if math.isinf(found.top) else found.top})"
    at_most = {f"_{name}": f"min(datum.{name}, {top})" for name in ("mean", "low", "high")}
    seen = alt.Chart().transform_filter(SHOWN).transform_calculate(**at_most)
    here = seen.transform_filter("datum.step === at")
    drawn = alt.Chart(alt.Data(values=[{}])).transform_calculate(low="dragFrom", high="dragTo")
    layers = [
        drawn.transform_filter("isNumber(datum.low)").mark_rect(color=INK, opacity=0.1).encode(x="low:Q", x2="high:Q"),
        seen.transform_filter("bands").mark_area(opacity=0.13).encode(x=x, y=low, y2="_high:Q", color=colour),
        seen.mark_line(strokeWidth=2).encode(x=x, y=y, color=colour, strokeDash=dash),
        here.mark_rule(color=QUIET).encode(x=x),
        here.mark_point(filled=True, size=55, opacity=1).encode(x=x, y=y, color=colour),
    ]
    if found.beyond:
        cut = seen.transform_filter(f"datum.mean > {top}")
        layers.append(cut.mark_point(shape="triangle-up", size=70, opacity=1).encode(x=x, y=y, color=colour))
    start = {"shown": keys, "bands": found.bands, "firstStep": found.first, "lastStep": _last(found)}
    params = [alt.param(name=name, value=value) for name, value in start.items()]
    params += [alt.param(name=name, value=None) for name in ("at", "dragFrom", "dragTo")]
    made = (
        alt.layer(*layers, data=alt.Data(values=_rows(found)))
        .add_params(*params)
        .properties(width="container", height=HEIGHT, autosize=alt.AutoSizeParams(type="fit-x", contains="padding"))
        .configure(font="system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', sans-serif", background="transparent")
        .configure_view(stroke=None)
        .configure_axis(
            gridColor=GRID,
            domainColor=QUIET,
            tickColor=QUIET,
            labelColor=INK,
            titleColor=INK,
            labelFontSize=12,
            titleFontSize=12,
            titleFontWeight="normal",
        )
    )
    said: dict[str, Any] = made.to_dict()
    said.pop("$schema")  # an address that the page does not need
    return said


def _last(found: Along) -> int:
    return max(steps[-1] for steps, _ in found.lines.values())


def _rows(found: Along) -> list[dict[str, Any]]:
    rows = []
    for name, (steps, values) in found.lines.items():
        means, lows, highs = values.mean(axis=0), values.min(axis=0), values.max(axis=0)
        for n, step in enumerate(steps):
            figures = {"mean": means[n], "low": lows[n], "high": highs[n]}
            said = {k: float(f"{v:.6g}") for k, v in figures.items()}
            rows.append({"arm": f"a{found.numbers[name]}", "step": step, **said})
    return rows


def vega() -> str:
    """Vega, Vega-Lite and Vega-Embed as one script, without a network: vl-convert contains them. Cached, because
    it takes longer than the rest of the page."""
    made_by = version("vl-convert-python")
    path = cache_folder() / "vega" / f"{made_by}.js"
    found = _read_script(path)
    if found is not None:
        return found
    import vl_convert

    # escape what would end the script
    script = re.sub("</(?=script)", r"<\\/", vl_convert.javascript_bundle(SNIPPET), flags=re.IGNORECASE)
    with contextlib.suppress(InputError):  # without a cache it only takes longer
        store.write_whole(path, f"{script}\n{MARK}{_sum(script)}\n")
    return script


def _read_script(path: Path) -> str | None:
    """The cached script; None if it is absent or does not match the checksum in its last line."""
    try:
        script, _, mark = path.read_text(encoding="utf-8").rstrip("\n").rpartition("\n")
    except (OSError, ValueError):
        return None
    if mark == f"{MARK}{_sum(script)}":
        return script
    on_stderr(f"{path} is damaged: made again")
    return None


def _sum(script: str) -> str:
    return hashlib.sha256(script.encode()).hexdigest()
