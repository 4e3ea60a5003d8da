"""Parts of the user's that a test loads, and forgets again."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from headtohead.spec import spec
from headtohead.spec.userfiles import _code_in_file


@contextmanager
def forgotten() -> Iterator[None]:
    """What is loaded inside is unknown afterwards, as in a new process."""
    spec.families()
    specs, members = dict(spec._SPECS), {family: dict(known) for family, known in spec._FAMILIES.items()}
    modules, path = set(sys.modules), list(sys.path)
    try:
        yield
    finally:
        for known, before in ((spec._SPECS, specs), (spec._FAMILIES, members)):
            known.clear()
            known.update(before)  # type: ignore[arg-type]
        for name in set(sys.modules) - modules:
            if name.startswith("h2h_file_"):
                del sys.modules[name]
        sys.path[:] = path
        _code_in_file.cache_clear()
