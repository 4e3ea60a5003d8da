"""Values as people read them: by one rule, on pages and in the terminal."""

from __future__ import annotations

import json

import pytest

from headtohead import Causal, LayerNorm, Local, Prefix, RMSNorm, Rope, parse
from headtohead.display.shown import shown
from headtohead.spec import Spec, builtin_specs
from headtohead.spec.spec import always_shown, encode


@pytest.mark.parametrize(
    ("value", "says"),
    [
        (LayerNorm(), "LayerNorm"),
        (RMSNorm(eps=1e-5), "RMSNorm(eps=1e-05)"),
        (Rope(theta=500), "Rope(theta=500)"),
        (Causal() & Local(8), "Causal & Local(window=8)"),
        (Causal() & Local(3) | Prefix(), "(Causal & Local(window=3)) | Prefix(n=4)"),
        ((1, 2), "(1, 2)"),
        (None, "none"),
        (True, "yes"),
        (False, "no"),
        (0.1, "0.1"),
        (10000.0, "10000"),
        (0.12345678, "0.12345678"),
        ("gelu", "gelu"),
        ({}, "none"),
    ],
)
def test_a_value_is_shown_by_what_is_not_usual(value: object, says: str) -> None:
    assert shown(json.loads(json.dumps(encode(value)))) == says


def test_every_knob_is_shown_on_request_and_of_a_users_part() -> None:
    assert shown(LayerNorm().to_json(), whole=True) == "LayerNorm(eps=1e-05, bias=yes)"
    own = {"kind": "Twist", "file": "twist.py", "source": "0" * 64, "theta": 10000.0, "fraction": 1.0}
    assert shown(own) == "Twist(theta=10000, fraction=1)"


def test_sizes_of_patterns_are_always_shown_and_can_be_typed() -> None:
    patterns = [cls for cls in builtin_specs().values() if getattr(cls, "family", "") == "pattern"]
    assert len(patterns) > 4
    for cls in patterns:
        part: Spec = cls()
        assert parse(shown(part.to_json())) == part
        if not cls.notation:
            numbers = [k for k, v in part.to_json().items() if isinstance(v, int)]
            assert numbers == always_shown(cls)
