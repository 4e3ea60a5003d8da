"""Files of the user's: what is read is what was written, and what is wrong is one line, never a traceback."""

from __future__ import annotations

import csv
import gzip
import hashlib
import itertools
import json
import os
import subprocess
import sys
import tempfile
import tracemalloc
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st

from headtohead.data.files import (
    LABEL_NAMES,
    SUFFIXES,
    TABLES,
    TEXT_NAMES,
    Table,
    as_label,
    check_readable,
    columns,
    fingerprint,
    pieces,
    read_table,
)
from headtohead.errors import InputError, Unavailable

SHARED = Path(os.environ.get("HEADTOHEAD_DATA", "no such folder"))
few = settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])

ROWS = [("a fine film", "1"), ("too long", "0"), ('she said "no"', "1"), ("naïve, but 日本", "0")]


def message(function, *arguments, **named) -> str:
    """What the error says, which must be one printable line."""
    said = refusal(function, *arguments, **named)
    assert said, "nothing is said to be wrong"
    assert len(said) < 900
    return said


def refusal(function, *arguments, **named) -> str | None:
    try:
        result = function(*arguments, **named)
        if function is pieces:
            list(result)
    except InputError as error:
        said = str(error)
        if not said.isprintable():
            raise AssertionError(f"not one line: {said!r}") from error
        return said
    return None


def write(path: Path, content: str | bytes) -> Path:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def write_parquet(path: Path, **columns) -> Path:
    pyarrow.parquet.write_table(pyarrow.table(columns), path)
    return path


# -- running text ------------------------------------------------------------------------------------------------------

characters = st.characters(exclude_categories=["Cs", "Cc"]) | st.sampled_from("\n\r\t \ufeff")
lines = st.text(st.sampled_from("ab \r\né𝔘")) | st.text(characters)


@few
@given(text=lines, size=st.integers(1, 12), bom=st.booleans())
@example(text="a\r\nb", size=1, bom=True)
@example(text="a\r\nb", size=2, bom=False)
@example(text="\r\n\r\n\r\nb\r", size=1, bom=False)
@example(text="éééé𝔘𝔘", size=1, bom=False)
@example(text="\ufeffa", size=3, bom=True)
def test_joined_pieces_equal_the_file(tmp_path, text, size, bom):
    assume(text.strip() and (bom or not text.startswith("\ufeff")))
    file = write(tmp_path / "a.txt", b"\xef\xbb\xbf" * bom + text.encode())
    found = list(pieces(file, size))
    assert "".join(found) == text
    for piece, following in itertools.pairwise(found):
        assert piece
        assert len(piece) <= size + 1
        assert not (piece.endswith("\r") and following.startswith("\n"))
        window = piece + following[: size - len(piece)]
        if piece[-1] not in "\r\n":  # cut inside a line: it had no end within reach, nor a space if there was one
            assert not set(window[:size]) & set("\r\n")
            assert following[0] == " " or " " not in piece[1:]


def test_pieces_are_cut_at_line_ends_and_long_lines_before_a_space(tmp_path):
    file = write(tmp_path / "a.txt", "one\ntwo\nthree\n")
    assert list(pieces(file, 8)) == ["one\ntwo\n", "three\n"]
    assert list(pieces(write(file, "one two three"), 8)) == ["one two", " three"]
    assert list(pieces(write(file, "old\rmac\rfile"), 8)) == ["old\rmac\r", "file"]
    assert list(pieces(write(file, "A.TXT"))) == ["A.TXT"]
    assert list(pieces(str(file.rename(tmp_path / "B.TXT")))) == ["A.TXT"]


def test_a_large_file_is_not_read_into_memory(tmp_path):
    file = write(tmp_path / "a.txt", b"a line of some words\n" * 1_000_000)
    tracemalloc.start()
    length = sum(map(len, pieces(file, 1 << 16)))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert length == file.stat().st_size
    assert peak < 2_000_000 < length


def test_pieces_can_be_read_again_and_left_half_read(tmp_path):
    file = write(tmp_path / "a.txt", "one\ntwo\n")
    assert next(pieces(file, 4)) == "one\n"
    assert list(pieces(file, 4)) == list(pieces(file, 4)) == ["one\n", "two\n"]


# -- what can be wrong with any file -----------------------------------------------------------------------------------


@pytest.mark.parametrize("read", [pieces, read_table, fingerprint, check_readable])
def test_an_absent_file_is_one_line(tmp_path, read):
    ending = "txt" if read is pieces else "tsv"
    asked = tmp_path / f"trian.{ending}"
    assert message(read, asked).startswith(f"no file {asked}: {tmp_path} has no file that ends in .txt, .tsv")
    write(tmp_path / f"train.{ending}", "x")
    assert message(read, asked) == f"no file {asked}: did you mean {tmp_path}/train.{ending}?"
    assert f"{tmp_path} has train.{ending}" in message(read, tmp_path / "zzzzzzzzzzzzz")
    assert message(read, tmp_path / "no" / "a.txt").endswith(f"there is no folder {tmp_path / 'no'}")
    assert "there is no folder" in message(read, tmp_path / f"train.{ending}" / "a.txt")


