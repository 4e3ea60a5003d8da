"""The id of a spec from its JSON alone, without the classes that it is made of. Executes no code of the user's."""

from __future__ import annotations

import hashlib
import json
from typing import Any

NOT_IDENTITY = ("path", "checkpoint")  # knobs of built-in classes that are not part of the id
OF_USER = ("file", "source")  # keys of a user's class


def id_of_json(data: Any) -> str | None:
    """The id of the spec that `data` describes; None if it has a class of the user's, whose knobs are unknown."""
    if _has_users_class(data):
        return None
    canonical = json.dumps(_identity(data), sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(canonical.encode()).hexdigest()[:16]


def _identity(data: Any) -> Any:
    if isinstance(data, list):
        return [_identity(value) for value in data]
    if not isinstance(data, dict):
        return data
    left_out = NOT_IDENTITY if "kind" in data else ()
    return {key: _identity(value) for key, value in data.items() if key not in left_out}


def _has_users_class(data: Any) -> bool:
    if isinstance(data, list):
        return any(map(_has_users_class, data))
    if not isinstance(data, dict):
        return False
    return any(key in data for key in OF_USER) or any(map(_has_users_class, data.values()))
