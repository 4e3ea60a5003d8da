"""A reverse proxy as JupyterHub has one, and a page that shows another one in a frame."""

from __future__ import annotations

import contextlib
import http.client
import http.server
import threading
from collections.abc import Iterator


class _Quiet(http.server.BaseHTTPRequestHandler):
    def log_message(self, *_: object) -> None: ...


@contextlib.contextmanager
def _listening(handler: type[_Quiet]) -> Iterator[int]:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()


@contextlib.contextmanager
def proxied(port: int, base: str, keeps: bool) -> Iterator[int]:
    """Pass requests below `base` on to a port, with the path as it is or without `base`. The Host header stays, as with
    jupyter-server-proxy. Gives the proxy's port."""

    class Proxy(_Quiet):
        def do_GET(self) -> None:
            if not self.path.startswith(base):
                self.send_error(404)
                return
            body = self.rfile.read(int(self.headers.get("content-length", 0)))
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
            path = self.path if keeps else self.path[len(base) :] or "/"
            with contextlib.closing(connection), contextlib.suppress(OSError, http.client.HTTPException):
                connection.request(self.command, path, body, dict(self.headers))
                answer = connection.getresponse()
                self.send_response(answer.status)
                for name, value in answer.getheaders():
                    if name.lower() not in ("transfer-encoding", "connection", "server", "date"):
                        self.send_header(name, value)
                self.send_header("connection", "close")
                self.end_headers()
                while part := answer.read1(65536):
                    self.wfile.write(part)
                    self.wfile.flush()

        def do_POST(self) -> None:
            self.do_GET()

    with _listening(Proxy) as found:
        yield found


@contextlib.contextmanager
def page_with(html: str) -> Iterator[int]:
    """Serve one page. Gives its port."""

    class Page(_Quiet):
        def do_GET(self) -> None:
            self.send_response(200 if self.path == "/" else 204)
            self.send_header("content-type", "text/html; charset=utf-8")
            self.end_headers()
            self.wfile.write(html.encode() if self.path == "/" else b"")

    with _listening(Page) as found:
        yield found
