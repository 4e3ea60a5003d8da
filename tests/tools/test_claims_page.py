"""The committed pages equal what the programs in tools/ write from the stored results."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import claims_page
import doc_blocks
import gallery
import reference
from headtohead.claims import run, stored
from headtohead.claims.experiments import figures
from headtohead.claims.workflow import Results
from headtohead.display.catalogue import catalogue
from headtohead.spec.userfiles import published_recipes
from stored_results import ROOT, Load, judged, stored_studies

LEAST = 10  # pairs that a claim's verdict rests on


@pytest.fixture(autouse=True)
def in_root(monkeypatch) -> None:
    monkeypatch.chdir(ROOT)  # recipes/published is looked for in the working directory first


@pytest.fixture(scope="module")
def found() -> Results:
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(ROOT)
        return judged()


@pytest.fixture(scope="module")
def load() -> Iterator[Load]:
    with stored_studies() as load:
        yield load


def committed(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


def test_every_published_claim_has_a_recipe(found):
    published = {
        f"{report[3:]}.{n}" for report, said in figures().items() for n, _ in enumerate(said.get("claims", ()), start=1)
    }
    assert len(published) == 16
    assert {c.claim.id for c in found.claims} | {c.id for c in found.untested} == published


def test_committed_claims_page_is_current(found, load):
    drawn = {picture.name for picture in gallery.drawable(load)}
    assert committed("docs/claims.md") == claims_page.page(found, drawn), "python tools/claims_page.py > docs/claims.md"


@pytest.mark.parametrize("page", doc_blocks.pages(ROOT), ids=lambda page: page.stem)
def test_committed_blocks_are_current(page, found, load):
    text = page.read_text(encoding="utf-8")
    assert doc_blocks.filled(text, doc_blocks.writer(found, load)) == text, "python tools/doc_blocks.py"


def test_committed_reference_pages_are_current():
    known = catalogue()  # built-in parts alone: other tests define more
    assert committed("docs/reference/parts.md") == reference.parts_page(known.parts)
    assert committed("docs/reference/settings.md") == reference.settings_page(known.settings)
    assert committed("docs/reference/tasks.md") == reference.tasks_page(reference.tasks())


def test_verdicts_rest_on_enough_pairs_of_named_runs(found):
    for one in found.claims:
        for finding in one.findings:
            assert finding.verdict is not None
            assert finding.verdict.pairs >= LEAST, f"{one.claim.id}: {finding.line}"
            assert len(finding.runs) >= LEAST
        assert one.claim.because, f"{one.claim.id} has no explanation"
        assert all(one.commands.values())


def test_page_names_best_rates_at_the_edge_of_their_grid(found):
    page = committed("docs/claims.md")
    for one in found.claims:
        for name, chosen in one.tuned.items():
            tuning = stored.read(published_recipes() / run.STORED / f"{name}.json").study.tuning
            assert chosen in page
            assert chosen.count("the edge of the grid") == sum(bool(arm.edge) for arm in tuning)


def test_pictures_of_the_pages_exist():
    for page in (ROOT / "README.md", ROOT / "docs" / "claims.md"):
        for path in re.findall(r"!\[[^\]]*\]\(([^)]+\.png)\)", page.read_text(encoding="utf-8")):
            assert (page.parent / path).is_file(), f"{page.name}: {path}"


def test_gallery_draws_the_committed_pictures(load, tmp_path):
    names = {path.name for path in gallery.draw(gallery.drawable(load), load, tmp_path)}
    assert names == {path.name for path in Path(ROOT / "docs/pictures/published").glob("*.png")}
    assert all((tmp_path / name).stat().st_size > 10_000 for name in names)