@pytest.mark.parametrize(
    "name", ["a\0b.txt", "x" * 300 + ".txt", "a\nb.txt", "\udcff.txt", "~nobody-of-that-name/a.txt"]
)
def test_impossible_file_names_are_one_line(tmp_path, name):
    message(pieces, tmp_path / name)
    message(pieces, name)


def test_a_tilde_in_a_path_is_the_home_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    write(tmp_path / "a.txt", "home")
    assert list(pieces("~/a.txt")) == ["home"]


def test_a_folder_as_a_text_is_refused(tmp_path):
    for i in range(7):
        write(tmp_path / f"{i}.txt", "x")
    for read in (pieces, read_table, fingerprint):
        assert message(read, tmp_path).endswith(
            "is a folder: give a file; " + f"{tmp_path} has 0.txt, 1.txt, 2.txt, 3.txt, 4.txt and more"
        )


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes here")
def test_a_pipe_as_a_text_is_refused(tmp_path):
    os.mkfifo(tmp_path / "a.txt")
    assert message(pieces, tmp_path / "a.txt").endswith("a.txt is not an ordinary file: save its text to one")


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="permissions are another thing here")
def test_an_unreadable_file_is_one_line():
    with tempfile.TemporaryDirectory() as folder:
        file = write(Path(folder) / "a.txt", "secret")
        file.chmod(0)
        Path(folder).chmod(0o711)
        root = os.geteuid() == 0
        try:
            if root:
                os.seteuid(65534)  # nothing is forbidden to root: asked as nobody
            said = refusal(pieces, file)
        finally:
            if root:
                os.seteuid(0)
    assert said == f"no permission to read {file}: its owner can give it, e.g. chmod a+r {file}"


def test_unknown_file_endings_are_refused(tmp_path):
    known = "(.txt is for running text; .tsv, .csv, .jsonl, .parquet are tables)"
    assert message(pieces, write(tmp_path / "a.doc", "x")).endswith(f"a.doc ends in .doc: give .txt {known}")
    assert message(pieces, write(tmp_path / "a", "x")).endswith(f"a has no file ending: give .txt {known}")
    assert message(pieces, write(tmp_path / "a.csv", "x")).endswith(f"a.csv ends in .csv: give .txt {known}")
    assert f"give {', '.join(TABLES)} (.txt" in message(read_table, write(tmp_path / "a.txt", "x"))
    assert check_readable(tmp_path / "a.txt") == tmp_path / "a.txt"
    assert f"give {', '.join(SUFFIXES)} (.txt" in message(check_readable, tmp_path / "a.doc")


@pytest.mark.parametrize("ending", [".md", ".text", ".MD", ".rst"])
def test_running_text_with_another_ending_should_be_renamed(tmp_path, ending):
    file = write(tmp_path / f"a{ending}", "x")
    for read in (pieces, check_readable):
        assert message(read, file).endswith(f"a{ending} ends in {ending}: if it is plain text, rename it to .txt")
    assert "give .tsv" in message(read_table, file)


def both(tmp_path, content):
    """The message for the same bytes as a text and as each table that is text."""
    said = {message(pieces, write(tmp_path / "a.txt", content)).replace("a.txt", "FILE").replace("a-utf8.txt", "NEW")}
    for ending in (".tsv", ".csv", ".jsonl"):
        table = message(read_table, write(tmp_path / f"a{ending}", content))
        said.add(table.replace(f"a{ending}", "FILE").replace(f"a-utf8{ending}", "NEW"))
    (one,) = said
    return one.replace(f"{tmp_path}/", "")


@pytest.mark.parametrize("content", [b"", b"\n", b" \r\n\t\n" * 50_000, b"\xef\xbb\xbf", "\u00a0\u3000\n".encode()])
def test_an_empty_file_is_refused(tmp_path, content):
    assert both(tmp_path, content) == "FILE is empty, or has only white space: give a file with text"


def test_a_binary_file_is_refused(tmp_path):
    end = "): give a file of plain UTF-8 text"
    assert both(tmp_path, b"ab\ncd\0ef") == "FILE is binary (a NUL byte in line 2, byte offset 5" + end
    late = b"some words\n" * 200_000
    assert both(tmp_path, late + b"\0") == "FILE is binary (a NUL byte in line 200001, byte offset 2200000" + end
    assert both(tmp_path, gzip.compress(b"hello")) == "FILE is binary (a gzip file" + end
    assert both(tmp_path, b"PK\x03\x04 and so on") == "FILE is binary (a zip or Office file" + end
    assert both(tmp_path, b"%PDF-1.7\nhello") == "FILE is binary (a PDF" + end
    assert (
        both(tmp_path, bytes(range(1, 9)) * 2)
        == "FILE is binary (14 of its first 16 bytes are control characters" + end
    )


