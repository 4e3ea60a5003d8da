"""Who may talk to the server, and what its pages may load.

The server answers only to addresses that it was started for (against DNS rebinding) and to a browser that has its
token: from the URL that `h2h serve` prints, then from a cookie that other sites cannot send. Requests whose origin is a
page of another site are refused. Requests that change something also need a header that no other site's page can set.
Pages load nothing from anywhere else.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import html
import ipaddress
import json
import os
import re
import secrets
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, quote, unquote, urlsplit

from headtohead.errors import InputError
from headtohead.run.store import to_text, write_whole

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

HEADER = "x-h2h"  # of requests that change something: a page of another site cannot set it without asking first
MOST_BODY = 20 * 2**20  # bytes of an uploaded text
MOST_FORM = 4_096  # bytes of a password's form
GUESS_SECONDS = 1.0  # after a wrong password, for all browsers together
ENTER = "/enter"
CLOSED = "this page needs the address that h2h serve printed, with its token"
LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data: blob:",
        "connect-src 'self'",
        "manifest-src 'self'",
        "base-uri 'none'",
        "form-action 'self'",
        "frame-ancestors 'self'",
    )
)
FRAME = re.compile(r"https?://[a-z0-9.-]+(:(\d{1,5}|\*))?", re.IGNORECASE)
BASE = re.compile(r"(/[\w.~@+-]+)+")
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
}


@dataclass(frozen=True)
class Access:
    """What the server was started with."""

    token: str
    port: int
    hosts: tuple[str, ...] = LOOPBACK  # names that the server answers to
    any_address: bool = False  # it listens on all addresses of the machine, and answers to each, as a number
    password: str = ""  # asked for where the server listens beyond this machine
    read_only: bool = False
    base_path: str = ""  # the path under which a proxy shows the server; the proxy may keep it or take it away
    frames: tuple[str, ...] = ()  # sites that may show the pages in a frame

    def __post_init__(self) -> None:
        base = unquote(self.base_path).rstrip("/")
        if base and not BASE.fullmatch(base):
            raise InputError(f"--base-path {self.base_path[:80]} is no path such as /user/ann/proxy/8765")
        object.__setattr__(self, "base_path", base)
        for site in self.frames:
            if not FRAME.fullmatch(site):
                raise InputError(f"--allow-frame {site[:80]} is no site such as http://localhost:8888")

    @property
    def headers(self) -> dict[str, str]:
        policy = " ".join((POLICY, *self.frames))  # the policy ends with the sites that may frame the pages
        return HEADERS | {"content-security-policy": policy}

    def knows_origin(self, origin: str, host: str) -> bool:
        """Whether a page of `origin` is one of this server's: its address is the one that was asked, or a name that the
        user gave, such as that of a proxy that asks with a name of its own."""
        site = urlsplit(origin).netloc.lower()
        return site == host.lower() or site in self.hosts[len(LOOPBACK) :]

    @property
    def cookie(self) -> str:
        return f"h2h-{self.port}"  # cookies do not distinguish ports

    def knows_host(self, host: str) -> bool:
        name = host if host.endswith("]") or ":" not in host else host.rpartition(":")[0]
        known = name.lower() in self.hosts or host.lower() in self.hosts
        return known or (self.any_address and _is_address(name))  # a site of somebody else has a name, not a number

    def is_token(self, given: str) -> bool:
        """Compare without telling by the time how much of it was right."""
        return hmac.compare_digest(given.encode(), self.token.encode())

    def is_password(self, given: str) -> bool:
        return bool(self.password) and hmac.compare_digest(given.encode(), self.password.encode())


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name.strip("[]"))
    except ValueError:
        return False
    return True


def kept_token(file: Path) -> str:
    """The token of an earlier server, so that open pages connect again after a restart; a new one if there is none.
    The file is in the user's own folder, readable by the user alone."""
    try:
        known = json.loads(file.read_text(encoding="utf-8"))["token"]
        if isinstance(known, str) and len(known) >= 32:
            return known
    except (OSError, ValueError, KeyError, TypeError):
        pass
    file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    token = secrets.token_urlsafe(32)
    write_whole(file, to_text({"token": token}))
    os.chmod(file, 0o600)
    return token


def token_file(port: int) -> Path:
    base = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state")
    return base / "headtohead" / f"serve-{port}.json"


