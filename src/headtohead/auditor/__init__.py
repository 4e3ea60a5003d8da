"""Check that a part, a model or any torch module does what it claims, before it is trained.

audit_part(Rope())                     a part, in a small language model and a small classifier
audit_spec(ModelSpec(…), causal=True)  a whole model
audit_module(MyModule, causal=True)    any torch module from ids (B, T) to logits
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeGuard, TypeVar

from torch import nn

from headtohead.auditor import caching, consistency, derivative, information, learning, numbers, weights
from headtohead.auditor.module import Claims, build_module, from_module
from headtohead.auditor.parts import PART_CHECKS, small
from headtohead.auditor.reference import against
from headtohead.auditor.report import Check, Finding, Hear, Report
from headtohead.auditor.subject import Subject, from_spec
from headtohead.data.pretrained_checkpoints import is_checkpoint
from headtohead.errors import InputError, it_has, nearest
from headtohead.model.spec import ModelSpec
from headtohead.parts import Causal, Full, Pattern
from headtohead.spec import Part, families, parse
from headtohead.spec.userfiles import RECIPES, find_recipe, load_file

__all__ = [
    "CHECKS",
    "Claims",
    "Finding",
    "Report",
    "Subject",
    "audit_any",
    "audit_module",
    "audit_named",
    "audit_part",
    "audit_spec",
    "examine",
    "merge",
]

S = TypeVar("S")

CHECKS: tuple[Check[Subject], ...] = (
    weights.dropout,  # first, because randomness in evaluation can break the other checks
    numbers.finite,
    weights.repeat,
    information.batch_rows,
    information.future_gradient,
    information.future_tokens,
    information.future_length,
    information.padding_right,
    information.padding_left,
    information.masked_rows,
    learning.gradients,
    derivative.derivative,
    learning.registered,
    learning.optimizer,
    numbers.rows,
    weights.tied,
    consistency.options,
    caching.cache,
    consistency.paths,
    consistency.rows_sum,
    consistency.window,
    consistency.shift,
    weights.initial_loss,
    weights.seed,
    weights.state_dict,
    weights.precision,
)


def examine(subject: Subject, only: Sequence[str] = (), hear: Hear | None = None) -> Report:
    """Run all checks on one subject, or those named in `only`. `hear` is called with the name of each check."""
    return Report(subject.name, _findings(CHECKS, subject, only, hear))


def _findings(checks: Sequence[Check[S]], subject: S, only: Sequence[str], hear: Hear | None) -> tuple[Finding, ...]:
    found = []
    for check in checks:
        if not only or check.name in only:
            if hear is not None:
                hear(check.name)
            found.append(check(subject))
    return tuple(found)


def audit_spec(
    spec: ModelSpec,
    name: str = "model",
    *,
    causal: bool | None = None,
    only: Sequence[str] = (),
    hear: Hear | None = None,
) -> Report:
    """Audit a model made of parts, as a language model if `causal` (default: if its pattern is), else a classifier."""
    causal = spec.pattern.is_causal(min(spec.block, 64)) if causal is None else causal
    subject = from_spec(spec, f"{name}, {'language model' if causal else 'classifier'}", causal=causal)
    return examine(subject, only, hear)


def audit_module(cls: Callable[..., nn.Module], name: str | None = None, **claims: object) -> Report:
    """Audit any torch module that maps ids (B, T) to logits (B, T, V) or (B, classes)."""
    claimed = _selected(Claims(**claims))  # type: ignore[arg-type]
    return examine(from_module(cls, name or str(getattr(cls, "__name__", "module")), claimed), claimed.only)


def audit_part(part: Part, *, causal: bool = False, only: Sequence[str] = (), hear: Hear | None = None) -> list[Report]:
    """Audit a part by itself, in a small language model and in a small classifier.

    In the language model, a pattern is used as `Causal() & pattern`; with `causal` it must be causal by itself.
    """
    name = str(part)
    if part.family not in families():
        raise InputError(f"{name} is a {part.family}, not a part of a model: only models and their parts are audited")
    model = small(**{part.family: part})
    reports = [Report(f"{name}, the {part.family} itself", _findings(PART_CHECKS, part, only, hear))]
    if part.family != "pooling":
        reports.append(examine(as_language_model(part, causal=causal), only, hear))
    if not causal:
        pattern = part if isinstance(part, Pattern) else Full()
        subject = from_spec(model.set("pattern", pattern), f"{name} in a classifier", causal=False)
        reports.append(examine(subject, only, hear))
    return [merge(name, reports)]


def as_language_model(part: Part, *, causal: bool = False) -> Subject:
    """Return the small language model that a part is audited in."""
    model = small(**{part.family: part})
    pattern = model.pattern if not isinstance(part, Pattern) or causal else Causal() & part
    return from_spec(model.set("pattern", pattern), f"{part} in a language model", causal=True)


def _examined(cls: Callable[..., nn.Module], name: str, claims: Claims, hear: Hear | None = None) -> Report:
    """Audit a module class of the user and, if a reference is given, compare it with that."""
    wanted = _class_in(claims.reference) if isinstance(claims.reference, str) else claims.reference
    subject = from_module(cls, name, claims)
    report = examine(subject, claims.only, hear)
    if wanted is None:
        return report
    if hear is not None:
        hear("reference")
    found = against(lambda: build_module(wanted, "the reference", claims))(subject)
    return Report(report.subject, (*report.findings, found))


def _class_in(where: str) -> Callable[..., nn.Module]:
    """The class or function that `file.py:Class` names."""
    file, _, name = where.rpartition(":")
    value = getattr(load_file(file), name, None) if file.endswith(".py") else None
    if not callable(value) or isinstance(value, nn.Module):
        raise InputError(f"--reference {where}: give file.py:Class of a module class")
    return value


def names_of_checks() -> list[str]:
    return list(dict.fromkeys([*(check.name for check in CHECKS), *(check.name for check in PART_CHECKS)]))


def _selected(claims: Claims) -> Claims:
    """Return the claims with the names of the checks to run in `only`. Raise InputError if a name does not exist."""
    names = names_of_checks()
    for name in (*claims.only, *claims.skip):
        if name not in names:
            raise InputError(f"no check is called '{name}': {nearest(name, names)}")
    if not claims.skip:
        return claims
    chosen = tuple(name for name in claims.only or names if name not in claims.skip)
    if not chosen:
        raise InputError("--skip leaves no check to run: skip fewer")
    return dataclasses.replace(claims, only=chosen, skip=())


def merge(name: str, reports: Sequence[Report]) -> Report:
    """Merge several reports into one. A claim is broken if any report breaks it, advice if any report advises, and
    proved if at least one report proves it."""
    order = {"broken": 0, "advice": 1, "proved": 2, "does not apply": 3}
    worst: dict[str, Finding] = {}
    for report in reports:
        where = report.subject.removeprefix(f"{name} ")
        for f in report.findings:
            if f.status in ("broken", "advice"):
                f = dataclasses.replace(f, evidence=f"{where}: {f.evidence}")
            if f.check not in worst or order[f.status] < order[worst[f.check].status]:
                worst[f.check] = f
    return Report(name, tuple(worst.values()))


def audit_named(what: str, claims: Claims, hear: Hear | None = None) -> list[Report]:
    """Audit what the command line names: `Rope`, `Reweight(over=sequence)`, `file.py:Class`, a whole `recipe.py`, or a
    checkpoint. `hear` is called with the name of each check of a class."""
    reports = _audit(what, _selected(claims), hear)
    if not all(report.findings for report in reports):
        raise InputError(f"--only {' and '.join(claims.only)} does not apply to {what}: leave it out to run all checks")
    return reports


def _audit(what: str, claims: Claims, hear: Hear | None) -> list[Report]:
    file, name = find_recipe(what)
    if file.is_file() and (".py" in what or file.is_relative_to(RECIPES)) and (not name or name.isidentifier()):
        return _audit_class(str(file), name, claims, hear) if name else _audit_file(str(file), claims)
    if what.endswith(".py"):
        return _audit_file(what, claims)
    if ".py:" in what and what.partition(".py:")[2].isidentifier():
        return _audit_class(str(file), name, claims, hear)
    if is_checkpoint(what):
        return [_audit_checkpoint(what, claims)]
    value = parse(what)
    if isinstance(value, ModelSpec):
        return [audit_spec(value, causal=claims.causal or None, only=claims.only)]
    if isinstance(value, Part):
        return audit_part(value, causal=claims.causal, only=claims.only)
    if isinstance(value, str):
        parse(f"{value}()")  # raises an error with the nearest name
    raise InputError(f"'{what}' is not a part: give a part, a recipe.py or a file.py:Class")


def audit_any(what: object, claims: Claims) -> Report:
    """Audit a module, a module class, a part, a model's spec, or a name that `audit_named` takes."""
    if isinstance(what, str):
        return merge(what, audit_named(what, claims)) if what.endswith(".py") else audit_named(what, claims)[0]
    claims = _selected(claims)
    if isinstance(what, ModelSpec):
        return audit_spec(what, causal=claims.causal or None, only=claims.only)
    if isinstance(what, type) and issubclass(what, Part):
        what = what()
    if isinstance(what, Part):
        return audit_part(what, causal=claims.causal, only=claims.only)[0]
    if isinstance(what, nn.Module):
        report = examine(from_module(lambda: copy.deepcopy(what), type(what).__name__, claims), claims.only)
        return _without_initial_weights(
            report, "this module is built already: audit its class to check initial weights"
        )
    if callable(what):
        return _examined(what, str(getattr(what, "__name__", "module")), claims)
    raise InputError(f"a module, a class, a part or a spec can be audited, not {what!r}")


