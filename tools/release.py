"""Everything of a release up to the upload: python tools/release.py [--dry-run] [--skip STEP …] [--out FOLDER]

Steps: ready, check, test, build, twine, install, demo. The last line is the command that uploads. The checklist is
docs/how-to/release.md.
"""

from __future__ import annotations

import argparse
import datetime
import gzip
import hashlib
import io
import os
import re
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from stored_results import ROOT

STEPS = ("ready", "check", "test", "build", "twine", "install", "demo")
VERSION = re.compile(r'^__version__ = "([^"]+)"$', re.MULTILINE)
HEADING = re.compile(r"^## (\S+), (.+)$", re.MULTILINE)


class Stopped(Exception):  # noqa: N818
    """A step failed. The message is one line that says what to do."""


# -- what must be true before ------------------------------------------------------------------------------------------


def not_ready(root: Path, today: datetime.date) -> Iterator[str]:
    """What keeps this checkout from being released, one line each."""
    if changed := _git(root, "status", "--porcelain").splitlines():
        yield f"not committed: {', '.join(line[3:] for line in changed[:3])}{' …' if len(changed) > 3 else ''}"
    version = _version(root)
    if not re.fullmatch(r"\d+\.\d+\.\d+((a|b|rc)\d+)?", version):
        yield f"__version__ is {version}: give a version such as 0.2.0 or 0.2.0rc1"
    if f"v{version}" in _git(root, "tag").split():
        yield f"the tag v{version} exists: raise __version__ in src/headtohead/__init__.py"
    heading = HEADING.search((root / "CHANGELOG.md").read_text(encoding="utf-8"))
    if heading is None:
        yield "CHANGELOG.md has no heading such as '## 0.2.0, 2026-12-01': write one"
        return
    if heading[1] != version:
        yield f"CHANGELOG.md begins with {heading[1]} and __version__ is {version}: make them agree"
    try:
        date = datetime.date.fromisoformat(heading[2])
    except ValueError:
        yield f"CHANGELOG.md says '{heading[2]}' for {heading[1]}: write the date of the release, such as {today}"
        return
    if date > today:
        yield f"CHANGELOG.md says {date}, which is in the future: write {today}"


def _version(root: Path) -> str:
    found = VERSION.search((root / "src" / "headtohead" / "__init__.py").read_text(encoding="utf-8"))
    if found is None:
        raise Stopped("src/headtohead/__init__.py has no __version__: write one")
    return found[1]


