"""Audits are made once and read from the cache afterwards, with the positions of a leak."""

from __future__ import annotations

import pytest

from headtohead.auditor import CHECKS, stored
from headtohead.auditor.parts import PART_CHECKS
from headtohead.auditor.stored import audit_part_once
from headtohead.parts import Reweight


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setattr(stored, "cache_folder", lambda: tmp_path)
    return tmp_path


def test_a_part_is_audited_once(cache):
    heard: list[str] = []
    part = Reweight(over="sequence")
    first = audit_part_once(part, causal=True, hear=heard.append)
    assert heard == [check.name for check in (*PART_CHECKS, *CHECKS)]
    heard.clear()
    again = audit_part_once(part, causal=True, hear=heard.append)
    assert again == first
    assert heard == []
    leak = next(f for f in again.broken if f.check == "future-gradient")
    assert leak.pairs[0] == (0, 1)
    assert not leak.among
    assert next(f for f in again.broken if f.check == "future-length").among
    (file,) = (cache / "audits").iterdir()
    file.write_text("[[1, 2]]")  # damaged: it is audited again
    audit_part_once(part, causal=True, hear=heard.append)
    assert heard
