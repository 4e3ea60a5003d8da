"""The Content-Security-Policy of a page: nothing is loaded, and only the scripts of the templates run, whatever the
labels, texts and names in the page say."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable


def policy(scripts: Iterable[str], evaluates: bool = False) -> str:
    """The policy for a page with these inline scripts, each as it stands between its tags. With `evaluates`, they may
    compile code themselves, which Vega does with the expressions of a chart."""
    hashes = [f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'" for script in scripts]
    allowed = [*hashes, *(["'unsafe-eval'"] if evaluates else [])]
    return (
        f"default-src 'none'; script-src {' '.join(allowed)}; style-src 'unsafe-inline'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
