"""Reads folders of TensorBoard event files with the tensorboard library. Values are kept in single precision."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

from headtohead.errors import InputError, describe, needs_extra
from headtohead.external.sources import Source
from headtohead.external.values import Point, RunLog

HPARAMS = "_hparams_/session_start_info"


def read_run(source: Source) -> RunLog:
    """A folder and the folders below it: SummaryWriter puts the metrics of add_hparams into a folder of their own."""
    files = [source.path] if source.path.is_file() else sorted(source.path.rglob("*tfevents*"))
    curves: dict[str, list[Point]] = {}
    config: dict[str, Any] = {}
    for path in dict.fromkeys([source.path] if source.path.is_file() else [file.parent for file in files]):
        events = _events(path, source)
        for tag in events.Tags()["scalars"]:
            curves.setdefault(tag, []).extend((float(e.step), float(e.value)) for e in events.Scalars(tag))
        for tag in events.Tags()["tensors"]:  # TensorFlow 2 writes scalars as tensors
            points = [(float(e.step), _scalar(e.tensor_proto)) for e in events.Tensors(tag)]
            numbers = [(step, value) for step, value in points if value is not None]
            if numbers and tag not in curves:
                curves[tag] = numbers
        config |= _hparams(events)
    name = source.path.parent.name if source.path.is_file() else source.name
    return RunLog(name, source.shown, curves, config)


def _events(path: Path, source: Source) -> Any:
    try:
        from tensorboard.backend.event_processing import event_accumulator
    except ImportError:
        raise needs_extra("reading a TensorBoard folder", "track") from None
    logging.getLogger("tensorboard").setLevel(logging.CRITICAL)  # its warnings about damaged records
    try:
        events = event_accumulator.EventAccumulator(str(path), size_guidance={"scalars": 0, "tensors": 0})
        events.Reload()
    except Exception as error:  # of any kind: the file may hold anything
        raise InputError(f"{source.shown} cannot be read as TensorBoard events: {describe(error)}") from None
    return events


def _scalar(proto: Any) -> float | None:
    if proto.tensor_shape.dim or proto.dtype not in (1, 2):  # float and double
        return None
    from tensorboard.util.tensor_util import make_ndarray

    return float(make_ndarray(proto))


def _hparams(events: Any) -> dict[str, Any]:
    """The hyperparameters that SummaryWriter.add_hparams wrote."""
    from tensorboard.plugins.hparams import plugin_data_pb2

    try:
        content = events.summary_metadata.get(HPARAMS)
        if content is None:
            return {}
        data = plugin_data_pb2.HParamsPluginData.FromString(content.plugin_data.content)
    except Exception:  # hyperparameters are not needed: names can tell arm and seed
        return {}
    found = {}
    for name, value in data.session_start_info.hparams.items():
        kind = value.WhichOneof("kind")
        found[name] = getattr(value, kind) if kind else None
    return found
