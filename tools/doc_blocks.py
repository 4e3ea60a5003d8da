"""Fill the blocks of README and docs from stored results: python tools/doc_blocks.py

A block stands between two marks. A test fills every block again and compares.

    <!-- stored: verdicts window-window -->     the verdicts of a study
    <!-- /stored -->
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from benchmark_tables import KINDS, plain, table
from gallery import Picture, drawable
from headtohead.claims.evidence import rows_of, value_in
from headtohead.claims.ledger import Judged, summary
from headtohead.claims.workflow import Results
from headtohead.errors import InputError
from headtohead.outcome.metrics import text_of
from headtohead.outcome.outcome import Outcome
from headtohead.report.paste import markdown
from headtohead.run.store import write_whole
from stored_results import ROOT, Load, exit_with, judged, stored_studies

BLOCK = re.compile(r"(<!-- stored: (?P<what>[^>]+?) -->\n).*?(?P<end>\n?<!-- /stored -->)", re.DOTALL)
BENCHMARKS = Path("benchmarks/measured")
LEDGER = "docs/claims.md"  # as the README links to it
GALLERY = "docs/pictures/published"


def filled(text: str, write: Callable[[str], str]) -> str:
    """The text with every block written again."""
    return BLOCK.sub(lambda found: f"{found[1]}{write(found['what']).rstrip()}\n<!-- /stored -->", text)


def pages(root: Path) -> list[Path]:
    """The pages that have blocks."""
    known = [root / "README.md", *sorted((root / "docs").rglob("*.md"))]
    return [page for page in known if BLOCK.search(page.read_text(encoding="utf-8"))]


def writer(found: Results, load: Load, root: Path = ROOT) -> Callable[[str], str]:
    """A function that writes a block from the words of its mark."""

    def verdicts(words: str) -> str:
        name, _, title = words.partition(", ")
        outcome = load(name)
        shown = outcome.table(title) if title else outcome.verdicts
        return f"{markdown(shown)}\n`{outcome.record.command}`: {shown.scope}."

    def means(words: str) -> str:
        name, *figures = words.split()
        return _means(load(name), figures)

    def measured(words: str) -> str:
        name, *more = words.split()
        results = json.loads((root / BENCHMARKS / f"{name}.json").read_text(encoding="utf-8"))
        return KINDS.get(name, plain)(results, *more)

    def is_stored(kind: str, name: str) -> bool:
        if kind == "benchmark":
            return (root / BENCHMARKS / f"{name}.json").is_file()
        try:
            return kind not in ("verdicts", "means") or bool(load(name))
        except InputError:
            return False

    kinds: dict[str, Callable[[str], str]] = {
        "claims": lambda words: _claims(found.claims) if words == "table" else summary(found.claims, found.untested),
        "figures": lambda words: "\n".join(r.markdown() for r in found.reports if f"doc{r.number}" in words.split()),
        "verdicts": verdicts,
        "means": means,
        "benchmark": measured,
        "gallery": lambda _: _pictures(drawable(load)),
    }

    def write(what: str) -> str:
        kind, _, rest = what.partition(" ")
        if kind not in kinds:
            raise InputError(f"a block is one of {', '.join(kinds)}, not '{what}'")
        name = re.split("[ ,]", rest)[0]
        return kinds[kind](rest) if is_stored(kind, name) else f"Not measured yet: {name}."

    return write


def _claims(claims: Sequence[Judged]) -> str:
    """Claim, verdict and a comparison that decided it, with links into the ledger."""
    rows = []
    for c in claims:
        with_effect = [f for f in c.findings if f.effect]
        deciding = next((f for f in with_effect if f.word == c.word), with_effect[0] if with_effect else None)
        shown = "" if deciding is None else f"{deciding.says}: {deciding.effect}"
        rows.append([f"[{c.claim.id}]({LEDGER}#{c.anchor})", c.says, c.verdict, shown])
    return table(["", "claim", "verdict", "for instance"], rows)


def _pictures(shown: Sequence[Picture]) -> str:
    """Two pictures a row, each with its description, with paths for the README."""
    cells = [f"![{p.says}]({GALLERY}/{p.name}.png)<br>{p.says}" for p in shown]
    cells += [""] * (len(cells) % 2)
    return table(["", ""], zip(cells[::2], cells[1::2], strict=True)) if cells else ""


def _means(outcome: Outcome, figures: Sequence[str]) -> str:
    """Each arm's mean of some figures, with its lowest and highest run."""
    title = outcome.titles[0]
    lines = []
    for arm in (name for t, name in outcome.rows if t == title):
        cells = []
        for figure in figures:
            values = np.array([value_in(outcome, row, figure) for row in rows_of(outcome, arm, title)])
            mean, low, high = (text_of(figure, float(x)) for x in (values.mean(), values.min(), values.max()))
            cells.append(f"{mean} ({low} … {high})")
        lines.append([arm, *cells])
    return f"{table(['arm', *figures], lines)}\n\n`{outcome.record.command}`: {outcome.verdicts.scope}."


def main() -> None:
    root = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT
    found = judged()
    with stored_studies() as load:
        write = writer(found, load, root)
        for page in pages(root):
            text = page.read_text(encoding="utf-8")
            if (new := filled(text, write)) != text:
                write_whole(page, new)
                print(f"wrote {page}")


if __name__ == "__main__":
    exit_with(main)
