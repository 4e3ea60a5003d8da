"""Read the user's files: running text in pieces, tables of texts and labels.

An error is one line that says what is wrong, where, and what to do.
"""

from __future__ import annotations

import codecs
import contextlib
import csv
import difflib
import hashlib
import itertools
import json
import os
import shlex
import stat
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from headtohead.errors import InputError, needs_extra

TEXTS = (".txt",)
TABLES = (".tsv", ".csv", ".jsonl", ".parquet")
PLAIN = (".md", ".markdown", ".text", ".rst", ".org", ".log", ".tex", ".asc")  # running text with another ending
SUFFIXES = TEXTS + TABLES

TEXT_NAMES = frozenset(
    {"text", "texts", "sentence", "review", "content", "tweet", "document", "comment", "message", "body", "phrase"}
    | {"utterance", "headline"}
)
LABEL_NAMES = frozenset(
    {"label", "labels", "class", "category", "target", "sentiment", "polarity", "intent", "emotion", "topic", "rating"}
    | {"stars", "gold"}
)
NAME_THEM = (
    "name the columns with --text and --label (a column's name, or its number from 1; "
    "in a study with --set data.corpus.text=… and --set data.corpus.label=…)"
)

SEPARATORS = {",": "comma", ";": "semicolon", "\t": "tab"}  # of a .csv
LONGEST_CELL = 2**31 - 1  # characters; the largest limit that csv allows on every system
HEAD = 8192  # bytes that are checked for binary content
MAGIC = {
    b"\x1f\x8b": "a gzip file",
    b"PK\x03\x04": "a zip or Office file",
    b"\xd0\xcf\x11\xe0": "an Office file",
    b"%PDF-": "a PDF",
    b"\x89PNG": "a picture",
    b"\xff\xd8\xff": "a picture",
}
UNUSUAL = bytes({*range(32), 127} - set(b"\b\t\n\f\r\x1b"))  # control characters that text files do not have


# -- running text ------------------------------------------------------------------------------------------------------


def pieces(path: str | os.PathLike[str], size: int = 1 << 20) -> Iterator[str]:
    """Return the text of a .txt file in pieces of about `size` characters, cut at line ends.

    The joined pieces are the text of the file without its byte order mark. Errors at the start of the file are raised
    at once, later ones when their piece is read.
    """
    if size < 1:
        raise InputError(f"pieces of {size} characters: give at least 1")
    file = check_readable(path, TEXTS)
    _refuse_blank(file)
    return _decoded(file, size)


def _refuse_blank(file: Path) -> None:
    with contextlib.closing(_decoded(file, 1 << 16)) as start:
        if all(piece.isspace() for piece in start):
            raise InputError(f"{_shown(file)} is empty, or has only white space: give a file with text")


def _decoded(file: Path, size: int) -> Generator[str, None, None]:
    with file.open("rb") as stream:
        head = stream.read(HEAD)
        _refuse_binary(head, file)
        offset = len(codecs.BOM_UTF8) if head.startswith(codecs.BOM_UTF8) else 0
        stream.seek(offset)
        decoder = codecs.getincrementaldecoder("utf-8")()
        line, buffer = 1, ""
        while True:
            chunk = stream.read(size)
            if b"\0" in chunk:
                at = chunk.index(b"\0")
                raise _binary(file, f"a NUL byte in line {line + chunk[:at].count(10)}, byte offset {offset + at}")
            start = offset - len(decoder.getstate()[0])  # minus the bytes of a character that is not complete yet
            try:
                buffer += decoder.decode(chunk, final=not chunk)
            except UnicodeDecodeError as error:
                line += error.object[: error.start].count(b"\n")
                raise InputError(
                    f"{_shown(file)} is not UTF-8: byte 0x{error.object[error.start]:02x} in line {line}, "
                    f"byte offset {start + error.start}; {_convert(file, 'latin1')}"
                ) from None
            offset += len(chunk)
            line += chunk.count(b"\n")
            while len(buffer) > size or (buffer and not chunk):
                cut = _cut(buffer, size)
                yield buffer[:cut]
                buffer = buffer[cut:]
            if not chunk:
                return