@pytest.mark.parametrize(
    "before", [b"", b"a line\n" * 3, b"a line\n" * 400_000, b"\xef\xbb\xbfa line\n", b"x" * 3_000_000]
)
def test_a_file_that_is_not_utf8_is_refused(tmp_path, before):
    where = f"in line {before.count(10) + 1}, byte offset {len(before) + 3}"
    assert both(tmp_path, before + "café\n".encode("latin1")) == (
        f"FILE is not UTF-8: byte 0xe9 {where}; convert it, e.g. iconv -f latin1 -t utf-8 FILE > NEW"
    )
    assert f"byte 0xc3 {where}" in both(tmp_path, before + "café".encode()[:-1])  # ends inside a character


def test_the_remedy_for_latin1_works(tmp_path):
    file = write(tmp_path / "my notes.txt", "café\n".encode("latin1"))
    remedy = message(pieces, file).partition("e.g. ")[2]
    assert remedy == f"iconv -f latin1 -t utf-8 '{file}' > '{tmp_path}/my notes-utf8.txt'"
    if subprocess.run(["sh", "-c", remedy], capture_output=True, check=False).returncode:
        pytest.skip("no iconv here")
    assert list(pieces(tmp_path / "my notes-utf8.txt")) == ["café\n"]


@pytest.mark.parametrize("encoding", ["utf-16", "utf-32"])
def test_other_unicode_encodings_are_named(tmp_path, encoding):
    said = both(tmp_path, "hello".encode(encoding))
    assert said == f"FILE is not UTF-8 but {encoding.upper()}: convert it, e.g. iconv -f {encoding} -t utf-8 FILE > NEW"


def test_an_empty_text_has_no_pieces(tmp_path):
    assert message(pieces, write(tmp_path / "a.txt", "x"), 0) == "pieces of 0 characters: give at least 1"


def test_a_fingerprint_changes_with_the_content(tmp_path):
    content = b"\0anything at all\xff" * 200_000
    file = write(tmp_path / "any.bin", content)
    assert fingerprint(file) == hashlib.sha256(content).hexdigest()[:16]
    assert fingerprint(write(file, content + b"!")) != hashlib.sha256(content).hexdigest()[:16]


# -- tables: there and back --------------------------------------------------------------------------------------------


def write_table(path: Path, rows: list[tuple[str, str]], header: bool = True, bom: bool = False) -> Path:
    names = [("text", "label")] if header else []
    if path.suffix == ".parquet":
        texts, labels = zip(*rows, strict=True)
        return write_parquet(path, text=list(texts), label=list(labels))
    with path.open("w", encoding="utf-8-sig" if bom else "utf-8", newline="") as file:
        if path.suffix == ".jsonl":
            file.writelines(json.dumps({"text": t, "label": y}, ensure_ascii=bom) + "\n" for t, y in rows)
        elif path.suffix == ".csv":
            csv.writer(file).writerows([*names, *rows])
        else:
            file.writelines(f"{t}\t{y}\n" for t, y in [*names, *rows])
    return path


cells = st.text(st.characters(exclude_categories=["Cs", "Cc"]) | st.sampled_from('",; \u2028\x85'), min_size=1)
rows_of_text = st.lists(st.tuples(cells.filter(str.strip), cells.map(str.strip).filter(bool)), min_size=1, max_size=8)


@few
@given(
    rows=rows_of_text, bom=st.booleans(), header=st.booleans(), inner=st.sampled_from(["", "\n", "\r\n", "\t", "\r"])
)
@pytest.mark.parametrize("ending", TABLES)
def test_written_tables_are_read_back(tmp_path, ending, rows, bom, header, inner):
    header = header or ending in (".jsonl", ".parquet")
    if ending != ".tsv":
        rows = [(f"{t}{inner}{t}", y) for t, y in rows]
    assume(header or not (TEXT_NAMES | LABEL_NAMES) & {cell.strip().casefold() for cell in rows[0]})
    file = write_table(tmp_path / f"a{ending}", rows, header, bom)
    assume(header or bom or not file.read_bytes().startswith(b"\xef\xbb\xbf"))
    named = {} if header else {"text": "1", "label": "2"}
    columns = ("text", "label") if header else ("1", "2")
    texts, labels = (list(column) for column in zip(*rows, strict=True))
    assert read_table(file, **named) == Table(texts, labels, *columns)
    assert read_table(file, **named, labelled=False) == Table(texts, None, columns[0], None)


@few
@given(
    content=st.binary(max_size=300) | st.text(st.sampled_from('{}[]":,\t\n\r textlabel1é'), max_size=60).map(str.encode)
)
@example(b'{"text": "\\ud800", "label": 1}')
@example(b"[" * 100_000)
@example(b'{"text": "a", "label": ' + b"1" * 5000 + b"}")
@example(b'"a"b,c\n')
@example(b"{}\n{}\n")
@example(b'""\n')
@example(b"text,label\n")
@example(b"PAR1 and then PAR1")
def test_any_bytes_are_read_or_refused_in_one_line(tmp_path, content):
    for ending in SUFFIXES:
        file = write(tmp_path / f"a{ending}", content)
        for named in ({}, {"labelled": False}, {"text": "1", "label": "2"}):
            if ending == ".txt":
                refusal(pieces, file, 7)
            else:
                refusal(read_table, file, **named)


