"""Labels, names and warnings in a model card are text: neither HTML, nor Markdown, nor lines of their own."""

from __future__ import annotations

import pytest

from headtohead.export.card import code, plain


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("calm", "calm"),
        ("<script>evil()</script>", r"&lt;script&gt;evil()&lt;/script&gt;"),
        ("[click](javascript:evil())", r"\[click\](javascript:evil())"),
        ("![x](http://evil)", r"\!\[x\](http://evil)"),
        ("a | b\n\n# heading", r"a \| b \# heading"),
        ("`code` *bold* _it_ \\", r"\`code\` \*bold\* \_it\_ \\"),
        ("\x1b[31mred\u202e", r"\[31mred"),
    ],
)
def test_text_stays_text(text: str, shown: str) -> None:
    assert plain(text) == shown


@pytest.mark.parametrize(
    ("text", "shown"), [("Rope()", "`Rope()`"), ("a`b", "`` a`b ``"), ("```\nx", "```` ``` x ````")]
)
def test_code_cannot_be_left(text: str, shown: str) -> None:
    assert code(text) == shown
