"""The page Inside in a real browser: heads, steps, operations, texts and continuations, at desktop and phone width."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from headtohead.interpret.generate import Decoding, generate
from headtohead.interpret.maps import attention
from headtohead.run.load import load_trained
from headtohead.run.studies import find_arm
from helpers.inside import Insides
from helpers.web import Served, expect, open_page

SLOW = 60_000  # milliseconds, for a machine that trains at the same time
TEXT = "the people of"


@contextmanager
def opened(browser: Any, server: Served, address: str, **options: Any) -> Iterator[Any]:
    with open_page(browser, f"{server.url}#/inside{address}", **options) as page:
        page.set_default_timeout(SLOW)
        page.locator(".inside").wait_for()
        yield page


def shown(page: Any, text: str | re.Pattern[str], where: str = ".inside") -> Any:
    found = page.locator(where).filter(has_text=text)
    found.wait_for()
    return found


def figure(page: Any, name: str) -> Any:
    found = f"document.querySelector('[data-figure={name}]').figureData"
    page.wait_for_function(found)
    return page.evaluate(found)


def test_a_head_is_enlarged_read_and_silenced(browser, server: Served, insides: Insides):
    with opened(browser, server, f"/pair?text={TEXT}") as page:
        page.get_by_role("button", name="Head 1.0").click()
        page.locator("canvas.map").nth(2).wait_for()
        trained = load_trained(find_arm("pair/Rope@0", insides.home).records[0])
        weights = attention(trained, TEXT).head(1, 0)
        rows = figure(page, "head")["rows"]
        assert len(rows) == len(TEXT) ** 2
        assert rows[7 * len(TEXT) + 2][5] == pytest.approx(float(weights[7, 2]))
        first = page.locator("canvas.map").first
        first.focus()
        for key in ("ArrowDown", "ArrowDown", "ArrowDown", "ArrowDown", "ArrowRight"):  # the first selects a cell
            page.keyboard.press(key)
        said = shown(page, re.compile(r"“␣” \(3\).*“h” \(1\).*Learned.*Rope.*difference"), ".enlarged .readout")
        assert f"{weights[3, 1]:.4f}" in said.inner_text()
        first.hover(position={"x": 60, "y": 60})
        page.get_by_role("button", name="Silenced").click()
        shown(page, "silenced", ".head .badge")
        done = page.locator(".effects td:last-child").filter(has_text=re.compile("^all "))
        done.nth(1).wait_for()
        assert "ops=silence%3A1.0" in page.url
        assert "head=1.0" in page.url
        before = page.locator(".effects tbody").inner_text()
        page.reload()
        done.nth(1).wait_for()
        assert page.locator(".effects tbody").inner_text() == before, "the address has every choice"
        page.get_by_role("button", name="Undo: 1.0 silenced").click()
        page.locator(".effects").wait_for(state="hidden")
        assert "ops=" not in page.url


def test_two_steps_of_one_run_and_the_training_is_played(browser, server: Served):
    with opened(browser, server, f"/pair?how=steps&left=Rope&from=0&text={TEXT}") as page:
        shown(page, "Rope, step 0", "section[aria-label=Predictions]")
        left = page.get_by_label("left: step")
        left.focus()
        page.keyboard.press("ArrowRight")
        shown(page, "Rope, step 3", "section[aria-label=Predictions]")
        assert "from=3" in page.url
        page.get_by_role("button", name="Play the training").click()
        shown(page, "Pause", ".play")
        shown(page, "Play the training", ".play")
        shown(page, "Rope, step 6", "section[aria-label=Predictions]")


def test_typing_changes_what_comes_next(browser, server: Served):
    with opened(browser, server, "/pair") as page:
        page.locator("ol.bars").nth(1).wait_for()
        hostile = "<img src=x onerror=alert(1)>"
        page.get_by_label("Text", exact=True).fill(hostile)
        shown(page, f"{len(hostile)} tokens", ".status")
        expect(page.locator("main img")).to_have_count(0)
        assert len(figure(page, "predictions")["rows"]) == 20
        assert len(figure(page, "tokens")["rows"]) == len(hostile)
        shown(page, "show the first 16", "section[aria-label=Heads]")
        words = page.locator(".surprise .word")
        words.first.focus()
        page.keyboard.press("ArrowRight")
        said = shown(page, "1: “i”", "section[aria-label='Token by token'] .readout")
        assert len(re.findall("nats, probability", said.inner_text())) == 2
        page.get_by_label("Text", exact=True).fill("")
        shown(page, "Type a text, or choose a sample", ".empty")
        page.get_by_label("Sample text").select_option("held")
        shown(page, "16 tokens", ".status")


# in the page itself: on a busy machine 5,000 tokens may be written before a click of the test arrives
GENERATE_AND_STOP = """async () => {
  const named = (name) => [...document.querySelectorAll("button")].find((b) => b.textContent === name);
  named("Generate").click();
  while (named("Stop").disabled) await new Promise((done) => setTimeout(done, 1));
  named("Stop").click();
}"""


def test_a_continuation_is_streamed_and_stopped(browser, server: Served, insides: Insides):
    with opened(browser, server, f"/pair?text={TEXT}&tokens=40&temperature=0.8&k=30&draw=3") as page:
        page.get_by_role("button", name="Generate", exact=True).click()
        shown(page, re.compile("^40 tokens$"), "section[aria-label=Generate] [role=status]")
        trained = load_trained(find_arm("pair/Learned@0", insides.home).records[0])
        made = generate(trained, TEXT, tokens=40, decoding=Decoding(temperature=0.8, top_k=30, seed=3))[0]
        rows = [row for row in figure(page, "generated")["rows"] if row[0].startswith("Learned")]
        assert [row[2] for row in rows] == list(made.tokens)
        shown(page, "h2h generate pair/Learned@0 'the people of' --tokens 40 --temperature 0.8 --top-k 30", "code")
        page.get_by_role("spinbutton", name="tokens").fill("5000")
        page.evaluate(GENERATE_AND_STOP)
        shown(page, "stopped", "section[aria-label=Generate] [role=status]")
        assert "tokens=5000" in page.url


def test_classifiers_show_classes(browser, server: Served):
    with opened(browser, server, "/moods?text=good times&head=0.0&ops=average:0.0") as page:
        shown(page, "Classes", "section[aria-label=Predictions]")
        assert {row[1] for row in figure(page, "predictions")["rows"]} == {"up", "down"}
        page.locator(".effects td:last-child").filter(has_text="texts").first.wait_for()
        expect(page.get_by_role("button", name="Generate", exact=True)).not_to_be_visible()


def test_runs_that_cannot_be_shown_say_why(browser, server: Served, insides: Insides):
    bad, good = insides.bad["unfinished"].id, insides.long.id
    with opened(browser, server, f"?runs=1&left={bad}&right={good}&text={TEXT}") as page:
        shown(page, f"Run {bad} is not complete: continue it first", "[role=alert]")
        page.get_by_role("button", name="Head 0.0").wait_for()
        shown(page, "one side cannot be shown", "section[aria-label=Heads]")


def test_a_layer_without_maps_says_why(browser, server: Served, insides: Insides):
    run = insides.mixed.id
    with opened(browser, server, f"?runs=1&left={run}&right={insides.long.id}&head=1.0&text={TEXT}") as page:
        page.get_by_role("button", name="Head 1.0").wait_for()
        page.locator("canvas.map").first.wait_for()
        assert page.get_by_role("button", name="Head 0.0").count() == 1, "the right model has maps of layer 0"
    with opened(browser, server, f"?runs=1&left={run}&right={run}&text={TEXT}") as page:
        shown(page, "LinearAttention computes no attention weights", "[data-layer='0']")
        assert page.get_by_role("button", name="Head 0.0").count() == 0
        rows = figure(page, "heads")["rows"]
        assert {row[2] for row in rows} == {1}


@pytest.mark.parametrize("dark", [False, True])
def test_a_long_text_is_binned_and_zoomed_on_a_phone(browser, server: Served, insides: Insides, dark: bool):
    text = "the+people+of+this+union+" * 11
    run = insides.long.id
    address = f"?runs=1&left={run}&right={run}&how=steps&from=0&head=0.1&text={text}"
    with opened(browser, server, address, width=390, height=844, dark=dark) as page:
        page.locator("canvas.map").nth(2).wait_for()
        assert len(figure(page, "head")["rows"]) == 128**2
        page.locator("canvas.map").first.focus()
        page.keyboard.press("End")
        page.keyboard.press("+")
        page.locator("canvas.map").first.focus()
        page.wait_for_url(re.compile("region="))
        page.keyboard.press("ArrowDown")
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        page.get_by_role("button", name="Whole text").click()
        page.wait_for_url(re.compile("head=0.1(?!.*region)"))