INITIAL_WEIGHTS = ("seed", "initial-loss")  # checks that apply to initial weights, not to trained ones


def _audit_checkpoint(name: str, claims: Claims) -> Report:
    """Audit an imported checkpoint in Hugging Face's format. A language model must be causal."""
    from headtohead.run.named import load

    trained = load(name)
    causal = claims.causal or trained.task == "lm"
    claims = dataclasses.replace(claims, causal=causal, pad=trained.vocabulary.pad)
    report = examine(from_module(lambda: load(name).model, name, claims), claims.only)
    return _without_initial_weights(report, "its weights are trained, not initial")


def _without_initial_weights(report: Report, reason: str) -> Report:
    """Mark the checks of initial weights as not applicable."""
    return Report(
        report.subject,
        tuple(
            dataclasses.replace(f, status="does not apply", evidence=reason) if f.check in INITIAL_WEIGHTS else f
            for f in report.findings
        ),
    )


def _audit_class(file: str, name: str, claims: Claims, hear: Hear | None) -> list[Report]:
    module = load_file(file)
    value = getattr(module, name, None)
    if value is None:
        classes = [n for n, v in vars(module).items() if isinstance(v, type) and v.__module__ == module.__name__]
        raise InputError(f"{file} has no class '{name}': {it_has(name, classes)}")
    if isinstance(value, type) and issubclass(value, Part):
        return audit_part(value(), causal=claims.causal, only=claims.only)
    if isinstance(value, ModelSpec):
        return [audit_spec(value, name, causal=claims.causal or None, only=claims.only)]
    if isinstance(value, nn.Module) or not callable(value):
        raise InputError(f"{file}:{name} is a value, not a class: name the class, so that the audit can build it")
    return [_examined(value, name, claims, hear)]


def _is_own_part(value: object, module: str) -> TypeGuard[type[Part]]:
    """Whether the file itself defines this part of a model. Parts of data and training are not audited."""
    return (
        isinstance(value, type)
        and issubclass(value, Part)
        and value.__module__ == module
        and value.family in families()
    )


def _audit_file(file: str, claims: Claims) -> list[Report]:
    """Audit every model spec and every part that a recipe defines."""
    module = load_file(file)
    reports: list[Report] = []
    for name, value in vars(module).items():
        if isinstance(value, ModelSpec):
            reports.append(audit_spec(value, name, causal=claims.causal or None, only=claims.only))
        elif _is_own_part(value, module.__name__):
            reports += audit_part(value(), causal=claims.causal, only=claims.only)
    if not reports:
        raise InputError(
            f"{file} defines no ModelSpec and no part, so there is nothing to audit; "
            f"for a torch module, name its class: {Path(file).name}:Class"
        )
    return reports
