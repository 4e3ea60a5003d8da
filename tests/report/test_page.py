"""The report in a real browser: hover, zoom, toggle, print, phone; nothing leaves it and nothing is complained of."""

from __future__ import annotations

import dataclasses
import itertools
import re
import subprocess
import warnings
from pathlib import Path
from typing import Any

import pytest

from headtohead.outcome.outcome import Outcome, load_outcome
from headtohead.report.findings import Audited, Extras, Picture, Sample
from headtohead.report.page import page
from headtohead.report.printed import write_figures
from headtohead.run.studies import TuningRecord
from headtohead.study.execution import folder_of
from helpers.browser import Open
from helpers.stores import stored
from helpers.studies import carried, control, study

HOSTILE = (
    "<img src=x onerror=alert(1)>",
    "</script><script>alert(2)</script>",
    "<!--<script>",
    "\"'`${1} {{ 7*7 }} \\ a.b[c]",
    "中文 🦄 שלום \u2028",
    "image",
    "L" * 300,
)


def outside_scripts(html: str) -> str:
    return re.sub(r"<script.*?</script>", "", html, flags=re.DOTALL)


# -- without a browser -------------------------------------------------------------------------------------------------


def test_the_page_has_all_sections_in_order(home: Path):
    html = outside_scripts(page(stored(home)))
    levels = [int(n) for n in re.findall(r"<h([1-6])", html)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after - before <= 1 for before, after in itertools.pairwise(levels))
    for id in re.findall(r'href="#([^"]+)"', html):
        if not id.startswith("f"):
            assert f'id="{id}"' in html, id
    headings = " ".join(re.findall(r"<h2[^>]*>(.*?)</h2>", html))
    for said in (
        "Verdicts",
        "Differences",
        "Learning curves",
        "Cost",
        "Attention",
        "Audit",
        "Configuration",
        "Failures",
        "Noise",
    ):
        assert said in headings
    assert "Rope and Alibi" not in re.findall(r'<p class="verdict">(.*?)</p>', html)[0]
    assert all('aria-label="' in svg or "aria-hidden" in svg for svg in re.findall(r"<svg[^>]*>", html))
    assert "https://" not in html
    assert "http://" not in html.replace("http://www.w3.org", "")


def test_findings_are_shown_and_broken_audits_are_alerts(home: Path):
    found = Extras(
        audits=(
            Audited("Learned", "17 proved, 0 broken, 4 do not apply"),
            Audited("Rope", "16 proved, 1 broken", (("no look ahead", "position 0 saw 1", "too good to be true"),)),
        ),
        text="a <b>text",
        maps=(Picture(b"<svg xmlns='http://www.w3.org/2000/svg'/>", "Learned, seed 0", "a map"),),
        samples=(Sample("Rope", 0, "The", " <i>people</i>"),),
        absent={"evolution": "no snapshots"},
    )
    html = page(stored(home), found)
    assert "The audit breaks Rope:" in html
    assert "The audit breaks Learned" not in html
    assert 'alt="a map"' in html
    assert "&lt;i&gt;people&lt;/i&gt;" in html
    assert "no snapshots" in html
    assert "Not audited." not in html
    assert "Not audited." in page(stored(home))


def test_every_seed_has_its_dot(home: Path):
    html = page(stored(home, {"Rope": -0.3}, seeds=9, again=False))
    forest = re.search(r"<svg[^>]*Differences.*?</svg>", html, re.DOTALL)[0]
    # two marks of the row, the ticks aside
    markers = [
        len(re.findall("<use", group)) for group in re.findall(r'<g id="[^"]*line2d_\d+">.*?</g>\s*</g>', forest, re.S)
    ]
    assert 9 in markers


