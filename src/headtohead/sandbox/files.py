"""Keep a process away from files with Landlock, which Linux has since 5.13. It needs no privileges.

Numbers and structures: the kernel's user-space interface, include/uapi/linux/landlock.h.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import struct
import sys
from collections.abc import Iterable
from pathlib import Path

CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446
NO_NEW_PRIVS = 38
EXECUTE, WRITE_FILE, READ_FILE, READ_DIR = (1 << n for n in range(4))
READ = EXECUTE | READ_FILE | READ_DIR
OF_FILES = EXECUTE | WRITE_FILE | READ_FILE | 1 << 14 | 1 << 15  # 14: truncate, 15: control of a device
BITS = {1: 13, 2: 14, 3: 15, 4: 15, 5: 16}  # rights on files that each version knows; later ones know as many as 5
CONNECT = 0b11  # bind and connect of TCP, version 4
SCOPES = 0b11  # abstract sockets and signals to processes outside, version 6


def version() -> int:
    """The version of Landlock that this machine has; 0: none."""
    if sys.platform != "linux":
        return 0
    return max(0, _libc().syscall(CREATE_RULESET, None, ctypes.c_size_t(0), ctypes.c_uint32(1)))


def restrict(readable: Iterable[Path], writable: Iterable[Path]) -> bool:
    """Let this process read and write only below these paths, for the rest of its life. False if that is impossible."""
    known = version()
    if not known:
        return False
    handled = (1 << BITS.get(known, 16)) - 1
    attributes = struct.pack("QQQ", handled, CONNECT if known >= 4 else 0, SCOPES if known >= 6 else 0)
    attributes = attributes[: 8 if known < 4 else 16 if known < 6 else 24]
    libc = _libc()
    rules = libc.syscall(CREATE_RULESET, attributes, ctypes.c_size_t(len(attributes)), ctypes.c_uint32(0))
    if rules < 0:
        return False
    try:
        for paths, rights in ((readable, READ), (writable, handled)):
            for path in paths:
                with contextlib.suppress(OSError):  # a path that is not there needs no rule
                    _allow(libc, rules, path, rights & handled)
        return not libc.prctl(NO_NEW_PRIVS, 1, 0, 0, 0) and not libc.syscall(RESTRICT_SELF, rules, ctypes.c_uint32(0))
    finally:
        os.close(rules)


def _allow(libc: ctypes.CDLL, rules: int, path: Path, rights: int) -> None:
    file = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        rule = struct.pack("=Qi", rights if path.is_dir() else rights & OF_FILES, file)
        libc.syscall(ADD_RULE, rules, 1, rule, ctypes.c_uint32(0))
    finally:
        os.close(file)


def needed() -> list[Path]:
    """What Python and torch read while they run: the environment, the system's libraries, a few files of the kernel."""
    package = Path(__file__).parents[1]
    python = [Path(sys.prefix), Path(sys.base_prefix), package]
    system = ["/usr", "/lib", "/lib64", "/bin", "/etc/ld.so.cache", "/etc/localtime", "/etc/mime.types"]
    kernel = ["/proc/self", "/proc/cpuinfo", "/proc/meminfo", "/proc/stat", "/proc/filesystems", "/sys/devices/system"]
    kernel += ["/sys/fs/cgroup", "/dev/null", "/dev/zero", "/dev/urandom", "/dev/random"]
    return [*python, *_libraries(), *map(Path, system + kernel)]


def _libraries() -> list[Path]:
    """Folders with installed packages, wherever they are. Other folders of the search path are left out."""
    return [Path(entry) for entry in sys.path if Path(entry).name in ("site-packages", "dist-packages")]


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)