@few
@given(st.data())
def test_a_damaged_parquet_is_read_or_refused_in_one_line(tmp_path, data):
    file = write_parquet(tmp_path / "a.parquet", text=["one", "two"], label=[1, 0])
    content = bytearray(file.read_bytes())
    for at in data.draw(st.lists(st.integers(0, len(content) - 1), max_size=4)):
        content[at] = data.draw(st.integers(0, 255))
    write(
        file, bytes(content[: data.draw(st.integers(0, len(content)))]) if data.draw(st.booleans()) else bytes(content)
    )
    refusal(read_table, file)


# -- tables: which column is which -------------------------------------------------------------------------------------


@pytest.mark.skipif(not SHARED.is_dir(), reason="HEADTOHEAD_DATA is not set")
@pytest.mark.parametrize(
    ("file", "rows", "classes", "text", "label"),
    [
        ("speeches/train_CLS.tsv", 2092, 3, "2", "1"),
        ("speeches/test_CLS.tsv", 750, 3, "2", "1"),
        ("sst2/train.tsv", 6920, 2, "1", "2"),
        ("sst2/dev.tsv", 872, 2, "1", "2"),
        ("sst2/test.tsv", 1821, 2, "1", "2"),
    ],
)
def test_files_without_a_header_are_read(file, rows, classes, text, label):
    table = read_table(SHARED / file)
    assert table.labels
    assert (len(table.texts), len(set(table.labels)), table.text_column, table.label_column) == (
        rows,
        classes,
        text,
        label,
    )
    assert read_table(SHARED / file, labelled=False) == Table(table.texts, None, text, None)


@pytest.mark.parametrize(
    "names", [("text", "label"), ("Sentence", "CLASS"), (" review ", "Sentiment"), ("tweet", "stars")]
)
@pytest.mark.parametrize("turned", [False, True])
def test_columns_are_known_by_their_names(tmp_path, names, turned):
    rows = [names, *ROWS]
    lines = [",".join(f'"{cell}"'.replace('"no"', '""no""') for cell in (row[::-1] if turned else row)) for row in rows]
    table = read_table(write(tmp_path / "a.csv", "\n".join(lines)))
    assert list(zip(table.texts, table.labels or [], strict=True)) == ROWS
    assert (table.text_column, table.label_column) == tuple(n.strip() for n in names)


def test_extra_columns_are_ignored(tmp_path):
    file = write(tmp_path / "a.tsv", "idx\tsentence\tlabel\n7\tgood\t1\n8\tbad\t0\n")
    assert read_table(file) == Table(["good", "bad"], ["1", "0"], "sentence", "label")
    file = write(tmp_path / "a.csv", ",text,label\n0,good,1\n1,bad,0\n")  # as pandas writes it
    assert read_table(file) == Table(["good", "bad"], ["1", "0"], "text", "label")
    file = write_parquet(tmp_path / "a.parquet", Satz=["good one"], label=[1], __index_level_0__=[5])
    assert read_table(file) == Table(["good one"], ["1"], "Satz", "label")


def test_one_known_name_identifies_two_columns(tmp_path):
    many = "".join(f"text {i},{i % 2}\n" for i in range(20))
    assert read_table(write(tmp_path / "a.csv", "text,Klasse\n" + many)).label_column == "Klasse"
    assert read_table(write(tmp_path / "a.csv", "Satz,label\n" + many)).text_column == "Satz"
    assert read_table(write(tmp_path / "a.csv", "Satz,label\n" + many), labelled=False).text_column == "Satz"
    numbers = "".join(f"text {i},{i}\n" for i in range(20))  # a running number is no label
    said = message(read_table, write(tmp_path / "a.csv", "text,id\n" + numbers))
    assert "has no column that is clearly the label (columns: text, id): name the columns with" in said
    assert read_table(tmp_path / "a.csv", labelled=False).text_column == "text"
    assert len(set(read_table(tmp_path / "a.csv", label="id").labels or [])) == 20


