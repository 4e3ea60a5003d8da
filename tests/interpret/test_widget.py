"""The widget of attention maps: what Python sends, and what the page shows in a real browser."""

from __future__ import annotations

import base64
import contextlib
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from headtohead.errors import InputError
from headtohead.interpret import widget as widgets
from headtohead.interpret.checks import Check
from headtohead.interpret.maps import Maps
from headtohead.interpret.widget import STATIC, WHOLE, data, halves, longest, notes, parts
from helpers.maps import random_maps
from helpers.web import expect, open_page

ANYWIDGET = "anywidget is not installed: pip install 'headtohead[notebook]'"


def decoded(maps: Maps, start: int = WHOLE) -> np.ndarray:
    """The weights (L, H, n, n) as the page reads them."""
    sent = data(maps, start)
    n = len(sent["tokens"])
    return np.frombuffer(sent["weights"], "<f2").reshape(len(maps.layers), len(maps.heads), n, n)


# -- what is sent ------------------------------------------------------------------------------------------------------


def test_a_short_text_is_sent_token_by_token():
    maps = random_maps(2, 3, real=9, padding=3, causal=True)
    seen = decoded(maps)
    assert np.abs(seen - maps.weights[..., :9, :9]).max() < 3e-4
    assert np.array_equal(seen > 0, maps.weights[..., :9, :9] > 0)
    assert data(maps)["tokens"] == list(maps.tokens[:9])
    assert parts(maps) == []


def test_only_zero_becomes_zero():
    sent = np.frombuffer(halves(np.array([0, 1e-30, 1e-9, np.nan], np.float32)), "<f2")
    assert (sent[:3] > 0).tolist() == [False, True, True]
    assert np.isnan(sent[3])


def test_a_long_text_is_sent_in_bins_or_in_parts():
    maps = random_maps(2, 2, real=450, padding=2)
    whole = decoded(maps)
    assert whole.shape == (2, 2, 150, 150)
    np.testing.assert_allclose(whole.astype(float).sum(-1), 1, atol=0.01)
    assert parts(maps) == [0, 200, 400]
    assert np.abs(decoded(maps, 400) - maps.weights[..., 400:450, 400:450]).max() < 3e-4
    assert data(maps, 200)["edges"] == list(range(200, 401))


@pytest.mark.parametrize(("layers", "heads"), [(1, 1), (6, 8), (12, 12), (48, 64)])
def test_no_message_is_dropped_by_jupyter(layers: int, heads: int):
    few = random_maps(1, 1, real=5)
    maps = Maps(**{**vars(few), "layers": tuple(range(layers)), "heads": tuple(range(heads)), "real": 4000})
    assert 2 * layers * heads * longest(maps) ** 2 <= 2_400_000
    assert longest(maps) >= 19


def test_broken_checks_are_told():
    assert notes(random_maps(real=5))[-1] == "no check is broken"
    told = notes(random_maps(real=5, cut=3, unknown=1, checks=(Check("rows", "broken", "row 2 sums to 0.4"),)))
    assert told == [
        "5 tokens",
        "cut to the block: 3 tokens at the end are not read",
        "1 unknown to the vocabulary",
        "BROKEN: rows: row 2 sums to 0.4",
    ]


def test_a_missing_anywidget_is_one_line():
    code = (
        "import sys; sys.modules['anywidget'] = None\n"
        "from helpers.maps import random_maps\n"
        "from headtohead.errors import Unavailable\n"
        "try: random_maps().widget()\n"
        "except Unavailable as error: print(error)"
    )
    folders = f"import sys; sys.path.insert(0, {str(Path(__file__).parents[1])!r})\n"
    done = subprocess.run([sys.executable, "-c", folders + code], capture_output=True, text=True, check=True)
    assert done.stdout == "maps.widget() needs anywidget: pip install 'headtohead[notebook]'\n"


# -- the object in Python ----------------------------------------------------------------------------------------------