def _cut(text: str, size: int) -> int:
    """Return where to cut: after the last line end; in a long line before the last space, because byte-level tokenizers
    join a space with the next word; else at `size`, but not inside a CRLF."""
    if len(text) <= size:
        return len(text)
    after_line = max(text.rfind("\n", 0, size), text.rfind("\r", 0, size)) + 1
    cut = after_line or max(text.rfind(" ", 1, size), 0) or size
    return cut + 1 if text[cut - 1 : cut + 1] == "\r\n" else cut


def _refuse_binary(head: bytes, file: Path) -> None:
    for mark, encoding in (
        (codecs.BOM_UTF32_LE, "utf-32"),
        (codecs.BOM_UTF32_BE, "utf-32"),
        (codecs.BOM_UTF16_LE, "utf-16"),
        (codecs.BOM_UTF16_BE, "utf-16"),
    ):
        if head.startswith(mark):
            raise InputError(f"{_shown(file)} is not UTF-8 but {encoding.upper()}: {_convert(file, encoding)}")
    for start, kind in MAGIC.items():
        if head.startswith(start):
            raise _binary(file, kind)
    unusual = len(head) - len(head.translate(None, UNUSUAL))
    if unusual > 0.3 * len(head):
        raise _binary(file, f"{unusual} of its first {len(head)} bytes are control characters")


def _binary(file: Path, sign: str) -> InputError:
    return InputError(f"{_shown(file)} is binary ({sign}): give a file of plain UTF-8 text")


def _convert(file: Path, encoding: str) -> str:
    new = file.with_name(f"{file.stem}-utf8{file.suffix}")
    return f"convert it, e.g. iconv -f {encoding} -t utf-8 {_quoted(file)} > {_quoted(new)}"


# -- any file ----------------------------------------------------------------------------------------------------------


def fingerprint(path: str | os.PathLike[str]) -> str:
    """Return 16 hex digits of the sha256 of a file."""
    with check_readable(path, ()).open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()[:16]


def check_readable(path: str | os.PathLike[str], suffixes: Sequence[str] = SUFFIXES) -> Path:
    """Return the file at a path. Raise an error if it cannot be read or has none of the suffixes, if any are given."""
    file = Path(os.path.expanduser(path))
    try:
        mode = file.stat().st_mode
        if stat.S_ISREG(mode):
            file.open("rb").close()
    except (FileNotFoundError, NotADirectoryError):
        raise InputError(f"no file {_shown(file)}: {_nearby(file)}") from None
    except PermissionError:
        raise InputError(
            f"no permission to read {_shown(file)}: its owner can give it, e.g. chmod a+r {_quoted(file)}"
        ) from None
    except (OSError, ValueError) as error:  # such as a name that is too long or has a NUL
        raise InputError(f"{_shown(file)} cannot be opened ({one_line(error)}): check the path") from None
    if stat.S_ISDIR(mode):
        raise InputError(f"{_shown(file)} is a folder: give a file; {_holds(file)}")
    if not stat.S_ISREG(mode):  # a pipe can be read only once
        raise InputError(f"{_shown(file)} is not an ordinary file: save its text to one")
    if suffixes and file.suffix.lower() not in suffixes:
        ending = f"ends in {_cell(file.suffix)}" if file.suffix else "has no file ending"
        if file.suffix.lower() in PLAIN and ".txt" in suffixes:
            raise InputError(f"{_shown(file)} {ending}: if it is plain text, rename it to .txt")
        raise InputError(
            f"{_shown(file)} {ending}: give {', '.join(suffixes)} "
            f"({', '.join(TEXTS)} is for running text; {', '.join(TABLES)} are tables)"
        )
    return file


def _nearby(file: Path) -> str:
    if not file.parent.is_dir():
        return f"there is no folder {_shown(file.parent)}"
    close = difflib.get_close_matches(file.name, _names_in(file.parent), n=1, cutoff=0.5)
    return f"did you mean {_shown(file.with_name(close[0]))}?" if close else _holds(file.parent)


def _holds(folder: Path) -> str:
    names = _names_in(folder)
    if not names:
        return f"{_shown(folder)} has no file that ends in {', '.join(SUFFIXES)}"
    return f"{_shown(folder)} has {', '.join(map(_cell, names[:5]))}" + (" and more" if len(names) > 5 else "")


def _names_in(folder: Path) -> list[str]:
    try:
        found = itertools.islice(folder.iterdir(), 10_000)
        return sorted(f.name for f in found if f.suffix.lower() in SUFFIXES)
    except OSError:
        return []


