"""The page of attention maps, in a real browser: what it says is what the weights are, and nothing leaves it."""

from __future__ import annotations

import base64
import dataclasses
import json
import re
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from headtohead.errors import InputError
from headtohead.interpret import page as pages
from headtohead.interpret.checks import Check
from headtohead.interpret.maps import Maps
from headtohead.interpret.page import page
from helpers.maps import WORDS
from helpers.maps import random_maps as some

VIRIDIS = {0.0: (68, 1, 84), 1.0: (253, 231, 37)}


def told(html: str) -> dict[str, Any]:
    """What the page is told, weights decoded as it does."""
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', html, re.DOTALL)
    assert found
    said = json.loads(found[1])
    for run in said["runs"]:
        shape = (len(run["frames"]), len(run["layers"]), len(run["heads"]), len(run["tokens"]))
        kind = "<u2" if said["levels"] > 255 else "u1"
        tops = np.frombuffer(zlib.decompress(base64.b64decode(run["tops"])), "<f4").reshape(shape)
        cells = np.frombuffer(zlib.decompress(base64.b64decode(run["cells"])), kind).reshape(*shape, shape[-1])
        run["weights"] = tops[..., None] * (cells / said["levels"]) ** 2
    return said


# -- without a browser -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("few", "within"), [(10**9, 2e-5), (0, 5e-3)])
def test_weights_keep_their_digits(few: int, within: float, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(pages, "FEW", few)
    maps = some(3, 2, 40, 3, causal=True)
    maps.weights[0, 0, 7, :8] = [1 - 7e-9, *[1e-9] * 7]  # next to nothing is not nothing
    seen = told(page([[maps]]))["runs"][0]["weights"][0]
    assert np.abs(seen - maps.weights).max() < within
    assert np.array_equal(seen > 0, maps.weights > 0)


@pytest.mark.parametrize("causal", [False, True])
def test_long_texts_are_binned_and_rows_still_sum_to_one(causal: bool, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(pages, "ROOM", 4 * 60**2)
    maps = some(2, 2, 500, 3, causal)
    html = page([[maps]])
    run = told(html)["runs"][0]
    bins = len(run["tokens"])
    assert 50 <= bins <= (70 if not causal else 100)  # widths are whole: some fewer than there would be room for
    assert (bins > 75) == causal  # where half of the cells are empty there is room for more
    assert run["edges"][-1] == 503
    assert 500 in run["edges"]  # no bin holds both text and padding
    assert run["tokens"][1] == maps.tokens[run["edges"][1]]
    np.testing.assert_allclose(run["weights"].sum(-1), 1, atol=0.01)
    first = maps.weights[0, 1, : run["edges"][1], : run["edges"][1]].sum(-1).mean()
    assert run["weights"][0, 0, 1, 0, 0] == pytest.approx(first, rel=0.01)
    assert not run["weights"][..., : run["edges"].index(500), run["edges"].index(500) :].any()


def test_never_more_than_512_bins():
    assert len(told(page([[some(1, 1, 1024)]]))["runs"][0]["tokens"]) == 512
    assert len(told(page([[some(1, 1, 1025)]]))["runs"][0]["tokens"]) == 342


@pytest.mark.parametrize("causal", [pytest.param(False, marks=pytest.mark.slow), True])
def test_a_page_of_48_heads_and_2048_tokens_stays_small(causal: bool):
    one = some(1, 1, 2048, causal=causal)
    maps = dataclasses.replace(
        one,
        weights=np.broadcast_to(one.weights, (6, 8, 2048, 2048)),
        layers=tuple(range(6)),
        heads=tuple(range(8)),
    )
    began = time.process_time()
    html = page([[maps]])
    assert time.process_time() - began < 10
    assert len(html.encode()) < 5_000_000


def test_the_size_limit_holds_for_two_films():
    films = [[some(6, 8, 64, step=s, seed=s) for s in range(12)] for _ in range(2)]
    html = page(films)
    assert len(html.encode()) < 5_000_000
    a, b = told(html)["runs"]
    assert a["edges"] == b["edges"]


BAD: dict[str, tuple[Callable[[], Sequence[Sequence[Maps]]], str]] = {
    "no run": (list, "no maps to show"),
    "a run without maps": (lambda: [[some()], []], "no maps to show"),
    "three runs": (lambda: [[some()]] * 3, "one or two runs"),
    "other tokens at another step": (lambda: [[some(step=1), some(real=6, step=2)]], "the same tokens"),
    "steps out of order": (lambda: [[some(step=2), some(step=1)]], "in order"),
    "a step twice": (lambda: [[some(step=1), some(step=1)]], "in order"),
    "a step nobody knows": (lambda: [[some(step=None), some(step=1)]], "in order"),
}


@pytest.mark.parametrize("what", BAD)
def test_maps_that_cannot_be_shown_are_one_line(what: str):
    films, said = BAD[what]
    with pytest.raises(InputError, match=said):
        page(films())


# -- in Chromium -------------------------------------------------------------------------------------------------------


class Tab:
    """A page in the browser, with the few gestures that the tests make."""

    def __init__(self, page: Any):
        self.page = page

    def texts(self, selector: str) -> list[str]:
        return self.page.locator(selector).all_text_contents()

    def text(self, selector: str) -> str:
        return self.page.locator(selector).first.text_content()

    def map(self, which: int = 0) -> Any:
        return self.page.locator(".map:visible").nth(which)

    def point(self, i: int, j: int, n: int, which: int = 0) -> None:
        box = self.map(which).locator("canvas.picture").bounding_box()
        self.page.mouse.move(box["x"] + (j + 0.5) / n * box["width"], box["y"] + (i + 0.5) / n * box["height"])

    def readout(self, which: int = 0) -> str:
        return self.page.locator(".readout:visible").nth(which).text_content()

    def value(self, which: int = 0) -> float:
        return float(self.readout(which).rpartition(": ")[2].partition(" (")[0])

    def press(self, *keys: str) -> None:
        for key in keys:
            self.page.keyboard.press(key)

    def view(self, name: str) -> None:
        self.page.locator(f"#views label:has-text('{name}')").click()

    def pixel(self, i: int, j: int, n: int, selector: str = ".map canvas.picture") -> tuple[int, int, int]:
        """Of a corner of the cell: its middle may hold a number."""
        script = """(canvas, at) => {
            const { width, height } = canvas;
            const copy = new OffscreenCanvas(width, height).getContext("2d", { willReadFrequently: true });
            copy.drawImage(canvas, 0, 0);
            const [i, j] = at.map(share => Math.floor(share * width));
            return [...copy.getImageData(j, i, 1, 1).data];
        }"""
        r, g, b, _ = self.page.locator(selector).first.evaluate(script, [float(k + 0.15) / n for k in (i, j)])
        return r, g, b

    def pixels(self, selector: str = ".map canvas.picture") -> str:
        return self.page.locator(selector).first.evaluate("canvas => canvas.toDataURL()")


Open = Callable[..., Tab]


@pytest.fixture
def opened(browser: Any, tmp_path: Path) -> Iterator[Open]:
    """Opens a page of these runs; at the end nothing may have left it and nothing may have been complained of."""
    wrong: list[str] = []
    contexts = []

    def go(*films: Sequence[Maps], width: int = 1200, height: int = 1500) -> Tab:
        file = tmp_path / "page.html"
        file.write_text(page(films), encoding="utf-8")
        contexts.append(browser.new_context(viewport={"width": width, "height": height}))
        tab = contexts[-1].new_page()
        tab.on("request", lambda r: None if r.url == file.as_uri() else wrong.append(f"request: {r.url[:200]}"))
        tab.on("console", lambda m: wrong.append(f"console: {m.type} {m.text}"))
        tab.on("pageerror", lambda e: wrong.append(f"error: {e}"))
        tab.on("dialog", lambda d: wrong.append(f"dialog: {d.message}"))
        tab.goto(file.as_uri())
        tab.wait_for_selector("body[data-ready]", timeout=10_000)
        return Tab(tab)

    yield go
    for context in contexts:
        context.close()
    assert wrong == []


def test_hovering_reads_the_weights(opened: Open):
    maps = some(causal=True)
    maps.weights[0, 0, 3, :4] = [0.996, 0.0034, 0.0006, 0]
    tab = opened([maps])
    for i, j in [(0, 0), (0, 4), (1, 0), (2, 1), (3, 0), (3, 2), (3, 3), (4, 0), (4, 2), (4, 4)]:
        tab.point(i, j, 5)
        assert tab.readout().startswith(f"query {i} ‘{WORDS[i]}’ → key {j} ‘{WORDS[j]}’: ")
        assert tab.value() == pytest.approx(maps.weights[0, 0, i, j], abs=6e-4)
        assert tab.texts(".map .current") == [WORDS[i], WORDS[j]]
    tab.point(3, 1, 5)
    assert tab.value() == pytest.approx(0.0034, rel=0.02)  # a small one keeps its digits


def test_a_head_is_chosen_by_click_and_by_keyboard(opened: Open):
    maps = some(2, 3)
    tab = opened([maps])
    seen = {tab.pixels()}

    def shows(layer: int, head: int) -> None:
        assert tab.value() == pytest.approx(maps.weights[layer, head, 3, 1], abs=6e-4)
        assert f"layer {layer}, head {head}" in tab.text("figure h2")
        assert f"step 500, layer {layer}, head {head}" in tab.page.title()
        chosen = tab.page.locator(".heads [aria-checked=true]")
        assert [chosen.nth(n).get_attribute("aria-label") for n in range(chosen.count())] == [
            f"layer {layer}, head {head}"
        ]
        assert tab.page.locator("#layer").input_value() == str(layer)
        assert tab.page.locator("#head").input_value() == str(head)
        seen.add(tab.pixels())

    tab.point(3, 1, 5)
    shows(0, 0)
    tab.page.get_by_role("radio", name="layer 1, head 2").click()
    shows(1, 2)
    tab.press("ArrowUp")
    shows(0, 2)
    tab.press("ArrowLeft")
    shows(0, 1)
    tab.press("j")
    shows(1, 1)
    tab.press("h", "h")
    shows(1, 0)
    tab.press("k", "l", "l", "l", "h")
    shows(0, 1)
    tab.page.locator("#layer").select_option("1")
    tab.page.locator("#head").select_option("2")
    shows(1, 2)
    assert len(seen) == 6  # each head has its own picture
    for thumb, (layer, head) in enumerate(np.ndindex(2, 3)):
        picture = f".heads .thumb >> nth={thumb} >> canvas"
        dark, light = (tab.pixel(*np.unravel_index(f(maps.weights[layer, head]), (5, 5)), 5, picture) for f in EXTREMES)
        assert sum(dark) < sum(light)


EXTREMES = (np.argmin, np.argmax)


def test_training_slides_plays_and_jumps(opened: Open):
    steps = [0, 100, 250, 1000]
    film = [
        some(seed=n, step=s, answers=((f"word{n}", 0.9 - n / 10),), checks=(Check("rows", "proved", f"said {n}"),))
        for n, s in enumerate(steps)
    ]
    tab = opened(film)
    tab.point(2, 4, 5)
    heads: dict[int, str] = {}

    def shows(n: int) -> None:
        assert heads.setdefault(n, tab.pixels(".heads canvas")) == tab.pixels(".heads canvas")
        assert tab.value() == pytest.approx(film[n].weights[0, 0, 2, 4], abs=6e-4)
        assert tab.text("#when") == f"step {steps[n]:,}"
        assert f"step {steps[n]:,}, layer" in tab.text("figure h2")
        assert f"step {steps[n]:,}, layer" in tab.page.title()
        assert tab.texts(".answers td.number") == [f"{0.9 - n / 10:.3f}"]
        assert tab.texts(".answers th") == [f"word{n}"]
        assert tab.texts(".checks li") == [f"✓rows, proved: said {n}"]
        assert tab.page.locator("#step").get_attribute("aria-valuetext") == f"step {steps[n]:,}"
        assert tab.page.locator("[aria-current=step]").get_attribute("aria-label") == f"step {steps[n]:,}"

    shows(3)  # the trained model first
    tab.page.locator("#step").fill("1")
    shows(1)
    tab.press("[")
    shows(0)
    tab.press("[", "]", "]")
    shows(2)
    tab.page.locator("#after").click()
    shows(3)
    tab.page.locator("#before").click()
    shows(2)
    tab.page.locator("#step").focus()
    tab.press("ArrowLeft")
    shows(1)
    assert tab.texts(".strip .thumb") == ["0", "100", "250", "1,000"]
    tab.page.locator(".strip .thumb").nth(3).click()
    shows(3)
    assert len(set(heads.values())) == 4  # the small pictures go along
    for n, maps in enumerate(film):
        brightest = np.unravel_index(maps.weights[0, 0].argmax(), (5, 5))
        picture = f".strip .thumb >> nth={n} >> canvas"
        assert sum(tab.pixel(*brightest, 5, picture)) > 300
    tab.page.clock.install()
    tab.press("p")
    shows(0)
    assert tab.text("#play") == "Stop"
    tab.page.clock.run_for(700)
    shows(1)
    tab.page.clock.run_for(5000)
    shows(3)
    assert tab.text("#play") == "Play"


def test_a_long_training_has_a_strip_of_ten_steps(opened: Open):
    tab = opened([some(1, 1, step=s) for s in range(30)])
    labels = [int(x) for x in tab.texts(".strip .thumb")]
    assert (len(labels), labels[0], labels[-1]) == (10, 0, 29)
    assert tab.page.locator(".spark").count() == 5


def test_two_runs_side_by_side_and_their_difference(opened: Open):
    a = [some(seed=n, step=s) for n, s in enumerate([0, 100, 200])]
    b = [some(seed=n + 7, step=s, name="run 5eed: lm", padding=2) for n, s in enumerate([0, 130])]
    tab = opened(a, b)
    assert tab.page.locator(".map:visible").count() == 2

    def shows(n: int, m: int) -> None:
        x, y = float(a[n].weights[0, 0, 1, 3]), float(b[m].weights[0, 0, 1, 3])
        tab.view("Map")
        tab.point(1, 3, 5)
        assert (tab.value(0), tab.value(1)) == (pytest.approx(x, abs=6e-4), pytest.approx(y, abs=6e-4))
        assert f"step {a[n].step}, layer" in tab.texts("figure h2")[0]
        assert f"run 5eed: lm, step {b[m].step}, layer" in tab.texts("figure h2")[1]
        tab.view("Difference")
        assert tab.page.locator(".map:visible").count() == 1
        tab.point(1, 3, 5)
        said = re.search(r": A (\S+) − B (\S+) = ([+−])(\S+)$", tab.readout())
        assert said
        assert float(said[1]) == pytest.approx(x, abs=6e-4)
        assert float(said[2]) == pytest.approx(y, abs=6e-4)
        assert said[3] == ("+" if x > y else "−")
        assert float(said[4]) == pytest.approx(abs(x - y), abs=6e-4)
        r, _, blue = tab.pixel(1, 3, 5, ".map:visible canvas.picture")
        assert (r > blue) == (x > y)  # orange: A more, blue: B more

    assert tab.page.locator("#step").get_attribute("max") == "3"  # 0, 100, 130, 200
    shows(2, 1)
    tab.press("[")
    shows(1, 1)  # 130: A's nearest is 100
    tab.press("[")
    shows(1, 1)
    tab.press("[")
    shows(0, 0)
    assert tab.text("figure:visible h2").endswith("step 0, layer 0, head 0")


def test_equal_maps_are_reported_in_words(opened: Open):
    other = some(1, 3, tokens=("an", "other", "way", "to", "cut"), seed=1)
    tab = opened([some(2, 2)], [other])
    tab.view("Difference")
    assert "different tokens" in tab.text(".absent:visible")
    assert tab.page.locator(".map:visible").count() == 0
    tab.view("Map")
    tab.point(2, 1, 5, 1)
    assert tab.value(1) == pytest.approx(other.weights[0, 0, 2, 1], abs=6e-4)
    assert "‘way’" in tab.readout(1)
    assert "Point at" in tab.readout(0)  # the other run's tokens are others
    tab.press("j")
    assert tab.texts(".absent:visible") == ["Run B has no layer 1, head 0: it shows layer 0 and heads 0 to 2."]
    assert tab.page.locator(".map:visible").count() == 1

    same = opened([some(2, 2)], [some(1, 2)])
    same.press("j")
    same.view("Difference")
    assert "Run B has no layer 1" in same.text(".absent:visible")
    same.press("k")
    assert same.page.locator(".map:visible").count() == 1


def test_lines_are_as_dark_as_their_weights(opened: Open):
    w = np.zeros((1, 2, 4, 4), np.float32)
    w[0, 1, :3, :3] = [[1, 0, 0], [0.25, 0.75, 0], [0.3, 0.695, 0.005]]
    w[0, 1, 3] = [0.2, 0.4, 0.4, 0]
    tab = opened([some(1, 2, 3, 1, weights=w)])
    tab.press("l")
    tab.view("Lines")
    script = "all => all.map(l => [l.dataset.query, l.dataset.key, l.getAttribute('stroke-opacity')].map(Number))"
    lines = {(i, j): o for i, j, o in tab.page.locator("svg.lines line").evaluate_all(script)}
    # neither the padding's own query nor what is next to nothing has a line
    assert lines == {
        (0, 0): 1,
        (1, 0): pytest.approx(0.25, abs=1e-3),
        (1, 1): pytest.approx(0.75, abs=1e-3),
        (2, 0): pytest.approx(0.3, abs=1e-3),
        (2, 1): pytest.approx(0.695, abs=1e-3),
    }
    ends = tab.page.locator("line[data-query='2'][data-key='1']").evaluate(
        "l => [l.y1, l.y2].map(y => y.baseVal.value)"
    )
    places = tab.page.locator("svg.lines text[data-side]").evaluate_all(
        "all => Object.fromEntries(all.map(t => [t.dataset.side + t.dataset.index, Number(t.getAttribute('y'))]))"
    )
    assert ends == pytest.approx([places["query2"] - 4, places["key1"] - 4])
    seen = "svg.lines line[visibility=visible]"
    assert tab.page.locator(seen).count() == 5
    tab.page.locator("svg.lines text[data-side=query]").nth(1).hover()
    assert tab.page.locator(seen).count() == 2
    assert tab.readout() == "query 1 ‘people’ looks at key 1 ‘people’ 0.750, key 0 ‘the’ 0.250"
    tab.page.locator("svg.lines text[data-side=key]").nth(0).hover()
    assert tab.page.locator(seen).count() == 3
    assert tab.readout().startswith("key 0 ‘the’ is looked at by query 0 ‘the’ 1.000, query 2 ‘of’ 0.300")
    tab.page.mouse.move(2, 2)
    assert tab.page.locator(seen).count() == 5
    tab.page.locator("svg.lines").focus()
    tab.press("ArrowDown", "ArrowDown")
    assert tab.readout().startswith("query 1 ‘people’ looks at")
    tab.press("ArrowRight", "ArrowUp")
    assert tab.readout().startswith("key 0 ‘the’ is looked at by")
    tab.page.locator("#rows").check()
    assert float(tab.page.locator("line[data-query='1'][data-key='0']").get_attribute("stroke-opacity")) == (
        pytest.approx(1 / 3, abs=1e-3)
    )


def test_colours_show_the_weight(opened: Open):
    w = np.array([[1, 0, 0, 0], [0.5, 0.5, 0, 0], [0.1, 0.8, 0.1, 0], [0, 0, 0, 0]], np.float32)[None, None]
    maps = some(1, 1, 3, 1, weights=w)
    tab = opened([maps])
    assert tab.pixel(0, 0, 4) == VIRIDIS[1.0]
    assert tab.pixel(0, 1, 4) == (255, 255, 255)  # no weight at all
    assert tab.pixel(2, 0, 4) == pytest.approx((49, 104, 142), abs=12)  # √0.1 = 0.316
    assert "square root" in tab.text(".bar")
    tab.page.locator("#scale").select_option("linear")
    assert tab.pixel(2, 0, 4) == pytest.approx((72, 40, 120), abs=12)  # 0.1
    assert "colour by the weight" in tab.text(".bar")
    tab.page.locator("#rows").check()
    assert tab.pixel(1, 0, 4) == VIRIDIS[1.0]
    assert tab.pixel(2, 1, 4) == VIRIDIS[1.0]
    assert "largest of its row" in tab.text(".bar")
    tab.page.locator("#rows").uncheck()
    tab.page.locator("#scale").select_option("log")
    assert tab.pixel(2, 0, 4) == pytest.approx((94, 201, 98), abs=12)  # 1 + log10(0.1) / 4 = 0.75
    assert "logarithm" in tab.text(".bar")
    assert tab.texts(".bar .ticks span")[-1] == "1"


def test_padding_truncation_and_unknown_tokens_are_stated(opened: Open):
    maps = some(1, 1, 4, 2, cut=9, unknown=1)
    maps.weights[0, 0, 1, 5] = 0.3  # a leak: it must be seen
    tab = opened([maps])
    assert tab.text(".notes") == (
        "4 tokens and 2 of padding · the last 9 of 13 tokens are cut: the block is 4 · 1 unknown to the vocabulary"
    )
    assert tab.texts(".map .key.padding") == ["<pad>", "<pad>"]
    assert "padding" in tab.text(".bar")
    greys = {tab.pixel(i, j, 6) for i, j in [(0, 4), (0, 5), (3, 4), (5, 5), (4, 0), (5, 3)]}
    assert all(r > 200 and abs(r - b) < 20 for r, _, b in greys)
    r, _, b = tab.pixel(1, 5, 6)
    assert abs(r - b) > 60
    tab.point(1, 5, 6)
    assert tab.readout().endswith("key 5 ‘<pad>’: 0.300 (padding)")
    tab.point(5, 0, 6)
    assert "a query of padding" in tab.readout()


def test_bins_are_stated(opened: Open, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(pages, "ROOM", 30**2)
    tab = opened([some(1, 1, 2048)])
    assert "2,048 tokens in 30 bins" in tab.text(".notes")
    tab.point(0, 29, 30)
    assert re.match(r"queries 0–68 ‘the …’ → keys 2001–2047 ‘\w+ …’: 0\.02\d$", tab.readout())
    assert tab.texts(".map .query:not(.current)")[0] == "0: the"
    tab.view("Lines")
    tab.page.locator("svg.lines text[data-side=query]").nth(1).hover()
    assert tab.readout().startswith("queries 69–137 ‘")


def test_broken_checks_are_shown_as_alerts(opened: Open):
    checks = (
        Check("rows", "proved", "every row sums to one"),
        Check("future", "broken", "weight 0.2 on a later token"),
        Check("block", "not claimed", "5 tokens fit"),
    )
    film = [some(step=1, checks=checks), some(step=2)]
    tab = opened(film)
    assert not tab.page.locator("#alarm").is_visible()
    tab.press("[")
    assert tab.page.locator("#alarm").is_visible()
    assert tab.text("#alarm").startswith("✗ Broken")
    assert "weight 0.2 on a later token" in tab.text("#alarm")
    assert tab.texts(".checks li") == [
        "✓rows, proved: every row sums to one",
        "✗future, BROKEN: weight 0.2 on a later token",
        "–block, not claimed: 5 tokens fit",
    ]
    assert "solid" in tab.page.locator(".checks .broken").evaluate("li => getComputedStyle(li).borderStyle")


def test_a_row_that_is_not_a_number_is_stated(opened: Open):
    maps = some(1, 1, answers=(("rest", float("nan")),))
    maps.weights[0, 0, 1, 1] = np.inf
    maps.weights[0, 0, 2] = np.nan
    tab = opened([maps])
    for i in (1, 2):
        tab.point(i, 1, 5)
        assert tab.readout().endswith("not a number")
    tab.point(3, 1, 5)
    assert tab.value() == pytest.approx(maps.weights[0, 0, 3, 1], abs=6e-4)
    assert tab.texts(".answers td.number") == ["not a number"]


def test_the_numbers_of_a_head_are_shown(opened: Open):
    w = np.zeros((1, 3, 5, 5), np.float32)
    w[0, 0, :4, :4] = 0.25
    w[0, 1, :4, :4] = np.eye(4)[[0, 0, 1, 2]]  # the previous token, the first its own
    w[0, 2, :4, :4] = np.eye(4)
    tab = opened([some(1, 3, 4, 1, weights=w)])

    def numbers() -> list[str]:
        return tab.texts("td.number")[2:]  # after the answers

    assert numbers() == ["1.39 nats", "1.3 tokens", "0.250", "0.250", "0.250"]
    tab.press("l")
    assert numbers() == ["0.00 nats", "0.8 tokens", "0.500", "1.000", "0.250"]
    tab.press("l")
    assert numbers() == ["0.00 nats", "0.0 tokens", "0.250", "0.000", "1.000"]


def test_a_classifier_without_snapshots_and_a_part_of_its_heads(opened: Open):
    maps = dataclasses.replace(
        some(4, 6, task="classifier", answers=(("obama", 0.7), ("wbush", 0.3)), step=None).only([3], [4, 5])
    )
    tab = opened([maps])
    assert "Prediction" in tab.texts("h3")
    assert not tab.page.locator("#time").is_visible()
    assert not tab.page.locator(".strip").is_visible()
    assert "evaluate.snapshots" in tab.text("#still")
    assert "layer 3, head 4" in tab.text("figure h2")
    tab.press("l")
    tab.point(0, 0, 5)
    assert tab.value() == pytest.approx(maps.weights[0, 1, 0, 0], abs=6e-4)


def test_every_control_works_by_keyboard(opened: Open):
    film = [some(seed=n, step=n) for n in range(3)]
    tab = opened(film, [some(seed=9, step=2)])
    focused = "document.activeElement"
    stops = []
    for _ in range(40):
        tab.press("Tab")
        name = tab.page.evaluate(f"{focused}.id || {focused}.name || {focused}.className || {focused}.tagName")
        if name == "BODY":
            break
        stops.append(name)
        outlined = f"getComputedStyle({focused}.closest('.switch label') ?? {focused}).outlineStyle"
        assert tab.page.evaluate(outlined) != "none", name
    assert stops[:6] == ["view", "layer", "head", "scale", "rows", "before"]
    assert stops.count("map") == 2
    assert sum("thumb" in stop for stop in stops) == 3 + 2  # the strip, and one stop for each grid of heads
    tab.map().focus()
    tab.press("ArrowDown")
    assert tab.readout().startswith("query 0 ‘the’ → key 0 ‘the’")
    tab.press("ArrowDown", "ArrowDown", "ArrowRight", "ArrowRight", "ArrowRight", "ArrowLeft", "ArrowUp")
    assert tab.readout().startswith("query 1 ‘people’ → key 2 ‘of’")
    assert tab.value() == pytest.approx(film[2].weights[0, 0, 1, 2], abs=6e-4)
    assert tab.readout(1).startswith("query 1 ‘people’ → key 2 ‘of’")  # the other run's cursor comes along
    tab.press("[")
    assert tab.value() == pytest.approx(film[1].weights[0, 0, 1, 2], abs=6e-4)
    tab.press(*["ArrowRight"] * 9, *["ArrowDown"] * 9)
    assert tab.readout().startswith("query 4 ‘will’ → key 4 ‘will’")
    tab.press(*["ArrowLeft"] * 9, *["ArrowUp"] * 9)
    assert tab.readout().startswith("query 0 ‘the’ → key 0 ‘the’")
    tab.press("v")
    assert tab.page.locator("svg.lines:visible").count() == 2
    tab.press("v")
    assert tab.page.locator("input[value=difference]").is_checked()
    tab.press("v")
    assert tab.page.locator(".map:visible").count() == 2
    assert tab.page.locator(".readout").first.get_attribute("aria-live") == "polite"


HOSTILE = (
    "<img src=x onerror=alert(1)>",
    "</script><script>alert(2)</script>",
    "<!--<script>",
    "&lt;b&gt;",
    "שלום",
    "\u202eevil",
    "e\u0301",
    "\u0301",
    "👩‍👧",
    "\x00\x07",
    "\n",
    " the ",
    "",
    "{{ 7*7 }}'\"`${1}\\",
    "\ud800",
)


def test_hostile_tokens_stay_text(opened: Open):
    tokens = HOSTILE
    maps = some(1, 1, len(tokens), tokens=tokens, answers=tuple((t, 0.1) for t in tokens))
    name = "run <img src=x onerror=alert(3)> {{ 7*7 }}"
    maps = dataclasses.replace(maps, name=name, checks=(Check("rows", "broken", HOSTILE[1]),))
    tab = opened([maps], [dataclasses.replace(maps, step=1)])
    for view in ("Map", "Lines", "Difference"):
        tab.view(view)
        for n in range(len(tokens) if view == "Map" else 3):
            if view == "Lines":
                tab.page.locator("svg.lines:visible text[data-side=key]").nth(n).hover()
            else:
                tab.point(n, n, len(tokens))
        assert tab.page.locator("img, iframe, [onerror]").count() == 0
        assert tab.page.locator("script").count() == 2
    tab.view("Map")
    labels = tab.texts("figure >> nth=0 >> .map .query:not(.current)")
    assert labels == [
        *HOSTILE[:5],
        "‹202e›evil",
        "e\u0301",
        "◌\u0301",
        "👩‍👧",
        "‹0›‹7›",
        "↵",
        "␣the␣",
        "∅",
        HOSTILE[13],
        "‹d800›",
    ]
    tab.point(0, 4, len(tokens))
    assert tab.readout().startswith(f"query 0 ‘{tokens[0]}’ → key 4 ‘שלום’: ")
    assert tab.text(".answers th") == tokens[0]
    assert name in tab.text("figure h2")
    assert name in tab.page.title()
    assert HOSTILE[1] in tab.text("#alarm")


@pytest.mark.parametrize("real", [29, 90])
def test_a_phone_shows_it_all(opened: Open, real: int):
    long = dataclasses.replace(some(2, 12, real, 3), name="run " + "a" * 80)
    film = [dataclasses.replace(long, step=s) for s in (1, 2, 100_000)]
    tab = opened(film, film, width=390, height=800)
    for view in ("Map", "Lines", "Difference"):
        tab.view(view)
        assert tab.page.evaluate("document.documentElement.scrollWidth") <= 390
        small = tab.page.evaluate(
            """() => [...document.querySelectorAll("body *")].filter(e => e.checkVisibility() && e.tagName !== "SCRIPT"
                 && [...e.childNodes].some(n => n.nodeType === 3 && n.data.trim())
                 && parseFloat(getComputedStyle(e).fontSize) < 12).map(e => e.outerHTML.slice(0, 80))"""
        )
        assert small == []
        outside = tab.page.evaluate(
            """() => [...document.querySelectorAll("body *")].filter(e => e.checkVisibility() && e.tagName !== "SCRIPT")
                 .filter(e => { const b = e.getBoundingClientRect(); return b.right > 391 || b.left < -1; })
                 .filter(e => !e.closest("legend")).map(e => e.outerHTML.slice(0, 80))"""
        )
        assert outside == []
    tab.view("Map")
    tab.map().scroll_into_view_if_needed()
    box = tab.map().locator("canvas.picture").bounding_box()
    assert box["width"] > 230
    tab.point(2, 1, real + 3)
    assert tab.value() == pytest.approx(film[2].weights[0, 0, 2, 1], abs=6e-3)
    # labels do not lie upon each other
    tops = tab.page.locator("figure >> nth=0 >> .map .query:not(.current)").evaluate_all(
        "all => all.map(e => e.getBoundingClientRect().top)"
    )
    assert min(np.diff(tops)) >= 12


def test_a_tap_reads_a_cell(browser: Any, tmp_path: Path):
    maps = some(1, 1)
    file = tmp_path / "page.html"
    file.write_text(page([[maps]]), encoding="utf-8")
    context = browser.new_context(viewport={"width": 390, "height": 900}, has_touch=True)
    tab = context.new_page()
    tab.goto(file.as_uri())
    tab.wait_for_selector("body[data-ready]")
    box = tab.locator("canvas.picture").bounding_box()
    tab.touchscreen.tap(box["x"] + 0.7 * box["width"], box["y"] + 0.3 * box["height"])
    assert Tab(tab).value() == pytest.approx(maps.weights[0, 0, 1, 3], abs=6e-4)
    context.close()


def test_the_page_follows_the_window_width(opened: Open):
    maps = some(real=20)
    tab = opened([maps], width=1200)
    tab.page.set_viewport_size({"width": 420, "height": 900})
    tab.page.wait_for_timeout(100)
    tab.map().scroll_into_view_if_needed()
    tab.point(4, 0, 20)
    assert tab.value() == pytest.approx(maps.weights[0, 0, 4, 0], abs=6e-4)
    assert tab.page.evaluate("document.documentElement.scrollWidth") <= 420
