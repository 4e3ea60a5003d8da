"""The console that everything is shown on: colours are ours, and control characters in the text are visible."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rich.console import Console as RichConsole
from rich.segment import Segment

from headtohead.display.visible import visible


class Console(RichConsole):
    """Rich's console with `visible` text. Other modules use this class only."""

    def __init__(self, **options: Any) -> None:
        super().__init__(highlight=False, **options)

    @property
    def file(self) -> Any:
        """The stream below those that make text visible; a live display puts one more above it."""
        found = super().file
        while below := getattr(found, "rich_proxied_file", None):
            found = below
        return found

    @file.setter
    def file(self, stream: Any) -> None:
        self._file = stream

    def render_str(self, text: str, **options: Any) -> Any:
        """Text from a string; visible from the start, so that its width is measured right."""
        return super().render_str(visible(text), **options)

    def render(self, renderable: Any, options: Any = None) -> Iterable[Segment]:
        for text, style, control in super().render(renderable, options):
            yield Segment(text if control else visible(text), style, control)
