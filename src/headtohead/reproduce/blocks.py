"""Figures in the README and the docs come from stored runs: what stands between two marks is written by
`h2h reproduce --claims`, and a test writes it again and compares.

    <!-- stored: verdicts window -->
    …
    <!-- /stored -->
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from headtohead.errors import InputError
from headtohead.metrics import text_of
from headtohead.outcome import Outcome
from headtohead.report.paste import markdown
from headtohead.reproduce import benchmarks
from headtohead.reproduce.evidence import rows_of, value_in
from headtohead.reproduce.gallery import Loaded, Picture, drawable
from headtohead.reproduce.ledger import Judged, Untested, beside, short, summary
from headtohead.reproduce.tables import Row

BLOCK = re.compile(r"(<!-- stored: (?P<what>[^>]+?) -->\n).*?(?P<end>\n?<!-- /stored -->)", re.DOTALL)
BENCHMARKS = Path("benchmarks/measured")
LEDGER = "docs/claims.md"  # as seen from the README
GALLERY = "docs/pictures/published"


def filled(text: str, write: Callable[[str], str]) -> str:
    """The text with every block written anew."""
    return BLOCK.sub(lambda found: f"{found[1]}{write(found['what']).rstrip()}\n<!-- /stored -->", text)


def pages(root: Path) -> list[Path]:
    """Those that have blocks."""
    known = [root / "README.md", *sorted((root / "docs").rglob("*.md"))]
    return [page for page in known if BLOCK.search(page.read_text(encoding="utf-8"))]


def writer(
    claims: Sequence[Judged], untested: Sequence[Untested], rows: Sequence[Row], loaded: Loaded, root: Path = Path()
) -> Callable[[str], str]:
    """Writes a block by what its mark asks for."""

    def verdicts(asked: str) -> str:
        name, _, title = asked.partition(", ")
        found = loaded(name)
        said = found.verdicts(title or None)
        return f"{markdown(said)}\n`{found.said['command']}`: {said.scope}."

    def means(asked: str) -> str:
        name, *figures = asked.split()
        return _means(loaded(name), figures)

    def measured(asked: str) -> str:
        name, *more = asked.split()
        said = json.loads((root / BENCHMARKS / f"{name}.json").read_text(encoding="utf-8"))
        return benchmarks.KINDS.get(name, benchmarks.plain)(said, *more)

    def there(kind: str, name: str) -> bool:
        if kind == "benchmark":
            return (root / BENCHMARKS / f"{name}.json").is_file()
        try:
            return kind not in ("verdicts", "means") or bool(loaded(name))
        except InputError:
            return False

    kinds: dict[str, Callable[[str], str]] = {
        "claims": lambda asked: short(claims, LEDGER) if asked == "table" else summary(claims, untested),
        "figures": lambda asked: beside([r for r in rows if any(r.figure.startswith(a) for a in asked.split())]),
        "verdicts": verdicts,
        "means": means,
        "benchmark": measured,
        "gallery": lambda _: _pictures(drawable(loaded)),
    }

    def write(what: str) -> str:
        kind, _, rest = what.partition(" ")
        if kind not in kinds:
            raise InputError(f"a block is one of {', '.join(kinds)}, not '{what}'")
        name = re.split("[ ,]", rest)[0]
        return kinds[kind](rest) if there(kind, name) else f"Not measured yet: {name}."

    return write


def _pictures(shown: Sequence[Picture]) -> str:
    """Two beside each other, each with its words; as seen from the README."""
    cells = [f"![{p.says}]({GALLERY}/{p.name}.png)<br>{p.says}" for p in shown]
    cells += [""] * (len(cells) % 2)
    return benchmarks.table(["", ""], zip(cells[::2], cells[1::2], strict=True)) if cells else ""


def _means(outcome: Outcome, figures: Sequence[str]) -> str:
    """Each arm's mean of some figures, with its smallest and largest run."""
    title = outcome.titles[0]
    lines = []
    for arm in (name for t, name in outcome.rows if t == title):
        cells = []
        for figure in figures:
            values = np.array([value_in(outcome, row, figure) for row in rows_of(outcome, arm, title)])
            mean, low, high = (text_of(figure, float(x)) for x in (values.mean(), values.min(), values.max()))
            cells.append(f"{mean} ({low} … {high})")
        lines.append([arm, *cells])
    return f"{benchmarks.table(['arm', *figures], lines)}\n\n`{outcome.said['command']}`: {outcome.verdicts().scope}."