def test_an_exploding_arm_is_drawn_as_an_arrow(home: Path):
    lost = {("Gone", seed): "diverged" for seed in range(6)}
    html = page(stored(home, {"Rope": -0.01, "Boom": 1e5, "Gone": 0.0}, lost=lost))
    shown = outside_scripts(html)
    forest, curves, cost = re.findall(r'<svg role="img".*?</svg>', shown, re.DOTALL)
    assert "+100,000</text>" in re.sub(r"\s+</text>", "</text>", forest)
    for svg in (forest, curves, cost):
        ticks = re.findall(r">\s*([\d.]+)\s*</text>", svg)
        assert ticks
        assert max(map(float, ticks)) < 1000
        assert "Beyond the edge, where arrows point: Boom" in svg.partition(">")[0]
    assert shown.count('<p class="quiet">Beyond the edge, where arrows point: Boom') == 3
    assert shown.count("Not drawn: Gone, of which all 6 runs diverged.</p>") == 2
    calm = outside_scripts(page(stored(home, name="calm")))
    assert "Beyond" not in calm
    assert "Not drawn" not in calm


def test_missing_seeds_and_arms_are_stated_under_the_table(home: Path):
    lost = {("Alibi", seed): "diverged" for seed in range(2)}
    html = outside_scripts(page(stored(home, {"Rope": -0.3, "Alibi": 0.1, "None": 0.2}, lost=lost)))
    assert "intervals and p are corrected for the 2 arms that have 6 pairs" in html
    assert "corrected for all 3 arms" not in html
    assert "Learned over 6, Alibi over the 4 that form pairs" in html
    assert "agree: pairs whose difference" in html
    assert "; r: correlation of arm and control" in html
    assert "the mean over 6 seeds, of Alibi 4, and a band" in html
    whole = outside_scripts(page(stored(home, name="whole")))
    assert "intervals and p are corrected for all 2 arms" in whole
    assert "means over different seeds" not in whole


def test_differences_of_accuracies_are_points_everywhere(home: Path):
    html = outside_scripts(page(stored(home, {"Rope": 0.05, "Alibi": 0.0}, task="classifier", margin=0.02)))
    text = re.sub(r"<[^>]*>", "", html)
    assert not re.search(r"[+−]\d+\.\d\d %", text)  # shares of time and FLOPs have one digit
    assert "percentage points" in text  # once, where points are explained
    assert "difference, points" in text
    assert re.search(
        r"The control against itself, new runs \(other batch order, 6 pairs\): [+−]\d\.\d\d points \(", text
    )


def test_plan_analyses_and_both_floors_are_on_the_page(home: Path):
    floor = stored(home, name="floor").record.again
    design = {"analyses": [6, 8], "reserve": 0.1, "rule": "flips", "alpha": 0.05}
    seen = {"when": "2026-11-18T10:00:00+00:00", "pairs": {"Rope": 6, "Alibi": 6}, "metric": "test/loss"}
    seen |= {"margin": None, "verdicts": {"Rope": "better", "Alibi": "unresolved"}, "number": 1}
    chaos = {str(seed): run for seed, run in list(floor.items())[:3]}
    outcome = stored(home, design=design, chaos=chaos, history=[seen], margin=0.5, published=-0.5)
    html = outside_scripts(page(outcome))
    text = re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", html))
    assert "Plan: up to 2 analyses, after 6 and 8 pairs. The margin was none" in text
    assert "2026-11-18T10:00:00+00:00 1 6 Rope: better; Alibi: unresolved none" in text
    assert "The control against itself, new runs (other batch order, 6 pairs): " in text
    assert "The control against itself, numerical chaos (same batches, weights perturbed by 1e-6, 3 pairs): " in text
    assert "Rope: the published −0.5000 is excluded" in text
    assert '<th scope="col" title="the difference, corrected for stopping early">estimate</th>' in html
    assert "1 of 2, 3.4 %" in text
    widths = {
        len(re.findall("<t[hd][ >]", row))
        for row in re.findall(r"<tr.*?</tr>", html.split('class="h2h-verdicts"')[1].split("</table>")[0], re.DOTALL)
    }
    assert widths == {14}


