"""Scripts in every text that a user can set stay text in a real browser."""

from __future__ import annotations

import dataclasses
import shutil
from pathlib import Path
from typing import Any

import pytest

from headtohead import Arm, Files
from headtohead.run.executors.execution import Execution
from headtohead.run.studies import read_study, write_study
from headtohead.study.study import Study
from headtohead.study.workflow import run_study
from helpers.runs import SMALL
from helpers.studies import control
from helpers.web import expect, open_page, served

HACK = "<img src=x onerror=hacked()><script>hacked()</script><svg onload=hacked()>\"'`${hacked()}javascript:hacked()"
NAME = "<img src=x onerror=hacked()>"  # a file's or folder's name has no slash


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store whose question, arms, labels, texts, files, folders and runs are named by scripts."""
    folder = tmp_path_factory.mktemp("hostile")
    home, table = folder / "home", folder / f"{NAME}.csv"
    quoted = HACK.replace('"', '""')
    table.write_text("text,label\n" + "".join(f'"{quoted} {n}","{n % 2} {quoted}"\n' for n in range(60)))
    text = folder / f"{NAME}.txt"
    text.write_text(f"{HACK} the king of spain.\n" * 200)
    classifier = Arm.of("classifier", Files(path=str(table))).settings([*SMALL, "train.steps=2", "evaluate.every=1"])
    lm = control(text, "train.steps=2", "evaluate.every=1")
    for base, name in ((classifier, "labels"), (lm, "texts")):
        path = "model.position"
        arms = {f"{HACK[:60]}": base.set(path, "NoPosition")}
        made = Study(question=HACK, control=base, vary=[path], arms=arms, name=name, seeds=2, again=False, chaos=False)
        run_study(made, Execution(jobs=1, device="cpu"), home=home)
    shutil.copytree(home / "studies" / "texts", home / "studies" / NAME)
    record = read_study(home / "studies" / NAME)
    write_study(home / "studies" / NAME, dataclasses.replace(record, name=NAME, command=f"h2h run lm {HACK}"))
    shutil.copytree(next((home / "runs").iterdir()), home / "runs" / NAME)
    return home


PAGES = ["/board", "/study/labels", "/study/texts", f"/study/{NAME}", "/compose", "/inside", "/inside/texts"]
PAGES += ["/inside/labels", "/audit", f"/audit?study={NAME}", "/ledger", "/puzzles", f"/{NAME}", f"/study/x{NAME}"]


@pytest.mark.parametrize("at", PAGES)
def test_no_script_of_a_text_runs(home: Path, browser: Any, at: str):
    from urllib.parse import quote

    with served(home) as server:
        context = browser.new_context()
        page = context.new_page()
        ran: list[str] = []
        page.expose_function("hacked", lambda: ran.append(at))
        page.on("dialog", lambda dialog: ran.append(dialog.message))
        page.goto(f"{server.url}#{quote(at, safe='/?=')}")
        page.locator("main :is(h1, p)").first.wait_for(timeout=60_000)
        page.wait_for_timeout(1200)
        found = page.locator("main img[onerror], main script, main svg[onload], main [href^='javascript:']").count()
        context.close()
    assert (ran, found) == ([], 0)


def test_an_uploaded_file_may_be_named_by_a_script(home: Path, browser: Any):
    with served(home) as server, open_page(browser, f"{server.url}#/compose?task=classifier") as page:
        page.set_default_timeout(120_000)
        page.expose_function("hacked", lambda: pytest.fail("a script ran"))
        table = next(home.parent.glob("*.csv"))
        page.set_input_files("input[type=file]", str(table))
        page.get_by_text("Classes: 0 <img").wait_for()
        expect(page.locator("main img[onerror], main script, main svg[onload]")).to_have_count(0)
