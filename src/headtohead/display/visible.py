"""Control characters of other people's text, shown instead of obeyed by the terminal. Imports nothing but `re`."""

from __future__ import annotations

import re

# Control characters but tab and line end, what changes the direction of writing, line separators, and lone surrogates,
# which stand for bytes of a file name that are not UTF-8. A carriage return before a line end is left alone.
_HIDDEN = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u061c\u2028-\u202e\u2066-\u2069\ufff9-\ufffb\ud800-\udfff]|\r(?!\n)"
)


def visible(text: str) -> str:
    """The text with \\x1b for an escape character, and likewise for others that a terminal obeys or cannot show."""
    return _HIDDEN.sub(lambda found: _named(ord(found[0])), text)


def visible_json(text: str) -> str:
    """JSON text with the same characters as JSON writes them, \\u001b."""
    return _HIDDEN.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def _named(point: int) -> str:
    return f"\\x{point:02x}" if point < 0x100 else f"\\u{point:04x}"
