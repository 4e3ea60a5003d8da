"""A study as files for other programs: the long table, and scripts that reproduce the verdicts. Imports no torch.

long.csv or .parquet   every figure of every run: table, arm, seed, run, source, step, item, metric, value
runs.csv               every run with its state and its value of the study's metric
design.csv             metric, planned analyses, error
verdicts.csv           every arm with the verdict that headtohead gave
signs.csv, limits.csv  sign patterns beyond 14 pairs; limits of the rule "t"
verdicts.py, .R        compute the verdicts from runs.csv and compare them with verdicts.csv
"""

from __future__ import annotations

import csv
import io
import math
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from headtohead import __version__
from headtohead.disk.writing import open_new, write_whole
from headtohead.errors import InputError, Unavailable, needs_extra
from headtohead.outcome.outcome import Outcome, RunRow
from headtohead.run import files
from headtohead.run.store import Record, one_line_write_errors
from headtohead.run.studies import StudyRecord
from headtohead.stats import Verdict
from headtohead.stats.design import LEAST_PAIRS
from headtohead.stats.paired import parts_of_reserve
from headtohead.stats.sequential import t_rule_limits
from headtohead.stats.signflip import EXACT_PAIRS, sign_products

if TYPE_CHECKING:
    import pandas as pd

Format = Literal["csv", "parquet"]
COLUMNS = ("table", "arm", "seed", "run", "source", "step", "item", "metric", "value")
NEW_RUN, PERTURBED = "control, new run", "control, perturbed"  # arms of the noise floors
SCRIPTS = ("verdicts.py", "verdicts.R")
ARM = ("table", "control", "arm", "added_later", "reserve_parts", "margin")
ANSWERS = (*ARM, "pairs", "difference", "low", "high", "p", "verdict")
LIMITS = ("table", "place", "analysis", "limit", "limit_for_equivalence")

# -- the long table ----------------------------------------------------------------------------------------------------


def long_table(outcome: Outcome, items: bool = False) -> pd.DataFrame:
    """Every figure of every run, one per row.

    `source` is "training" for an evaluation during training, "result" for the figures of the finished run and "item"
    for the values of single texts or windows, which are there only with `items`. The two sources "training" and
    "result" may have the same metric at the last step: evaluations during training use part of a set.
    """
    import pandas as pd

    parts = [_figures(outcome, title, arm, row, items) for title, arm, row in _labelled(outcome)]
    frames = [frame for part in parts for frame in part]
    made = pd.concat(frames, ignore_index=True) if frames else pd.DataFrame(columns=list(COLUMNS))
    kinds = {"seed": "int64", "step": "int64", "item": "Int64", "value": "float64"}
    return made.astype(kinds)[list(COLUMNS)]


def _labelled(outcome: Outcome) -> Iterator[tuple[str, str, RunRow]]:
    """Every run with its table and the name of its arm; the noise floors belong to no table."""
    for (title, arm), rows in outcome.rows.items():
        yield from ((title, arm, row) for row in rows)
    for arm, rows in ((NEW_RUN, outcome.again), (PERTURBED, outcome.perturbed)):
        yield from (("", arm, row) for row in rows)


def _figures(outcome: Outcome, title: str, arm: str, row: RunRow, items: bool) -> Iterator[pd.DataFrame]:
    import pandas as pd

    record = Record.at(outcome.home, row.run)
    label: dict[str, Any] = {"table": title, "arm": arm, "seed": row.seed, "run": row.run}
    found: list[tuple[str, int, str, Any]] = []
    for line in record.metrics if row.status != "damaged" else ():
        found += [("training", line.get("step", 0), name, value) for name, value in line.items() if "/" in name]
    result = record.result if row.status not in ("failed", "damaged") else None
    if result is not None:
        found += [("result", result.weights_of, name, value) for name, value in result.values.items()]
        if math.isfinite(row.value) and outcome.metric not in result.values:  # several test sets that count as one
            found.append(("result", result.weights_of, outcome.metric, row.value))
    kept = [figure for figure in found if isinstance(figure[3], int | float) and math.isfinite(figure[3])]
    if kept:
        columns = zip(("source", "step", "metric", "value"), zip(*kept, strict=True), strict=True)
        yield pd.DataFrame(dict(columns)).assign(**label, item=pd.array([pd.NA] * len(kept), dtype="Int64"))
    if result is not None and items:
        for name, values in _items(record).items():
            shared = {**label, "source": "item", "step": result.weights_of, "metric": name}
            numbers = pd.array(np.arange(len(values)), dtype="Int64")
            yield pd.DataFrame({"item": numbers, "value": values}).assign(**shared)


def _items(record: Record) -> dict[str, np.ndarray]:
    """The values of each item by SET/FIGURE; `correct` is 1 where the label was predicted."""
    found = {}
    for name, own in record.item_sets().items() if (record.folder / files.ITEMS).is_file() else ():
        if "label" in own and "predicted" in own:
            found[f"{name}/correct"] = (own["predicted"] == own["label"]).astype(float)
        found |= {f"{name}/{figure}": own[figure].astype(float) for figure in ("loss", "tokens") if figure in own}
    return found


# -- files -------------------------------------------------------------------------------------------------------------