def _git(root: Path, *words: str) -> str:
    try:
        done = subprocess.run(["git", *words], cwd=root, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        raise Stopped(f"git {words[0]} failed in {root}: release from a git checkout") from None
    return done.stdout


# -- the two files -----------------------------------------------------------------------------------------------------


def export(root: Path, into: Path) -> int:
    """Write the files of the last commit; returns its time, in seconds since 1970."""
    into.mkdir(parents=True)
    done = subprocess.run(["git", "archive", "HEAD"], cwd=root, capture_output=True, check=True)
    with tarfile.open(fileobj=io.BytesIO(done.stdout)) as files:
        files.extractall(into, filter="data")
    return int(_git(root, "log", "-1", "--format=%ct"))


def build(source: Path, into: Path, epoch: int) -> tuple[Path, Path]:
    """Build the sdist from a folder, and the wheel from the sdist; the same bytes for the same files and `epoch`."""
    _built("sdist", source, into, epoch)
    (sdist,) = into.glob("*.tar.gz")
    _repack(sdist, epoch)
    with tempfile.TemporaryDirectory() as folder, tarfile.open(sdist) as files:
        files.extractall(folder, filter="data")
        (unpacked,) = Path(folder).iterdir()
        _built("wheel", unpacked, into, epoch)
    (wheel,) = into.glob("*.whl")
    return sdist, wheel


def _built(what: str, source: Path, into: Path, epoch: int) -> None:
    command = [sys.executable, "-m", "build", f"--{what}", "--no-isolation", "--outdir", str(into), str(source)]
    environment = {**os.environ, "SOURCE_DATE_EPOCH": str(epoch)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        last = (done.stdout + done.stderr).strip().splitlines()[-1]
        raise Stopped(f"the {what} cannot be built ({last}): run {' '.join(command[1:5])} to see everything")


def _repack(sdist: Path, epoch: int) -> None:
    """Write the archive again: sorted, with one time and no owner. setuptools writes the time of the build."""
    with tarfile.open(sdist) as files:
        members = [(member, files.extractfile(member)) for member in sorted(files, key=lambda m: m.name)]
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as new:
            for member, content in members:
                member.mtime, member.uid, member.gid, member.uname, member.gname = epoch, 0, 0, "", ""
                member.mode = 0o755 if member.isdir() or member.mode & 0o100 else 0o644
                member.pax_headers = {}
                new.addfile(member, content)
    sdist.write_bytes(gzip.compress(packed.getvalue(), mtime=epoch))


def digest(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


# -- a fresh environment -----------------------------------------------------------------------------------------------


def install(wheel: Path, folder: Path, extra: str = "") -> Path:
    """Install the wheel and what it needs into a new environment, torch as its CPU build; its folder of programs."""
    run([sys.executable, "-m", "venv", str(folder)], "no environment can be made: install python3-venv")
    python = str(folder / "bin" / "python")
    pinned = next(line for line in (ROOT / "constraints.txt").read_text().splitlines() if line.startswith("torch=="))
    local = [python, "-m", "pip", "install", "-q", "--no-index", "--no-deps", pinned]
    if subprocess.run(local, capture_output=True, check=False).returncode and sys.platform == "linux":
        run([python, "-m", "pip", "install", "-q", "uv"], "uv cannot be installed: go online")
        command = [str(folder / "bin" / "uv"), "pip", "install", "-q", "--python", python, "--torch-backend=cpu"]
    else:
        command = [python, "-m", "pip", "install", "-q"]
    run(
        [*command, f"{wheel}[{extra}]" if extra else str(wheel)],
        "the wheel cannot be installed: go online, and read the message above",
    )
    return folder / "bin"


def run(command: Sequence[str], remedy: str, folder: Path | None = None) -> None:
    if subprocess.run(command, cwd=folder, check=False).returncode:
        raise Stopped(remedy)


# -- all steps ---------------------------------------------------------------------------------------------------------


def release(root: Path, out: Path, skip: Sequence[str], dry: bool, today: datetime.date) -> None:
    """Do all steps that are not skipped. With `dry`, say what is not ready and go on."""

    def step(name: str) -> bool:
        print(f"-- {name}{' (skipped)' if name in skip else ''}", flush=True)
        return name not in skip

    problems = list(not_ready(root, today)) if step("ready") else []
    for problem in problems:
        print(f"not ready: {problem}")
    if problems and not dry:
        raise Stopped("not ready, as said above; --dry-run goes on all the same")
    for name in ("check", "test"):
        if step(name):
            run([str(root / "run"), name], f"./run {name} failed: repair what it says")
    if not step("build"):
        return
    made = _twice(root, out)
    if step("twine"):
        run([sys.executable, "-m", "twine", "check", "--strict", *map(str, made)], "twine refuses the files")
    if step("install"):
        with tempfile.TemporaryDirectory() as folder:
            programs = install(made[1], Path(folder) / "env")
            run([str(programs / "h2h"), "--version"], "the installed h2h does not start", Path(folder))
            if step("demo"):
                run([str(programs / "h2h"), "demo"], "the demo failed in a fresh environment", Path(folder))
    for file in made:
        print(f"{digest(file)}  {file.name}  {file.stat().st_size / 1e6:.1f} MB")
    version = _version(root)
    if problems or dry:
        print("This was a dry run: do not upload these files.")
    else:
        print(f"To release: git tag v{version} && python -m twine upload {' '.join(map(str, made))}")


def _twice(root: Path, out: Path) -> tuple[Path, Path]:
    """Build both files twice, and compare them."""
    if out.exists() and any(out.iterdir()):
        raise Stopped(f"{out} is not empty: remove it, or name another folder with --out")
    made = []
    with tempfile.TemporaryDirectory() as folder:
        for n, into in enumerate((out, Path(folder) / "again")):
            source = Path(folder) / f"source-{n}"
            made.append(build(source, into, export(root, source)))
        for first, second in zip(*made, strict=True):
            if digest(first) != digest(second):
                raise Stopped(f"{first.name} differs between two builds of the same commit: do not upload it")
    return made[0]


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dry-run", action="store_true", help="say what is not ready, and go on")
    parser.add_argument("--skip", action="append", default=[], choices=STEPS, help="a step to leave out; repeatable")
    parser.add_argument("--out", type=Path, default=ROOT / "dist", help="where the two files are written (dist)")
    given = parser.parse_args(words)
    if given.skip and not given.dry_run:
        parser.error("--skip needs --dry-run: a release takes all steps")
    today = datetime.datetime.now(datetime.UTC).date()
    try:
        release(ROOT, given.out.resolve(), given.skip, given.dry_run, today)
    except Stopped as problem:
        print(f"release: {problem}", file=sys.stderr)
        sys.exit(1)


if __name__ == "__main__":
    main()
