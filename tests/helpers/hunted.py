"""Files of hunts, measured in this process and kept: the same file is measured once."""

from __future__ import annotations

import functools
import hashlib
import tempfile
from pathlib import Path
from types import ModuleType

from headtohead import load_file
from headtohead.bughunt.catalogue import BUGS, Bug
from headtohead.bughunt.grading import is_repaired
from headtohead.bughunt.hunts import planted
from headtohead.bughunt.measurements import Values, measure

_FOLDER = tempfile.TemporaryDirectory()
BY_NAME = {bug.name: bug for bug in BUGS}


def loaded(text: str) -> ModuleType:
    file = Path(_FOLDER.name) / f"model_{hashlib.sha256(text.encode()).hexdigest()[:16]}.py"
    file.write_text(text)
    return load_file(file)


@functools.cache
def measured(text: str) -> dict[str, Values]:
    return measure(loaded(text))


def misjudged(bugs: list[Bug]) -> list[str]:
    """Plant these bugs and judge every mixture of repaired and unrepaired ones; return what is judged wrongly."""
    mixtures = [frozenset(b.name for n, b in enumerate(bugs) if code >> n & 1) for code in range(2 ** len(bugs))]
    references = {m: measured(planted(b for b in bugs if b.name not in m)) for m in mixtures}
    wrong = []
    for mixture, values in references.items():
        judged = frozenset(b.name for b in bugs if is_repaired(b.name, references, values))
        if judged != mixture:
            wrong.append(f"{[b.name for b in bugs]}: {sorted(mixture)} judged as {sorted(judged)}")
    return wrong
