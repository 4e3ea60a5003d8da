"""Reads log files with a regular expression. Group 1, or the group `value`, is the value; a group `step` its step."""

from __future__ import annotations

import re

from headtohead.errors import InputError
from headtohead.external.sources import Source, read_text
from headtohead.external.values import Point, RunLog, number_of


def compiled(option: str, pattern: str, example: str) -> re.Pattern[str]:
    """The pattern, which needs a group in brackets."""
    try:
        found = re.compile(pattern)
    except re.error as error:
        raise InputError(f"{option} '{pattern}' is not a regular expression: {error}") from None
    if not found.groups:
        raise InputError(f"{option} '{pattern}' has no group: put brackets around the number, such as '{example}'")
    return found


def read_run(source: Source, pattern: re.Pattern[str] | None, metric: str) -> RunLog:
    text = read_text(source.path)
    if pattern is None:
        raise InputError(
            f"{source.shown} is plain text: say where the value is, such as --pattern 'val_loss=([0-9.]+)'"
        )
    value_group = "value" if "value" in pattern.groupindex else 1
    points: list[Point] = []
    for n, match in enumerate(pattern.finditer(text)):
        number = number_of(match[value_group])
        if number is None:
            raise InputError(f"{source.shown}: --pattern finds '{match[value_group][:40]}', which is not a number")
        step = number_of(match["step"]) if "step" in pattern.groupindex else None
        points.append((float(n) if step is None else step, number))
    if not points:
        raise InputError(f"{source.shown}: nothing matches --pattern '{pattern.pattern}'")
    return RunLog(source.name, source.shown, {metric: points})