class Guard:
    """Refuses requests that do not come from the user's own browser; adds the headers that confine pages."""

    def __init__(self, app: App, access: Access) -> None:
        self.app, self.access = app, access
        self._guesses = asyncio.Semaphore(1)  # passwords are checked one by one, with a pause after each wrong one

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self.app(scope, receive, send)
            return  # no web sockets
        headers = {k.decode("latin-1").lower(): v.decode("latin-1") for k, v in scope["headers"]}
        send = _with_headers(send, self.access.headers)
        base = self.access.base_path
        if base and f"{scope['path']}/".startswith(f"{base}/"):
            scope = {**scope, "path": scope["path"][len(base) :]}
        refused = self._refused(scope, headers)
        if refused is not None:
            await _answer(send, *refused)
            return
        if not scope["path"]:  # relative addresses need the slash
            query = scope["query_string"].decode("latin-1")
            await _answer(send, 307, "", {"location": f"{quote(base)}/{f'?{query}' if query else ''}"})
            return
        given = parse_qs(scope["query_string"].decode("latin-1")).get("token", [""])[0]
        if given and self.access.is_token(given) and scope["method"] == "GET":
            await self._welcome(scope, send)
            return
        if scope["path"] == ENTER and scope["method"] == "POST":
            await self._enter(receive, send)
            return
        if not self._is_known(headers):
            if scope["path"] == "/" and "text/html" in headers.get("accept", ""):
                await _page(send, 401, self._closed_page(""))
            else:
                await _answer(send, 401, f"{CLOSED}: copy it from the terminal")
            return
        await self.app(scope, _limited(receive), send)

    def _refused(self, scope: Scope, headers: dict[str, str]) -> tuple[int, str] | None:
        host = headers.get("host", "")
        if not self.access.knows_host(host):
            known = ", ".join(self.access.hosts)
            return 421, f"this server answers to {known} only: open it there, or start it with --allow-host"
        if scope["method"] not in ("GET", "HEAD", "POST"):
            return 405, "this server takes GET and POST only"
        origin = headers.get("origin")
        if origin is not None and not self.access.knows_origin(origin, host):
            return 403, "the request comes from a page of another site"
        if scope["method"] != "POST":
            return None
        if scope["path"] == ENTER:  # a form cannot set headers; browsers say where it comes from
            return None if origin is not None else (403, "the request does not say from which page it comes")
        if HEADER not in headers:
            return 403, f"the request lacks the header {HEADER}, which the pages of this server set"
        length = headers.get("content-length", "0")
        if not length.isdigit() or int(length) > MOST_BODY:
            return 413, f"the text is larger than {MOST_BODY // 2**20} MB: train on the file with --data instead"
        if self.access.read_only and not scope["path"].rstrip("/").endswith("/look"):
            return 403, "this server is read-only: it was started with --read-only"
        return None

    def _is_known(self, headers: dict[str, str]) -> bool:
        # Cookies of all programs of this machine arrive together, and some are not well-formed: only ours is read.
        pairs = (pair.strip().partition("=") for pair in headers.get("cookie", "").split(";"))
        given = [value for name, _, value in pairs if name == self.access.cookie]
        return any(hmac.compare_digest(value.encode(), session(self.access).encode()) for value in given)

    def _closed_page(self, wrong: str) -> str:
        """What a browser sees that is not known: where the address is, or a field for the password."""
        form = (
            f'<form method="post" action=".{ENTER}"><label>Password <input type="password" name="password" '
            'autocomplete="current-password" autofocus></label> <button>Open</button></form>'
        )
        said = "This server asks for a password." if self.access.password else f"{CLOSED}: copy it from the terminal."
        alarm = f'<p role="alert">{html.escape(wrong)}</p>' if wrong else ""
        body = f"<h1>headtohead</h1><p>{said[0].upper()}{said[1:]}</p>{alarm}{form if self.access.password else ''}"
        head = '<meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>headtohead</title>'
        return f'<!doctype html><html lang="en"><head>{head}</head><body>{body}</body></html>'

    async def _enter(self, receive: Receive, send: Send) -> None:
        """Let in a browser whose form has the password."""
        body = b""
        while len(body) <= MOST_FORM:
            message = await receive()
            body += message.get("body", b"")
            if not message.get("more_body"):
                break
        given = parse_qs(body[:MOST_FORM].decode("latin-1")).get("password", [""])[0]
        async with self._guesses:
            right = self.access.is_password(given)
            if not right:
                await asyncio.sleep(GUESS_SECONDS)
        if right:
            await _answer(send, 303, "", {"location": "./", "set-cookie": self._cookie()})
        else:
            await _page(send, 401, self._closed_page("The password is wrong."))

    def _cookie(self) -> str:
        """The cookie has no path: the browser then sends it only below the path that it asked, so that a proxy does not
        give it to its other servers."""
        return f"{self.access.cookie}={session(self.access)}; HttpOnly; SameSite=Strict; Max-Age=2592000"

    async def _welcome(self, scope: Scope, send: Send) -> None:
        """Turn the token of the URL into a cookie, and take it out of the address."""
        rest = [pair for pair in scope["query_string"].decode("latin-1").split("&") if not pair.startswith("token=")]
        there = "./" + (f"?{'&'.join(quote(pair, safe='=%&') for pair in rest)}" if any(rest) else "")
        await _answer(send, 303, "", {"location": there, "set-cookie": self._cookie()})


def session(access: Access) -> str:
    """What the cookie holds: made from token and password, so that a cookie that leaks gives neither away, and that
    another password ends what the old one opened."""
    return hashlib.sha256(f"session {access.token} {access.password}".encode()).hexdigest()


def _with_headers(send: Send, headers: dict[str, str]) -> Send:
    async def sent(message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            known = {name.lower() for name, _ in message.get("headers", [])}
            more = [(k.encode(), v.encode()) for k, v in headers.items() if k.encode() not in known]
            message = {**message, "headers": [*message.get("headers", []), *more]}
        await send(message)

    return sent


def _limited(receive: Receive) -> Receive:
    """Stop reading a body that is longer than its head said."""
    left = MOST_BODY

    async def received() -> MutableMapping[str, Any]:
        nonlocal left
        message = await receive()
        left -= len(message.get("body", b""))
        return message if left >= 0 else {"type": "http.disconnect"}

    return received


async def _page(send: Send, status: int, text: str) -> None:
    body = text.encode()
    headers = [(b"content-type", b"text/html; charset=utf-8"), (b"content-length", str(len(body)).encode())]
    headers.append((b"cache-control", b"no-store"))
    headers.append((b"referrer-policy", b"same-origin"))  # without a referrer the form would not name its origin
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


async def _answer(send: Send, status: int, text: str, headers: dict[str, str] | None = None) -> None:
    body = json.dumps({"error": text}).encode() if text else b""
    said = {"content-type": "application/json", "content-length": str(len(body)), **(headers or {})}
    await send(
        {
            "type": "http.response.start",
            "status": status,
            "headers": [(k.encode(), v.encode("latin-1")) for k, v in said.items()],
        }
    )
    await send({"type": "http.response.body", "body": body})
