"""Which packages a distribution needs, and environments that have exactly these and a wheel."""

from __future__ import annotations

import importlib.metadata
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator
from importlib.metadata import Distribution, PackageNotFoundError
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name


def needed(requirements: Iterable[str]) -> dict[str, Distribution]:
    """The installed distributions that these requirements name, and what they need, by name."""
    found: dict[str, Distribution] = {}
    done: set[tuple[str, str]] = set()
    waiting = [Requirement(line) for line in requirements]
    while waiting:
        wanted = waiting.pop()
        name = canonicalize_name(wanted.name)
        try:
            found[name] = importlib.metadata.distribution(name)
        except PackageNotFoundError:
            continue  # such as the CUDA packages of another build of torch
        for extra in {"", *wanted.extras} - {extra for other, extra in done if other == name}:
            done.add((name, extra))
            lines = map(Requirement, found[name].requires or [])
            waiting += [line for line in lines if line.marker is None or line.marker.evaluate({"extra": extra})]
    return found


def modules(distributions: Iterable[Distribution]) -> set[str]:
    """The top-level modules of these distributions."""
    return {entry.removesuffix(".py").partition(".")[0] for d in distributions for entry in _entries(d)}


def environment(folder: Path, distributions: Iterable[Distribution], wheel: Path | None = None) -> Path:
    """A new virtual environment with these packages alone, as links to those of this one; its folder of programs."""
    subprocess.run([sys.executable, "-m", "venv", *([] if wheel else ["--without-pip"]), folder], check=True)
    (packages,) = (folder / "lib").glob("python*/site-packages")
    programs = folder / "bin"
    if wheel is not None:
        install = [programs / "python", "-m", "pip", "install", "-q", "--no-deps", "--no-index", wheel]
        subprocess.run(install, check=True)
    for distribution in distributions:
        for entry in _entries(distribution):
            link = packages / entry
            if not link.exists():
                link.symlink_to(os.path.abspath(str(distribution.locate_file(entry))))
    return programs


def _entries(distribution: Distribution) -> Iterator[str]:
    """What a distribution has in the folder of packages: modules, packages, its metadata."""
    for entry in {file.parts[0] for file in distribution.files or []} - {"..", "__pycache__"}:
        if not entry.endswith(".pth"):
            yield entry