def test_links_lead_to_every_figure(home: Path):
    html = page(stored(home))
    for id, name in (("differences", "Differences"), ("along", "Learning curves")):
        assert f'<a href="#{id}">{name}</a>' in html
        assert f'<h2 id="{id}">' in html
    alone = page(stored(home, {}, name="alone", looks=1))
    assert 'href="#differences"' not in alone
    assert 'href="#along"' not in alone


def test_a_high_first_evaluation_is_left_out_and_stated(home: Path):
    html = outside_scripts(page(stored(home)))
    assert "The first evaluation, at step 0, is not shown, because it would flatten" in html
    curves = re.findall(r'<svg role="img".*?</svg>', html, re.DOTALL)[1]
    assert not re.search(r">\s*0\s*</text>", curves)
    assert "The first evaluation" not in outside_scripts(page(stored(home, task="classifier", name="share")))


def tuned(home: Path) -> Outcome:
    """Two tables over the same runs."""
    record = stored(home, name="tuned").record
    tables = tuple(dataclasses.replace(record.tables[0], title=title) for title in ("own best", "shared"))
    grid = ({"train.optimizer.lr": 0.1, "value": 3.0}, {"train.optimizer.lr": 0.2, "value": None})
    tuning = (TuningRecord("Rope", "validation/loss", grid, {"train.optimizer.lr": 0.1}, ()),)
    return Outcome(home / "studies" / "tuned", dataclasses.replace(record, tables=tables, tuning=tuning))


def test_a_tuned_study_has_both_tables_and_one_script(home: Path, opened: Open, tmp_path: Path):
    outcome = tuned(home)
    html = page(outcome)
    assert html.count("window.vegaEmbed=") == 1
    shown = outside_scripts(html)
    ids = re.findall(r'\bid="([^"]+)"', re.sub(r"<svg.*?</svg>", "", shown, flags=re.DOTALL))
    assert len(ids) == len(set(ids))
    assert len(re.findall('class="verdict"', shown)) == 2
    tab = opened(html)
    assert tab.locator(".chart svg").count() == 2
    names = {path.name for path in write_figures(outcome, tmp_path / "tex")}
    assert {"forest.pdf", "forest-shared.pdf", "table-shared.tex"} <= names


@pytest.mark.parametrize(("arms", "seeds", "looks", "most"), [(5, 10, 20, 3e6), (20, 50, 11, 5e6)])
def test_the_page_stays_small(home: Path, arms: int, seeds: int, looks: int, most: float):
    outcome = stored(home, {f"arm {n}": -0.01 * n for n in range(arms - 1)}, seeds=seeds, looks=looks)
    assert len(page(outcome).encode()) < most


# -- in Chromium -------------------------------------------------------------------------------------------------------


def lines(tab: Any) -> int:
    """Curves that are drawn."""
    return tab.locator(".chart .mark-line path").evaluate_all("all => all.filter(p => p.getAttribute('d')).length")


def over(tab: Any, share: float) -> None:
    """Point at a place along the x axis of the curves."""
    tab.locator(".chart").scroll_into_view_if_needed()
    box = tab.locator(".chart .background").first.bounding_box()
    tab.mouse.move(box["x"] + share * box["width"], box["y"] + box["height"] / 2)


def test_hovering_reads_the_step(home: Path, opened: Open):
    outcome = stored(home, looks=11)
    tab = opened(page(outcome))
    assert lines(tab) == 3
    over(tab, 1.0)
    text = tab.locator(".readout").text_content()
    assert text.startswith("step 500: Learned ")
    from headtohead.report.study_curves import along

    _, values = along(outcome, "").lines["Rope"]
    mean, low, high = values[:, -1].mean(), values[:, -1].min(), values[:, -1].max()
    assert f"Rope {mean:.4f} ({low:.4f} … {high:.4f})" in text
    assert tab.locator(".chart .mark-symbol path").count() == 3
    over(tab, 0.0)
    assert tab.locator(".readout").text_content().startswith("step 50:")  # not the untrained start
    tab.mouse.move(1, 1)
    assert tab.locator(".readout").text_content() == ""


