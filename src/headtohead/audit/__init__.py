"""Prove that a part, a model or any torch module is what it says, before it is trained.

audit_part(Rope())                     a part, in small models of both kinds
audit_spec(ModelSpec(…), causal=True)  a whole model
audit_module(MyModule, causal=True)    any torch module from ids (B, T) to logits
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeGuard

from torch import nn

from headtohead.audit import consistency, information, learning, weights
from headtohead.audit.check import Check
from headtohead.audit.module import Claims, from_module
from headtohead.audit.parts import PART_CHECKS, small
from headtohead.audit.report import Finding, Report
from headtohead.audit.subject import Subject, from_spec
from headtohead.data.checkpoints import is_checkpoint
from headtohead.errors import InputError, nearest
from headtohead.model import ModelSpec
from headtohead.parts import Causal, Full, Pattern
from headtohead.spec import Part, families, parse
from headtohead.userfiles import load_file

__all__ = [
    "CHECKS",
    "Claims",
    "Finding",
    "Report",
    "Subject",
    "audit_module",
    "audit_named",
    "audit_part",
    "audit_spec",
    "examine",
    "merge",
]

CHECKS: tuple[Check[Subject], ...] = (
    weights.dropout,  # first what can make other checks fail
    information.batch_rows,
    information.future_gradient,
    information.future_tokens,
    information.future_length,
    information.padding_right,
    information.padding_left,
    information.masked_rows,
    learning.gradients,
    learning.derivative,
    learning.registered,
    learning.optimizer,
    weights.tied,
    consistency.options,
    consistency.cache,
    consistency.paths,
    consistency.rows_sum,
    consistency.window,
    consistency.shift,
    weights.initial_loss,
    weights.seed,
    weights.state_dict,
)


def examine(subject: Subject, only: Sequence[str] = ()) -> Report:
    """Every check on one subject, or those that are named."""
    return Report(subject.name, tuple(check(subject) for check in CHECKS if not only or check.name in only))


def audit_spec(spec: ModelSpec, name: str = "model", *, causal: bool | None = None, only: Sequence[str] = ()) -> Report:
    """A model made of parts: a language model where its pattern is causal, else a classifier."""
    causal = spec.pattern.is_causal(min(spec.block, 64)) if causal is None else causal
    return examine(from_spec(spec, f"{name}, {'language model' if causal else 'classifier'}", causal=causal), only)


def audit_module(cls: Callable[..., nn.Module], name: str | None = None, **claims: object) -> Report:
    """Any torch module that maps ids (B, T) to logits (B, T, V) or (B, classes)."""
    said = Claims(**claims)  # type: ignore[arg-type]
    return examine(from_module(cls, name or str(getattr(cls, "__name__", "module")), said), _known(said.only))


def audit_part(part: Part, *, causal: bool = False, only: Sequence[str] = ()) -> list[Report]:
    """A part by itself, in a small language model and in a small classifier.

    A pattern joins the language model as `Causal() & pattern`; with `causal` it has to be causal by itself.
    """
    name = str(part)
    if part.family not in families():
        raise InputError(f"{name} is a {part.family}, no part of a model: the audit is of models and their parts")
    itself = Report(f"{name}, the {part.family} itself", _own_checks(part, only))
    model = small(**{part.family: part})
    reports = [itself]
    if part.family != "pooling":
        pattern = model.pattern if not isinstance(part, Pattern) or causal else Causal() & part
        subject = from_spec(model.set("pattern", pattern), f"{name} in a language model", causal=True)
        reports.append(examine(subject, only))
    if not causal:
        pattern = part if isinstance(part, Pattern) else Full()
        subject = from_spec(model.set("pattern", pattern), f"{name} in a classifier", causal=False)
        reports.append(examine(subject, only))
    return [merge(name, reports)]


def _own_checks(part: Part, only: Sequence[str]) -> tuple[Finding, ...]:
    return tuple(check(part) for check in PART_CHECKS if not only or check.name in only)


def _known(only: Sequence[str]) -> Sequence[str]:
    """Refuse a check that there is not: nothing would be proved by leaving all of them out."""
    names = list(dict.fromkeys([*(check.name for check in CHECKS), *(check.name for check in PART_CHECKS)]))
    for name in only:
        if name not in names:
            raise InputError(f"no check is called '{name}': {nearest(name, names)}")
    return only


def merge(name: str, reports: Sequence[Report]) -> Report:
    """One report on a part out of several: a claim is broken where it is broken anywhere, proved where it is proved
    somewhere and broken nowhere."""
    order = {"broken": 0, "proved": 1, "does not apply": 2}
    worst: dict[str, Finding] = {}
    for report in reports:
        where = report.subject.removeprefix(f"{name} ")
        for f in report.findings:
            if f.status == "broken":
                f = Finding(f.check, f.title, f.status, f"{where}: {f.evidence}", f.meaning)
            if f.check not in worst or order[f.status] < order[worst[f.check].status]:
                worst[f.check] = f
    return Report(name, tuple(worst.values()))


def audit_named(what: str, claims: Claims) -> list[Report]:
    """What the command line names: `Rope`, `Reweight(over=sequence)`, `file.py:Class`, a whole `recipe.py`, or a
    checkpoint."""
    reports = _audit(what, dataclasses.replace(claims, only=tuple(_known(claims.only))))
    if not all(report.findings for report in reports):
        raise InputError(f"{' and '.join(claims.only)}: not a check that is made of {what}; h2h audit {what} makes all")
    return reports


def _audit(what: str, claims: Claims) -> list[Report]:
    path, marker, rest = what.partition(".py:")
    if marker and rest.isidentifier():
        return _audit_class(path + ".py", rest, claims)
    if what.endswith(".py"):
        return _audit_file(what, claims)
    if is_checkpoint(what):
        return [_audit_checkpoint(what, claims)]
    value = parse(what)
    if isinstance(value, ModelSpec):
        return [audit_spec(value, causal=claims.causal or None, only=claims.only)]
    if isinstance(value, Part):
        return audit_part(value, causal=claims.causal, only=claims.only)
    if isinstance(value, str):
        parse(f"{value}()")  # raises, with the nearest name
    raise InputError(f"'{what}' is not a part: give a part, a recipe.py or a file.py:Class")


DRAWN = ("seed", "initial-loss")  # what is asked of weights that were drawn, and not of those that were learned


def _audit_checkpoint(name: str, claims: Claims) -> Report:
    """A model in Hugging Face's format, as it is imported. A language model has to be causal."""
    from headtohead.imported import load

    trained = load(name)
    causal = claims.causal or trained.task == "lm"
    told = dataclasses.replace(claims, causal=causal, pad=trained.vocabulary.pad)
    found = examine(from_module(lambda: load(name).model, name, told), claims.only)
    learned = "its weights were learned, not drawn"
    return Report(
        found.subject,
        tuple(
            dataclasses.replace(f, status="does not apply", evidence=learned) if f.check in DRAWN else f
            for f in found.findings
        ),
    )


