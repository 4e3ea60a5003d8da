"""The pictures of the slides, drawn as SVG. Text and lines have the colour of the page, so they fit light and dark."""

from __future__ import annotations

import html
import math
from collections.abc import Sequence

BLUE, ORANGE, GREEN, RED = "#3a8fc7", "#d98a00", "#1f9e78", "#d1603d"
SOFT = 'fill="currentColor" fill-opacity=".1"'
SENTENCE = ("the", "dog", "chased", "the", "cat")


def draw(name: str) -> str:
    """The SVG of a picture."""
    return PICTURES[name]()


def _svg(width: float, height: float, parts: Sequence[str]) -> str:
    style = 'font-family="system-ui, sans-serif" font-size="14" fill="currentColor" stroke="none"'
    arrow = (
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        '<path d="M0 0 8 4 0 8z" fill="context-stroke"/></marker></defs>'
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" {style}>'
        f"{arrow}{''.join(parts)}</svg>"
    )


def _box(x: float, y: float, width: float, height: float, fill: str = SOFT, label: str = "") -> str:
    said = _text(x + width / 2, y + height / 2 + 5, label) if label else ""
    return f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" rx="4" {fill}/>{said}'


def _full(colour: str, opacity: float = 1.0) -> str:
    return f'fill="{colour}" fill-opacity="{opacity:.2f}"'


