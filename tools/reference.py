"""Write the reference pages from the classes: python tools/reference.py parts > docs/reference/parts.md"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from itertools import groupby

from headtohead.display.reference import Entry, Setting, parts, settings


def parts_page(known: Sequence[Entry]) -> str:
    """docs/reference/parts.md"""
    lines = [
        "# Parts",
        "",
        "Written by `python tools/reference.py parts`. A part of your own: [add a part](../how-to/add-a-part.md).",
    ]
    for family, entries in groupby(known, key=lambda e: e.family):
        lines += ["", f"## {family}"]
        for e in entries:
            lines += ["", f"### {e.name}", "", e.says, "", f"    {e.equation}", "", f"Reference: {e.reference}."]
            if e.knobs:
                lines += ["", *_table("knob", e.knobs)]
    return "\n".join(lines) + "\n"


def settings_page(known: Sequence[Setting]) -> str:
    """docs/reference/settings.md"""
    lines = [
        "# Settings",
        "",
        "Written by `python tools/reference.py settings`. These are the names for `--set`, `--vary` and `--over`,",
        "with the values of `h2h train lm`. A classifier starts with words, the full pattern, ten epochs,",
        "a constant learning rate of 0.001 and no clipping. Where the type is a family of [parts](parts.md), the",
        "value is a part, `--set model.position=Rope`, or a part with its knobs, `--set",
        "'model.position=Rope(theta=500)'`. Knobs are settings too: `--set model.position.theta=500`.",
    ]
    for group, entries in groupby(known, key=lambda s: s.name.partition(".")[0]):
        lines += ["", f"## {group}", "", *_table("setting", entries)]
    return "\n".join(lines) + "\n"


def _table(title: str, rows: Iterable[Setting]) -> list[str]:
    head = [f"| {title} | type | default | |", "|---|---|---|---|"]
    return head + [f"| `{k.name}` | {k.type.replace('|', 'or')} | {k.default} | {k.help} |" for k in rows]


def main() -> None:
    match sys.argv[1:]:
        case ["parts"]:
            print(parts_page(parts()), end="")
        case ["settings"]:
            print(settings_page(settings()), end="")
        case _:
            sys.exit("give parts or settings: python tools/reference.py parts")


if __name__ == "__main__":
    main()