# -- tables ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Table:
    """Texts and, if wanted, their labels, in the order of the file. A column without a name is called by its number."""

    texts: list[str]
    labels: list[str] | None
    text_column: str
    label_column: str | None


@dataclass(frozen=True)
class _Grid:
    """A table before the columns of text and label are known."""

    file: Path
    names: list[str] | None  # None: the first row is data
    shown: list[str]  # the names, or the cells of the first row, for messages
    places: Sequence[int]  # line or row number of each row, for messages
    place: str  # "line" or "row"
    column: Callable[[int], list[object]]

    def name(self, i: int) -> str:
        return str(i + 1) if self.names is None else self.names[i]

    def shown_name(self, i: int) -> str:
        return f"column {_cell(self.name(i))}"

    def at(self, row: int) -> str:
        return f"{_shown(self.file)}, {self.place} {self.places[row]}"

    def wrong(self, message: str) -> InputError:
        listed = ", ".join(self.shown[:8]) + (" …" if len(self.shown) > 8 else "")
        there = f"no header; the first row is: {listed}" if self.names is None else f"columns: {listed or 'none'}"
        return InputError(f"{_shown(self.file)} {message} ({there}): {NAME_THEM}")


def read_table(
    path: str | os.PathLike[str], text: str | None = None, label: str | None = None, labelled: bool = True
) -> Table:
    """Read texts and labels from a .tsv, .csv, .jsonl or .parquet.

    Columns that the caller does not name are recognised by their names. If there are two columns, they are recognised
    by their content: labels are short and repeat.
    """
    file = check_readable(path, TABLES)
    grid = _grid(file, text, label)
    if not grid.places:
        raise InputError(
            f"{_shown(file)} has columns ({', '.join(grid.shown[:8])}) and no rows: give a table with rows"
        )
    text_at, label_at = _choose(grid, text, label, labelled)
    if label_at is None:
        return Table(_texts(grid, text_at), None, grid.name(text_at), None)
    if grid.names is None and not (text and label):
        _refuse_hidden_header(grid, text_at, label_at)
    return Table(_texts(grid, text_at), _labels(grid, label_at), grid.name(text_at), grid.name(label_at))


def columns(path: str | os.PathLike[str]) -> list[str]:
    """Return the columns of a table by which `read_table` can be told them: their names. Where no header is recognised,
    the cells of the first row, if they can be names, and the numbers of the columns."""
    grid = _grid(check_readable(path, TABLES), None, None)
    numbers = [str(i + 1) for i in range(len(grid.shown))]
    if grid.names is not None:
        return grid.names
    are_names = len(set(grid.shown)) == len(grid.shown) and not any(map(_is_number, grid.shown))
    return [*grid.shown, *numbers] if are_names and max(map(len, grid.shown)) < 30 else numbers


def _grid(file: Path, text: str | None, label: str | None) -> _Grid:
    kind = file.suffix.lower()
    if kind == ".parquet":
        return _parquet(file)
    _refuse_blank(file)
    for _ in _decoded(file, 1 << 20):  # raises an error if the file is not UTF-8 text
        pass
    return _jsonl(file) if kind == ".jsonl" else _delimited(file, kind, text, label)


def as_label(value: object) -> str | None:
    """Return a label as a string, equal for all formats: 1 and 1.0 are "1", true is "true". None means no label."""
    if value is None or value != value:  # NaN means missing
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() else str(value)
    if isinstance(value, int):
        return str(value)
    if isinstance(value, str):
        return value.strip() or None
    raise TypeError(f"{type(value).__name__} is not a label")


def _texts(grid: _Grid, i: int) -> list[str]:
    return [_text(value, grid, i, row) for row, value in enumerate(grid.column(i))]


def _labels(grid: _Grid, i: int) -> list[str]:
    return [_label(value, grid, i, row) for row, value in enumerate(grid.column(i))]


def _text(value: object, grid: _Grid, i: int, row: int) -> str:
    if value is None or (isinstance(value, str) and not value.strip()):
        raise InputError(f"{grid.at(row)}: the text ({grid.shown_name(i)}) is empty: fill it in or remove the row")
    if not isinstance(value, str):
        raise InputError(
            f"{grid.at(row)}: the text ({grid.shown_name(i)}) is not a string but {_kind(value)}: {NAME_THEM}"
        )
    return _whole(value, grid, row)


