"""Texts that are given to the page: kept once, under safe names, and recognised."""

from __future__ import annotations

from pathlib import Path

import pytest

from headtohead.errors import InputError
from headtohead.web import uploads


@pytest.mark.parametrize(
    ("name", "safe"),
    [
        ("my text.txt", "my-text.txt"),
        ("../../etc/passwd.txt", "passwd.txt"),
        ("..\\..\\boot.TXT", "boot.txt"),
        ("<img src=x onerror=alert(1)>.csv", "img-src-x-onerror-alert-1.csv"),
        ("Größe 日本.tsv", "Gr-e.tsv"),
        (".....txt", "text.txt"),
        ("x" * 300 + ".jsonl", "x" * 60 + ".jsonl"),
    ],
)
def test_names_are_made_safe(name: str, safe: str, tmp_path: Path):
    kept = uploads.keep(tmp_path, name, b"some text")
    path = uploads.find(tmp_path, kept)
    assert path.name == safe
    assert path.parent.parent == tmp_path / "uploads"
    assert path.read_bytes() == b"some text"


def test_a_text_is_kept_once_and_by_its_kind(tmp_path: Path):
    first = uploads.keep(tmp_path, "a.txt", b"text\nlabel\n")
    assert uploads.keep(tmp_path, "b.txt", b"text\nlabel\n") == first
    assert uploads.keep(tmp_path, "a.csv", b"text\nlabel\n") != first
    assert [path.name for path in uploads.listed(tmp_path).values()] in (["a.txt", "a.csv"], ["a.csv", "a.txt"])


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("a.exe", b"x", "cannot be used"),
        ("a", b"x", "cannot be used"),
        ("a.parquet", b"x", "cannot be used"),
        ("a.txt", b" \n ", "empty"),
        ("a.txt", b"x" * (uploads.MOST_BYTES + 1), "larger than 20 MB"),
    ],
)
def test_what_cannot_be_used_is_refused(name: str, content: bytes, said: str, tmp_path: Path):
    with pytest.raises(InputError, match=said):
        uploads.keep(tmp_path, name, content)
    assert not (tmp_path / "uploads").exists()


@pytest.mark.parametrize("name", ["upload-..", "upload-../../x", "upload-", "/etc/passwd", "upload-0000000000000000"])
def test_names_are_looked_up_and_never_paths(name: str, tmp_path: Path):
    uploads.keep(tmp_path, "a.txt", b"text")
    with pytest.raises(InputError, match="not in the store"):
        uploads.find(tmp_path, name)


def test_running_text_is_described(text: Path):
    seen = uploads.preview(text, "lm")
    assert (seen["kind"], seen["characters"], seen["lines"], seen["words"]) == ("text", 9162, 280, 2240)
    assert text.read_text().startswith(seen["start"])


def test_a_table_is_described(table: Path):
    seen = uploads.preview(table, "classifier")
    assert (seen["columns"], seen["text"], seen["label"]) == (["text", "label"], "text", "label")
    assert (seen["texts"], seen["class_count"], seen["classes"]) == (120, 2, {"up": 60, "down": 60})
    assert seen["rows"][0] == ["good 0 times", "up"]
    assert uploads.preview(table, "lm")["label"] is None


def test_columns_that_are_not_clear_can_be_chosen(tmp_path: Path):
    path = tmp_path / "odd.csv"
    path.write_text("one,two,three\n" + "".join(f"words {n},x,{n % 2}\n" for n in range(20)))
    seen = uploads.preview(path, "classifier")
    assert seen["problem"].startswith("odd.csv")
    assert str(tmp_path) not in seen["problem"]
    assert seen["columns"] == ["one", "two", "three", "1", "2", "3"]
    assert uploads.preview(path, "classifier", "one", "three")["classes"] == {"0": 10, "1": 10}


@pytest.mark.parametrize("content", [b"\xff\xfe\x00", b"PK\x03\x04zip", b'a,"b\n', b"\x00" * 50])
def test_what_is_no_text_is_one_line(content: bytes, tmp_path: Path):
    for name in ("x.txt", "x.csv", "x.jsonl"):
        (tmp_path / name).write_bytes(content)
        problem = uploads.preview(tmp_path / name, "classifier").get("problem", "")
        assert "\n" not in problem
        assert problem or content.startswith(b"a,")


def test_links_in_the_store_are_not_followed(tmp_path: Path):
    """A store of somebody else could name any file of this machine."""
    secret = tmp_path / "secret.txt"
    secret.write_text("secret")
    folder = tmp_path / "uploads"
    (folder / ("a" * 16)).mkdir(parents=True)
    (folder / ("a" * 16) / "p.txt").symlink_to(secret)
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "p.txt").write_text("secret")
    (folder / ("b" * 16)).symlink_to(tmp_path / "elsewhere")
    (folder / "named").mkdir()
    (folder / "named" / "p.txt").write_text("text")
    assert uploads.listed(tmp_path) == {}


@pytest.mark.parametrize("content", ["text".encode("utf-16"), b"caf\xe9"])
def test_other_encodings_are_refused_and_not_kept(content: bytes, tmp_path: Path):
    with pytest.raises(InputError, match="is not UTF-8 text: save it as UTF-8"):
        uploads.keep(tmp_path, "a.txt", content)
    assert uploads.listed(tmp_path) == {}
