"""A recording of a real command in a real terminal, and the picture that is drawn from it."""

from __future__ import annotations

import re
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

pytest.importorskip("pyte", reason="the recording is drawn with pyte: pip install 'headtohead[docs]'")

import demo_recording

PROGRAM = "import sys, time; print('\\x1b[32mone\\x1b[0m & two', sys.stdout.isatty(), flush=True); print('three')"


def visible(svg: str) -> list[str]:
    """What a program that knows no style sheets shows: all that is not marked as past."""
    root = ET.fromstring(re.sub(r' xmlns="[^"]+"', "", svg, count=1))
    return [
        "".join(group.itertext())
        for group in root.iter("g")
        if group.get("class") != "past" and group.find("g") is None
    ]


def test_a_command_is_recorded_in_a_terminal(tmp_path: Path):
    events = demo_recording.record([sys.executable, "-c", PROGRAM], tmp_path)
    assert [at for at, _ in events] == sorted(at for at, _ in events)
    printed = "".join(text for _, text in events)
    assert printed == "\x1b[32mone\x1b[0m & two True\r\nthree\r\n"


def test_a_command_that_fails_is_not_drawn(tmp_path: Path):
    with pytest.raises(SystemExit, match="ended with"):
        demo_recording.record([sys.executable, "-c", "raise SystemExit(1)"], tmp_path)


def test_a_row_is_shown_from_when_it_was_printed_until_it_changes():
    events = [(9.0, "0 of 9\r\n"), (29.0, "\x1b[1A9 of 9\r\n"), (40.0, "\x1b[31mdone\x1b[0m")]
    svg = demo_recording.picture(events, "h2h x")
    assert visible(svg)[-3:] == ["$ h2h x", "9 of 9", "done"]
    assert re.search(r'class="past" style="animation:seen 2\.00s 1\.00s"><text[^>]*>0 of 9', svg)  # ten times faster
    assert re.search(r'style="animation:later 4\.00s"><text[^>]*fill="#ff8a7a"[^>]*>done', svg)
    assert "recorded in 40 s, played 10 times faster" in svg
    assert "prefers-reduced-motion" in svg


def test_the_picture_in_the_docs_shows_the_verdicts_of_the_demo():
    svg = demo_recording.PICTURE.read_text(encoding="utf-8")
    last = "\n".join(visible(svg))
    for words in ("window of 8", "better", "equivalent", "worse", "Found:"):
        assert words in last
    assert "0 of 39 runs" not in last
    assert "played 10 times faster" in svg
    assert not re.search(r"https?://(?!www\.w3\.org)|<script|<foreignObject", svg)
    assert demo_recording.PICTURE.stat().st_size < 150_000
