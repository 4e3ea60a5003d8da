"""slides.md as one HTML file that needs nothing else: arrow keys turn pages, it prints, and it fits a phone.

A line --- begins a slide. Of Markdown it knows headings, paragraphs, lists, tables, indented code, pictures, **bold**
and `code`.
"""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Iterator
from pathlib import Path

TEMPLATE = Path(__file__).with_name("slides_page.html")


def page(markdown: str, picture: Callable[[str], str]) -> str:
    """The slides as HTML. `picture` returns the SVG of a file name."""
    parts = re.split(r"^---$", markdown, flags=re.MULTILINE)
    found = re.search(r"^# (.+)$", markdown, flags=re.MULTILINE)
    shown = "\n".join(
        f'<section aria-label="slide {n}">\n{slide(part, picture)}\n<footer>{n} / {len(parts)}</footer>\n</section>'
        for n, part in enumerate(parts, 1)
    )
    title = html.escape(found[1] if found else "Slides")
    return TEMPLATE.read_text(encoding="utf-8").replace("@TITLE@", title).replace("@SLIDES@", shown)


def slide(markdown: str, picture: Callable[[str], str]) -> str:
    return "\n".join(_block(block, picture) for block in _blocks(markdown))


def _blocks(markdown: str) -> Iterator[list[str]]:
    """Lines that belong together: separated by empty lines, and by a change between text, code, list and table."""
    block: list[str] = []
    for line in [*markdown.splitlines(), ""]:
        goes_on = bool(block) and line.startswith("  ") and _kind(block[0]) == "list"  # in an indented line
        if block and not goes_on and (not line.strip() or _kind(line) != _kind(block[0])):
            yield block
            block = []
        if line.strip():
            block.append(line)


def _kind(line: str) -> str:
    if line.startswith("    "):
        return "code"
    if re.match(r"([-*]|\d+\.) ", line):
        return "list"
    return {"|": "table", "#": "heading", "!": "picture"}.get(line[:1], "text")


def _block(lines: list[str], picture: Callable[[str], str]) -> str:
    kind = _kind(lines[0])
    if kind == "code":
        return f"<pre>{html.escape(chr(10).join(line[4:] for line in lines))}</pre>"
    if kind == "heading":
        return f"<h1>{_words(lines[0].lstrip('# '))}</h1>"
    if kind == "table":
        return _table(lines)
    if kind == "list":
        name = "ol" if lines[0][0].isdigit() else "ul"
        items = re.split(r"^(?:[-*]|\d+\.) ", "\n".join(lines), flags=re.MULTILINE)[1:]
        return f"<{name}>{''.join(f'<li>{_words(item)}</li>' for item in items)}</{name}>"
    found = re.fullmatch(r"!\[(.+)\]\((?:.*/)?([\w-]+)\.svg\)", lines[0]) if kind == "picture" else None
    if found:
        drawn = picture(found[2]).replace(
            "<svg ", f'<svg role="img" aria-label="{html.escape(found[1], quote=True)}" ', 1
        )
        return f"<figure>{drawn}</figure>"
    return f"<p>{_words(' '.join(lines))}</p>"


def _table(lines: list[str]) -> str:
    rows = [[_words(cell.strip()) for cell in line.strip().strip("|").split("|")] for line in lines]
    head = "".join(f'<th scope="col">{cell}</th>' for cell in rows[0])
    body = "".join(f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>" for row in rows[2:])
    return f'<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def _words(text: str) -> str:
    """Bold and code inside a line; nothing inside code is changed."""
    pieces = re.split(r"(`[^`]+`)", text)
    return "".join(
        f"<code>{html.escape(piece[1:-1])}</code>"
        if piece.startswith("`")
        else re.sub(r"\*\*(.+?)\*\*", r"<strong>\1</strong>", html.escape(piece))
        for piece in pieces
    )
