"""How long `h2h report` takes and how large its pages are, on studies written into a store without training.

python benchmarks/measure/reports.py          # two minutes on an otherwise idle machine
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

from headtohead.run.doctor import processor

HERE = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(HERE.parent / "tests"))
SIZES = {"small": (6, 10), "wide": (20, 50), "deep": (5, 200)}


def main() -> None:
    from headtohead.report.models import audits_of
    from helpers.stores import stored

    rows = []
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        for name, (arms, seeds) in SIZES.items():
            environment = os.environ | {"HEADTOHEAD_HOME": folder, "HEADTOHEAD_CACHE": str(home / f"cache-{name}")}
            effects = {f"arm {n}": 0.001 * n for n in range(1, arms)}
            outcome = stored(home, effects, seeds=seeds, name=name, again=False)
            page = home / "studies" / name / "report.html"
            unaudited = _seconds(environment, name)  # everything is found out anew
            again, quick = (_seconds(environment, name, *more) for more in ((), ("--quick",)))
            _empty(home / f"cache-{name}")
            audits_of(outcome)  # as `h2h run` leaves them in the store, every arm's
            _empty(home / f"cache-{name}")
            first = _seconds(environment, name)
            size = f"{page.stat().st_size / 1e6:.2f} MB"
            shown = (f"{s:.1f} s" for s in (quick, first, again, unaudited))
            rows.append([f"{arms} arms × {seeds} seeds", size, *shown])
    said = {
        "command": "python benchmarks/measure/reports.py",
        "machine": f"{os.cpu_count()} cores of an {processor()}",
        "date": datetime.now(UTC).date().isoformat(),
        "columns": [
            "study",
            "page",
            "`--quick`",
            "`h2h report`, empty cache",
            "the same again",
            "no audits in the store",
        ],
        "rows": rows,
    }
    text = json.dumps(said, indent=1, ensure_ascii=False) + "\n"
    (HERE / "measured" / "reports.json").write_text(text, encoding="utf-8")
    print(text)


def _empty(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)


def _seconds(environment: dict[str, str], *words: str) -> float:
    command = [str(Path(sys.executable).with_name("h2h")), "report", "--again", *words]
    start = time.perf_counter()
    subprocess.run(command, check=True, env=environment, stdout=subprocess.DEVNULL)
    return time.perf_counter() - start


if __name__ == "__main__":
    main()
