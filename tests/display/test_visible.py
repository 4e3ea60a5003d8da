"""Control characters are shown, and ordinary text of any language is left alone."""

from __future__ import annotations

import io
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.table import Table
from rich.text import Text

from headtohead.display.console import Console
from headtohead.display.visible import visible, visible_json


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[31mred\x1b[0m", "\\x1b[31mred\\x1b[0m"),
        ("\x1b]0;title\x07", "\\x1b]0;title\\x07"),
        ("\x9b2J", "\\x9b2J"),  # C1: the same as ESC [
        ("a\x00b\x7fc\x08d", "a\\x00b\\x7fc\\x08d"),
        ("safe\rh2h: all is well", "safe\\x0dh2h: all is well"),
        ("file\u202etxt.exe", "file\\u202etxt.exe"),
        ("name\udcff", "name\\udcff"),  # a byte of a file name that is not UTF-8
        ("one\ntwo\tthree\r\n", "one\ntwo\tthree\r\n"),
        ("Grüße, 中文, עברית, 👩‍🔬 − × …", "Grüße, 中文, עברית, 👩‍🔬 − × …"),
    ],
)
def test_what_a_terminal_would_obey_is_shown(text: str, shown: str) -> None:
    assert visible(text) == shown


@given(st.text())
def test_json_stays_the_same_value(text: str) -> None:
    written = visible_json(json.dumps({text: text}, ensure_ascii=False))
    assert json.loads(written) == {text: text}
    assert visible(written) == written


@given(st.text(alphabet=st.characters(max_codepoint=0x2100)))
def test_a_console_shows_no_control_characters(text: str) -> None:
    out = io.StringIO()
    console = Console(file=out, force_terminal=True, color_system=None, width=60)
    table = Table("name", text)
    table.add_row(text, Text(text, style="bold"))
    for renderable in (text, Text(text), table):
        console.print(renderable, markup=False)
        console.print(renderable, markup=False, soft_wrap=True)
    assert visible(out.getvalue()) == out.getvalue()


def test_a_console_keeps_its_own_colours() -> None:
    out = io.StringIO()
    Console(file=out, force_terminal=True, color_system="standard", width=60).print("\x1b[5mred", style="red")
    assert out.getvalue() == "\x1b[31m\\x1b[5mred\x1b[0m\n"