def test_the_choice_is_shared_with_python():
    pytest.importorskip("anywidget", reason=ANYWIDGET)
    maps = random_maps(2, 2, real=6).only(layers=[1])
    shown = maps.widget()
    assert (shown.layer, shown.head, shown.query) == (1, 0, 5)
    shown.set_state({"layer": 1, "head": 1, "query": 2})  # what a click sends
    assert maps.head(shown.layer, shown.head)[shown.query].sum() == pytest.approx(1)
    assert repr(shown) == "AttentionWidget(run 0badcafe: lm on speeches, seed 3, step 500: layer 1, head 1)"
    assert {name for name, value in shown.get_state().items() if isinstance(value, bytes)} == {"weights"}


def test_what_the_model_does_not_have_is_refused():
    pytest.importorskip("anywidget", reason=ANYWIDGET)
    shown = random_maps(2, 2, real=6).widget()
    with pytest.raises(InputError, match="there is no layer 7: this model has layers 0 to 1"):
        shown.layer = 7
    with pytest.raises(InputError, match="there is no head 2"):
        shown.head = 2
    with pytest.raises(InputError, match="query is a token from 0 to 5, not 6"):
        shown.query = 6
    assert (shown.layer, shown.head, shown.query) == (0, 0, 5)


def test_another_part_of_a_text_replaces_the_weights():
    pytest.importorskip("anywidget", reason=ANYWIDGET)
    maps = random_maps(1, 2, real=300)
    shown = maps.widget()
    assert len(shown.edges) == 151
    shown.start = 200
    assert len(shown.tokens) == 100
    assert shown.weights == halves(maps.weights[..., 200:300, 200:300])
    with pytest.raises(InputError, match="start is a token from 0 to 299, or -1 for the whole text, not 300"):
        shown.start = 300


# -- the page ----------------------------------------------------------------------------------------------------------

PAGE = """<!doctype html><html lang="en"><meta charset="utf-8"><title>widget</title><style>STYLE</style>
<body ATTRIBUTES><div id="place"></div><script type="module">
const source = SOURCE, values = VALUES, heard = {};
values.weights = new DataView(Uint8Array.from(atob(values.weights), (c) => c.charCodeAt(0)).buffer);
const model = {  // what anywidget gives to a page
  saved: [],
  get: (name) => values[name],
  set(name, value) {
    const changed = values[name] !== value;
    values[name] = value;
    if (changed) (heard[`change:${name}`] || []).forEach((hear) => hear());
  },
  save_changes() {
    const { layer, head, query, start } = values;
    this.saved.push({ layer, head, query, start });
  },
  on(name, hear) { (heard[name] ||= []).push(hear); },
  off(name, hear) { heard[name] = heard[name].filter((one) => one !== hear); },
};
const url = URL.createObjectURL(new Blob([source], { type: "text/javascript" }));
const widget = (await import(url)).default;
Object.assign(window, { model, heard, close: widget.render({ model, el: document.getElementById("place") }) });
</script>"""


@contextlib.contextmanager
def shown(browser: Any, folder: Path, maps: Maps, body: str = "", start: int = WHOLE, **page: Any) -> Iterator[Any]:
    """The page of these maps, with anywidget's model replaced by one of a few lines."""
    values = {**data(maps, start), "title": maps.name, "answer": maps.answer(), "notes": notes(maps)}
    values |= {"layers": maps.layers, "heads": maps.heads, "parts": parts(maps), "query": maps.real - 1}
    values |= {"layer": maps.layers[0], "head": maps.heads[0]}
    values["weights"] = base64.b64encode(values["weights"]).decode()
    html = PAGE.replace("STYLE", (STATIC / "attention.css").read_text()).replace("ATTRIBUTES", body)
    html = html.replace("VALUES", json.dumps(values).replace("<", "\\u003c"))
    html = html.replace("SOURCE", json.dumps((STATIC / "attention.js").read_text()).replace("</", "<\\/"))
    (folder / "widget.html").write_text(html, encoding="utf-8")
    with open_page(browser, (folder / "widget.html").as_uri(), **page) as tab:
        expect(tab.locator(".text button").first).to_be_visible()
        yield tab


