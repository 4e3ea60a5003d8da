from __future__ import annotations

from pathlib import Path

import pytest

from headtohead.errors import InputError
from headtohead.external.comparison import compare_sources
from headtohead.external.items import ItemVerdict
from helpers.external import write_samples

STAMP = "2026-11-18T10-00-00.000000"


def test_models_are_paired_by_item(inside: Path) -> None:
    files = [write_samples(inside / "a.jsonl", 0.5), write_samples(inside / "b.jsonl", 0.8)]
    found = compare_sources(files, metric="acc")
    verdict = found.verdicts["b"]
    assert isinstance(verdict, ItemVerdict)
    assert (found.design, verdict.verdict, verdict.items) == ("items", "better", 300)
    assert verdict.gained is not None
    assert verdict.lost is not None
    assert verdict.difference == pytest.approx((verdict.gained - verdict.lost) / 300)
    assert "does not say what training with another seed would give" in " ".join(str(found).split())


def test_folders_name_models_and_files_name_tasks(inside: Path) -> None:
    for model, share in (("base", 0.5), ("big", 0.9)):
        for task in ("arc_easy", "piqa"):
            write_samples(inside / model / f"samples_{task}_{STAMP}.jsonl", share, 100)
    found = compare_sources(["base"], [["big"]], metric="acc")
    assert list(found.means) == ["base", "big"]
    assert found.verdicts["big"].items == 200  # type: ignore[union-attr]
    assert "tasks arc_easy, piqa" in " ".join(str(found).split())


def test_seeds_in_names_make_runs(inside: Path) -> None:
    files = [
        write_samples(inside / f"{m}-seed{s}.jsonl", p, 200) for m, p in (("a", 0.5), ("b", 0.9)) for s in range(6)
    ]
    found = compare_sources(files, metric="acc")
    assert (found.design, found.verdicts["b"].verdict, len(found.values)) == ("paired", "better", 12)


def test_filters_and_metrics_are_chosen(inside: Path) -> None:
    files = []
    for model in ("a", "b"):
        strict = write_samples(inside / f"{model}.jsonl", 0.5, 40, filter="strict-match").read_text()
        loose = write_samples(inside / f"{model}.jsonl", 0.9, 40, filter="flexible").read_text()
        (inside / f"{model}.jsonl").write_text(strict + loose)
        files.append(f"{model}.jsonl")
    with pytest.raises(InputError, match="--metric acc,strict-match"):
        compare_sources(files, metric="acc")
    assert compare_sources(files, metric="acc,flexible").means["a"] > 0.7
    with pytest.raises(InputError, match="no filter 'x'"):
        compare_sources(files, metric="acc,x")
    with pytest.raises(InputError, match="no metric 'f1'"):
        compare_sources(files, metric="f1")


def test_other_items_are_left_out_and_named(inside: Path) -> None:
    files = [write_samples(inside / "a.jsonl", 0.5, 60), write_samples(inside / "b.jsonl", 0.5, 50)]
    found = compare_sources(files, metric="acc")
    assert found.verdicts["b"].items == 50  # type: ignore[union-attr]
    assert "10 of 60 items" in str(found)
    few = compare_sources(
        [write_samples(inside / "c.jsonl", 0, 20), write_samples(inside / "d.jsonl", 1, 20)], metric="acc"
    )
    assert few.verdicts["d"].descriptive


def test_no_common_item_and_averaged_results(inside: Path) -> None:
    write_samples(inside / "a.jsonl", 0.5)
    text = (inside / "a.jsonl").read_text().replace('"h', '"other')
    (inside / "b.jsonl").write_text(text)
    with pytest.raises(InputError, match="no test item in common"):
        compare_sources(["a.jsonl", "b.jsonl"], metric="acc")
    (inside / "results.json").write_text('{\n "results": {"arc": {"acc,none": 1}},\n "configs": {}\n}')
    with pytest.raises(InputError, match="--log_samples"):
        compare_sources(["results.json", "a.jsonl"])
