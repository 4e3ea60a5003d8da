"""Assertions about torch modules. Each is one call of the audit with the checks that it needs."""

from __future__ import annotations

import random
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from headtohead.errors import InputError, nearest

if TYPE_CHECKING:
    from headtohead.auditor.report import Report

CAUSAL = ("future-gradient", "future-tokens", "future-length")
PADDING = ("padding-right", "padding-left", "masked-rows")
LEARNING = ("gradients", "derivative", "registered", "optimizer")


def assert_audit(
    what: Any,
    *,
    causal: bool = False,
    relative: bool = False,
    window: int | None = None,
    vocab: int | None = None,
    block: int | None = None,
    pad: int = 0,
    only: Sequence[str] = (),
    skip: Sequence[str] = (),
) -> Report:
    """Assert that no check of the audit is broken, and return the report.

    `what` is a module class, a function that builds a module, or a module that is built already. A class is better: its
    initial weights are checked as well. `only` and `skip` name checks.
    """
    __tracebackhide__ = True
    problem = None
    try:
        claims = {"causal": causal, "relative": relative, "window": window, "vocab": vocab, "block": block, "pad": pad}
        report = audited(what, claims, only, skip)
    except InputError as error:
        problem = error
    if problem is not None:  # outside the handler: pytest would show the frames of the audit
        raise type(problem)(str(problem))
    if report.broken:
        raise AssertionError(line_of(report))
    return report


def assert_causal(what: Any, **claims: Any) -> Report:
    """Assert that no output depends on later tokens."""
    __tracebackhide__ = True
    return _assert(what, CAUSAL, causal=True, **claims)


def assert_padding_ignored(what: Any, **claims: Any) -> Report:
    """Assert that padding changes nothing, and that a text of padding only gives finite numbers."""
    __tracebackhide__ = True
    return _assert(what, PADDING, **claims)


def assert_cache_equal(what: Any, **claims: Any) -> Report:
    """Assert that token by token with the cache gives what the whole text gives."""
    __tracebackhide__ = True
    return _assert(what, ("cache",), **claims)


def assert_window(what: Any, window: int, **claims: Any) -> Report:
    """Assert that attention sees exactly `window` positions, the token itself included."""
    __tracebackhide__ = True
    return _assert(what, ("window",), window=window, **claims)


def assert_trainable(what: Any, **claims: Any) -> Report:
    """Assert that every weight is registered, gets a correct gradient, and is changed by an optimizer."""
    __tracebackhide__ = True
    return _assert(what, LEARNING, **claims)


def assert_batch_independent(what: Any, **claims: Any) -> Report:
    """Assert that a text's output does not depend on the other texts in the batch."""
    __tracebackhide__ = True
    return _assert(what, ("batch-rows",), **claims)


def _assert(what: Any, checks: Sequence[str], **claims: Any) -> Report:
    """Assert these checks. An assertion that checks nothing fails: it would hide that nothing was tested."""
    __tracebackhide__ = True
    report = assert_audit(what, only=checks, **claims)
    if all(f.status == "does not apply" for f in report.findings):
        first = report.findings[0]
        raise AssertionError(f"{report.subject}: nothing was checked, {first.check} does not apply: {first.evidence}")
    return report


def audited(what: Any, claims: dict[str, Any], only: Sequence[str] = (), skip: Sequence[str] = ()) -> Report:
    """Audit without leaving traces in the caller's process."""
    from headtohead.auditor import Claims, audit_any

    with _undisturbed():
        return audit_any(what, Claims(**claims, only=checks_without(only, skip)))


def checks_without(only: Sequence[str], skip: Sequence[str]) -> tuple[str, ...]:
    """The names of the checks to run; empty for all."""
    from headtohead.auditor import CHECKS

    if isinstance(only, str) or isinstance(skip, str):
        raise InputError(f"only and skip are lists of names: write [{only or skip!r}]")
    names = [check.name for check in CHECKS]
    for name in skip:
        if name not in names:
            raise InputError(f"no check is called '{name}': {nearest(name, names)}")
    if not skip:
        return tuple(only)
    left = tuple(name for name in only or names if name not in skip)
    if not left:
        raise InputError("no check is left: skip fewer")
    return left


def line_of(report: Report) -> str:
    """The broken checks in one line: the first with its counterexample, the others by name."""
    first, *others = report.broken
    line = f"{report.subject}: {first.check} is broken ({first.title}): {' '.join(first.evidence.split())}"
    return f"{line}; also broken: {', '.join(f.check for f in others)}" if others else line


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Audit as in a process of its own: with gradients, without the caller's warning filters, and with the caller's
    random generators put back."""
    import numpy as np
    import torch

    python, of_numpy = random.getstate(), np.random.get_state()
    try:
        with (
            torch.random.fork_rng(devices=[]),
            torch.inference_mode(False),
            torch.enable_grad(),
            warnings.catch_warnings(),
        ):
            warnings.simplefilter("ignore")
            yield
    finally:
        random.setstate(python)
        np.random.set_state(of_numpy)