def test_columns_can_be_named(tmp_path):
    file = write(tmp_path / "a.csv", "Satz,n,Klasse\nja,1,x\nnein,2,y\n")
    wanted = Table(["ja", "nein"], ["x", "y"], "Satz", "Klasse")
    assert read_table(file, "Satz", "Klasse") == read_table(file, "satz", "klasse") == wanted
    assert read_table(file, text="Satz", labelled=False) == Table(["ja", "nein"], None, "Satz", None)
    assert read_table(file, "1", "3") == Table(
        ["Satz", "ja", "nein"], ["Klasse", "x", "y"], "1", "3"
    )  # told: no header
    assert read_table(file, "Satz", "3") == wanted
    assert read_table(write(tmp_path / "a.csv", "text,1,label\nja,p,x\n"), label="1").labels == [
        "p"
    ]  # a name comes first
    rows = '{"Satz": "ja", "Klasse": true}\n\n{"Klasse": false, "Satz": "nein"}\n'
    assert read_table(write(tmp_path / "a.jsonl", rows), "Satz", "Klasse").labels == ["true", "false"]
    assert read_table(tmp_path / "a.jsonl").texts == ["ja", "nein"]  # two columns: by what is in them


def test_an_unknown_column_is_refused(tmp_path):
    file = write(tmp_path / "a.csv", "text,label\nja,1\n")
    assert "a.csv has no column lable, did you mean label? (columns: text, label): name the" in message(
        read_table, file, label="lable"
    )
    assert "has no column 3 (columns: text, label)" in message(read_table, file, label="3")
    assert "has no column 0 (" in message(read_table, file, label="0")
    assert "has no column 99999999… (" in message(read_table, file, label="9" * 9999).replace("9" * 21, "")
    said = message(read_table, write(tmp_path / "a.tsv", "ja\t1\nnein\t0\n"), text="Satz")
    assert "a.tsv has no column Satz (no header; the first row is: ja, 1): name the columns with --text and" in said


def test_unidentifiable_columns_are_refused(tmp_path):
    file = write(tmp_path / "a.tsv", "1\tja\tx\n2\tnein\ty\n")
    said = message(read_table, file)
    assert said.startswith(f"{file} has no column that is clearly the text or the label (no header; the first row is")
    assert (
        "name the columns with --text and --label (a column's name, or its number from 1; in a study with --set" in said
    )
    assert "--set data.corpus.text=… and --set data.corpus.label=…)" in said
    assert "clearly the label (" in message(read_table, file, text="2")
    assert "clearly the text (" in message(read_table, file, labelled=False)
    assert read_table(file, "2", "3") == Table(["ja", "nein"], ["x", "y"], "2", "3")
    wide = write(tmp_path / "b.tsv", "\t".join("x" * 5000 for _ in range(500)) + "\n")
    assert message(read_table, wide).count("…") == 11  # cells and their number are cut


def test_columns_with_the_same_name_or_meaning_are_refused(tmp_path):
    file = write(tmp_path / "a.csv", "sentence,text,label\na,b,1\n")
    assert "a.csv has more than one column that could be the text: sentence and text (columns" in message(
        read_table, file
    )
    assert read_table(file, text="text").texts == ["b"]
    file = write(tmp_path / "a.csv", "text,label,class\na,1,2\n")
    assert "more than one column that could be the label: label and class" in message(read_table, file)
    assert read_table(file, labelled=False).texts == ["a"]
    file = write(tmp_path / "a.csv", "text,text,label\na,b,1\n")
    assert "has 2 columns called text, numbers 1 and 2" in message(read_table, file, text="text")
    assert read_table(file, text="2").texts == ["b"]
    assert "has one column label for the text and for the label" in message(read_table, file, "label", "label")
    double = pyarrow.Table.from_arrays(
        [pyarrow.array(["a"]), pyarrow.array(["b"]), pyarrow.array([1])], ["t", "t", "y"]
    )
    pyarrow.parquet.write_table(double, tmp_path / "a.parquet")
    assert read_table(tmp_path / "a.parquet", "2", "y").texts == ["b"]


def test_two_candidate_columns_are_refused(tmp_path):
    unclear = (
        "has two columns, and it is not clear which is the text and which the label (no header; the first row is: "
    )
    assert f"{unclear}ab, ba)" in message(read_table, write(tmp_path / "a.tsv", "ab\tba\nba\tab\n"))
    numbered = "".join(f"{i}\tthis is text {i // 2 * 2}\n" for i in range(40))  # a running number beside doubled texts
    assert unclear in message(read_table, write(tmp_path / "a.tsv", numbered))
    numbered = "".join(f"{i}\tthis is text {i}\n" for i in range(40))
    assert unclear in message(read_table, write(tmp_path / "a.tsv", numbered))
    assert unclear in message(read_table, tmp_path / "a.tsv", labelled=False)
    same = "".join(f"{i}\tthe same text\n" for i in range(4))  # fewer and longer: too few rows to call it a label
    assert unclear in message(read_table, write(tmp_path / "a.tsv", same))
    long_labels = "".join(f"ok {i}\t{['very negative', 'rather positive'][i % 2]}\n" for i in range(40))
    assert read_table(write(tmp_path / "a.tsv", long_labels)).text_column == "1"
    assert read_table(write(tmp_path / "a.tsv", "a fine film\tpos\nnot good\tneg\n")).labels == ["pos", "neg"]
    assert read_table(write(tmp_path / "a.tsv", "only one text\t1\n")) == Table(["only one text"], ["1"], "1", "2")


