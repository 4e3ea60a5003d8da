"""Audits that need not be made twice: of the same model, by the same code."""

from __future__ import annotations

import contextlib
import hashlib
import json
from functools import lru_cache
from importlib.metadata import version
from pathlib import Path

from headtohead import audit, store
from headtohead.audit.report import Finding, Report
from headtohead.data.wheels import cache_folder
from headtohead.errors import InputError
from headtohead.model import ModelSpec


def audit_once(spec: ModelSpec, name: str, *, causal: bool) -> Report:
    """As `audit_spec`, which takes about a second, unless the cache has what it would find."""
    path = cache_folder() / "audits" / f"{spec.id}-{'tokens' if causal else 'classes'}-{_code()}.json"
    try:
        found = tuple(Finding(*row) for row in json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):  # absent, or torn: it is made anew
        report = audit.audit_spec(spec, name, causal=causal)
        rows = [[f.check, f.title, f.status, f.evidence, f.meaning] for f in report.findings]
        with contextlib.suppress(InputError):  # a cache that cannot be written costs time, and nothing else
            store.write_whole(path, json.dumps(rows))
        return report
    return Report(name, found)


@lru_cache(maxsize=1)
def _code() -> str:
    """A digest of all that an audit is made of: this program and torch."""
    whole = hashlib.sha256(version("torch").encode())
    folder = Path(__file__).parents[1]
    for file in [*sorted(folder.glob("*.py")), *sorted(folder.glob("audit/*.py")), *sorted(folder.glob("parts/*.py"))]:
        whole.update(file.read_bytes())
    return whole.hexdigest()[:16]
