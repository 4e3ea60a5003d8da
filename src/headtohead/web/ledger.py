"""To be written: routes of this page."""

from __future__ import annotations

from starlette.routing import Route

from headtohead.web.bench import Bench


def routes(bench: Bench) -> list[Route]:
    return []
