"""Names in figures are shortened."""

from __future__ import annotations

from headtohead.figures.style import shortened


def test_long_names_are_shortened_in_the_middle():
    assert shortened(["Rope", "Alibi"]) == ["Rope", "Alibi"]
    short = shortened(["a" * 300, "a" * 299, "中文" * 40, "lr=1" + "0" * 50 + "=end"])
    assert short[0] == "a" * 15 + "…" + "a" * 14
    assert short[1] == short[0] + " (2)"
    assert len(short[2]) < 18
    assert short[3].startswith("lr=1")
    assert short[3].endswith("=end")
