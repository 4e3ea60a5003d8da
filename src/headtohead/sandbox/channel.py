"""Messages between two processes: a JSON value and arrays, never a pickle."""

from __future__ import annotations

import io
import json
import os
import select
import struct
import time
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

HEAD = struct.Struct("<IQ")  # bytes of JSON, bytes of arrays
MOST = 256 * 2**20  # bytes of one message
Arrays = Mapping[str, np.ndarray]


class Closed(Exception):  # noqa: N818
    """The other process closed its end, or wrote what is no message."""


class Late(Exception):  # noqa: N818
    """No message came in time."""


@dataclass(frozen=True)
class Channel:
    """One end of a pair of pipes."""

    reads: int
    writes: int

    def send(self, value: Any, arrays: Arrays | None = None) -> None:
        text = json.dumps(value).encode()
        block = b""
        if arrays:
            held = io.BytesIO()
            np.savez(held, **{name: np.asarray(array) for name, array in arrays.items()})  # type: ignore[arg-type]
            block = held.getvalue()
        left = memoryview(HEAD.pack(len(text), len(block)) + text + block)
        while left:
            left = left[os.write(self.writes, left) :]

    def receive(self, deadline: float | None = None) -> tuple[Any, dict[str, np.ndarray]]:
        """Wait for the next message, until `deadline` on the monotonic clock."""
        text_size, block_size = HEAD.unpack(self._read(HEAD.size, deadline))
        if text_size + block_size > MOST:
            raise Closed("the message is too large")
        text = self._read(text_size, deadline)
        block = self._read(block_size, deadline)
        try:
            value = json.loads(text)
            if not block_size:
                return value, {}
            with zipfile.ZipFile(io.BytesIO(block)) as members:
                sizes = [one.file_size for one in members.infolist() if one.compress_type == zipfile.ZIP_STORED]
                if sum(sizes) > MOST or len(sizes) < len(members.infolist()):
                    raise Closed("the arrays are too large")  # a few compressed bytes could become gigabytes here
            with np.load(io.BytesIO(block), allow_pickle=False) as arrays:
                return value, {name: arrays[name] for name in arrays.files}
        except Exception:  # foreign code may write anything
            raise Closed("the message cannot be read") from None

    def _read(self, size: int, deadline: float | None) -> bytes:
        pieces = []
        while size:
            if deadline is not None:
                left = deadline - time.monotonic()
                if left <= 0 or not select.select([self.reads], [], [], left)[0]:
                    raise Late
            piece = os.read(self.reads, min(size, 2**20))
            if not piece:
                raise Closed("the other process ended")
            pieces.append(piece)
            size -= len(piece)
        return b"".join(pieces)