def _label(value: object, grid: _Grid, i: int, row: int) -> str:
    try:
        name = as_label(value)
    except TypeError:
        raise InputError(
            f"{grid.at(row)}: the label ({grid.shown_name(i)}) is {_kind(value)}, "
            f"neither a string nor a number: {NAME_THEM}"
        ) from None
    if name is None:
        raise InputError(f"{grid.at(row)}: the label ({grid.shown_name(i)}) is missing: fill it in or remove the row")
    return _whole(name, grid, row)


def _whole(value: str, grid: _Grid, row: int) -> str:
    """Refuse half a surrogate pair, which JSON can express and UTF-8 cannot."""
    try:
        value.encode()
    except UnicodeEncodeError as error:
        half = ascii(value[error.start])[1:-1]
        raise InputError(f"{grid.at(row)}: {half} is half a character: write the file as UTF-8, unescaped") from None
    return value


# -- which column is which ---------------------------------------------------------------------------------------------


def _choose(grid: _Grid, text: str | None, label: str | None, labelled: bool) -> tuple[int, int | None]:
    t = _named(grid, text) if text else None
    y = _named(grid, label) if label else None
    if t is not None and t == y:
        raise grid.wrong(f"has one column {_cell(grid.name(t))} for the text and for the label")
    if t is None:
        t = _recognised(grid, TEXT_NAMES, "text", besides=y)
    if y is None and (labelled or t is None):
        y = _recognised(grid, LABEL_NAMES, "label", besides=t)
    rest = [i for i in range(len(grid.shown)) if i not in (t, y)]
    if t is None and y is None and len(rest) == 2:
        y = rest.pop(_label_of_two(grid, rest))
    if t is None and len(rest) == 1 and (y is not None or not labelled):
        t = rest.pop()
    if y is None and t is not None and labelled and len(rest) == 1 and _repeats(_as_strings(grid, rest[0])):
        y = rest.pop()
    if t is None or (labelled and y is None):
        if len(grid.shown) == 1:
            raise _one_column(grid)
        lacking = ["the text"] * (t is None) + ["the label"] * (labelled and y is None)
        raise grid.wrong(f"has no column that is clearly {' or '.join(lacking)}")
    return t, y if labelled else None


def _one_column(grid: _Grid) -> InputError:
    other = next((mark for mark in (";", "\t", "|", ",") if mark in grid.shown[0]), None)
    if other and grid.file.suffix.lower() in (".csv", ".tsv"):
        ours = "commas" if grid.file.suffix.lower() == ".csv" else "tabs"
        hint = f"its cells seem to be separated by {other!r}: save it with {ours}"
    else:
        hint = "add a column of labels, or train a language model on it"
    return InputError(f"{_shown(grid.file)} has one column ({grid.shown[0]}), not a text and a label: {hint}")


def _named(grid: _Grid, wanted: str) -> int:
    names = grid.names or []
    found = [i for i, name in enumerate(names) if name == wanted] or [
        i for i, name in enumerate(names) if _plain(name) == _plain(wanted)
    ]
    if len(found) == 1:
        return found[0]
    if found:
        numbers = " and ".join(str(i + 1) for i in found)
        raise grid.wrong(f"has {len(found)} columns called {_cell(wanted)}, numbers {numbers}")
    number = _number(wanted)
    if number and number <= len(grid.shown):
        return number - 1
    close = difflib.get_close_matches(wanted, names, n=1, cutoff=0.5)
    raise grid.wrong(f"has no column {_cell(wanted)}" + (f", did you mean {_cell(close[0])}?" if close else ""))


def _recognised(grid: _Grid, known: frozenset[str], role: str, besides: int | None) -> int | None:
    found = [i for i, name in enumerate(grid.names or []) if _plain(name) in known and i != besides]
    if len(found) > 1:
        which = " and ".join(_cell(grid.name(i)) for i in found)
        raise grid.wrong(f"has more than one column that could be the {role}: {which}")
    return found[0] if found else None