def test_a_header_of_unknown_words_is_not_a_row(tmp_path):
    file = write(tmp_path / "a.tsv", "Satz\tKlasse\nja\t1\nnein danke\t0\n")
    said = message(read_table, file)
    assert said.endswith(
        "a.tsv: its first row (Satz, Klasse) looks like a header: if it is one, --text Satz --label Klasse; "
        "if it is data, give the columns' numbers, 1 and 2"
    )
    assert read_table(file, "Satz", "Klasse").labels == ["1", "0"]
    assert read_table(file, "1", "2").labels == ["Klasse", "1", "0"]
    words = "".join(f"this is text {i}\t{'ab'[i % 2]}\n" for i in range(12))
    assert "looks like a header" in message(read_table, write(file, "Satz\tArt\n" + words))
    assert len(read_table(write(file, "Satz\ta\n" + words)).texts) == 13  # its label is one of the others


def test_a_label_may_equal_a_column_name(tmp_path):
    rows = "document\tthe text of one\nreview\tanother text\ndocument\ta third text\nreview\tthe last\n"
    assert read_table(write(tmp_path / "a.tsv", rows)).labels == ["document", "review", "document", "review"]


def test_a_table_of_one_column_has_no_labels(tmp_path):
    end = "not a text and a label: add a column of labels, or train a language model on it"
    assert message(read_table, write(tmp_path / "a.tsv", "text\nja\n")).endswith(f"a.tsv has one column (text), {end}")
    assert read_table(tmp_path / "a.tsv", labelled=False) == Table(["ja"], None, "text", None)
    assert message(read_table, write(tmp_path / "a.tsv", "ja\nnein\n")).endswith(f"a.tsv has one column (ja), {end}")
    assert read_table(tmp_path / "a.tsv", labelled=False) == Table(["ja", "nein"], None, "1", None)
    assert message(read_table, write(tmp_path / "a.csv", "text|label\nja|1\n")).endswith(
        "one column (text|label), not a text and a label: its cells seem to be separated by '|': save it with commas"
    )
    assert message(read_table, write(tmp_path / "a.csv", "text;label\nja\n")).endswith(
        "one column (text;label), not a text and a label: its cells seem to be separated by ';': save it with commas"
    )
    assert "separated by ',': save it with tabs" in message(read_table, write(tmp_path / "a.tsv", "text,label\nja,1\n"))
    assert "has one column (text), not a text" in message(read_table, write(tmp_path / "a.jsonl", '{"text": "a"}'))


@pytest.mark.parametrize("mark", [";", "\t"])
@pytest.mark.parametrize("start", ["", "\n\n", "\ufeff"])
def test_a_csv_of_semicolons_or_tabs_is_read(tmp_path, mark, start):
    rows = [("text", "label"), ("ja, doch", "1"), ('"nein; a\tb\n"', "0")]
    file = write(tmp_path / "a.csv", start + "".join(f"{t}{mark}{y}\n" for t, y in rows))
    assert read_table(file) == Table(["ja, doch", "nein; a\tb\n"], ["1", "0"], "text", "label")
    name = {";": "semicolon", "\t": "tab"}[mark]
    said = message(read_table, write(file, f"text{mark}label\nja{mark}1\nja{mark}{mark}1\n"))
    assert said.endswith(f"line 3: 3 columns where line 1 has 2: put a text with a {name} in it in double quotes")


def test_a_semicolon_in_a_csv_of_commas_is_text(tmp_path):
    file = write(tmp_path / "a.csv", "text;more,label\nja;nein,1\n")
    assert read_table(file, "text;more", "label").texts == ["ja;nein"]
    assert read_table(write(file, "one; two\nthree\n"), labelled=False).texts == ["one; two", "three"]


# -- tables: what is in them -------------------------------------------------------------------------------------------


def test_quoted_fields_are_read(tmp_path):
    assert read_table(write(tmp_path / "a.tsv", 'text\tlabel\n"Yes\t1\nno"\t0\n')).texts == ['"Yes', 'no"']
    assert read_table(write(tmp_path / "a.csv", 'text,label\n"a ""b"",\r\nc",1\r\n')).texts == ['a "b",\r\nc']
    said = message(read_table, write(tmp_path / "a.csv", 'text,label\nja,1\n"nein,0\nja,1\n'))
    assert said.endswith(
        "a.csv, the row at line 3: wrong quotes (unexpected end of data): "
        'close each quoted cell, and write " inside it as ""'
    )
    assert "line 2: wrong quotes (',' expected after '\"')" in message(
        read_table, write(tmp_path / "a.csv", 'text,label\n"a "b" c",1\n')
    )


@pytest.mark.parametrize("ending", TABLES)
def test_a_field_of_ten_megabytes_is_read(tmp_path, ending):
    rows = [("many words " * 1_000_000, "1"), ("few", "0")]
    assert read_table(write_table(tmp_path / f"a{ending}", rows)).texts == [t for t, _ in rows]


