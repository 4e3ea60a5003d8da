"""The plugin that pytest loads where headtohead is installed: the fixture `audit`. It imports no torch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest


@pytest.fixture(scope="session")
def audit() -> Callable[..., Any]:
    """Assert that no check of the audit is broken: audit(MyModel, causal=True)."""
    from headtohead.testing.assertions import assert_audit

    return assert_audit
