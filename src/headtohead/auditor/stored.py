"""Cached audits, so that the same model is not audited twice by the same code."""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Callable
from functools import lru_cache
from importlib.metadata import version
from pathlib import Path

from headtohead.auditor import audit_part, audit_spec
from headtohead.auditor.report import Finding, Hear, Report
from headtohead.data.cache import cache_folder, on_stderr
from headtohead.data.stored_json import DAMAGED, check_types
from headtohead.disk.checksums import with_checksum
from headtohead.errors import InputError
from headtohead.model.spec import ModelSpec
from headtohead.run import store
from headtohead.run.files import AUDITS
from headtohead.spec import Part


def audit_once(
    spec: ModelSpec, name: str, *, causal: bool, home: Path | None = None, hear: Hear | None = None
) -> Report:
    """Audit a model as `audit_spec` does, which takes about a second, or read the report of an earlier audit from the
    cache or from the store `home`. A store keeps the audits of its models, so that they are copied with its runs."""
    file = f"{spec.id}-{'tokens' if causal else 'classes'}"
    return _once(file, name, lambda: audit_spec(spec, name, causal=causal, hear=hear), home)


def audit_part_once(part: Part, *, causal: bool = False, hear: Hear | None = None) -> Report:
    """Audit a part as `audit_part` does, or read the report of an earlier audit from the cache."""
    file = f"{part.id}-part{'-causal' if causal else ''}"
    return _once(file, str(part), lambda: audit_part(part, causal=causal, hear=hear)[0], None)


def _once(file: str, name: str, make: Callable[[], Report], home: Path | None) -> Report:
    folders = [folder / AUDITS for folder in (home, cache_folder()) if folder is not None]
    paths = [folder / f"{file}-{_code_digest()}.json" for folder in folders]
    findings = next(filter(None, map(_read, paths)), None)
    report = make() if findings is None else Report(name, findings)
    rows = [vars(f) for f in report.findings]
    for path in paths:
        with contextlib.suppress(InputError):  # a report that cannot be written is computed again next time
            if findings is None or not path.is_file():
                store.write_whole(path, json.dumps(with_checksum({"findings": rows})))
    return report


def _read(path: Path) -> tuple[Finding, ...] | None:
    if not path.is_file():
        return None
    try:
        data = store.read_json(path, "audit again")
        rows = data["findings"]
        found = tuple(Finding(**{**row, "pairs": tuple((i, j) for i, j in row["pairs"])}) for row in rows)
        for finding in found:
            check_types(finding)
    except (InputError, *DAMAGED):
        on_stderr(f"{path} is damaged: the model is audited again")
        return None
    return found


@lru_cache(maxsize=1)
def _code_digest() -> str:
    """Return a digest of the code that an audit depends on: torch's version and these packages."""
    digest = hashlib.sha256(version("torch").encode())
    package = Path(__file__).parents[1]
    for folder in ("spec", "parts", "model", "auditor"):
        for file in sorted((package / folder).glob("*.py")):
            digest.update(file.read_bytes())
    return digest.hexdigest()[:16]
