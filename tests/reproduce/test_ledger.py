"""The ledger and every stored figure of the docs are what the stored runs say, to the letter."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from headtohead import reproduce_commands as commands
from headtohead.reproduce import blocks, run
from headtohead.reproduce.experiments import WHERE, figures

ROOT = Path(__file__).parents[2]
PAGES = blocks.pages(ROOT)
ANEW = "give h2h reproduce --claims, and look at what has changed"
LEAST = 10  # pairs that a claim's verdict rests on


@pytest.fixture(scope="module")
def found() -> commands.Results:
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(ROOT)
        return commands.results(commands.asked("all"), quick=False, stored=True, home=Path("nowhere"))


@pytest.fixture(autouse=True)
def in_root(monkeypatch) -> None:
    monkeypatch.chdir(ROOT)  # recipes/published is looked for where the command is given


@pytest.fixture
def loaded(tmp_path):
    return run.stored_by_name(commands.asked("all"), WHERE, tmp_path)


def test_every_published_claim_has_a_recipe(found):
    published = {
        f"{report[3:]}.{n}" for report, said in figures().items() for n, _ in enumerate(said.get("claims", ()), start=1)
    }
    assert len(published) == 16
    assert {c.claim.id for c in found.claims} | {c.id for c in found.untested} == published


def test_the_ledger_is_what_the_stored_runs_say(found, loaded):
    assert Path("docs/claims.md").read_text(encoding="utf-8") == commands.ledger_page(found, loaded), ANEW


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_blocks_are_what_is_stored(page, found, loaded):
    write = blocks.writer(found.claims, found.untested, found.rows, loaded)
    text = page.read_text(encoding="utf-8")
    assert blocks.filled(text, write) == text, ANEW


def test_verdicts_rest_on_enough_pairs_of_named_runs(found):
    for judged in found.claims:
        for finding in judged.findings:
            assert finding.verdict is not None
            assert finding.verdict.pairs >= LEAST, f"{judged.claim.id}: {finding.line}"
            assert len(finding.runs) >= LEAST
        assert judged.claim.because, f"{judged.claim.id} says nothing of what explains it"
        assert all(judged.commands.values())


def test_a_best_rate_at_the_edge_of_its_grid_is_said(found):
    page = Path("docs/claims.md").read_text(encoding="utf-8")
    for judged in found.claims:
        for name, chosen in judged.tuned.items():
            told = commands.kept.read(WHERE / run.STORED / f"{name}.json")["study"]["tuning"]
            assert chosen in page
            assert chosen.count("the edge of the grid") == sum(bool(arm["edge"]) for arm in told)


def test_pictures_of_the_pages_are_there():
    for page in (ROOT / "README.md", ROOT / "docs" / "claims.md"):
        for path in re.findall(r"!\[[^\]]*\]\(([^)]+\.png)\)", page.read_text(encoding="utf-8")):
            assert (page.parent / path).is_file(), f"{page.name}: {path}"