def label(page: Any, k: int) -> str:
    return page.locator(".text button").nth(k).get_attribute("aria-label")


def test_a_token_shows_where_it_looks(browser: Any, tmp_path: Path):
    maps = random_maps(2, 3, real=6, causal=True)
    with shown(browser, tmp_path, maps) as page:
        expect(page.get_by_role("radio")).to_have_count(6)
        page.get_by_role("radio", name="layer 1, head 2").click()
        page.locator(".text button").nth(3).hover()
        strongest = int(maps.head(1, 2)[3].argmax())
        first = (
            f"“{maps.tokens[3]}” (3) looks at “{maps.tokens[strongest]}” ({strongest}) {maps.head(1, 2)[3].max():.3f}"
        )
        expect(page.get_by_role("status")).to_contain_text(first)
        for k in range(6):
            w = float(maps.head(1, 2)[3, k])
            said = re.search(r": (\S+?)(, the query)?$", label(page, k))
            assert said is not None
            assert float(said[1]) == pytest.approx(w, abs=1e-3)
        assert page.evaluate("model.saved.at(-1)") == {"layer": 1, "head": 2, "query": 5, "start": -1}
        page.locator(".text button").nth(3).click()
        assert page.evaluate("model.get('query')") == 3


def test_a_cell_of_the_map_shows_its_weight(browser: Any, tmp_path: Path):
    maps = random_maps(1, 1, real=4)
    with shown(browser, tmp_path, maps) as page:
        page.locator("canvas.map").focus()
        for key in ("ArrowUp", "ArrowUp", "ArrowLeft"):
            page.keyboard.press(key)
        expect(page.get_by_role("status")).to_have_text(re.compile(rf"\(1\) → .*\(2\): {maps.weights[0, 0, 1, 2]:.3f}"))
        page.keyboard.press("Enter")
        expect(page.locator(".text button").nth(1)).to_have_attribute("aria-pressed", "true")


def test_heads_are_chosen_by_arrow_keys_and_by_python(browser: Any, tmp_path: Path):
    with shown(browser, tmp_path, random_maps(2, 2, real=4)) as page:
        page.get_by_role("radio", name="layer 0, head 0").focus()
        page.keyboard.press("ArrowRight")
        page.keyboard.press("ArrowDown")
        page.keyboard.press("ArrowDown")  # there is no layer 2
        expect(page.get_by_role("radio", name="layer 1, head 1")).to_be_checked()
        expect(page.get_by_role("radio", name="layer 1, head 1")).to_be_focused()
        page.evaluate("model.set('layer', 0)")
        expect(page.get_by_role("radio", name="layer 0, head 1")).to_be_checked()
        expect(page.locator("figcaption")).to_have_text("layer 0, head 1")
        assert page.locator("[role=radio][tabindex='0']").count() == 1
        assert page.locator(".text button[tabindex='0']").count() == 1


THEMES = {
    "": "light",
    'data-jp-theme-light="false"': "dark",
    'data-jp-theme-light="true" style="background: black"': "light",
    'class="vscode-dark"': "dark",
    'class="vscode-light"': "light",
    'class="vscode-high-contrast"': "dark",
    'class="vscode-high-contrast vscode-high-contrast-light"': "light",
    'style="background: #111"': "dark",
}


@pytest.mark.parametrize("body", THEMES, ids=lambda body: body or "none")
def test_the_colours_follow_the_notebook(body: str, browser: Any, tmp_path: Path):
    with shown(browser, tmp_path, random_maps(1, 1, real=3), body) as page:
        assert page.locator(".h2h-attention").get_attribute("data-theme") == THEMES[body]


