"""Texts as they are typed, piped in, or chosen from the samples."""

from __future__ import annotations

import sys


def text_or_sample(text: str | None, sample: str | None) -> str:
    """The typed text, or the text of a sample."""
    from headtohead.errors import InputError

    if (text is None) == (sample is None):
        raise InputError(
            "give a text or --sample" + (", not both" if text is not None else ": short, beyond, normal …")
        )
    if sample is not None:
        from headtohead.data.samples import sample as sample_named

        return sample_named(sample)
    return read_text(text or "")


def read_text(text: str) -> str:
    """The text itself; a dash reads standard input."""
    try:
        raw = sys.stdin.buffer.read() if text == "-" else text.encode()
        return raw.decode()
    except UnicodeError:
        from headtohead.errors import InputError

        raise InputError("the text is not UTF-8: convert it, e.g. with iconv -f latin1 -t utf-8") from None


def read_lines(texts: list[str]) -> tuple[list[str], list[int]]:
    """The texts, and the numbers of blank lines that were left out. A dash reads the lines of standard input."""
    found: list[str] = []
    blank: list[int] = []
    for text in texts:
        if text != "-":
            found.append(read_text(text))
            continue
        for number, line in enumerate(read_text(text).splitlines(), 1):
            if line.strip():
                found.append(line)
            else:
                blank.append(number)
    return found, blank
