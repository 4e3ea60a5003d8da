"""progress.json: where a study is, for other processes."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from headtohead.run import files
from headtohead.run.events import Cell, Finished, Progress, Stage, Started
from headtohead.run.progress import ProgressFile, is_alive, read_progress


def test_progress_is_written_during_training_and_gone_after(tmp_path: Path):
    progress = ProgressFile(tmp_path)
    progress.hear(Stage("runs", [Cell("Rope", 0, "a"), Cell("Rope", 1, "b")]))
    progress.written = 0
    progress.hear(Started("a", 10, 0, 5, {}, []))
    progress.written = 0
    progress.hear(Progress("a", 4, 10, 3.0, 100.0, 6.0))
    found = read_progress(tmp_path)
    assert found is not None
    assert found["running"]["a"] == {
        "arm": "Rope", "seed": 0, "done": 4, "steps": 10, "loss": 3.0, "tokens_per_second": 100.0, "seconds_left": 6.0
    }  # fmt: skip
    progress.written = 0
    progress.hear(Finished("a", str(tmp_path)))
    assert (read_progress(tmp_path) or {})["done"] == 1
    progress.close()
    assert read_progress(tmp_path) is None


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"pid": "x"}', '{"pid": 4194305}', '{"pid": 1e400}'])
def test_dead_processes_and_damaged_files_are_ignored(tmp_path: Path, content: str):
    (tmp_path / files.PROGRESS).write_text(content)
    assert read_progress(tmp_path) is None
    assert is_alive(os.getpid())
