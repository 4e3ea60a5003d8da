"""The process that forks children: python -m headtohead.sandbox.forking SOCKET IMPORT…

It imports what the children need and runs no foreign code itself.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import signal
import socket
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

REAP_AFTER = 0.5  # seconds that a child has to end by itself


def main(number: int, imports: list[str]) -> None:
    import torch

    torch.set_num_threads(1)
    for name in imports:
        with contextlib.suppress(ImportError):  # a child that needs it will say so
            importlib.import_module(name)
    gc.collect()
    gc.freeze()  # children share the memory of what was imported
    line = socket.socket(fileno=number)
    line.sendall(b"ready\n")
    while True:
        said, files, _flags, _address = socket.recv_fds(line, 65536, 3)
        if not said:
            return
        request = json.loads(said)
        answer = {"status": _reap(request["reap"])} if "reap" in request else {"pid": _fork(line, request, files)}
        line.sendall(json.dumps(answer).encode() + b"\n")


def _fork(line: socket.socket, request: dict[str, Any], files: list[int]) -> int:
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            os.setsid()
            line.close()
            _run(request, *files)
            code = 0
        finally:
            os._exit(code)
    for file in files:
        os.close(file)
    return pid


def _reap(pid: int) -> int:
    """Return how a child ended; end it if it does not end by itself."""
    until = time.monotonic() + REAP_AFTER
    try:
        while time.monotonic() < until:
            found, status = os.waitpid(pid, os.WNOHANG)
            if found:
                return os.waitstatus_to_exitcode(status)
            time.sleep(0.005)
        os.kill(pid, signal.SIGKILL)
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    except (ChildProcessError, ProcessLookupError):
        return -signal.SIGKILL


def _run(request: dict[str, Any], asks: int, answers: int, printed: int) -> None:
    """Be the child: give up what it must not have, then do the work."""
    from headtohead.errors import InputError, failure
    from headtohead.sandbox.channel import Channel
    from headtohead.sandbox.limits import Limits
    from headtohead.sandbox.protect import protect

    nothing = os.open(os.devnull, os.O_RDONLY)
    for file, number in ((nothing, 0), (printed, 1), (printed, 2)):
        os.dup2(file, number)
    channel = Channel(os.dup(asks), os.dup(answers))
    os.set_inheritable(channel.reads, False)
    kept = {0, 1, 2, channel.reads, channel.writes}
    for name in os.listdir("/dev/fd") if os.path.isdir("/dev/fd") else map(str, range(256)):
        if int(name) not in kept:
            with contextlib.suppress(OSError):
                os.close(int(name))
    sys.stdout = open(1, "w", buffering=1, encoding="utf-8", errors="replace", closefd=False)  # noqa: SIM115
    sys.stderr = sys.stdout
    folder = Path(request["folder"])
    os.chdir(folder)
    os.environ.update({"HOME": str(folder), "TMPDIR": str(folder), "TORCHINDUCTOR_CACHE_DIR": str(folder)})
    tempfile.tempdir = None  # found again, from TMPDIR
    module, _, function = request["target"].partition(":")
    work = getattr(importlib.import_module(module), function)
    protect(Limits(**request["limits"]), folder, map(Path, request["readable"]))
    try:
        work(channel)
    except InputError as error:
        channel.send({"error": str(error)})
    except BaseException as error:  # foreign code may raise anything, SystemExit too
        channel.send({"error": _said(error, failure)})


def _said(error: BaseException, failure: Any) -> str:
    try:
        lines = (
            failure(error).splitlines()
            if isinstance(error, Exception)
            else [f"it raised {type(error).__name__}: {error}"]
        )
        return str(lines[0])
    except Exception:  # the text of an exception of foreign code may fail, too
        return f"it raised {type(error).__name__}"


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