def test_the_keyboard_reads_steps_too(home: Path, opened: Open):
    tab = opened(page(stored(home)))
    tab.locator(".chart").focus()
    tab.keyboard.press("ArrowRight")
    assert tab.locator(".readout").text_content().startswith("step 50:")
    tab.keyboard.press("ArrowRight")
    assert tab.locator(".readout").text_content().startswith("step 100:")
    tab.keyboard.press("End")
    assert tab.locator(".readout").text_content().startswith("step 500:")
    tab.keyboard.press("ArrowLeft")
    assert tab.locator(".readout").text_content().startswith("step 450:")
    tab.keyboard.press("Escape")
    assert tab.locator(".readout").text_content() == ""
    assert tab.locator(".readout").get_attribute("aria-live") == "polite"


def test_arms_are_toggled(home: Path, opened: Open):
    tab = opened(page(stored(home)))
    tab.get_by_label("Rope", exact=True).uncheck()
    assert lines(tab) == 2
    over(tab, 0.5)
    assert "Rope" not in tab.locator(".readout").text_content()
    tab.get_by_label("Rope", exact=True).check()
    assert lines(tab) == 3
    over(tab, 0.5)
    assert "Rope" in tab.locator(".readout").text_content()
    bands = tab.locator(".chart .mark-area path")
    drawn = bands.count()
    tab.get_by_label("bands").uncheck()
    assert bands.count() < drawn


def test_zoom_by_drag_slider_and_button(home: Path, opened: Open):
    tab = opened(page(stored(home)))
    span = tab.locator(".span")
    assert span.text_content() == "steps 50 to 500"
    over(tab, 0.40)
    tab.mouse.down()
    over(tab, 0.6)
    over(tab, 0.81)
    assert tab.locator(".chart .mark-rect path").count() == 1
    tab.mouse.up()
    assert span.text_content() == "steps 250 to 400"
    over(tab, 1.0)
    assert tab.locator(".readout").text_content().startswith("step 400:")
    tab.locator(".whole").click()
    assert span.text_content() == "steps 0 to 500"
    tab.locator(".from").focus()
    for _ in range(3):
        tab.keyboard.press("ArrowRight")
    assert span.text_content() == "steps 150 to 500"
    tab.locator(".to").focus()
    tab.keyboard.press("Home")  # never before from
    assert span.text_content() == "steps 150 to 200"


def test_print_and_no_script_show_the_static_curves(home: Path, opened: Open):
    html = page(stored(home))
    tab = opened(html)
    static, live = tab.locator(".static > svg"), tab.locator(".interactive")
    assert (static.is_visible(), live.is_visible()) == (False, True)
    tab.emulate_media(media="print")
    assert (static.is_visible(), live.is_visible()) == (True, False)
    assert not tab.locator("nav").is_visible()
    plain = opened(html, java_script_enabled=False)
    assert plain.locator(".static > svg").is_visible()
    assert not plain.locator(".interactive").is_visible()
    assert plain.locator("button:visible").count() == 0


def test_copy_buttons_work_offline(home: Path, opened: Open):
    outcome = stored(home)
    from headtohead.report.paste import latex, markdown

    for permissions in (["clipboard-read", "clipboard-write"], []):
        tab = opened(page(outcome), permissions=permissions)
        for name, text in (("LaTeX table", latex), ("Markdown table", markdown)):
            tab.get_by_label(f"Copy: {name}").click()
            tab.get_by_text(f"{name} copied").wait_for()
            if permissions:
                assert tab.evaluate("navigator.clipboard.readText()") == text(outcome.verdicts)


