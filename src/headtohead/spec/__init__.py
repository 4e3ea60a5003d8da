"""Specs, families of parts, their text and JSON forms, the user's Python files, and seeded random streams.

This package does not import torch.
"""

from headtohead.spec.layers import Layers
from headtohead.spec.spec import (
    Difference,
    Dims,
    Knob,
    Part,
    Spec,
    alternatives,
    builtin_specs,
    code_of,
    encode,
    families,
    find,
    has_user_part,
    is_builtin,
    knob,
    knobs,
    members,
    parse,
    split_values,
)

__all__ = [
    "Difference",
    "Dims",
    "Knob",
    "Layers",
    "Part",
    "Spec",
    "alternatives",
    "builtin_specs",
    "code_of",
    "encode",
    "families",
    "find",
    "has_user_part",
    "is_builtin",
    "knob",
    "knobs",
    "members",
    "parse",
    "split_values",
]
