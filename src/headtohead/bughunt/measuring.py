"""The process that executes files of a hunt: python -m headtohead.bughunt.measuring FOLDER

FOLDER has request.json: the files to measure, and those to audit. The answers are written to answers.json.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from headtohead.disk.writing import write_whole
from headtohead.errors import InputError, failure

REQUEST, FOUND = "request.json", "found.json"


def main(folder: Path) -> None:
    import torch

    torch.set_num_threads(1)
    request = json.loads((folder / REQUEST).read_text(encoding="utf-8"))
    found = {name: _measured(folder / name, name in request["audit"]) for name in request["files"]}
    write_whole(folder / FOUND, json.dumps(found))


def _measured(file: Path, audit: bool) -> dict[str, Any]:
    from headtohead.bughunt.measurements import measure
    from headtohead.spec.userfiles import load_file

    try:
        module = load_file(file)
        return {"values": measure(module), "broken": _broken(module) if audit else {}}
    except InputError as error:
        return {"problem": str(error).replace(str(file), "the file")}


def _broken(module: Any) -> dict[str, str]:
    """The broken checks of both models, as "Decoder cache", with the evidence of each."""
    from headtohead.auditor import Claims, examine
    from headtohead.auditor.module import from_module

    broken = {}
    for name, claims in (("Decoder", Claims(causal=True)), ("Classifier", Claims())):
        try:
            report = examine(from_module(getattr(module, name), name, claims))
        except (InputError, AttributeError) as error:
            broken[f"{name} audit"] = failure(error).splitlines()[0]
            continue
        broken |= {f"{name} {f.check}": f.evidence for f in report.broken}
    return broken


if __name__ == "__main__":
    main(Path(sys.argv[1]))
