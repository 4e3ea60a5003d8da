"""Runs that the real libraries wrote, once for all tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from helpers import external


@pytest.fixture(scope="package")
def tensorboard_runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return external.write_tensorboard(tmp_path_factory.mktemp("tensorboard"))


@pytest.fixture(scope="package")
def wandb_runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return external.write_wandb(tmp_path_factory.mktemp("wandb"))


@pytest.fixture(scope="package")
def trainer_runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return external.write_trainer(tmp_path_factory.mktemp("trainer"))


@pytest.fixture
def inside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder that is the current one."""
    monkeypatch.chdir(tmp_path)
    return tmp_path