def _label_of_two(grid: _Grid, pair: Sequence[int]) -> int:
    """Return which of two columns has the labels: the one without strings, or with fewer and shorter values."""
    columns = [_as_strings(grid, i) for i in pair]
    strings = [all(value is None or isinstance(value, str) for value in grid.column(i)) for i in pair]
    if strings[0] != strings[1] and _repeats(columns[strings.index(False)]):
        return strings.index(False)
    distinct = [len(set(column)) for column in columns]
    length = [sum(map(len, column)) for column in columns]
    few = min((0, 1), key=lambda i: (distinct[i], length[i]))
    other = 1 - few
    clear = (distinct[few], length[few]) != (distinct[other], length[other])
    if length[few] > length[other]:  # fewer but longer values, such as repeated texts beside row numbers
        clear = len(columns[few]) >= 8 and 4 * distinct[few] <= distinct[other]
    if clear and _repeats(columns[few]):
        return few
    raise grid.wrong("has two columns, and it is not clear which is the text and which the label")


def _repeats(values: Sequence[str]) -> bool:
    """Whether values repeat as labels do and row numbers do not. Fewer than 8 rows count as repeating."""
    return len(values) < 8 or 2 * len(set(values)) <= len(values)


def _as_strings(grid: _Grid, i: int) -> list[str]:
    return [str(value) for value in grid.column(i)]


def _has_header(rows: Sequence[Sequence[str]], text: str | None, label: str | None) -> bool:
    first = [_plain(cell) for cell in rows[0]]
    if any(name and _number(name) is None and _plain(name) in first for name in (text, label)):
        return True
    known = [i for i, cell in enumerate(first) if cell in TEXT_NAMES | LABEL_NAMES]
    if len(known) == 1:  # the word may also be a label, but then it repeats
        return all(_plain(row[known[0]]) != first[known[0]] for row in rows[1:])
    return bool(known)


def _refuse_hidden_header(grid: _Grid, t: int, y: int) -> None:
    """Refuse a header with unknown words, which would otherwise become a row and a class with one text."""
    first, *others = _as_strings(grid, y)
    counts = Counter(others)
    if not others or first in counts:
        return
    words_over_numbers = not _is_number(first) and all(map(_is_number, counts))
    if words_over_numbers or (len(others) >= 10 and min(counts.values()) > 1):
        names = (shlex.quote(grid.shown[i].strip()) for i in (t, y))
        raise InputError(
            f"{_shown(grid.file)}: its first row ({', '.join(grid.shown)}) looks like a header: if it is one, "
            "--text {} --label {}; ".format(*names)
            + f"if it is data, give the columns' numbers, {t + 1} and {y + 1}"
        )


def _number(name: str) -> int | None:
    return int(name) if name.isascii() and name.isdigit() and len(name) < 7 else None


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _plain(name: str) -> str:
    return name.strip().casefold()


# -- the formats -------------------------------------------------------------------------------------------------------


def _delimited(file: Path, kind: str, text: str | None, label: str | None) -> _Grid:
    lines: list[int] = []
    rows: list[list[str]] = []
    mark = _separator(file) if kind == ".csv" else "\t"
    for line, row in _csv_rows(file, mark) if kind == ".csv" else _tsv_rows(file):
        if rows and len(row) != len(rows[0]):
            quoted = f"put a text with a {SEPARATORS[mark]} in it in double quotes"
            cause = quoted if kind == ".csv" else "a text holds no tab"
            raise InputError(
                f"{_shown(file)}, line {line}: {len(row)} column{'s' * (len(row) != 1)} where line {lines[0]} "
                f"has {len(rows[0])}: {cause}"
            )
        lines.append(line)
        rows.append(row)
    first = [_cell(cell) for cell in rows[0]]
    names = None
    if _has_header(rows, text, label):
        names = [cell.strip() for cell in rows[0]]
        del rows[0], lines[0]
    return _Grid(file, names, first, lines, "line", lambda i: [row[i] for row in rows])


def _tsv_rows(file: Path) -> Iterator[tuple[int, list[str]]]:
    """Yield line numbers and cells. Quotes have no special meaning, and blank lines are skipped."""
    with file.open(encoding="utf-8-sig") as stream:
        for line, row in enumerate(stream, 1):
            if row != "\n":
                yield line, row.removesuffix("\n").split("\t")


def _separator(file: Path) -> str:
    """Return the separator of a .csv: a comma; or a semicolon or tab, if the first row has it and no comma, and the
    second row has the same number of cells."""
    with file.open(encoding="utf-8-sig") as stream:
        first = next((line for line in stream if line != "\n"), "")
    for mark in (m for m in SEPARATORS if m in first and "," not in first):
        with contextlib.suppress(InputError):  # reported when the whole file is read
            widths = [len(row) for _, row in itertools.islice(_csv_rows(file, mark), 2)]
            if widths[0] > 1 and widths[0] == widths[-1]:
                return mark
    return ","


