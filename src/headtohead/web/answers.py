"""How a function of the library becomes an answer: JSON, one-line errors, work in a thread."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from inspect import signature
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response

from headtohead.errors import InputError, failure, is_users
from headtohead.run import store
from headtohead.web.bench import NotFound

Ask = Callable[..., Any]
Endpoint = Callable[[Request], Awaitable[Response]]
_KINDS: dict[str, type] = {"str": str, "bytes": bytes}  # fields whose annotations are these hold nothing else


def answered(ask: Ask) -> Endpoint:
    """An endpoint that calls `ask` with the request's path parameters, query and JSON body, and answers with JSON."""

    kinds = {name: _KINDS.get(str(field.annotation)) for name, field in signature(ask).parameters.items()}

    async def endpoint(request: Request) -> Response:
        try:
            given: dict[str, Any] = {**dict(request.query_params), **request.path_params}
            if request.method == "POST":
                given |= await _body(request)
            for name, value in given.items():
                if (kind := kinds.get(name)) is not None and not isinstance(value, kind):
                    raise InputError(f"the request cannot be understood: {name} is of another kind")
            return _json(await run_in_threadpool(ask, **given))
        except NotFound as error:
            return _json({"error": str(error)}, 404)
        except InputError as error:
            return _json({"error": str(error)}, 400)
        except TypeError as error:
            if "argument" in str(error):  # of `ask` itself: the request has wrong or missing fields
                return _json({"error": f"the request cannot be understood: {_plain(error)}"}, 400)
            raise
        except Exception as error:
            if not is_users(error):
                raise
            return _json({"error": failure(error).splitlines()[0]}, 400)

    return endpoint


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


def _plain(error: TypeError) -> str:
    return str(error).partition(") ")[2] or "other fields were expected"


def _json(value: Any, status: int = 200) -> JSONResponse:
    return JSONResponse(store.plain(value), status, headers={"cache-control": "no-store"})