def _text(x: float, y: float, said: str, anchor: str = "middle", more: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" {more}>{html.escape(said)}</text>'


def _arrow(x1: float, y1: float, x2: float, y2: float, colour: str = "currentColor", width: float = 2) -> str:
    ends = f'x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"'
    return f'<line {ends} stroke="{colour}" stroke-width="{width:g}" marker-end="url(#tip)"/>'


def softmax(scores: Sequence[float]) -> list[float]:
    powers = [math.exp(s - max(scores)) for s in scores]
    return [p / sum(powers) for p in powers]


def weights() -> str:
    parts = [_text(70, 22, "score"), _text(300, 22, "weight"), _text(560, 22, "value")]
    scores = [1.0, 2.0, 3.0]
    for n, (score, weight) in enumerate(zip(scores, softmax(scores), strict=True)):
        y = 40 + 46 * n
        parts += [
            _box(20, y, 100, 34, SOFT, f"q · k{n + 1} = {score:g}"),
            _box(170, y, 260, 34),
            _box(170, y, 260 * weight, 34, _full(BLUE, 0.75)),
            _text(440, y + 22, f"{weight:.2f}", "start"),
            _box(510, y, 100, 34, _full(ORANGE, 0.2 + 0.8 * weight), f"v{n + 1}"),
        ]
    parts += [_arrow(560, 182, 560, 208, ORANGE), _text(560, 228, "0.09 v1 + 0.24 v2 + 0.67 v3")]
    return _svg(680, 240, parts)


def heads() -> str:
    parts = [_text(60, 26, "a token")]
    colours = (BLUE, ORANGE, GREEN)
    for n, colour in enumerate(colours):
        y = 38 + 56 * n
        parts += [
            _box(30, y, 60, 56, _full(colour, 0.7)),
            _arrow(100, y + 28, 200, y + 28, colour),
            _box(210, y + 6, 180, 44, _full(colour, 0.25), f"attention of head {n + 1}"),
            _arrow(400, y + 28, 490, y + 28, colour),
            _box(500, y, 60, 56, _full(colour, 0.7)),
        ]
    parts += [_text(530, 26, "joined"), _arrow(570, 122, 620, 122), _box(630, 96, 80, 52, SOFT, "output")]
    return _svg(730, 220, parts)


def padding() -> str:
    texts = (("a", "short", "one"), ("this", "text", "is", "longer", "than", "that"), ("two", "words"))
    parts = []
    for row, words in enumerate(texts):
        for column in range(6):
            real = column < len(words)
            fill = _full(BLUE, 0.35) if real else 'fill="none" stroke="currentColor" stroke-dasharray="4 4"'
            parts.append(_box(20 + 108 * column, 16 + 54 * row, 98, 42, fill, words[column] if real else "pad"))
    return _svg(680, 180, parts)


def block() -> str:
    parts = []
    x = 60.0
    for name, colour in (("attention", BLUE), ("feed-forward", ORANGE)):
        parts += [
            _box(x + 30, 70, 70, 44, SOFT, "norm"),
            _arrow(x + 102, 92, x + 128, 92),
            _box(x + 132, 70, 110, 44, _full(colour, 0.4), name),
            _arrow(x + 244, 92, x + 268, 92),
            f'<circle cx="{x + 284:.0f}" cy="92" r="14" fill="none" stroke="currentColor" stroke-width="2"/>',
            _text(x + 284, 97, "+", more='font-size="18"'),
            f'<path d="M{x + 10:.0f} 92 V34 H{x + 284:.0f} V74" fill="none" stroke="{GREEN}" stroke-width="3" '
            'marker-end="url(#tip)"/>',
            _arrow(x, 92, x + 26, 92),
        ]
        x += 300
    parts += [_text(36, 97, "x"), _arrow(x, 92, x + 40, 92), _text(x + 54, 97, "x")]
    return _svg(740, 140, parts)


def causal() -> str:
    parts = []
    for left, title, hidden in ((90, "encoder", False), (440, "language model", True)):
        parts.append(_text(left + 90, 18, title))
        for i, word in enumerate(SENTENCE):
            parts += [
                _text(left - 8, 50 + 36 * i, word, "end"),
                _text(left + 18 + 36 * i, 228, word, more='font-size="11"'),
            ]
            for j in range(len(SENTENCE)):
                seen = not hidden or j <= i
                fill = _full(BLUE, 0.6) if seen else 'fill="none" stroke="currentColor" stroke-opacity=".3"'
                parts.append(_box(left + 36 * j + 2, 28 + 36 * i, 32, 32, fill))
    return _svg(680, 240, parts)


def cache() -> str:
    parts = [_text(20, 30, "first call", "start"), _text(20, 120, "next call", "start")]
    for n, word in enumerate((*SENTENCE, "again")):
        old = n < 4
        x = 130 + 88 * n
        if old:
            parts.append(_box(x, 8, 80, 36, _full(ORANGE, 0.55), word))
            parts.append(_arrow(x + 40, 48, x + 40, 92, ORANGE))
        fill = 'fill="none" stroke="#d98a00" stroke-width="2" stroke-dasharray="5 4"' if old else _full(BLUE, 0.55)
        parts.append(_box(x, 98, 80, 36, fill, "k, v" if old else word))
        parts.append(_text(x + 40, 156, f"position {n}", more='font-size="12"'))
    return _svg(680, 170, parts)


def alibi() -> str:
    parts = []
    heads, length, size = 4, 7, 18
    for h in range(1, heads + 1):
        slope = 2 ** (-8 * h / heads)
        left = 20 + 165 * (h - 1)
        parts.append(_text(left + length * size / 2, 18, f"slope {slope:g}", more='font-size="12"'))
        for i in range(length):
            for j in range(i + 1):
                strength = 0.1 + 0.8 * math.exp(-slope * (i - j))
                parts.append(_box(left + j * size, 28 + i * size, size - 2, size - 2, _full(BLUE, strength)))
    return _svg(680, 165, parts)


def rotary() -> str:
    parts = []
    for left, title, speed in ((170, "pair 0 turns fast", 1.0), (510, "pair 1 turns slowly", 0.1)):
        parts += [
            f'<circle cx="{left}" cy="110" r="76" fill="none" stroke="currentColor" stroke-opacity=".3"/>',
            _text(left, 214, title),
        ]
        for p in range(5):
            angle = p * speed
            x, y = math.cos(angle), -math.sin(angle)
            parts.append(_arrow(left, 110, left + 76 * x, 110 + 76 * y, BLUE if p else ORANGE))
            parts.append(_text(left + 92 * x, 115 + 92 * y, str(p), more='font-size="12"'))
    return _svg(680, 224, parts)


def puzzle() -> str:
    parts = []
    x0, y0, unit = 340.0, 120.0, 62.0
    axis = 'stroke="currentColor" stroke-opacity=".25"'
    parts.append(f'<path d="M{x0 - 150} {y0} H{x0 + 150} M{x0} 10 V230" fill="none" {axis}/>')
    for x, y, value in ((1, 0, 10), (0, 1, 20), (-1, -1, 60)):
        parts.append(_arrow(x0, y0, x0 + unit * x, y0 - unit * y, BLUE, 3))
        beside = x0 + unit * x + (46 if x >= 0 else -46)
        parts.append(_text(beside, y0 - unit * y + (22 if x == 1 else 5), f"value {value}"))
    parts += [_arrow(x0, y0, x0 - 80, y0 - 80, ORANGE, 3), _text(x0 - 90, y0 - 84, "a query", "end")]
    return _svg(680, 236, parts)


def frozen() -> str:
    parts = [
        _box(20, 40, 260, 90, SOFT, "encoder, frozen"),
        _arrow(284, 85, 330, 85),
        _box(336, 55, 110, 60, SOFT, "mean"),
        _arrow(450, 85, 494, 85),
        _box(500, 55, 150, 60, _full(GREEN, 0.5), "linear, trained"),
        f'<path d="M575 122 V165 H300 V140" fill="none" stroke="{RED}" stroke-width="2" stroke-dasharray="6 4"/>',
        _text(430, 184, "the gradient stops before the encoder"),
    ]
    return _svg(680, 196, parts)


PICTURES = {
    function.__name__: function
    for function in (weights, heads, padding, block, causal, cache, alibi, rotary, puzzle, frozen)
}
