"""The machine a run is trained on: what it has, and which device is taken."""

from __future__ import annotations

import os
import platform
import sys
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import torch

from headtohead import __version__
from headtohead.arm import RunSpec
from headtohead.doctor import processor
from headtohead.errors import InputError, Unavailable


def environment(spec: RunSpec) -> dict[str, Any]:
    """Where and with what a run is trained."""
    packages = {}
    for name in ("torch", "numpy", "tokenizers", "safetensors"):
        try:
            packages[name] = version(name)
        except PackageNotFoundError:
            packages[name] = "absent"
    return {
        "headtohead": __version__,
        "packages": packages,
        "python": platform.python_version(),
        "system": platform.platform(),
        "processor": processor(),
        "cores": os.cpu_count(),
        "device": spec.device,
        "threads": spec.threads,
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def check_threads(threads: int) -> None:
    cores = os.cpu_count() or 1
    if threads > cores:
        raise InputError(f"--threads {threads} is more than the {cores} cores of this machine: give at most {cores}")


def choose_device(wanted: str) -> str:
    """auto takes the fastest there is; a device that is not there is said so."""
    there = {"cpu": True, "cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    if wanted == "auto":
        return next(d for d in ("cuda", "mps", "cpu") if there[d])
    if wanted not in there:
        raise InputError(f"--device takes auto, cpu, cuda or mps, not '{wanted}'")
    if not there[wanted]:
        raise Unavailable(f"this machine has no {wanted} that torch can use: take --device cpu")
    return wanted


def peak_mb() -> float | None:
    """The most memory this process has had so far; none where the system does not say."""
    try:
        import resource
    except ImportError:  # not on Windows
        return None
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1 << 20 if sys.platform == "darwin" else 1 << 10)
