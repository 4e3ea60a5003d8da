"""Figures in the README and the docs come from stored measurements: every number with a unit stands in a block that is
written from them, or is none of ours to measure: a rule, a target, a fact of the data.

docs/log.md is the notebook, as it was on its day. What the tutorial prints is compared with its commands (--slow).
"""

from __future__ import annotations

import os
import re

import pytest

from doc_blocks import BLOCK
from helpers.docs import ROOT

DATA = os.environ.get("HEADTOHEAD_DATA")  # tests have none unless they ask
LEFT_OUT = {"log.md", "parts.md", "claims.md", "tutorial"}  # a notebook, a reference, one block as a whole
PAGES = [
    ROOT / "README.md",
    *(page for page in sorted((ROOT / "docs").rglob("*.md")) if not {page.name, page.parent.name} & LEFT_OUT),
]
UNIT = r"(?:%|ms\b|µs\b|s\b|h\b|[MG]B\b|GFLOP|min\b|minutes?\b|seconds?\b|hours?\b|nats\b|points\b|bits\b)"
FIGURE = re.compile(rf"(?<![\w.])[−+]?\d[\d,]*(?:\.\d+)?\s?{UNIT}|(?<![\w.])[−+]?\d+(?:\.\d+)? ×(?! \d)|[−+]\d+\.\d+")
# rules and settings of the program, targets, facts of the data and of arithmetic, by the words they stand in
ALLOWED = (
    "95 % interval",
    "up to 20 MB",
    "at most 20 MB",
    "90 % interval",
    "80 % power",
    "the upper end of its 80 % interval",
    "rises over the first 30 % of the steps",
    "The goal on SST-2 was 89.5 %",
    "in order: 80 %, 10 %, 10 %",
    "by content: 80 %, 10 %, 10 %",
    "of (73.5 %) are also in",
    "says 67.2 %: by default",
    "27/256 = 10.5 % of the attention",
    "with the first layer blind 17 % are",
    "(every 30 seconds, )",
)


def prose(text: str) -> str:
    """Without blocks, programs, output and code."""
    text = BLOCK.sub("", text)
    text = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    text = re.sub(r"^(?: {4}|\t).*$", "", text, flags=re.MULTILINE)
    return re.sub(r"`[^`]*`", "", text)


def around(text: str, found: re.Match[str]) -> str:
    return " ".join(text[max(0, found.start() - 40) : found.end() + 40].split())


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_numbers_in_docs_stand_in_stored_blocks(page):
    text = prose(page.read_text(encoding="utf-8"))
    said = [around(text, found) for found in FIGURE.finditer(text)]
    typed = [words for words in said if not any(allowed in words for allowed in ALLOWED)]
    assert not typed, "measured? then store it and let a block show it"


def test_docs_state_the_overlap_of_the_speeches(monkeypatch):
    from headtohead import DataSpec, Speeches
    from headtohead.data.splits import copies

    if DATA:
        monkeypatch.setenv("HEADTOHEAD_DATA", DATA)
    if Speeches().folder() is None:
        pytest.skip("HEADTOHEAD_DATA names no folder with the speeches")
    whole, carved = (DataSpec(corpus=Speeches(), validation=share).sentences() for share in (0.0, 0.1))
    both, fewer = (int(copies(found.train, found.test).sum()) for found in (whole, carved))
    page = " ".join((ROOT / "docs" / "explanation" / "runs.md").read_text(encoding="utf-8").split())
    count = len(whole.test)
    assert f"{both} of the {count} sentences of `test_CLS.tsv` ({100 * both / count:.1f} %)" in page
    assert f"says {100 * fewer / count:.1f} %" in page
    assert f"{both - fewer} of the {both} go with it" in page
