"""h2h doctor."""

import pytest

from helpers.terminal import h2h


def test_doctor_reports_python_cores_and_torch() -> None:
    assert {f["what"] for f in h2h("doctor", "--json").json} >= {"Python", "cores", "torch"}
    assert h2h("doctor").code == 0


def test_doctor_names_the_corpora_that_need_a_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HEADTOHEAD_DATA", raising=False)
    (said,) = [f["remedy"] for f in h2h("doctor", "--json").json if f["what"] == "HEADTOHEAD_DATA"]
    assert said.startswith("for speeches and sst2:")
