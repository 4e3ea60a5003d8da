"""Trackio: one SQLite database for all runs."""

import os
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from headtohead.run.trackers import PROJECT

SECONDS_BETWEEN_WRITES = 2.0  # a write takes 20 ms, too long for every step


class Trackio:
    """Writes to Trackio's storage: `trackio.init` prints, and asks huggingface.co for the name of a logged-in user.

    Trackio reads TRACKIO_DIR once, when it is imported, so one process tracks in one folder.
    """

    def __init__(self, folder: Path, run: str, config: dict[str, Any]) -> None:
        if "trackio" not in sys.modules:
            os.environ["TRACKIO_DIR"] = str(folder)
        for variable in ("TRACKIO_BUCKET_ID", "TRACKIO_DATASET_ID"):  # Trackio would download it
            os.environ.pop(variable, None)
        from trackio.sqlite_storage import SQLiteStorage
        from trackio.utils import TRACKIO_DIR

        if folder != TRACKIO_DIR:
            raise RuntimeError(f"this process tracks in {TRACKIO_DIR}; start another one for {folder}")
        self._bulk_log, self._run, self._config = SQLiteStorage.bulk_log, run, config
        self._rows: list[tuple[dict[str, float], int, str, str]] = []
        self._written = 0.0

    def log(self, step: int, values: dict[str, float]) -> None:
        id = f"{self._run} {step} {' '.join(values)}"  # Trackio ignores a row whose id it has
        self._rows.append((values, step, datetime.now(UTC).isoformat(), id))
        if time.monotonic() - self._written > SECONDS_BETWEEN_WRITES:
            self.close()
            self._written = time.monotonic()

    def close(self) -> None:
        rows, self._rows = self._rows, []
        if rows:
            values, steps, times, ids = map(list, zip(*rows, strict=True))
            self._bulk_log(PROJECT, self._run, values, steps, times, self._config, ids)
