"""The page of a study: what is shown of it, and what can be done there."""

from __future__ import annotations

import csv
import dataclasses
import shutil
from pathlib import Path

import pytest

from headtohead.outcome.outcome import load_outcome
from headtohead.run.studies import read_study, write_study
from headtohead.stats import Design
from headtohead.web.study_page import curve_names
from headtohead.web.study_page import curves as study_curves
from helpers.web import expect, open_page, served


@pytest.mark.parametrize(("width", "dark"), [(1200, False), (390, True)])
def test_an_analysis_shows_its_cost_before_it_is_made(store: Path, tmp_path: Path, browser, width, dark):
    home = tmp_path / "home"
    shutil.copytree(store, home)
    folder = home / "studies" / "tiny"
    write_study(folder, dataclasses.replace(read_study(folder), design=Design((8, 10)), history=()))
    with served(home) as server, open_page(browser, f"{server.url}#/study/tiny", width, dark=dark) as page:
        page.get_by_role("button", name="Analyse now").click()
        panel = page.get_by_role("group", name="What this analysis costs")
        panel.get_by_text("This analysis is not planned").wait_for()
        expect(panel).to_contain_text("0.5 % of error for all unplanned analyses together", use_inner_text=True)
        assert read_study(folder).history == ()
        page.get_by_role("button", name="Analyse and record it").click()
        page.get_by_text("not planned", exact=True).wait_for()
        (shown,) = read_study(folder).history
        assert shown.number == 0
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_audit_and_samples_are_shown_when_they_come_into_view(store: Path, browser):
    with served(store) as server, open_page(browser, f"{server.url}#/study/tiny") as page:
        page.set_default_timeout(120_000)
        page.locator(".models").scroll_into_view_if_needed()
        page.locator(".sample").nth(2).wait_for()
        expect(page.get_by_role("region", name="Audit")).to_contain_text("0 broken", use_inner_text=True)
        page.get_by_label("Beginning of the samples").fill("the king")
        page.get_by_role("button", name="Write again").click()
        page.locator(".sample strong", has_text="the king").first.wait_for()


def test_a_read_only_server_records_no_analysis(store: Path):
    with served(store, read_only=True) as server:
        assert server.request("/api/study/analysis?name=tiny")[0] == 200
        assert server.request("/api/study/analyse", {"name": "tiny"})[0] == 403


def test_curves_minus_the_control_are_paired_by_seed(store: Path, browser, tmp_path):
    with served(store) as server, open_page(browser, f"{server.url}#/study/tiny") as page:
        page.locator("svg.figure path.line").first.wait_for()
        page.get_by_label("minus the control").check()
        page.locator("svg.figure line.zero").last.wait_for(state="attached")
        assert "paired=1" in page.url
        assert page.locator(".legend button").all_inner_texts() == ["Rope", "NoPosition"]
        with page.expect_download() as download:
            page.get_by_role("button", name="Save figure learning-curves as CSV").click()
        download.value.save_as(tmp_path / "curves.csv")
    curves = study_curves(store / "studies" / "tiny", curve_names(load_outcome(store / "studies" / "tiny"))[0])
    control, *arms = curves["arms"]
    expected = {
        (arm["arm"], int(seed), step): value - dict(control["seeds"][seed])[step]
        for arm in arms
        for seed, points in arm["seeds"].items()
        for step, value in points
    }
    with (tmp_path / "curves.csv").open(encoding="utf-8", newline="") as file:
        _, *lines = csv.reader(file)
    found = {(arm, int(seed), int(step)): float(value) for arm, seed, step, value in lines}
    assert found == pytest.approx(expected, abs=1e-9)
    assert len(found) > 6


@pytest.mark.parametrize(("width", "dark"), [(1280, False), (390, True)])
def test_no_figure_beside_the_intervals_is_cut(store: Path, browser, width, dark):
    with served(store) as server, open_page(browser, f"{server.url}#/study/tiny", width, dark=dark) as page:
        page.locator(".forest .pairs").first.wait_for()
        cut = "[...document.querySelectorAll('.forest .pairs')].filter((e) => e.scrollWidth > e.clientWidth).length"
        assert page.evaluate(cut) == 0


def test_labels_of_points_do_not_cover_each_other(store: Path, browser):
    points = [
        {"text": "one key/value head", "x": 100, "y": 76},
        {"text": "RMSNorm", "x": 110, "y": 83},
        {"text": "plain", "x": 600, "y": 83},
        {"text": "last", "x": 120, "y": 218},
        {"text": "at the bottom", "x": 118, "y": 219},
    ]
    with served(store) as server, open_page(browser, f"{server.url}#/study/tiny") as page:
        module = page.evaluate(
            "[...document.scripts].find((one) => one.type === 'module').src.replace('app.js', 'charts.js')"
        )
        call = "async ([path, points]) => (await import(path)).labelsApart(points, 680, 220)"
        labels = page.evaluate(call, [module, points])
    assert {label["text"] for label in labels} == {point["text"] for point in points}
    for n, one in enumerate(labels):
        assert 12 <= one["y"] <= 224
        for other in labels[:n]:
            apart = abs(one["y"] - other["y"]) >= 13 or one["from"] >= other["to"] or other["from"] >= one["to"]
            assert apart, (one, other)