def _csv_rows(file: Path, mark: str = ",") -> Iterator[tuple[int, list[str]]]:
    csv.field_size_limit(LONGEST_CELL)
    with file.open(encoding="utf-8-sig", newline="") as stream:
        # without strict, a quote that is not closed would swallow the rest of the file
        reader = csv.reader(stream, delimiter=mark, strict=True)
        while True:
            line = reader.line_num + 1
            try:
                row = next(reader)
            except StopIteration:
                return
            except csv.Error as error:
                raise InputError(
                    f"{_shown(file)}, the row at line {line}: wrong quotes ({error}): "
                    'close each quoted cell, and write " inside it as ""'
                ) from None
            if row:
                yield line, row


def _jsonl(file: Path) -> _Grid:
    lines: list[int] = []
    rows: list[dict[str, object]] = []
    wanted = 'each line is one object, e.g. {"text": "…", "label": "…"}'
    with file.open(encoding="utf-8-sig", newline="\n") as stream:
        for line, source in enumerate(stream, 1):
            if source.isspace():
                continue
            try:
                row = json.loads(source.rstrip())
            except json.JSONDecodeError as error:
                why = f"invalid JSON ({error.msg}, column {error.colno})"
            except (ValueError, RecursionError) as error:  # such as a number with thousands of digits
                why = f"invalid JSON ({one_line(error)})"
            else:
                why = "" if isinstance(row, dict) else f"{_kind(row)}, not an object"
            if why:
                raise InputError(f"{_shown(file)}, line {line}: {why}: {wanted}")
            lines.append(line)
            rows.append(row)
    names = list(dict.fromkeys(key for row in rows for key in row))
    return _Grid(file, names, [_cell(n) for n in names], lines, "line", lambda i: [row.get(names[i]) for row in rows])


def _parquet(file: Path) -> _Grid:
    try:
        import pyarrow.parquet as parquet
    except ImportError:
        raise needs_extra(f"reading {_shown(file)}", "parquet") from None
    if not file.stat().st_size:
        raise InputError(f"{_shown(file)} is empty: give a file with a table")

    @contextlib.contextmanager
    def opened() -> Iterator[parquet.ParquetFile]:
        try:
            with parquet.ParquetFile(file) as source:
                yield source
        except Exception as error:  # of any kind: pyarrow has many for a corrupt file
            why = one_line(error)
            raise InputError(f"{_shown(file)} is not a valid parquet file ({why}): write it again") from None

    def column(i: int) -> list[object]:
        with opened() as source:
            table = source.read(columns=[names[i]], use_threads=False)
            same = [c for name, c in zip(table.column_names, table.columns, strict=True) if name == names[i]]
            found: list[object] = same[names[:i].count(names[i])].to_pylist()
            if len(found) != rows:
                raise ValueError(f"{len(found)} values in {rows} rows")
            return found

    with opened() as source:
        every = source.schema_arrow.names
        rows = source.metadata.num_rows
    names = [name for name in every if not name.startswith("__index_level_")]  # the index of pandas
    return _Grid(file, names, [_cell(n) for n in names], range(1, rows + 1), "row", column)


# -- in messages -------------------------------------------------------------------------------------------------------


def _shown(path: Path) -> str:
    return str(path) if str(path).isprintable() else repr(str(path))


def _quoted(path: Path) -> str:
    return shlex.quote(str(path)) if str(path).isprintable() else repr(str(path))


def _cell(value: object) -> str:
    """Shorten a cell of a table to at most 30 printable characters."""
    text = str(value)
    text = text if len(text) <= 30 else text[:29] + "…"
    return text if text.isprintable() and text.strip() else repr(text)


def one_line(error: BaseException) -> str:
    """Return the message of an exception as at most 200 printable characters."""
    text = " ".join(str(error).split())[:200] or type(error).__name__
    return "".join(c if c.isprintable() else "?" for c in text)


def _kind(value: object) -> str:
    names: tuple[tuple[type, str], ...] = (
        (bool, "true or false"),
        (int, "a number"),
        (float, "a number"),
        (str, "a string"),
        (list, "a list"),
        (dict, "an object"),
        (bytes, "bytes"),
        (type(None), "null"),
    )
    return next((name for kind, name in names if isinstance(value, kind)), f"a {type(value).__name__}")
