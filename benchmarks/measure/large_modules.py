"""How long `h2h audit` takes for modules of GPT-2's size, correct ones and ones with a bug.

    python benchmarks/measure/large_modules.py                  # seven minutes on an otherwise idle machine
    python benchmarks/measure/large_modules.py GPT2 UnusedWeight    # some of them; the others keep their figures

The modules are in tests/auditor/large/gpt2.py. Processor time is user and system time of all processes.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from headtohead.run.doctor import processor
from headtohead.spec.userfiles import load_file

HERE = Path(__file__).resolve().parents[1]
MEASURED = HERE / "measured" / "large_modules.json"
MODULES = HERE.parent / "tests" / "auditor" / "large" / "gpt2.py"
COLUMNS = ["module of 124 million weights", "seconds", "of processor time", "load before", "what is broken"]


def measure(name: str, bug: str | None) -> list[str]:
    """Audit one module in a new process: a row of the table."""
    load = os.getloadavg()[0]
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    command = [str(Path(sys.executable).with_name("h2h")), "audit", f"{MODULES}:{name}", "--causal", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    wall, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    findings: list[dict[str, Any]] = json.loads(done.stdout)[0]["findings"]
    broken = [f["check"] for f in findings if f["status"] == "broken"]
    says = ", ".join(f"**{check}**" if check == bug else check for check in broken) or "nothing"
    return [name if bug else f"{name} (correct)", f"{wall:.1f}", f"{used:.1f}", f"{load:.1f}", says]


def main() -> None:
    modules = load_file(MODULES)
    known = json.loads(MEASURED.read_text(encoding="utf-8"))["rows"] if MEASURED.is_file() else []
    rows = {row[0].partition(" ")[0]: row for row in known}
    for name in sys.argv[1:] or (*modules.CORRECT, *modules.BUGS):
        rows[name] = measure(name, modules.BUGS.get(name))
        print(*rows[name], sep=" | ", flush=True)
    said = {
        "command": "python benchmarks/measure/large_modules.py",
        "machine": f"{os.cpu_count()} cores of an {processor()}",
        "date": datetime.now(UTC).date().isoformat(),
        "columns": COLUMNS,
        "rows": list(rows.values()),
    }
    MEASURED.write_text(json.dumps(said, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
