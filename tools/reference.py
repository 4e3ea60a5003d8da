"""Write the reference pages from the classes: python tools/reference.py parts > docs/reference/parts.md"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from itertools import groupby

from headtohead.data.corpora import corpora
from headtohead.data.synthetic import Synthetic
from headtohead.display.reference import Entry, Setting, parts, settings, summary
from headtohead.spec import is_builtin


def parts_page(known: Sequence[Entry]) -> str:
    """docs/reference/parts.md"""
    lines = [
        "# Parts",
        "",
        "Written by `python tools/reference.py parts`. A part of your own: [add a part](../how-to/add-a-part.md).",
    ]
    for family, entries in groupby(known, key=lambda e: e.family):
        lines += ["", f"## {family}"]
        for e in entries:
            lines += ["", f"### {e.name}", "", e.says, "", f"    {e.equation}", "", f"Reference: {e.reference}."]
            if e.knobs:
                lines += ["", *_table("knob", e.knobs)]
    return "\n".join(lines) + "\n"


def settings_page(known: Sequence[Setting]) -> str:
    """docs/reference/settings.md"""
    lines = [
        "# Settings",
        "",
        "Written by `python tools/reference.py settings`. These are the names for `--set`, `--vary` and `--over`,",
        "with the values of `h2h train lm`. A classifier starts with words, the full pattern, ten epochs,",
        "a constant learning rate of 0.001 and no clipping. Where the type is a family of [parts](parts.md), the",
        "value is a part, `--set model.position=Rope`, or a part with its knobs, `--set",
        "'model.position=Rope(theta=500)'`. Knobs are settings too: `--set model.position.theta=500`.",
    ]
    for group, entries in groupby(known, key=lambda s: s.name.partition(".")[0]):
        lines += ["", f"## {group}", "", *_table("setting", entries)]
    return "\n".join(lines) + "\n"


def tasks_page(known: Sequence[Synthetic]) -> str:
    """docs/reference/tasks.md"""
    lines = [
        "# Synthetic tasks",
        "",
        "Written by `python tools/reference.py tasks`. How to use them, and how to write your own:",
        "[test what a model can do](../how-to/tasks.md). Knobs: [parts](parts.md#corpus). Each example shows a whole",
        "input; an answer stands after the arrow at the symbol where it is asked.",
        "",
        "| task | best possible: accuracy, nats per answer | guessing | longest example by default |",
        "|---|---|---|---|",
    ]
    for task in known:
        best, guess = task.limits()
        cells = (f"`{best.accuracy:.0%}, {best.loss:.2f}`", f"`{guess.accuracy:.1%}, {guess.loss:.2f}`")
        lines.append(f"| [`{task.name}`](#{task.name}) | {cells[0]} | {cells[1]} | {task.longest} symbols |")
    for task in known:
        shown = task.sets()["test"][0]
        answers = ("" if a < 0 else f"→{task.symbols[a]}" for a in shown.answers)
        example = " ".join(f"{task.symbols[i]}{answer}" for i, answer in zip(shown.ids, answers, strict=True))
        lines += ["", f"## {task.name}", "", f"{summary(type(task))} Separates {task.separates}.", ""]
        lines += [f"    {task.equation}", "", f"    {example}", "", f"Reference: {task.reference}."]
    return "\n".join(lines) + "\n"


def tasks() -> list[Synthetic]:
    return [corpus for corpus in corpora() if isinstance(corpus, Synthetic) and is_builtin(type(corpus))]


def _table(title: str, rows: Iterable[Setting]) -> list[str]:
    head = [f"| {title} | type | default | |", "|---|---|---|---|"]
    return head + [f"| `{k.name}` | {k.type.replace('|', 'or')} | {k.default} | {k.help} |" for k in rows]


def main() -> None:
    match sys.argv[1:]:
        case ["parts"]:
            print(parts_page(parts()), end="")
        case ["settings"]:
            print(settings_page(settings()), end="")
        case ["tasks"]:
            print(tasks_page(tasks()), end="")
        case _:
            sys.exit("give parts, settings or tasks: python tools/reference.py parts")


if __name__ == "__main__":
    main()
