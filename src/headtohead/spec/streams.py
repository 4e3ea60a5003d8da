"""Independent random streams: each is a function of a seed and a name, independent of earlier draws."""

from __future__ import annotations

import hashlib


def stream(seed: int, *names: object) -> int:
    """Return the seed of the stream (seed, names…), such as (3, "order", 17) or (3, "init", "tokens.weight")."""
    text = "/".join(map(str, (seed, *names)))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1
