"""The machine a run is trained on: what it has, and which device is taken."""

from __future__ import annotations

import functools
import os
import platform
import sys
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version

import torch

from headtohead import __version__
from headtohead.errors import InputError, Unavailable
from headtohead.run.doctor import processor
from headtohead.run.results import Environment
from headtohead.training.arm import RunSpec


def environment(spec: RunSpec) -> Environment:
    """Where and with what a run is trained, for env.json."""
    packages = {}
    for name in ("torch", "numpy", "tokenizers", "safetensors"):
        try:
            packages[name] = version(name)
        except PackageNotFoundError:
            packages[name] = "absent"
    return Environment(
        headtohead=__version__,
        packages=packages,
        python=platform.python_version(),
        system=platform.platform(),
        processor=processor(),
        cores=os.cpu_count(),
        device=spec.device,
        threads=spec.threads,
        started=datetime.now(UTC).isoformat(timespec="seconds"),
    )


def check_threads(threads: int) -> None:
    cores = os.cpu_count() or 1
    if threads > cores:
        raise InputError(f"--threads {threads} is more than the {cores} cores of this machine: give at most {cores}")


def choose_device(wanted: str) -> str:
    """Return the device to train on; auto is the fastest one. Refuses a device that this machine does not have."""
    there = {"cpu": True, "cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    if wanted == "auto":
        return next(d for d in ("cuda", "mps", "cpu") if there[d])
    if wanted not in there:
        raise InputError(f"--device takes auto, cpu, cuda or mps, not '{wanted}'")
    if not there[wanted]:
        raise Unavailable(f"this machine has no {wanted} that torch can use: use --device cpu")
    return wanted


@functools.cache
def keep_memory() -> None:
    """Ask the C library to keep large pieces of freed memory for the next step. By default it gives them back to the
    system, which clears and hands out the same pages again at every step: about a tenth of the time of a model the
    size of MiniLM. Only glibc can be asked; the results are the same bits either way."""
    if platform.libc_ver()[0] != "glibc":
        return
    import ctypes

    trim, top, own_mapping = -1, -2, -3  # M_TRIM_THRESHOLD, M_TOP_PAD, M_MMAP_THRESHOLD of malloc.h
    library = ctypes.CDLL(None)
    library.mallopt(own_mapping, 1 << 30)
    library.mallopt(trim, (1 << 31) - 1)
    library.mallopt(top, 1 << 26)


def peak_mb() -> float | None:
    """The largest memory of this process so far, in MB; None where the system does not report it."""
    try:
        import resource
    except ImportError:  # not on Windows
        return None
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1 << 20 if sys.platform == "darwin" else 1 << 10)