def test_line_ends_are_kept_and_blank_lines_skipped(tmp_path):
    for end in ("\n", "\r\n", "\r"):
        for ending, between in ((".tsv", "\t"), (".csv", ",")):
            rows = end.join(("", f"text{between}label", "", f"ja{between}1", f"nein\u2028{between}0", "", ""))
            assert read_table(write(tmp_path / f"a{ending}", rows)).texts == ["ja", "nein\u2028"]
    rows = '\n{"text": "ja", "label": 1}\r\n\r\n{"text":\r"nein\u2028", "label": 0}'
    assert read_table(write(tmp_path / "a.jsonl", rows)).texts == ["ja", "nein\u2028"]


def test_rows_of_another_width_are_refused(tmp_path):
    said = message(read_table, write(tmp_path / "a.tsv", "text\tlabel\nja\t1\n\nnein\tdanke\t0\n"))
    assert said.endswith("a.tsv, line 4: 3 columns where line 1 has 2: a text holds no tab")
    said = message(read_table, write(tmp_path / "a.csv", 'text,label\n"ja,\nja",1\nnein\n'))
    assert said.endswith("a.csv, line 4: 1 column where line 1 has 2: put a text with a comma in it in double quotes")


@pytest.mark.parametrize("hole", ["", " ", "\u3000"])
def test_missing_fields_are_refused(tmp_path, hole):
    fill = "fill it in or remove the row"
    for ending, between in ((".tsv", "\t"), (".csv", ",")):
        file = write(tmp_path / f"a{ending}", f"text{between}label\nja{between}1\n{hole}{between}0\n")
        assert message(read_table, file) == f"{file}, line 3: the text (column text) is empty: {fill}"
        file = write(tmp_path / f"a{ending}", f"text{between}label\nja{between}1\n\nnein{between}{hole}\n")
        assert message(read_table, file) == f"{file}, line 4: the label (column label) is missing: {fill}"
        assert read_table(file, labelled=False).texts == ["ja", "nein"]
    file = write_parquet(tmp_path / "a.parquet", text=["ja", hole], label=["1", "2"])
    assert message(read_table, file) == f"{file}, row 2: the text (column text) is empty: {fill}"
    file = write_parquet(tmp_path / "a.parquet", text=["ja", "nein"], label=["1", hole])
    assert message(read_table, file) == f"{file}, row 2: the label (column label) is missing: {fill}"


def test_missing_values_in_json_and_parquet_are_refused(tmp_path):
    for row in ('{"text": null, "label": 1}', '{"label": 1}'):
        file = write(tmp_path / "a.jsonl", '{"text": "ja", "label": 1}\n' + row)
        assert "line 2: the text (column text) is empty: fill" in message(read_table, file)
    for row in ('{"text": "a", "label": null}', '{"text": "a"}', '{"text": "a", "label": NaN}'):
        file = write(tmp_path / "a.jsonl", '{"text": "ja", "label": 1}\n' + row)
        assert "line 2: the label (column label) is missing: fill" in message(read_table, file)
    file = write_parquet(tmp_path / "a.parquet", text=["ja", None], label=[1, 0])
    assert "row 2: the text (column text) is empty" in message(read_table, file)
    file = write_parquet(tmp_path / "a.parquet", text=["ja", "nein"], label=[1.0, float("nan")])
    assert "row 2: the label (column label) is missing" in message(read_table, file)


def test_texts_that_are_not_strings_are_refused(tmp_path):
    for value, kind in ((5, "a number"), (True, "true or false"), (["a"], "a list"), ({"a": 1}, "an object")):
        file = write(tmp_path / "a.jsonl", json.dumps({"text": value, "label": 1}))
        assert f"a.jsonl, line 1: the text (column text) is not a string but {kind}: name the" in message(
            read_table, file
        )
    file = write_parquet(tmp_path / "a.parquet", text=[b"ja"], label=[1])
    assert "a.parquet, row 1: the text (column text) is not a string but bytes" in message(read_table, file)


def test_values_that_cannot_be_labels_are_refused(tmp_path):
    file = write(tmp_path / "a.jsonl", '{"text": "a", "label": [1, 0]}')
    assert "line 1: the label (column label) is a list, neither a string nor a number" in message(read_table, file)
    file = write_parquet(tmp_path / "a.parquet", text=["a"], label=[{"x": 1}])
    assert "row 1: the label (column label) is an object, neither" in message(read_table, file)


def test_a_lone_surrogate_is_refused(tmp_path):
    file = write(tmp_path / "a.jsonl", '{"text": "a\\ud800", "label": 1}')
    assert message(read_table, file).endswith(
        r"a.jsonl, line 1: \ud800 is half a character: write the file as UTF-8, unescaped"
    )
    assert read_table(write(file, '{"text": "\\ud83d\\ude00", "label": 1}')).texts == ["😀"]


