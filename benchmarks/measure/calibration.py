"""How often the rule of verdicts errs, and sees what is there: the simulations of tests/calibration, written down.

python benchmarks/measure/calibration.py          # a minute
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(HERE.parent / "tests"))


def main() -> None:
    from calibration.simulated import table

    said = {"command": "python benchmarks/measure/calibration.py", **table()}
    text = json.dumps(said, indent=1, ensure_ascii=False) + "\n"
    (HERE / "measured" / "calibration.json").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