def _audit_class(file: str, name: str, claims: Claims) -> list[Report]:
    module = load_file(file)
    found = getattr(module, name, None)
    if found is None:
        classes = [n for n, v in vars(module).items() if isinstance(v, type) and v.__module__ == module.__name__]
        raise InputError(f"{file} has no '{name}': {nearest(name, classes)}")
    if isinstance(found, type) and issubclass(found, Part):
        return audit_part(found(), causal=claims.causal, only=claims.only)
    if isinstance(found, ModelSpec):
        return [audit_spec(found, name, causal=claims.causal or None, only=claims.only)]
    if isinstance(found, nn.Module) or not callable(found):
        raise InputError(f"{file}:{name} is a value, not a class: name the class, so that it can be built afresh")
    return [examine(from_module(found, name, claims), claims.only)]


def _own_part(value: object, module: str) -> TypeGuard[type[Part]]:
    """A part of the model that the file itself defines; those of data and training are not audited."""
    return (
        isinstance(value, type)
        and issubclass(value, Part)
        and value.__module__ == module
        and value.family in families()
    )


def _audit_file(file: str, claims: Claims) -> list[Report]:
    """Every model spec and every part that a recipe defines."""
    module = load_file(file)
    reports: list[Report] = []
    for name, value in vars(module).items():
        if isinstance(value, ModelSpec):
            reports.append(audit_spec(value, name, causal=claims.causal or None, only=claims.only))
        elif _own_part(value, module.__name__):
            reports += audit_part(value(), causal=claims.causal, only=claims.only)
    if not reports:
        hint = f"name a class: {Path(file).name}:Class"
        raise InputError(
            f"{file} defines no ModelSpec and no part, so there is nothing to audit; for a torch module {hint}"
        )
    return reports
