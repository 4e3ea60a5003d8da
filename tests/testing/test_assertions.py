"""Assertions pass on correct modules, and fail in one line on broken ones."""

import random
import subprocess
import sys
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from headtohead import InputError, load_file
from headtohead import testing as h2h
from helpers.docs import ROOT

Assertion = Callable[..., Any]


def module(name: str) -> Any:
    """The class that a file of the auditor's tests is about."""
    loaded = load_file(ROOT / "tests" / "auditor" / f"{name}.py")
    return getattr(loaded, loaded.CLASS)


class Quiet(nn.Module):
    """A language model that warns in each call."""

    def __init__(self, vocab: int = 12, width: int = 8) -> None:
        super().__init__()
        self.tokens, self.out = nn.Embedding(vocab, width), nn.Linear(width, vocab)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        warnings.warn("an old argument", DeprecationWarning, stacklevel=1)
        return self.out(self.tokens(ids))


PAIRS = [
    (h2h.assert_causal, "correct/tied_lm", "planted/mask_off_by_one", "future-gradient", {}),
    (h2h.assert_padding_ignored, "correct/max_pool_classifier", "planted/padding_in_mean", "padding-right", {}),
    (h2h.assert_cache_equal, "correct/cached_lm", "planted/cache_drops_last_token", "cache", {}),
    (h2h.assert_trainable, "correct/tied_lm", "planted/layers_in_dict", "registered", {}),
    (h2h.assert_batch_independent, "correct/tied_lm", "planted/normalised_across_batch", "batch-rows", {}),
]


@pytest.mark.parametrize(("check", "sound", "broken", "name", "claims"), PAIRS)
def test_each_assertion_tells_sound_from_broken(
    check: Assertion, sound: str, broken: str, name: str, claims: dict[str, Any]
) -> None:
    assert check(module(sound), **claims).ok
    with pytest.raises(AssertionError) as found:
        check(module(broken), **claims)
    line = str(found.value)
    assert "\n" not in line
    assert f"{name} is broken" in line or f"also broken: {name}" in line or f", {name}" in line


def test_a_window_is_asserted() -> None:
    windowed = load_file(ROOT / "tests" / "auditor" / "correct" / "windowed_lm.py")
    size = int(windowed.FLAGS[windowed.FLAGS.index("--window") + 1])
    assert h2h.assert_window(windowed.Windowed, size, causal=True).ok
    with pytest.raises(AssertionError, match="window is broken"):
        h2h.assert_window(windowed.Windowed, size - 1, causal=True)


def test_a_built_module_is_audited_and_not_changed() -> None:
    model = module("correct/tied_lm")()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    report = h2h.assert_audit(model, causal=True)
    assert {f.status for f in report.findings if f.check == "seed"} == {"does not apply"}
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert all(p.grad is None for p in model.parameters())


def test_an_assertion_that_checks_nothing_fails() -> None:
    with pytest.raises(AssertionError, match="nothing was checked, cache does not apply: it takes no cache"):
        h2h.assert_cache_equal(Quiet)


def test_skipped_checks_do_not_fail() -> None:
    leaky = module("planted/mask_off_by_one")
    future = ("future-gradient", "future-tokens", "future-length")
    report = h2h.assert_audit(leaky, causal=True, skip=(*future, "cache"))
    assert not {f.check for f in report.findings} & set(future)
    assert h2h.assert_audit(leaky, causal=True, only=("dropout", "future-tokens"), skip=future).ok


@pytest.mark.parametrize(
    ("claims", "says"),
    [
        ({"skip": ["cach"]}, "no check is called 'cach': did you mean cache?"),
        ({"only": ["cach"]}, "no check is called 'cach': did you mean cache?"),
        ({"skip": "cache"}, "only and skip are lists of names"),
        ({"only": ["cache"], "skip": ["cache"]}, "no check is left"),
        ({"pad": 99}, "--pad 99 is outside the vocabulary"),
    ],
)
def test_bad_input_is_one_line(claims: dict[str, Any], says: str) -> None:
    with pytest.raises(InputError, match=says) as found:
        h2h.assert_audit(Quiet, **claims)
    assert "\n" not in str(found.value)
    assert found.value.__context__ is None, "pytest would show the frames of the audit"


def test_an_audit_leaves_random_numbers_as_they_were() -> None:
    def draw() -> tuple[float, float, float]:
        return random.random(), float(np.random.rand()), float(torch.rand(()))

    random.seed(1), np.random.seed(1), torch.manual_seed(1)
    expected = draw()
    random.seed(1), np.random.seed(1), torch.manual_seed(1)
    h2h.assert_causal(Quiet)
    assert draw() == expected


@pytest.mark.parametrize("around", [torch.no_grad, torch.inference_mode])
def test_the_callers_modes_and_filters_do_not_matter(around: Any) -> None:
    with around(), warnings.catch_warnings():
        warnings.simplefilter("error")
        assert h2h.assert_audit(Quiet, causal=True).ok


def test_importing_needs_neither_torch_nor_other_packages() -> None:
    code = "import sys, headtohead.testing; print(*{m.partition('.')[0] for m in sys.modules})"
    light = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert not {"torch", "numpy", "pydantic", "pandas", "typer"} & set(light)
    code = f"import headtohead.auditor; {code}"
    audit = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert not {"pandas", "altair", "matplotlib", "typer", "tokenizers", "transformers", "rich"} & set(audit)