def export_table(
    outcome: Outcome, folder: str | os.PathLike[str], format: Format = "csv", items: bool = False
) -> list[Path]:
    """Write the long table and the scripts into a new folder, and return the paths. If anything fails, no folder is
    left."""
    if format not in ("csv", "parquet"):
        raise InputError(f"the format of a table is csv or parquet, not '{format}'")
    into = Path(folder)
    if into.is_file():
        raise InputError(f"{into} is a file: give a new folder")
    with one_line_write_errors(into):
        if into.is_dir() and any(into.iterdir()):
            raise InputError(f"{into} exists and is not empty: give a new folder, or empty this one")
    if format == "parquet":
        need_pyarrow()
    tables = {title: {row.arm: row.verdict for row in outcome.table(title)} for title in outcome.titles}
    texts = script_files(outcome.record, list(_labelled(outcome)), tables)
    made = long_table(outcome, items)
    try:
        into.parent.mkdir(parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(dir=into.parent, prefix=f".{into.name}."))
        try:
            os.chmod(temporary, 0o755)
            if format == "parquet":
                with open_new(temporary / "long.parquet") as file:
                    made.to_parquet(file, index=False)
            else:
                with open_new(temporary / "long.csv") as file:
                    made.to_csv(file, index=False, lineterminator="\n", encoding="utf-8")
            for name, text in texts.items():
                write_whole(temporary / name, text)
            if into.is_dir():
                into.rmdir()
            os.replace(temporary, into)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
    except OSError as error:
        why = error.strerror or error
        raise Unavailable(f"cannot write {into}: {why}; give a folder that you can write to") from None
    return [into / f"long.{format}", *(into / name for name in texts)]


def need_pyarrow() -> None:
    try:
        import pyarrow  # noqa: F401
    except ImportError:
        raise needs_extra("a parquet file", "parquet", "or export with csv") from None


def script_files(
    record: StudyRecord,
    runs: Sequence[tuple[str, str, RunRow]],  # with table and arm
    verdicts: Mapping[str, Mapping[str, Verdict]],  # by table and arm
) -> dict[str, str]:
    """The scripts that reproduce the verdicts, and the files that they read, by name."""
    made = {
        "runs.csv": _csv(
            ("table", "arm", "seed", "run", "status", "value", "why"),
            ((title, arm, row.seed, row.run, row.status, row.value, row.why) for title, arm, row in runs),
        ),
        "design.csv": _csv(("name", "value"), _design(record).items()),
        "verdicts.csv": _csv(ANSWERS, _answers(record, verdicts)),
    }
    if record.planned.rule == "t":
        made["limits.csv"] = _csv(LIMITS, _limits(record, runs))
    pairs = len(record.seeds)
    if record.planned.rule == "flips" and pairs > EXACT_PAIRS:
        products = sign_products(pairs - EXACT_PAIRS)
        rows = ((EXACT_PAIRS + 1 + n, " ".join(str(i + 1) for i in chosen)) for n, chosen in enumerate(products))
        made["signs.csv"] = _csv(("pair", "product_of"), rows)
    folder = resources.files("headtohead.outcome") / "scripts"
    return made | {name: (folder / name).read_text(encoding="utf-8") for name in SCRIPTS}


def _design(record: StudyRecord) -> dict[str, Any]:
    planned = record.planned
    return {
        "study": record.name,
        "question": record.question,
        "metric": record.metric,
        "better": record.better,
        "alpha": planned.alpha,
        "reserve": planned.reserve,
        "rule": planned.rule,
        "fewest_pairs": LEAST_PAIRS,
        "analyses": " ".join(map(str, planned.analyses)),
        "spent": " ".join(map(repr, planned.spent)),
        "headtohead": __version__,
    }


def _answers(record: StudyRecord, verdicts: Mapping[str, Mapping[str, Verdict]]) -> Iterator[tuple[Any, ...]]:
    for title, arms in verdicts.items():
        control = record.table(title).control.name
        parts = parts_of_reserve({arm: v.pairs > 0 for arm, v in arms.items()}, record.later)
        for arm, v in arms.items():
            later = "yes" if arm in record.later else "no"
            yield title, control, arm, later, parts[arm], v.margin, v.pairs, v.difference, v.low, v.high, v.p, v.verdict


def _limits(record: StudyRecord, runs: Sequence[tuple[str, str, RunRow]]) -> Iterator[tuple[Any, ...]]:
    """The limits of t² at each analysis, for each arm by its place in verdicts.csv. They depend on the number of arms
    that have been tested, and on the pairs that the arm has."""
    planned = record.planned
    for table in record.tables:
        values: dict[str, dict[int, float]] = {arm.name: {} for arm in table.arms}
        for title, arm, row in runs:
            if title == table.title and arm in values:
                values[arm][row.seed] = row.value
        base = values.pop(table.control.name)
        for number, n in enumerate(planned.analyses, start=1):
            if n > len(base):
                break
            first = list(base)[:n]
            pairs = {
                arm: sum(math.isfinite(own.get(seed, math.nan) - base[seed]) for seed in first)
                for arm, own in values.items()
            }
            enough = [arm for arm in pairs if arm not in record.later and pairs[arm] >= LEAST_PAIRS]
            for place, arm in enumerate(values, start=1):
                if arm in enough:
                    limits = t_rule_limits(planned, number, len(enough), pairs[arm])
                    yield (table.title, place, number, *limits)


def _csv(head: Iterable[str], rows: Iterable[Iterable[Any]]) -> str:
    """The text of a CSV file. Numbers have all their digits; a missing value is an empty cell."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(head)
    for row in rows:
        writer.writerow(["" if v is None or (isinstance(v, float) and math.isnan(v)) else v for v in row])
    return out.getvalue()
