"""SST-2 with Hugging Face's `datasets`: from the Hub, or from a folder that `load_dataset` reads."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from headtohead.data.downloads import consent
from headtohead.data.files import LABEL_NAMES, TEXT_NAMES, as_label, one_line
from headtohead.errors import InputError, Unavailable, needs_extra

SPLITS = ("train", "validation", "test")
HIDDEN = "-1"  # the Hub's mark for a label that is not published


def sst2_from_hub(
    name: str = "stanfordnlp/sst2", *, announce: Callable[[str], None]
) -> dict[str, list[tuple[str, str]]]:
    """Return (text, label) pairs by split, without the space that ends each text of the Hub.

    Rows without a label (-1), such as all of the Hub's test split, are left out, and a split without rows is not
    returned. The Hub's training split has 67,349 phrases, not the 6,920 sentences of the three files.
    """
    try:
        import datasets
    except ImportError:
        raise needs_extra("reading a dataset of the Hub", "hf") from None
    local = Path(name).is_dir()
    if not local:
        consent(f"{name} from the Hub, or from its cache", "of unknown size")
        announce(f"loading {name} from the Hub, or from its cache; without a network this fails after half a minute")
    try:
        loaded = datasets.load_dataset(name)
    except Exception as error:  # of any kind: the network, the Hub or the reader of a file
        why = one_line(error)
        if local:
            raise InputError(
                f"{name} is not the folder of a dataset ({why}): put train.csv or train.parquet in it"
            ) from None
        raise Unavailable(
            f"cannot load {name} from the Hub ({why}): go online, or give a folder with its files instead of the name"
        ) from None
    found = {}
    for split in SPLITS:
        if split not in loaded:
            continue
        rows, hidden = _pairs(loaded[split], f"{name}, split {split}")
        if hidden:
            announce(f"{name}: {hidden:,} rows of its {split} split have no label (-1) and are left out")
        if rows:
            found[split] = rows
    if "train" not in found:
        raise InputError(f"{name} has no labels in a split train (splits: {', '.join(loaded)}): name another dataset")
    return found


def _pairs(split: Any, where: str) -> tuple[list[tuple[str, str]], int]:
    """Return the labelled rows of a split, and the number of rows with a hidden label."""
    text, label = (_column(split.column_names, known, where) for known in (TEXT_NAMES, LABEL_NAMES))
    rows, hidden = [], 0
    columns = split.with_format(None)[:]
    for number, (sentence, value) in enumerate(zip(columns[text], columns[label], strict=True), 1):
        try:
            name = as_label(value)
        except TypeError:
            raise InputError(f"{where}, row {number}: {label} is neither a string nor a number: change it") from None
        if name is None or name == HIDDEN:
            hidden += 1
        elif not isinstance(sentence, str) or not sentence.strip():
            raise InputError(f"{where}, row {number}: {text} is empty or not a string: remove the row")
        else:
            rows.append((sentence.strip(), name))
    return rows, hidden


def _column(names: list[str], known: frozenset[str], where: str) -> str:
    found = [name for name in names if name.strip().lower() in known]
    if len(found) != 1:
        wanted = "'sentence' or 'text'" if known is TEXT_NAMES else "'label'"
        raise InputError(f"{where} has the columns {', '.join(names)}: exactly one must be called {wanted} or similar")
    return found[0]
