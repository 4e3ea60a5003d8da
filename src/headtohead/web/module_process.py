"""The process in which a pasted module is audited: python -m headtohead.web.module_process FOLDER NUMBER

FOLDER has module.py and request.json. What happens is written to the open file NUMBER, one JSON object per line. The
process limits itself before it executes the module: processor time, memory, size of files, time.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

from headtohead.errors import InputError, failure

NO_MEMORY = ("out of memory", "MemoryError", "allocate memory", "not enough memory", "Unable to allocate")


def main(folder: Path, answers: int) -> None:
    with os.fdopen(answers, "w", encoding="utf-8") as out:

        def tell(value: dict[str, Any]) -> None:
            out.write(json.dumps(value) + "\n")
            out.flush()

        request = json.loads((folder / "request.json").read_text(encoding="utf-8"))
        limits = request["limits"]
        try:
            tell({"heard": {"now": "loading torch"}})
            value = _audited(folder / "module.py", request, lambda state: tell({"heard": state}))
            tell({"done": value})
        except (InputError, MemoryError, RecursionError) as error:
            said = str(error) if isinstance(error, InputError) else failure(error).splitlines()[0]
            if any(sign in said for sign in NO_MEMORY):
                gigabytes = limits["memory"] / 2**30
                said = f"the module needs more than {gigabytes:g} GB of memory, the limit here: audit a smaller version"
            tell({"error": said.replace(str(folder / "module.py"), "the source")})


def _audited(file: Path, request: dict[str, Any], hear: Any) -> dict[str, Any]:
    import torch

    torch.set_num_threads(1)
    from headtohead.auditor import CHECKS, Claims, audit_part, examine
    from headtohead.auditor.module import from_module
    from headtohead.spec import Part, families
    from headtohead.web.audit_work import model_of, shown, steps
    from headtohead.web.background import counted

    families()
    limit(**request["limits"])
    hear({"now": "loading the module"})
    found, others = _chosen(file, request["name"])
    claims = Claims(**request["claims"])
    if issubclass(found, Part):
        part = found()
        report = audit_part(part, causal=claims.causal, hear=counted(hear, steps(part, claims.causal)))[0]
        subject = model_of(part, claims.causal)
    else:
        subject = from_module(found, found.__name__, claims)
        report = examine(subject, hear=counted(hear, len(CHECKS)))
    return {**shown(report, subject), "command": "", "name": found.__name__, "others": others}


def _chosen(file: Path, name: str) -> tuple[Any, list[str]]:
    """The class to audit and the names of the others: the one asked for, else the last in the source."""
    from torch import nn

    from headtohead.errors import it_has
    from headtohead.spec import Part
    from headtohead.spec.userfiles import load_file

    module = load_file(file)
    own = {
        name: value
        for name, value in vars(module).items()
        if isinstance(value, type) and issubclass(value, nn.Module | Part) and value.__module__ == module.__name__
    }
    if name and name not in own:
        raise InputError(f"the source has no module '{name[:80]}': {it_has(name, own)}")
    if not own:
        raise InputError("the source defines no subclass of nn.Module: paste a class that maps ids (B, T) to logits")
    chosen = name or list(own)[-1]
    return own[chosen], [other for other in own if other != chosen]


def limit(cpu_seconds: int, seconds: int, memory: int, **_: Any) -> None:
    """Limit this process. What was used so far does not count."""
    import resource

    used = resource.getrusage(resource.RUSAGE_SELF)
    cpu = int(used.ru_utime + used.ru_stime) + cpu_seconds
    resource.setrlimit(resource.RLIMIT_CPU, (cpu, cpu + 1))  # the first ends the process with SIGXCPU
    for what, most in (
        (resource.RLIMIT_AS, memory),
        (resource.RLIMIT_FSIZE, 2**20),
        (resource.RLIMIT_NPROC, 0),  # no further processes; does not bind root
        (resource.RLIMIT_CORE, 0),
    ):
        resource.setrlimit(what, (most, most))
    signal.alarm(seconds)  # ends the process even if the server has been killed


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
