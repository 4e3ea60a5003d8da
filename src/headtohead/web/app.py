"""The web application: its addresses, and what answers each."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import FileResponse, Response, StreamingResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from headtohead import __version__
from headtohead.web import audits, compose, control, inside, jobs, ledger, puzzles, sharing, study_page
from headtohead.web.answers import answered
from headtohead.web.bench import Bench
from headtohead.web.security import App, Guard

STATIC = Path(__file__).parent / "static"
PAGES = (study_page, control, jobs, compose, inside, audits, puzzles, ledger, sharing)  # each adds its own addresses


class Assets(StaticFiles):
    """Files of the page. The browser keeps them and asks each time whether they have changed, so that a newer version
    of the package is seen at once."""

    def file_response(self, *given: Any, **options: Any) -> Response:
        answer = super().file_response(*given, **options)
        answer.headers["cache-control"] = "no-cache"
        return answer


def make_app(bench: Bench) -> App:
    def about() -> dict[str, Any]:
        return {
            "version": __version__,
            "home": str(bench.home),
            "read_only": bench.access.read_only,
            "allow_code": bench.allow_code,
        }

    def board() -> dict[str, Any]:
        return {"rows": list(bench.index.rows().values()), "ready": bench.watcher.ready.is_set()}

    async def page(_: Request) -> Response:
        return FileResponse(STATIC / "index.html", headers={"cache-control": "no-store"})

    async def events(_: Request) -> Response:
        headers = {"cache-control": "no-store", "x-accel-buffering": "no"}
        return StreamingResponse(bench.watcher.follow(), media_type="text/event-stream", headers=headers)

    @contextlib.asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        bench.watcher.start(asyncio.get_running_loop())
        yield
        bench.watcher.stop()
        for end in bench.at_end:
            end()

    routes = [
        Route("/", page),
        Route("/events", events),
        Route("/api/about", answered(about)),
        Route("/api/board", answered(board)),
        *(route for page in PAGES for route in page.routes(bench)),
        Mount("/static", Assets(directory=STATIC)),
    ]
    return Guard(Starlette(routes=routes, lifespan=lifespan), bench.access)
