"""TensorBoard: one directory per run, one event file per start. Values are kept in single precision."""

import json
import os
import time
from pathlib import Path
from typing import Any

from tensorboard.compat.proto.event_pb2 import Event, SessionLog
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.plugins.hparams.summary_v2 import hparams_pb
from tensorboard.plugins.text.summary_v2 import text_pb
from tensorboard.summary.writer.record_writer import RecordWriter

from headtohead.disk.writing import open_new


class TensorBoard:
    """Writes the records itself: SummaryWriter's thread prints a traceback when the disk is full."""

    def __init__(self, folder: Path, run: str, config: dict[str, Any]) -> None:
        (folder / run).mkdir(exist_ok=True)
        self._file = open_new(folder / run / f"events.out.tfevents.{time.time_ns()}.{os.getpid()}")
        self._started = False
        self._write(0, file_version="brain.Event:2")
        self._write(0, summary=hparams_pb(config, trial_id=run))
        self._write(0, summary=text_pb("config", f"```json\n{json.dumps(config, indent=2)}\n```"))

    def log(self, step: int, values: dict[str, float]) -> None:
        if not self._started:  # TensorBoard drops what earlier files have from this step on
            self._write(step, session_log=SessionLog(status=SessionLog.START))
            self._started = True
        self._write(step, summary=Summary(value=[Summary.Value(tag=k, simple_value=v) for k, v in values.items()]))

    def close(self) -> None:
        self._file.close()

    def _write(self, step: int, **content: Any) -> None:
        RecordWriter(self._file).write(Event(wall_time=time.time(), step=step, **content).SerializeToString())
        self._file.flush()
