"""Small corpora to train on, as files and as fixtures."""

from __future__ import annotations

import csv
import json
import random
from pathlib import Path

import pytest


@pytest.fixture
def text(tmp_path: Path) -> Path:
    return write_text(tmp_path)


def write_text(folder: Path) -> Path:
    """Some 9,000 characters that a tiny model learns something from."""
    draw = random.Random(0)
    words = ["the", "of", "and", "to", "a", "in", "we", "our", "people", "that", "will", "is", "for", "this", "union"]
    lines = (" ".join(draw.choices(words, k=8)) for _ in range(280))
    path = folder / "mine.txt"
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture
def table(tmp_path: Path) -> Path:
    return write_table(tmp_path)


def write_table(folder: Path) -> Path:
    """Two classes that a tiny model can tell apart, of 120 different texts."""
    path = folder / "mine.csv"
    rows = [f"{word} {n} times,{label}" for n in range(60) for word, label in (("good", "up"), ("bad", "down"))]
    path.write_text("\n".join(["text,label", *rows]) + "\n")
    return path


ROWS = [(f"{word} {n} times", label) for n in range(60) for word, label in (("good", "up"), ("bad", "down"))]


def written(
    folder: Path, name: str, rows: list[tuple[str, str]] = ROWS, names: tuple[str, str] = ("text", "label")
) -> Path:
    """Rows of text and label as a file of the kind that its name ends with."""
    path = folder / name
    dicts = [dict(zip(names, row, strict=True)) for row in rows]
    if path.suffix == ".txt":
        path.write_text("".join(f"{text}\n" for text, _ in rows))
    elif path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(d) + "\n" for d in dicts))
    elif path.suffix == ".parquet":
        import pyarrow
        from pyarrow import parquet

        parquet.write_table(pyarrow.Table.from_pylist(dicts), path)
    else:
        with path.open("w", newline="") as file:
            writer = csv.writer(file, delimiter="\t" if path.suffix == ".tsv" else ",")
            writer.writerow(names)
            writer.writerows(rows)
    return path
