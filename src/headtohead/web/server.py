"""Start the server: what `h2h serve` and `Outcome.serve()` call."""

from __future__ import annotations

import contextlib
import socket
import threading
import webbrowser
from collections.abc import Callable
from pathlib import Path

from headtohead.errors import InputError, Unavailable
from headtohead.run import store
from headtohead.web.app import make_app
from headtohead.web.bench import Bench
from headtohead.web.security import LOOPBACK, Access, kept_token, token_file

PORT = 8765
TRIED = 20  # ports after the first that are tried where none was asked for


def serve(
    home: Path | None = None,
    *,
    port: int | None = None,
    host: str = "127.0.0.1",
    password: str = "",
    allow_hosts: tuple[str, ...] = (),
    read_only: bool = False,
    allow_code: bool = False,
    open_page: bool = False,
    page: str = "",
    say: Callable[[str], object] = print,
) -> None:
    """Serve the store until Ctrl-C. `page` is the part of the address after #, such as /study/demo."""
    import uvicorn

    beyond = host not in ("127.0.0.1", "localhost", "::1")
    if beyond and len(password) < 12:
        raise InputError(
            f"--host {host} lets other machines in: give a --password of 12 letters or more, and know that traffic is "
            "not encrypted; ssh -L is safer"
        )
    listening = _socket(host, port)
    port = listening.getsockname()[1]
    hosts = (*LOOPBACK, *allow_hosts, *((host,) if beyond else ()))
    access = Access(password or kept_token(token_file(port)), port, hosts, password, read_only)
    app = make_app(Bench(home or store.home(), access, allow_code))
    address = f"http://{'127.0.0.1' if not beyond else host}:{port}/?token={access.token}{f'#{page}' if page else ''}"
    say(f"serving {home or store.home()}: {address}")
    say("Ctrl-C ends the server; studies that it started go on")
    config = uvicorn.Config(
        app,
        log_level="error",
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=1,
        limit_concurrency=200,
        ws="none",
    )
    if open_page:
        threading.Timer(0.3, webbrowser.open, [address]).start()
    with contextlib.closing(listening), contextlib.suppress(KeyboardInterrupt):  # the way to end a server
        uvicorn.Server(config).run(sockets=[listening])


def _socket(host: str, port: int | None) -> socket.socket:
    """A listening socket: on the port that was asked for, else on the first free one from PORT on."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    for candidate in [port] if port is not None else [*range(PORT, PORT + TRIED), 0]:
        made = socket.socket(family, socket.SOCK_STREAM)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            made.bind((host, candidate))
            made.listen()  # from now on no other server gets the port, and the printed address can be opened
        except OSError as error:
            made.close()
            if port is not None:
                raise Unavailable(f"cannot listen on {host}:{port}: {error.strerror}; choose another --port") from None
        else:
            return made
    raise Unavailable(f"no port of {host} is free: close other servers, or give --port")