def test_hostile_names_stay_text(home: Path, opened: Open):
    outcome = stored(
        home, {name: -0.1 * n for n, name in enumerate(HOSTILE)}, question=HOSTILE[1], control=HOSTILE[0] + "!"
    )
    tab = opened(page(outcome))
    assert tab.title() == HOSTILE[1]
    assert tab.locator("h1").text_content() == HOSTILE[1]
    assert tab.locator("img, iframe, [onerror]").count() == 0
    named = tab.locator("fieldset label").all_text_contents()
    assert [" ".join(n.split()) for n in named] == [" ".join(n.split()) for n in (HOSTILE[0] + "!", *HOSTILE)]
    over(tab, 0.7)
    text = tab.locator(".readout").text_content()
    for name in HOSTILE:
        assert name in text
    assert tab.locator("img, iframe, [onerror]").count() == 0
    assert tab.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth") <= 0


def test_a_phone_shows_it_all(home: Path, opened: Open):
    tab = opened(page(stored(home, {"L" * 80: -0.1, "Rope": 0.1})), width=390, height=800, has_touch=True)
    assert tab.evaluate("document.documentElement.scrollWidth") <= 390
    chart = tab.locator(".chart svg").bounding_box()
    assert chart["width"] <= 390
    verdict = tab.locator(".h2h-verdicts strong").first.bounding_box()
    assert verdict["x"] + verdict["width"] <= 390  # without scrolling
    for box in tab.locator(
        "figure .wide:visible, .wide:has(> .h2h-verdicts)"
    ).all():  # wider than the phone, and says so
        hint = box.evaluate("e => [e.scrollWidth > e.clientWidth, getComputedStyle(e, '::before').content]")
        assert hint[0]
        assert "Scroll sideways" in hint[1]
    tab.emulate_media(media="print")
    assert tab.locator(".wide").first.evaluate("e => getComputedStyle(e, '::before').content") == "none"
    tab.emulate_media(media="screen")
    tab.locator(".chart").scroll_into_view_if_needed()
    box = tab.locator(".chart svg").bounding_box()
    tab.touchscreen.tap(box["x"] + 0.95 * box["width"], box["y"] + box["height"] / 2)
    assert tab.locator(".readout").text_content().startswith("step ")
    small = tab.evaluate(
        """() => [...document.querySelectorAll("body *")].filter(e => e.checkVisibility() && !e.closest("svg, script")
             && [...e.childNodes].some(n => n.nodeType === 3 && n.data.trim())
             && parseFloat(getComputedStyle(e).fontSize) < 11).map(e => e.outerHTML.slice(0, 80))"""
    )
    assert small == []


CONTRAST = """() => {
  const part = c => { c /= 255; return c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4; };
  const light = ([r, g, b]) => 0.2126 * part(r) + 0.7152 * part(g) + 0.0722 * part(b);
  const numbers = text => (text.match(/[\\d.]+/g) ?? []).map(Number);
  const under = e => {
    const layers = [];
    for (; e; e = e.parentElement) layers.unshift(numbers(getComputedStyle(e).backgroundColor));
    const over = (below, [r, g, b, a = 1]) => below.map((x, n) => x * (1 - a) + [r, g, b][n] * a);
    return layers.reduce(over, [255, 255, 255]);
  };
  const low = [];
  for (const e of document.querySelectorAll("body *")) {
    const own = [...e.childNodes].some(n => n.nodeType === 3 && n.data.trim());
    if (!own || !e.checkVisibility() || e.closest("script, style")) continue;
    const style = getComputedStyle(e), inside = e.closest("svg");
    const colour = numbers(inside ? style.fill : style.color);
    const [a, b] = [light(colour), light(under(inside ? inside.parentElement : e))].sort((x, y) => y - x);
    if ((a + 0.05) / (b + 0.05) < 4.5) low.push([e.outerHTML.slice(0, 90), (a + 0.05) / (b + 0.05)]);
  }
  return low;
}"""


def test_contrast_is_that_of_wcag_aa(home: Path, opened: Open):
    effects = {"Rope": -0.3, "Alibi": 0.3, "None": 0.0}
    outcome = stored(home, effects, margin=0.2, task="classifier", lost={("Rope", 1): "diverged"}, seeds=8)
    tab = opened(page(outcome))
    tab.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
    assert tab.evaluate(CONTRAST) == []


