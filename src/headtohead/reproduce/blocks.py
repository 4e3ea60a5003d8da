"""Figures in the README and the docs come from stored runs: what stands between two marks is written by
`h2h reproduce --claims`, and a test writes it again and compares.

    <!-- stored: verdicts window -->
    …
    <!-- /stored -->
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path

from headtohead.errors import InputError
from headtohead.outcome import Outcome
from headtohead.report.paste import markdown
from headtohead.reproduce import kept
from headtohead.reproduce.ledger import Judged, summary

BLOCK = re.compile(r"(<!-- stored: (?P<what>[^>]+?) -->\n).*?(?P<end>\n?<!-- /stored -->)", re.DOTALL)


def filled(text: str, write: Callable[[str], str]) -> str:
    """The text with every block written anew."""
    return BLOCK.sub(lambda found: f"{found[1]}{write(found['what']).rstrip()}\n<!-- /stored -->", text)


def pages(root: Path) -> list[Path]:
    """Those that have blocks."""
    known = [root / "README.md", *sorted((root / "docs").rglob("*.md"))]
    return [page for page in known if BLOCK.search(page.read_text(encoding="utf-8"))]


def writer(claims: Sequence[Judged], stored: Path, room: Path) -> Callable[[str], str]:
    """Writes a block by what its mark asks for."""

    def outcome(name: str) -> Outcome:
        return kept.unpacked(stored / f"{name}.json", room / "blocks" / name)

    def write(what: str) -> str:
        kind, _, rest = what.partition(" ")
        name, _, title = rest.partition(", ")
        if kind == "claims":
            return summary(claims)
        if kind == "verdicts":
            found = outcome(name)
            verdicts = found.verdicts(title or None)
            return f"{markdown(verdicts)}\n`{found.said['command']}`: {verdicts.scope}."
        raise InputError(f"a block is claims or verdicts STUDY, not '{what}'")

    return write