@pytest.mark.parametrize(
    ("value", "label"),
    [
        (1, "1"),
        (1.0, "1"),
        (-0.0, "0"),
        (0.5, "0.5"),
        (True, "true"),
        (False, "false"),
        (" pos ", "pos"),
        ("1.0", "1.0"),
    ],
)
def test_labels_are_strings_whatever_the_format(tmp_path, value, label):
    assert as_label(value) == label
    assert read_table(write(tmp_path / "a.jsonl", json.dumps({"text": "a", "label": value}))).labels == [label]
    assert read_table(write_parquet(tmp_path / "a.parquet", text=["a"], label=[value])).labels == [label]


def test_categories_of_pandas_are_strings(tmp_path):
    labels = pyarrow.array(["pos", "neg", "pos"]).dictionary_encode()
    file = write_parquet(tmp_path / "a.parquet", text=["a", "b", "c"], label=labels)
    assert read_table(file).labels == ["pos", "neg", "pos"]


def test_a_table_of_one_class_is_read(tmp_path):
    assert read_table(write(tmp_path / "a.tsv", "text\tlabel\nja\t1\nnein\t1\n")).labels == ["1", "1"]


@pytest.mark.parametrize(
    ("row", "cause"),
    [
        ('{"text": "a", "label": 1', "invalid JSON (Expecting ',' delimiter, column 25)"),
        ("{'text': 'a'}", "invalid JSON (Expecting property name enclosed in double quotes, column 2)"),
        ("[" * 100_000, "invalid JSON (maximum recursion depth exceeded"),
        ("[1, 2]", "a list, not an object"),
        ('"text"', "a string, not an object"),
        ("null", "null, not an object"),
    ],
)
def test_json_lines_that_are_not_objects_are_refused(tmp_path, row, cause):
    said = message(read_table, write(tmp_path / "a.jsonl", '{"text": "a", "label": 1}\n\n' + row + "\n"))
    assert f"a.jsonl, line 3: {cause}" in said
    assert said.endswith(': each line is one object, e.g. {"text": "…", "label": "…"}')


def test_a_table_without_rows_is_refused(tmp_path):
    end = "has columns (text, label) and no rows: give a table with rows"
    assert message(read_table, write(tmp_path / "a.csv", "text,label\n\n")).endswith(end)
    assert message(read_table, write(tmp_path / "a.tsv", "text\tlabel")).endswith(end)
    assert message(read_table, write_parquet(tmp_path / "a.parquet", text=[], label=[])).endswith(end)
    assert message(read_table, write(tmp_path / "b.parquet", b"")).endswith(
        "b.parquet is empty: give a file with a table"
    )


def test_a_corrupt_parquet_file_is_refused(tmp_path):
    said = message(read_table, write(tmp_path / "a.parquet", "text,label\nja,1\n"))
    assert "a.parquet is not a valid parquet file (" in said
    assert said.endswith("): write it again")
    whole = write_parquet(tmp_path / "a.parquet", text=["some words"] * 100, label=[1] * 100).read_bytes()
    assert "is not a valid parquet file" in message(read_table, write(tmp_path / "a.parquet", whole[:-20]))
    broken = whole[:4] + b"\xff" * 40 + whole[44:]
    assert "is not a valid parquet file" in message(read_table, write(tmp_path / "a.parquet", broken))
    latin = pyarrow.array([b"caf\xe9"]).cast(pyarrow.string(), safe=False)
    assert "is not a valid parquet file ('utf-8' codec can't decode" in message(
        read_table, write_parquet(tmp_path / "a.parquet", text=latin, label=[1])
    )


def test_parquet_without_pyarrow_names_the_install_command(tmp_path, monkeypatch):
    file = write_parquet(tmp_path / "a.parquet", text=["ja"], label=[1])
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    with pytest.raises(Unavailable) as caught:
        read_table(file)
    assert str(caught.value) == f"reading {file} needs the extra parquet: pip install 'headtohead[parquet]'"


def test_reading_imports_nothing_heavy(tmp_path):
    write(tmp_path / "a.csv", "text,label\nja,1\n")
    file = write_parquet(tmp_path / "a.parquet", text=["ja"], label=[1])
    code = f"""
import sys
from headtohead.data.files import read_table
read_table({str(tmp_path / "a.csv")!r})
assert "pyarrow" not in sys.modules
read_table({str(file)!r})
assert not {{"torch", "pandas"}} & set(sys.modules)
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_columns_are_those_that_read_table_can_be_told(tmp_path: Path):
    (tmp_path / "a.csv").write_text("one;two\nx;y\n")
    (tmp_path / "b.tsv").write_text("some words\t1\nother words\t0\n")
    (tmp_path / "c.jsonl").write_text('{"a": 1}\n{"b": 2}\n')
    assert columns(tmp_path / "b.tsv") == ["1", "2"]
    assert columns(tmp_path / "c.jsonl") == ["a", "b"]
    assert columns(tmp_path / "a.csv") == ["one", "two", "1", "2"]  # no known name: a header, or a row
