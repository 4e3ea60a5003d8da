"""An autograder for Gradescope: a zip to upload, and grading that ends within a time.

The zip holds setup.sh, run_autograder, the rubric with its solutions and tests in rubric/, and the wheel if one is
given. Gradescope unpacks it into /autograder/source. AUTOGRADER_ROOT names another folder than /autograder, to try it
locally.
"""

from __future__ import annotations

import io
import re
import shlex
import time
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from headtohead import __version__
from headtohead.disk.writing import write_whole
from headtohead.errors import InputError
from headtohead.grading.grade import IMPORTS, Grade, Scored, grade
from headtohead.grading.rubric import Part, Rubric, read_rubric
from headtohead.grading.scoring import files_of
from headtohead.grading.submission import unpacked
from headtohead.sandbox import Nursery

LEAST = 3.0  # seconds that a check gets, if so much is left
NO_TIME = "not graded: the time for the whole submission was used up by the checks before"

SETUP = r"""#!/usr/bin/env bash
# Installs what the grader needs. Gradescope runs this once, when it builds the image.
set -euo pipefail
root="${AUTOGRADER_ROOT:-/autograder}"

find_python() {
    for name in python3 python3.12 python3.13 python3.11; do
        if "$name" -c 'import ensurepip, sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            echo "$name"
            return
        fi
    done
    return 1
}

if ! find_python >/dev/null; then
    apt-get update
    apt-get install -y python3-venv || true
    find_python >/dev/null || apt-get install -y python3.11 python3.11-venv
fi
"$(find_python)" -m venv --clear "$root/venv"
pip() { "$root/venv/bin/python" -m pip "$@"; }
set -- @PACKAGES@
# uv can choose the build of torch without CUDA, which saves several gigabytes
with_uv() { "$root/venv/bin/uv" pip install -q --python "$root/venv/bin/python" --torch-backend=cpu "$@"; }
if ! { pip install -q uv && with_uv "$@"; }; then
    echo "uv could not install them, trying pip" >&2
    pip install -q --no-cache-dir "$@"
fi
"$root/venv/bin/python" -c 'import headtohead.grading.grade'
"""

RUN = r"""#!/usr/bin/env bash
# Grades one submission and writes the results where Gradescope reads them.
root="${AUTOGRADER_ROOT:-/autograder}"
python="$root/venv/bin/python"
[ -x "$python" ] || python=python3  # without setup.sh: the Python that is active
results="$root/results/results.json"
mkdir -p "$root/results"
rm -f "$results"
cd "$root"
# the students do not see what is printed here; their feedback is in the results
"$python" -m headtohead.cli grade submission --rubric source/rubric --out "$results" --within @SECONDS@
code=$?
if [ ! -s "$results" ]; then
    says="The grader failed, please tell your teacher."
    echo "{\"score\": 0, \"output\": \"$says\", \"stdout_visibility\": \"hidden\"}" >"$results"
    exit "$code"
fi
"""


def write_autograder(rubric: Path, to: Path, wheel: Path | None = None, seconds: float = 600.0) -> list[str]:
    """Write the zip and return the names of its files."""
    if wheel is not None and not re.fullmatch(r"headtohead-[^/]+\.whl", wheel.name):
        raise InputError(f"{wheel.name} is not a wheel of headtohead: its name is headtohead-VERSION-py3-none-any.whl")
    if wheel is not None and not wheel.is_file():
        raise InputError(f"no file {wheel}: build the wheel with pip wheel --no-deps .")
    read = read_rubric(rubric)
    what = f'"$root/source/{wheel.name}"' if wheel else f"headtohead=={__version__}"
    packages = " ".join([what, *map(shlex.quote, read.imports)])
    own = files_of(rubric, read)
    beside = [path for path in read.folder.glob("*.py") if path not in own]  # that tests or solutions may import
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as made:
        _add(made, "setup.sh", SETUP.replace("@PACKAGES@", packages).encode(), program=True)
        _add(made, "run_autograder", RUN.replace("@SECONDS@", f"{0.9 * seconds:g}").encode(), program=True)
        for path in (*own, *beside):
            within = path.relative_to(read.folder)
            name = "rubric.toml" if path == own_rubric(rubric, read) else within.as_posix()
            _add(made, f"rubric/{name}", path.read_bytes())
        if wheel:
            _add(made, wheel.name, wheel.read_bytes())
        names = made.namelist()
    write_whole(to, out.getvalue())
    return names


def own_rubric(place: Path, rubric: Rubric) -> Path:
    return rubric.folder / ("rubric.toml" if place.is_dir() else place.name)


def _add(archive: zipfile.ZipFile, name: str, data: bytes, *, program: bool = False) -> None:
    info = zipfile.ZipInfo(name)
    info.external_attr = (0o100755 if program else 0o100644) << 16
    info.compress_type = zipfile.ZIP_STORED if name.endswith(".whl") else zipfile.ZIP_DEFLATED
    archive.writestr(info, data)


def grade_within(submission: Path, rubric: Rubric, seconds: float) -> Iterator[Grade]:
    """Grade part by part and yield the grade so far after each. No check gets more than its share of the time left."""
    until = time.monotonic() + seconds
    if submission.is_file() and submission.suffix == ".zip":
        import tempfile

        with tempfile.TemporaryDirectory(prefix="h2h-zip-") as folder:
            for found in grade_within(unpacked(submission, Path(folder)), rubric, until - time.monotonic()):
                yield replace(found, submission=submission.stem)
            return
    done: list[Scored] = []
    notes: tuple[str, ...] = ()
    with Nursery((*IMPORTS, *rubric.imports)) as nursery:
        for n, part in enumerate(rubric.parts):
            share = (until - time.monotonic()) / sum(len(p.items) for p in rubric.parts[n:])
            if share < LEAST and share < rubric.limits.seconds:
                done += _unused(part)
            else:
                limits = replace(rubric.limits, seconds=min(rubric.limits.seconds, share))
                found = grade(submission, replace(rubric, parts=(part,), limits=limits), nursery)
                done += found.items
                notes = found.notes
            rest = [item for later in rubric.parts[n + 1 :] for item in _unused(later)]
            yield Grade(submission.resolve().name, rubric.title, (*done, *rest), notes)


def _unused(part: Part) -> list[Scored]:
    return [Scored(part.name, item.name, 0.0, item.points, (NO_TIME,)) for item in part.items]
