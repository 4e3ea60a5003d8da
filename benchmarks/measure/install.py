"""What an installation takes: megabytes of the core and of each extra, seconds of an import and of the first commands.

    python benchmarks/measure/install.py          # five minutes; installs into a new environment, so it needs a network

An extra's size is that of the packages which the core does not have. torch is the CPU build.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MEASURED = ROOT / "benchmarks" / "measured" / "install.json"
EXTRAS = ("web", "tune", "parquet", "hf", "track", "ray", "all")
TIMES = 21
SIZES = """
import json, sys
from importlib.metadata import distribution, PackageNotFoundError
from packaging.requirements import Requirement

def closure(name, extras, found):
    try:
        here = distribution(name)
    except PackageNotFoundError:
        return found
    for extra in ("", *extras):
        if (here.name, extra) not in found:
            found.add((here.name, extra))
            for line in map(Requirement, here.requires or []):
                if line.marker is None or line.marker.evaluate({"extra": extra}):
                    closure(line.name, line.extras, found)
    return found

def names(*extras):
    return {name for name, _ in closure("headtohead", extras, set())}

def size(packages):
    files = {str(file.locate()): file for name in packages for file in distribution(name).files or []}
    return sum(f.locate().stat().st_size for f in files.values() if f.suffix != ".pyc" and f.locate().is_file()) / 1e6

core, torch = names(), {name for name, _ in closure("torch", (), set())}
rows = [("torch, the CPU build, and what it needs", size(torch)), ("headtohead itself", size({"headtohead"}))]
rows.append(("the other packages of the core", size(core - torch - {"headtohead"})))
rows.append(("the core: `pip install headtohead`", size(core)))
rows += [(f"extra `{extra}`, beyond the core", size(names(extra) - core)) for extra in sys.argv[1:]]
print(json.dumps(rows))
"""


def seconds(command: list[str], folder: Path, environment: dict[str, str]) -> float:
    """The median of many runs, without the first one, which compiles."""
    taken = []
    for _ in range(TIMES + 1):
        began = time.perf_counter()
        subprocess.run(command, cwd=folder, env=environment, check=True, stdout=subprocess.DEVNULL)
        taken.append(time.perf_counter() - began)
    return statistics.median(taken[1:])


def main() -> None:
    sys.path.insert(0, str(ROOT / "tools"))
    import release

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        epoch = release.export(ROOT, folder / "source")
        _, wheel = release.build(folder / "source", folder / "dist", epoch)
        programs = release.install(wheel, folder / "env", "all")
        environment = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "HEADTOHEAD_HOME")}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        python = str(programs / "python")
        done = subprocess.run(
            [python, "-c", SIZES, *EXTRAS], cwd=folder, env=environment, capture_output=True, text=True, check=True
        )
        rows = [[what, f"{size:,.0f} MB" if size >= 1 else f"{size:.1f} MB"] for what, size in json.loads(done.stdout)]
        for what, command in {
            "Python alone": [python, "-c", "pass"],
            "`import headtohead`": [python, "-c", "import headtohead"],
            "`h2h --version`": [str(programs / "h2h"), "--version"],
            "`h2h --help`": [str(programs / "h2h"), "--help"],
        }.items():
            rows.append([what, f"{seconds(command, folder, environment):.3f} s"])
    results = {
        "command": "python benchmarks/measure/install.py",
        "machine": f"{os.cpu_count()} cores",
        "date": datetime.now(UTC).date().isoformat(),
        "columns": ["what", f"size; times are medians of {TIMES} processes"],
        "rows": rows,
    }
    MEASURED.write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    print("\n".join(" ".join(row) for row in rows))


if __name__ == "__main__":
    main()
