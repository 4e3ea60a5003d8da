"""The suites that attack the program, in their long form: how many attempts, and how they ended.

    python benchmarks/measure/attacks.py               # about half an hour on two cores
    python benchmarks/measure/attacks.py storm faults  # some of them; the others keep their figures

Each suite is `./run test --slow tests/NAME`. The counts are those that its tests report.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

HERE = Path(__file__).resolve().parents[1]
MEASURED = HERE / "measured" / "attacks.json"
SUITES = ("fuzz", "corrupt", "faults", "hostile", "storm")


def attack(suite: str) -> dict[str, Any]:
    """Run a suite; its counts, its tests and the minutes it took."""
    with tempfile.TemporaryDirectory() as folder:
        report, began = Path(folder) / "report.xml", time.monotonic()
        command = [sys.executable, "-m", "pytest", "-q", "-n", "2", "--slow", f"tests/{suite}", f"--junitxml={report}"]
        command += ["-o", "junit_family=xunit1"]  # keeps what tests record
        subprocess.run(command, cwd=HERE.parent, check=False)
        root = ElementTree.parse(report).getroot()
    counts: Counter[str] = Counter()
    for found in root.iter("property"):
        if found.get("name") == suite:
            counts.update(json.loads(found.get("value", "{}")))
    totals = next(root.iter("testsuite")).attrib
    return {
        "attempts": sum(counts.values()),
        "counts": dict(sorted(counts.items())),
        "tests": int(totals["tests"]) - int(totals["skipped"]),
        "failed": int(totals["failures"]) + int(totals["errors"]),
        "minutes": round((time.monotonic() - began) / 60, 1),
        "date": datetime.now(UTC).date().isoformat(),
    }


def main() -> None:
    known = json.loads(MEASURED.read_text(encoding="utf-8")) if MEASURED.is_file() else {}
    for suite in sys.argv[1:] or SUITES:
        known[suite] = {**known.get(suite, {}), **attack(suite)}
        MEASURED.write_text(json.dumps(known, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        print(suite, json.dumps(known[suite], indent=1, ensure_ascii=False))


if __name__ == "__main__":
    main()
