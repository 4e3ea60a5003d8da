"""Keep a process from some system calls with seccomp, which Linux offers to every process: no network, no signals to
others, no further processes or programs, no change of owners and rights, nothing that only an administrator may do.

Numbers and structures: the kernel's user-space interface. A filter is a program of 8-byte instructions.
"""

from __future__ import annotations

import ctypes
import platform
import struct
import sys

NO_NEW_PRIVS, SET_SECCOMP, FILTER = 38, 22, 2
ALLOW, ERRNO = 0x7FFF0000, 0x00050000
EPERM, ENOSYS = 1, 38
LOAD, EQUAL, AT_LEAST, ANY_BIT, RETURN = 0x20, 0x15, 0x35, 0x45, 0x06  # instructions
NUMBER, MACHINE = 0, 4  # offsets into what the kernel hands to the filter
CLONE_THREAD = 0x10000

MACHINES = {"x86_64": (0xC000003E, 0), "aarch64": (0xC00000B7, 1)}
# Numbers on x86_64 and on aarch64; None where the call does not exist.
REFUSED: dict[str, tuple[int | None, int | None]] = {
    "socket": (41, 198),
    "kill": (62, 129),
    "tkill": (200, 130),
    "tgkill": (234, 131),
    "rt_sigqueueinfo": (129, 138),
    "rt_tgsigqueueinfo": (297, 240),
    "pidfd_open": (434, 434),
    "pidfd_send_signal": (424, 424),
    "pidfd_getfd": (438, 438),
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "fork": (57, None),
    "vfork": (58, None),
    "execve": (59, 221),
    "execveat": (322, 281),
    "chmod": (90, None),
    "fchmod": (91, 52),
    "fchmodat": (268, 53),
    "fchmodat2": (452, 452),
    "chown": (92, None),
    "fchown": (93, 55),
    "lchown": (94, None),
    "fchownat": (260, 54),
    "setxattr": (188, 5),
    "lsetxattr": (189, 6),
    "fsetxattr": (190, 7),
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "chroot": (161, 51),
    "setns": (308, 268),
    "unshare": (272, 97),
    "reboot": (169, 142),
    "sethostname": (170, 161),
    "settimeofday": (164, 170),
    "clock_settime": (227, 112),
    "setrlimit": (160, 164),
    "init_module": (175, 105),
    "finit_module": (313, 273),
    "delete_module": (176, 106),
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "keyctl": (250, 219),
}
ABSENT = {"clone3": (435, 435), "io_uring_setup": (425, 425)}  # callers then use older calls
CLONE, PRLIMIT = (56, 220), (302, 261)


def possible() -> bool:
    """Whether this machine has filters of system calls that are known here."""
    if sys.platform != "linux" or platform.machine() not in MACHINES:
        return False
    return ctypes.CDLL(None, use_errno=True).prctl(21, 0, 0, 0, 0) >= 0  # 21: ask for the state of seccomp


def restrict() -> bool:
    """Refuse these calls to this process for the rest of its life. False if that is impossible."""
    if not possible():
        return False
    program = _program(platform.machine())
    held = ctypes.create_string_buffer(program)
    what = struct.pack("HxxxxxxQ", len(program) // 8, ctypes.addressof(held))
    libc = ctypes.CDLL(None, use_errno=True)
    return not libc.prctl(NO_NEW_PRIVS, 1, 0, 0, 0) and not libc.prctl(SET_SECCOMP, FILTER, what, 0, 0)


def _program(machine: str) -> bytes:
    code, column = MACHINES[machine]
    lines = [
        (LOAD, 0, 0, MACHINE),
        (EQUAL, 1, 0, code),
        _refuse(EPERM),
        (LOAD, 0, 0, NUMBER),
    ]
    if machine == "x86_64":  # calls of the 32-bit kind have other numbers
        lines += [(AT_LEAST, 0, 1, 0x40000000), _refuse(EPERM)]
    for table, errno in ((REFUSED, EPERM), (ABSENT, ENOSYS)):
        for numbers in table.values():
            number = numbers[column]
            if number is not None:
                lines += [(EQUAL, 0, 1, number), _refuse(errno)]
    # A thread may be started, a process not: bit CLONE_THREAD of the first argument.
    lines += [(EQUAL, 0, 4, CLONE[column]), (LOAD, 0, 0, _argument(0)), (ANY_BIT, 1, 0, CLONE_THREAD)]
    lines += [_refuse(EPERM), (RETURN, 0, 0, ALLOW)]
    # Limits may be read, not set: the third argument, in two halves, is zero.
    lines += [(EQUAL, 0, 5, PRLIMIT[column]), (LOAD, 0, 0, _argument(2)), (EQUAL, 0, 2, 0)]
    lines += [(LOAD, 0, 0, _argument(2) + 4), (EQUAL, 1, 0, 0), _refuse(EPERM)]
    lines += [(RETURN, 0, 0, ALLOW)]
    return b"".join(struct.pack("HBBI", *line) for line in lines)


def _refuse(errno: int) -> tuple[int, int, int, int]:
    return (RETURN, 0, 0, ERRNO | errno)


def _argument(n: int) -> int:
    """The offset of the lower half of an argument."""
    return 16 + 8 * n
