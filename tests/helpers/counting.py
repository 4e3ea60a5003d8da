"""Counts of the suites that attack: fuzz, corrupt, faults, hostile and storm. A line for each is printed at the end of
the tests, and `--junitxml` keeps them (benchmarks/measure/attacks.py)."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from typing import Any

import pytest

UNITS = {"fuzz": "command lines", "corrupt": "cases", "faults": "faults", "hostile": "attempts", "storm": "kills"}


@pytest.fixture
def counts(request: pytest.FixtureRequest, record_property: Callable[[str, object], None]) -> Iterator[Counter[str]]:
    """What a test of a suite counts, by kind."""
    found: Counter[str] = Counter()
    yield found
    record_property(request.path.parent.name, json.dumps(found))


def pytest_terminal_summary(terminalreporter: Any) -> None:
    found: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for reports in terminalreporter.stats.values():
        for report in reports:
            for suite, value in getattr(report, "user_properties", ()):
                if suite in UNITS and report.when == "teardown":
                    found[suite].update(json.loads(value))
    for suite, kinds in sorted(found.items()):
        each = ", ".join(f"{name} {count}" for name, count in sorted(kinds.items()))
        terminalreporter.write_line(f"{suite}: {sum(kinds.values()):,} {UNITS[suite]} ({each})")
