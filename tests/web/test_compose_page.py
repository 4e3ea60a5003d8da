"""The page Compose in a real browser: from a text of the user's to the verdict, by the command that the page shows."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from headtohead.outcome.outcome import load_outcome
from headtohead.run.studies import read_study
from headtohead.web import jobs
from headtohead.web.board import board_row
from helpers.runs import SMALL
from helpers.studies import QUICK
from helpers.web import Served, expect, open_page, served

SLOW = 240_000  # milliseconds: the machine may be busy


def address(server: Served, hash: str) -> str:
    return f"{server.url}#{hash}"


def tiny(**more: str) -> str:
    """Settings of a tiny model, as part of an address."""
    settings = dict(setting.split("=", 1) for setting in (*SMALL, *QUICK)) | more
    return "&".join(f"{path}={value}" for path, value in settings.items())


def command_of(page: Any) -> str:
    return str(page.get_by_label("Command", exact=True).inner_text()).strip()


def test_from_a_text_to_the_verdict_as_by_the_command(browser: Any, home: Path, text: Path, tmp_path: Path):
    with served(home) as server, open_page(browser, address(server, f"/compose?{tiny()}&seeds=6")) as page:
        page.set_default_timeout(SLOW)
        page.get_by_role("heading", name="Compose a study").wait_for()
        page.set_input_files("input[type=file]", str(text))
        page.get_by_text("running text, 9,162 characters").wait_for()
        page.get_by_role("button", name="Learning rate").click()
        page.get_by_label("Values, separated by commas").fill("0.3")
        page.get_by_role("button", name="Run this study").and_(page.locator(":enabled")).wait_for()
        page.get_by_text("✓ audit").first.wait_for()
        command = command_of(page)
        assert "data=upload-" in page.url
        assert "vary.train.optimizer.lr=0.3" in page.url
        page.get_by_role("button", name="Run this study").click()
        page.wait_for_url("**/#/study/lm-mine-lr")
        folder = home / "studies" / "lm-mine-lr"
        _wait_for_report(folder)
    other = tmp_path / "other"
    environment = os.environ | {"HEADTOHEAD_HOME": str(other)}
    words = shlex.split(command)
    assert words[:3] == ["h2h", "run", "lm"]
    done = subprocess.run(
        [sys.executable, "-m", "headtohead.cli", *words[1:]],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    ours, theirs = read_study(folder), read_study(other / "studies" / "lm-mine-lr")
    assert ours.runs == theirs.runs
    assert len(ours.runs) == 18
    assert ours.command == command == theirs.command
    rows = [board_row(load_outcome(home_ / "studies" / "lm-mine-lr").folder)["arms"] for home_ in (home, other)]
    assert [_without_times(arm) for arm in rows[0]] == [_without_times(arm) for arm in rows[1]]
    assert rows[0][0]["verdict"] in ("better", "worse")


def _wait_for_report(folder: Path) -> None:
    until = time.monotonic() + SLOW / 1000
    while not (folder / "report.html").is_file():
        assert time.monotonic() < until
        time.sleep(0.2)


def _without_times(arm: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in arm.items() if key not in ("time", "cost_text")}


def test_choices_are_in_the_address_and_problems_beside_their_field(browser: Any, home: Path):
    start = "/compose?model.heads=3&vary.model.position=Rope(theta=500)&tokenizer=Byte"
    with served(home) as server, open_page(browser, address(server, start)) as page:
        page.set_default_timeout(SLOW)
        wrong = page.get_by_text("width 64 is not divisible by 3 heads")
        wrong.wait_for()
        heads = page.get_by_label("heads number of query heads", exact=False).first
        expect(heads).to_have_attribute("aria-invalid", "true")
        assert heads.get_attribute("aria-describedby") == wrong.get_attribute("id")
        expect(page.get_by_role("button", name="Run this study")).to_be_disabled()
        heads.fill("4")
        wrong.wait_for(state="hidden")
        page.get_by_role("textbox", name="theta").fill("900")
        page.get_by_text("Rope(theta=900.0)").first.wait_for()
        assert command_of(page) == (
            "h2h run lm --vary 'model.position=Rope(theta=900)' --set model.heads=4 --set tokenizer=Byte"
        )
        expect(page.get_by_label("Python", exact=True)).to_contain_text(
            "from headtohead import Arm, Rope, Study", use_inner_text=True
        )
        page.reload()
        page.get_by_text("Rope(theta=900.0)").first.wait_for()
        expect(page.get_by_label("heads number of query heads").first).to_have_value("4")
        page.get_by_role("button", name="Remove Rope").click()
        page.get_by_text("Add a value of model.position, or remove it.").wait_for()
        page.get_by_role("button", name="Compare Alibi").press("Enter")
        page.get_by_label("Command", exact=True).wait_for()
        assert "vary.model.position=Alibi" in page.url


@pytest.mark.parametrize(("width", "dark"), [(1200, False), (390, True)])
def test_a_table_with_a_hostile_name_is_shown_as_text(browser: Any, home: Path, tmp_path: Path, width: int, dark: bool):
    rows = "".join(f"<script>alert({n})</script> {n},<b>x{n % 2}</b>\n" for n in range(40))
    mine = tmp_path / "<img src=x onerror=alert(1)>.csv"
    mine.write_text("text,label\n" + rows)
    url = "/compose?task=classifier"
    with served(home) as server, open_page(browser, address(server, url), width=width, dark=dark) as page:
        page.set_default_timeout(SLOW)
        page.set_input_files("input[type=file]", str(mine))
        page.get_by_text("Classes: <b>x0</b> 20, <b>x1</b> 20").wait_for()
        expect(page.get_by_text("<script>alert(3)</script> 3", exact=True)).to_be_visible()
        expect(page.locator(".preview script, .preview b")).to_have_count(0)
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        page.set_input_files("input[type=file]", {"name": "x.exe", "mimeType": "text/plain", "buffer": b"x"})
        page.get_by_role("status").get_by_text("cannot be used").wait_for()


def test_running_commands_are_listed_and_stopped(browser: Any, home: Path, monkeypatch: pytest.MonkeyPatch):
    script = home.parent / "job.sh"
    script.write_text("sleep 100\n")
    with monkeypatch.context() as patch:
        patch.setattr(jobs.sys, "executable", "/bin/sh")
        patch.setattr(jobs, "PROGRAM", [str(script)])
        job = jobs.start(home, ["run", "lm", "--vary", "model.position=Rope"], "lm-sotu-position")
    with served(home) as server, open_page(browser, address(server, "/compose?tokenizer=Byte")) as page:
        page.set_default_timeout(SLOW)
        page.get_by_text("h2h run lm --vary model.position=Rope").wait_for()
        page.get_by_role("button", name="Stop lm-sotu-position").click()
        page.get_by_text("It stops after saving.").wait_for()
        until = time.monotonic() + 30
        while jobs.read(home, job.id).is_running:
            assert time.monotonic() < until
            time.sleep(0.05)


def test_a_read_only_server_says_why_nothing_runs(browser: Any, home: Path):
    start = "/compose?vary.model.position=Rope&tokenizer=Byte"
    with served(home, read_only=True) as server, open_page(browser, address(server, start)) as page:
        page.set_default_timeout(SLOW)
        page.get_by_label("Command", exact=True).wait_for()
        page.get_by_text("it was started with --read-only. Copy the command instead.").wait_for()
        expect(page.get_by_role("button", name="Run this study")).to_be_disabled()
        expect(page.locator("input[type=file]")).to_be_disabled()


def test_focus_goes_to_the_part_that_was_added(browser: Any, home: Path):
    with served(home) as server, open_page(browser, address(server, "/compose?tokenizer=Byte")) as page:
        page.set_default_timeout(SLOW)
        page.get_by_role("button", name="Positions").click()
        page.get_by_role("button", name="Compare Rope").click()
        expect(page.get_by_role("textbox", name="theta")).to_be_focused()
        page.get_by_role("button", name="Compare NoPosition").click()
        expect(page.get_by_role("listitem", name="NoPosition")).to_be_focused()
