"""Pages say which scripts may run, and a browser runs no other."""

from __future__ import annotations

import base64
import hashlib
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from headtohead.figures.policy import policy
from headtohead.interpret.maps import Maps
from headtohead.interpret.page import page as attention_page
from headtohead.report.page import page
from helpers.browser import Open
from helpers.stores import stored

WEIGHTS = np.full((1, 1, 2, 2), 0.5, dtype=np.float32)
MAPS = Maps(
    weights=WEIGHTS,
    tokens=("</script><script>window.evil = 4</script>", "b"),
    real=2,
    cut=0,
    unknown=0,
    name="run <img src=x onerror='window.evil = 5'>",
    step=5,
    task="lm",
    answers=(("rest", 0.5),),
    checks=(),
    layers=(0,),
    heads=(0,),
)
EVIL_ARM = "Rope</script><script>window.evil = 6</script>"
META = re.compile(r'<meta http-equiv="Content-Security-Policy" content="([^"]*)">')
SCRIPT = re.compile(r"<script>(.*?)</script>", re.DOTALL)


def digest(script: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'"


def test_a_policy_names_each_script_and_nothing_else() -> None:
    said = policy(["one()", "two()"])
    assert f"script-src {digest('one()')} {digest('two()')}; " in said
    assert "unsafe-eval" not in said
    assert "default-src 'none'" in said
    assert "script-src 'sha256-" in policy(["x"], evaluates=True)
    assert "'unsafe-eval'" in policy(["x"], evaluates=True)


@pytest.fixture(params=["report", "attention"])
def html(request: pytest.FixtureRequest, home: Path) -> str:
    return page(stored(home, {EVIL_ARM: -0.3})) if request.param == "report" else attention_page([[MAPS]])


def test_every_page_has_a_policy_for_its_scripts(html: str) -> None:
    (said,) = META.findall(html)
    scripts = SCRIPT.findall(html)
    assert scripts
    assert all(digest(script) in said for script in scripts)
    assert said.count("sha256-") == len(scripts)
    assert html.index("Content-Security-Policy") < html.index("<title>")


def test_the_same_page_twice_is_the_same_bytes(home: Path) -> None:
    made = stored(home)
    assert page(made) == page(made)


def test_a_browser_runs_the_page_without_violations(html: str, opened: Open) -> None:
    opened(html)  # fails if the console has a line


def test_a_browser_runs_no_other_script(html: str, browser: Any, tmp_path: Path) -> None:
    evil = "<script>window.evil = 1</script><img src=x onerror='window.evil = 2'><a href='javascript:evil=3' id=e>x</a>"
    (tmp_path / "page.html").write_text(html.replace("</body>", f"{evil}</body>"), encoding="utf-8")
    tab = browser.new_page()
    said: list[str] = []
    tab.on("console", lambda m: said.append(m.text))
    tab.goto((tmp_path / "page.html").as_uri())
    tab.wait_for_selector("body[data-ready]", timeout=30_000)
    tab.evaluate("document.getElementById('e').click()")
    assert tab.evaluate("window.evil === undefined")
    assert any("Content Security Policy" in line for line in said)
    tab.close()
