"""The checkpoint of a run in progress, and the metrics file that belongs to it.

A checkpoint is one safetensors file with weights and optimizer state. Its metadata holds the step, a checksum and facts
of the session. It is written to a temporary name and renamed; the previous one is kept until then.
"""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

import safetensors
import torch
from safetensors.torch import load, save
from torch import Tensor, nn

from headtohead.disk import checksums
from headtohead.disk.writing import open_to_append, write_all
from headtohead.run import files, store
from headtohead.training.optimizer_state import Saved
from headtohead.training.trainer import Trainer


def save_checkpoint(folder: Path, run: str, model: nn.Module, trainer: Trainer, facts: dict[str, Any]) -> None:
    """Write a checkpoint. `facts` come back from `load_checkpoint`; "lines" is the size of the metrics file, "metrics"
    its sha256, and "files" has the checksums of other files that the session has written."""
    tensors = {f"model/{k}": v for k, v in model.state_dict().items()}
    state = trainer.state()
    tensors |= {f"optimizer/{k}": v for k, v in state.tensors.items()}
    tensors = {k: v.detach().cpu().contiguous() for k, v in tensors.items()}
    facts = json.loads(json.dumps({"run": run, "done": trainer.done, "optimizer": state.values, **facts}))
    facts["sum"] = _sum(tensors, facts)
    path = folder / files.CHECKPOINT
    data = save(tensors, {"facts": json.dumps(facts)})
    with store.one_line_write_errors(path):
        if os.path.lexists(path):
            os.replace(path, folder / files.OLD_CHECKPOINT)
    store.write_whole(path, data)


def load_checkpoint(
    folder: Path, run: str, model: nn.Module, trainer: Trainer
) -> tuple[dict[str, Any] | None, list[str]]:
    """Load the newest checkpoint that is not damaged into model and trainer. Return its facts, or None if there is no
    such checkpoint, and a message for every damaged one, which is set aside."""
    metrics, damaged = folder / files.METRICS, []
    if os.path.lexists(metrics) and (metrics.is_symlink() or not metrics.is_file()):
        damaged.append(f"{files.METRICS} was not a file: it is set aside as {store.set_aside(metrics)}")
    for name in (files.CHECKPOINT, files.OLD_CHECKPOINT):
        path = folder / name
        if not os.path.lexists(path):
            continue
        try:
            tensors, facts = _read(path)
            sound = facts["run"] == run and facts["sum"] == _sum(tensors, facts)
            if not sound or _metrics_digest(metrics, facts["lines"]).hexdigest() != facts["metrics"]:
                raise ValueError("not as it was written")
            if checksums.damage(folder, facts["files"]):
                raise ValueError("another file is not as it was written")
        except (OSError, ValueError, KeyError, TypeError, safetensors.SafetensorError):
            damaged.append(f"{name} was damaged: it is set aside as {store.set_aside(path)}")
            continue
        model.load_state_dict(_below("model/", tensors))
        trainer.restore(Saved(_below("optimizer/", tensors), facts.get("optimizer", {})), facts["done"])
        return facts, damaged
    return None, damaged


class MetricsFile:
    """metrics.jsonl, to which lines are added. Lines that a killed run wrote after its checkpoint are deleted first."""

    def __init__(self, path: Path, keep: int) -> None:
        self.path, self.written = path, keep
        self.digest = _metrics_digest(path, keep)
        self.handle = open_to_append(path, keep)

    def write(self, values: dict[str, Any]) -> None:
        line = (json.dumps(store.plain(values), ensure_ascii=False, allow_nan=False) + "\n").encode()
        with store.one_line_write_errors(self.path):
            write_all(self.handle, line)
        self.written += len(line)
        self.digest.update(line)

    def sync(self) -> None:
        with store.one_line_write_errors(self.path):
            os.fsync(self.handle)

    def __enter__(self) -> MetricsFile:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self.handle)


def _read(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    data = path.read_bytes()
    tensors = load(data)
    header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
    return tensors, json.loads(header["__metadata__"]["facts"])


def _below(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {k.removeprefix(prefix): v for k, v in tensors.items() if k.startswith(prefix)}


def _metrics_digest(path: Path, size: int) -> hashlib._Hash:
    """The sha256, to be continued, of the first bytes of the metrics file."""
    if not size:
        return hashlib.sha256()
    with open(path, "rb") as file:
        return hashlib.sha256(file.read(size))


def _sum(tensors: dict[str, Tensor], facts: dict[str, Any]) -> str:
    """A checksum of names and bits, and of the facts."""
    digest = hashlib.sha256(checksums.digest({k: v for k, v in facts.items() if k != "sum"}).encode())
    for name in sorted(tensors):
        digest.update(name.encode())
        digest.update(tensors[name].reshape(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()
