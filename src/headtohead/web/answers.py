"""How a function of the library becomes an answer: JSON, one-line errors, work in a thread."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any

from pydantic import ValidationError, validate_call
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response

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
        except NotFound as error:
            return _json({"error": str(error)}, 404)
        except InputError as error:
            return _json({"error": str(error)}, 400)
        except ValidationError as error:
            return _json({"error": f"the request cannot be understood: {_first(error)}"}, 400)
        except Exception as error:
            if not is_users(error):
                raise
            return _json({"error": failure(error).splitlines()[0]}, 400)

    return endpoint


async def _body(request: Request) -> dict[str, Any]:
    try:
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
