"""Start the server: what `h2h serve` calls."""

from __future__ import annotations

import contextlib
import os
import secrets
import socket
import threading
import webbrowser
from collections.abc import Callable
from pathlib import Path

import uvicorn

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
    allow_frames: tuple[str, ...] = (),
    base_path: str = "",
    read_only: bool = False,
    allow_code: bool = False,
    open_page: bool = False,
    for_parent: bool = False,
    say: Callable[[str], object] = print,
) -> None:
    """Serve the store until Ctrl-C. With `for_parent` the server has its own token and ends when its standard
    input does: a program that starts it need not end it."""
    beyond = host not in ("127.0.0.1", "localhost", "::1")
    if beyond and len(password) < 12:
        raise InputError(
            f"--host {host} lets other machines in: give a --password of 12 characters or more, and know that traffic "
            "is not encrypted; ssh -L is safer"
        )
    listening = _socket(host, port)
    port = listening.getsockname()[1]
    names = _names_of(host) if beyond else ()
    hosts = (*LOOPBACK, *(name.lower() for name in (*allow_hosts, *names)))
    token = secrets.token_urlsafe(32) if for_parent else kept_token(token_file(port))
    any_address = host in ("0.0.0.0", "::")
    access = Access(token, port, hosts, any_address, password if beyond else "", read_only, base_path, allow_frames)
    bench = Bench(home or store.home(), access, allow_code)
    own = host if beyond and not any_address else "::1" if host == "::1" else "127.0.0.1"
    address = f"http://{_in_url(own)}:{port}/?token={access.token}"
    say(f"serving {home or store.home()}: {address}")
    if beyond:
        say(f"other machines: http://{_in_url(names[0])}:{port}/ asks for the password")
    if access.base_path:
        say(f"behind the proxy: {access.base_path}/?token={access.token}")
    say("Ctrl-C ends the server; studies that it started go on")
    config = uvicorn.Config(
        make_app(bench),
        log_level="error",
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=1,
        limit_concurrency=200,
        ws="none",
    )
    if open_page:
        threading.Timer(0.3, webbrowser.open, [address]).start()
    server = _Server(config, bench)
    if for_parent:
        threading.Thread(target=_end_with_input, args=(server,), daemon=True).start()
    with contextlib.closing(listening), contextlib.suppress(KeyboardInterrupt):  # the way to end a server
        server.run(sockets=[listening])


def _names_of(host: str) -> tuple[str, ...]:
    """The names by which other machines reach an address of this machine."""
    if host not in ("0.0.0.0", "::"):
        return (_in_url(host),)
    return tuple(dict.fromkeys((socket.gethostname(), socket.getfqdn())))


def _in_url(host: str) -> str:
    return f"[{host}]" if ":" in host and not host.startswith("[") else host


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config, bench: Bench) -> None:
        super().__init__(config)
        self.bench = bench

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self.bench.watcher.stop()  # open pages would hold the server, and be cut off with an error
        await super().shutdown(sockets)


def _end_with_input(server: uvicorn.Server) -> None:
    """Wait until the parent closes the pipe or dies."""
    while os.read(0, 4096):
        pass
    server.should_exit = True


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