def test_the_colours_change_with_the_notebook(browser: Any, tmp_path: Path):
    with shown(browser, tmp_path, random_maps(1, 1, real=3), 'data-jp-theme-light="true"') as page:
        light = page.locator(".text button").last.get_attribute("style")
        page.evaluate("document.body.dataset.jpThemeLight = 'false'")
        expect(page.locator(".h2h-attention")).to_have_attribute("data-theme", "dark")
        expect(page.locator(".text button").last).not_to_have_attribute("style", light)


def test_a_long_text_stays_fast_and_can_be_cut(browser: Any, tmp_path: Path):
    maps = random_maps(4, 8, real=1000, causal=True)
    with shown(browser, tmp_path, maps) as page:
        assert page.locator(".text button").count() <= 200
        expect(page.get_by_role("status")).to_contain_text("tokens 99")
        longest_pause = page.evaluate(
            "async () => { let longest = 0; for (let k = 0; k < 20; k++) { const start = performance.now();"
            "document.querySelectorAll('.text button')[k * 5].dispatchEvent(new PointerEvent('pointerenter'));"
            "await new Promise(requestAnimationFrame); await new Promise(requestAnimationFrame);"
            "longest = Math.max(longest, performance.now() - start); } return longest; }"
        )
        assert longest_pause < 2000  # milliseconds, on a busy machine
        page.get_by_label("Show").select_option(label=f"tokens {parts(maps)[1]} to {parts(maps)[2] - 1}")
        assert page.evaluate("model.saved.at(-1).start") == parts(maps)[1]
    with shown(browser, tmp_path, maps, start=800) as page:
        expect(page.get_by_role("status")).to_contain_text(re.compile(r"; 0\.\d\d on tokens that are not shown"))


@pytest.mark.parametrize("dark", [False, True])
def test_the_page_is_accessible(dark: bool, browser: Any, tmp_path: Path):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe-playwright-python is not installed")
    body = f'data-jp-theme-light="{"false" if dark else "true"}"'
    with shown(browser, tmp_path, random_maps(2, 2, real=30, causal=True), body) as page:
        rules = {"region": {"enabled": False}, "landmark-one-main": {"enabled": False}}  # of whole pages
        rules["page-has-heading-one"] = {"enabled": False}
        found = axe.Axe().run(page, options={"rules": rules})
        assert found.violations_count == 0, found.generate_report()


def test_a_hostile_token_stays_text(browser: Any, tmp_path: Path):
    maps = random_maps(1, 1, real=3, tokens=("<img src=x onerror=alert(1)>", "\u202eevil", "\n"))
    with shown(browser, tmp_path, maps) as page:
        assert page.locator(".text img").count() == 0
        expect(page.locator(".text button span").nth(1)).to_have_text("�evil")
        expect(page.locator(".text button span").nth(2)).to_have_text("␣" if maps.tokens[2] == " " else "⏎")


def test_a_closed_view_hears_nothing(browser: Any, tmp_path: Path):
    with shown(browser, tmp_path, random_maps(1, 1, real=3)) as page:
        page.evaluate("window.close()")
        assert page.evaluate("Object.values(heard).every((all) => all.length === 0)")


def test_the_page_loads_nothing_from_elsewhere():
    source = (STATIC / "attention.js").read_text() + (STATIC / "attention.css").read_text()
    assert not re.search(r"https?:|//[a-z]|\bimport\b(?! default)|\burl\(|fetch\(|innerHTML|eval\(", source)


def test_the_colours_are_those_of_the_workbench():
    theirs = (STATIC.parents[1] / "web" / "static" / "heatmap.js").read_text()
    mine = (STATIC / "attention.js").read_text()
    found = [re.search(r"const WEIGHT = .*;", text) for text in (mine, theirs)]
    assert found[0] is not None
    assert found[1] is not None
    assert found[0][0] == found[1][0]
    assert widgets.WHOLE == -1
