"""How a function of the library becomes an answer: JSON, one-line errors, work in a thread."""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from pydantic import ValidationError, validate_call
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response, StreamingResponse

from headtohead.errors import InputError, failure, is_users
from headtohead.run import store
from headtohead.web.bench import NotFound

Ask = Callable[..., Any]
Endpoint = Callable[[Request], Awaitable[Response]]


def answered(ask: Ask) -> Endpoint:
    """An endpoint that calls `ask` with the request's path parameters, query and JSON body, and answers with JSON.
    Arguments are checked against the annotations of `ask`."""
    checked = validate_call(ask)

    async def endpoint(request: Request) -> Response:
        try:
            given: dict[str, Any] = {**dict(request.query_params), **request.path_params}
            if request.method == "POST":
                given |= await _body(request)
            return _json(await run_in_threadpool(checked, **given))
        except Exception as error:
            refused = _refused(error)
            if refused is None:
                raise
            return _json({"error": refused[1]}, refused[0])

    return endpoint


Tell = Callable[[Any], None]
Work = Callable[..., None]  # (tell, stop, **fields)


class Stopped(Exception):  # noqa: N818
    """The page no longer listens."""


def streamed(work: Work) -> Endpoint:
    """An endpoint for work with news on the way: it calls `work(tell, stop, **fields)` in a thread, and sends every
    value that is told as a line of JSON. `stop` is set when the page no longer listens; telling then raises Stopped.
    Fields are checked against the annotations of `work`."""
    checked = validate_call(config={"arbitrary_types_allowed": True})(work)

    async def endpoint(request: Request) -> Response:
        news: asyncio.Queue[Any] = asyncio.Queue()
        stop, loop = threading.Event(), asyncio.get_running_loop()

        def tell(value: Any) -> None:
            if stop.is_set() or loop.is_closed():
                raise Stopped
            loop.call_soon_threadsafe(news.put_nowait, value)

        def run(given: dict[str, Any]) -> None:
            with contextlib.suppress(Stopped):
                try:
                    checked(tell, stop, **given)
                    tell(None)
                except Stopped:
                    pass
                except Exception as error:
                    tell(error)
                    if _refused(error) is None:
                        raise

        async def lines(first: Any) -> AsyncIterator[str]:
            value = first
            try:
                while value is not None:
                    if isinstance(value, Exception):
                        yield json.dumps({"error": (_refused(value) or BROKEN)[1]}) + "\n"
                        return
                    yield json.dumps(store.plain(value)) + "\n"
                    value = await news.get()
            finally:
                stop.set()

        try:
            given = {**dict(request.query_params), **(await _body(request) if request.method == "POST" else {})}
        except InputError as error:
            return _json({"error": str(error)}, 400)
        threading.Thread(target=run, args=(given,), daemon=True).start()
        first = await news.get()
        if isinstance(first, Exception):
            status, said = _refused(first) or BROKEN
            return _json({"error": said}, status)
        headers = {"cache-control": "no-store", "x-accel-buffering": "no"}
        return StreamingResponse(lines(first), media_type="application/x-ndjson", headers=headers)

    return endpoint


BROKEN = (500, "the server failed: its terminal shows why")


def _refused(error: Exception) -> tuple[int, str] | None:
    """Status and text of the answer to a request that cannot be met; None where the error is one of this program."""
    if isinstance(error, InputError):
        return 404 if isinstance(error, NotFound) else 400, str(error)
    if isinstance(error, ValidationError):
        return 400, f"the request cannot be understood: {_first(error)}"
    return (400, failure(error).splitlines()[0]) if is_users(error) else None


async def _body(request: Request) -> dict[str, Any]:
    """The fields of a JSON object; of a file that is uploaded, its `content`."""
    try:
        if request.headers.get("content-type") == "application/octet-stream":
            return {"content": await request.body()}
        given = json.loads(await request.body() or b"{}")
    except (ValueError, RecursionError, ClientDisconnect):
        raise InputError("the request is no JSON: reload the page and try again") from None
    if not isinstance(given, dict):
        raise InputError("the request is no JSON object: reload the page and try again")
    return given


def _first(error: ValidationError) -> str:
    """The first field that is wrong, and why."""
    found = error.errors(include_url=False, include_input=False)[0]
    return f"{'.'.join(map(str, found['loc'])) or 'it'}: {found['msg']}"


def _json(value: Any, status: int = 200) -> JSONResponse:
    return JSONResponse(store.plain(value), status, headers={"cache-control": "no-store"})
