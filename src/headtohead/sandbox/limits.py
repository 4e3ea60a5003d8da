"""Limits on what one process may use."""

from __future__ import annotations

import signal
from dataclasses import dataclass
from pathlib import Path

MB = 2**20


@dataclass(frozen=True)
class Limits:
    """What a piece of work may use, beyond what its process used when it was forked."""

    seconds: float = 60.0  # of real time; twice as much is never reached
    memory: int = 2048 * MB  # bytes of address space
    written: int = 16 * MB  # bytes of one file

    def apply(self) -> None:
        """Limit this process for the rest of its life."""
        import resource

        used = resource.getrusage(resource.RUSAGE_SELF)
        cpu = int(used.ru_utime + used.ru_stime + self.seconds) + 1
        resource.setrlimit(resource.RLIMIT_CPU, (cpu, cpu + 1))  # the first ends the process with SIGXCPU
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_FSIZE, (self.written, self.written))
        if (mapped := _mapped()) is not None:
            most = mapped + self.memory
            resource.setrlimit(resource.RLIMIT_AS, (most, most))
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # a file that grows too large is an OSError
        signal.alarm(int(2 * self.seconds) + 5)  # ends the process even if its parent was killed


def _mapped() -> int | None:
    """Bytes of address space that this process has; None where that is not known."""
    import resource

    try:
        pages = int(Path("/proc/self/statm").read_text().split()[0])
    except (OSError, ValueError, IndexError):
        return None
    return pages * resource.getpagesize()