def test_every_control_is_reached_and_visible_by_keyboard(home: Path, opened: Open):
    tab = opened(page(stored(home)))
    seen = []
    for _ in range(80):
        tab.keyboard.press("Tab")
        name = tab.evaluate("document.activeElement.className.split(' ')[0] || document.activeElement.tagName")
        if name == "live":  # the body: once around
            break
        assert tab.evaluate("getComputedStyle(document.activeElement).outlineStyle") != "none", name
        seen.append(name)
    assert {"arm", "chart", "from", "to", "whole", "bands", "copy", "SUMMARY", "A"} <= set(seen)
    assert seen.count("arm") == 3


def long_study(text: Path, home: Path) -> Path:
    base = control(text)
    names = ["L" * 300, "an arm with a name of many words " * 4, *(f"lr={n}" for n in range(9))]
    arms = {name.strip(): base.set("train.optimizer.lr", 0.01 + n / 1000) for n, name in enumerate(names)}
    made = study(
        text,
        question="W" * 200,
        vary=["train.optimizer.lr"],
        arms=arms,
        seeds=2,
        again=True,
        command="h2h run " + "x" * 100,
    )
    carried(made, home)
    return folder_of(made, home)


MEASURE = """<script>
document.querySelectorAll("details").forEach(d => d.open = true);
const seen = [...document.querySelectorAll("svg[role=img]")].filter(s => s.checkVisibility());
const figures = seen.map(s => {
  const box = s.getBoundingClientRect();
  const out = [...s.querySelectorAll("text")].filter(t => {
    const b = t.getBoundingClientRect();
    return b.left < box.left - 1 || b.right > box.right + 1 || b.top < box.top - 1 || b.bottom > box.bottom + 1; });
  return [Math.round(box.width), out.length]; });
const table = document.querySelector(".h2h-verdicts").parentElement;
document.title = JSON.stringify({page: document.documentElement.scrollWidth - document.documentElement.clientWidth,
  table: table.scrollWidth - table.clientWidth, figures});
</script>"""


def test_long_names_give_no_warning_and_stay_on_the_page(text: Path, home: Path):
    folder = long_study(text, home)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        made = page(load_outcome(folder))
    assert not caught
    svgs = re.findall(r'<svg role="img".*?</svg>', made, re.DOTALL)
    assert len(svgs) == 3  # forest, curves, cost
    svgs = [svg.partition(">")[2] for svg in svgs]  # what is drawn: descriptions have the whole names
    assert all("L" * 40 not in svg for svg in svgs)
    assert f">{'L' * 300}<" in made


@pytest.mark.parametrize("width", [390, 1300])
def test_the_page_fits_its_window(width: int, chromium: str, text: Path, home: Path, tmp_path: Path):
    import html
    import json

    file = tmp_path / "page.html"
    html_text = page(load_outcome(long_study(text, home)))
    file.write_text(html_text.replace("Content-Security-Policy", "none") + MEASURE)  # which would not let it measure
    # a window is never narrower than 500, a frame is
    frame = f'<iframe src="page.html" style="width: {width}px; height: 900px; border: 0"></iframe>'
    (tmp_path / "frame.html").write_text(
        frame + "<script>onload = () => document.title = frames[0].document.title</script>"
    )
    command = [chromium, "--headless", "--no-sandbox", "--disable-gpu", "--allow-file-access-from-files"]
    command += ["--window-size=1400,1000", "--virtual-time-budget=3000", "--dump-dom", f"file://{tmp_path}/frame.html"]
    dom = subprocess.run([str(c) for c in command], capture_output=True, text=True, timeout=120).stdout
    seen = json.loads(html.unescape(re.search(r"<title>(.*?)</title>", dom).group(1)))
    assert seen["page"] <= 0
    assert all(wide >= 500 and not outside for wide, outside in seen["figures"]), seen
    if width == 1300:
        assert seen["table"] <= 0  # every column is seen
