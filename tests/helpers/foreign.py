"""Work for the tests of the sandbox: each function is given the channel of its child."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np


def tries(channel):
    """Answer each question with what happened, until the channel is closed."""
    while True:
        question, arrays = channel.receive()
        if question == "sum":
            channel.send({"shape": list(arrays["x"].shape)}, {"total": arrays["x"].sum(axis=0)})
            continue
        try:
            said = ATTEMPTS[question]()
        except OSError as error:
            said = f"refused: {type(error).__name__}"
        channel.send(said)


def _read(path):
    return f"read {len(Path(path).read_bytes())}"


def _write(path):
    Path(path).write_bytes(b"x")
    return "written"


def _connect():
    with socket.create_connection(("127.0.0.1", 9), timeout=2):
        return "connected"


def _fork():
    if pid := os.fork():
        os.waitpid(pid, 0)
        return "forked"
    os._exit(0)


def _thread():
    done = []
    thread = threading.Thread(target=lambda: done.append(1))
    thread.start()
    thread.join()
    return f"{len(done)} thread"


def _run():
    subprocess.run([sys.executable, "-c", "pass"], check=True)
    return "started"


def _raise_limit():
    import resource

    with contextlib.suppress(ValueError):
        resource.setrlimit(resource.RLIMIT_CPU, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        return "raised"
    return "refused: ValueError"


def _signal(pid):
    os.kill(pid, signal.SIGTERM)
    return "sent"


def _print():
    print("line\n" * 200_000)
    return "printed"


def _leave():
    sys.exit(0)


def _wait():
    time.sleep(60)
    return "waited"


def _loop():
    while True:
        pass


def _hog():
    held = [np.ones((2**22,)) for _ in range(1000)]
    return f"{len(held)}"


def _grow():
    with open("big", "wb") as file:
        for _ in range(64):
            file.write(bytes(2**20))
    return "grown"


def _close():
    os.closerange(3, 256)
    time.sleep(60)


ATTEMPTS = {
    "passwd": lambda: _read("/etc/passwd"),
    "tmp": lambda: _write("/tmp/h2h-outside"),
    "own": lambda: _write("own.txt"),
    "parent": lambda: _write("../outside.txt"),
    "connect": _connect,
    "fork": _fork,
    "thread": _thread,
    "run": _run,
    "limit": _raise_limit,
    "signal": lambda: _signal(os.getppid()),
    "all": lambda: _signal(-1),
    "chmod": lambda: os.chmod("own.txt", 0o777) or "changed",
    "environ": lambda: ",".join(sorted(os.environ)),
    "print": _print,
    "exit": _leave,
    "_exit": lambda: os._exit(3),
    "abort": os.abort,
    "wait": _wait,
    "loop": _loop,
    "hog": _hog,
    "grow": _grow,
    "close": _close,
    "interrupt": lambda: (_ for _ in ()).throw(KeyboardInterrupt("no")),
    "torch": lambda: str(float(__import__("torch").ones(3, 3).matmul(__import__("torch").ones(3)).sum())),
}
