"""h2h bughunt: a model with bugs for each student, the answer key, and marking."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headtohead.cli.entry import TEACH, app
from headtohead.cli.options import AsJson
from headtohead.cli.printing import print_json

if TYPE_CHECKING:
    from headtohead.bughunt import Answer


@app.command(rich_help_panel=TEACH)
def bughunt(
    student: Annotated[str, typer.Option(help="The student's ID. Capitals do not matter.")],
    out: Annotated[
        str | None, typer.Option(help="A new folder for the task; with --answer, a file for the key.")
    ] = None,
    bugs: Annotated[int, typer.Option(min=1, max=5, help="Number of bugs.")] = 3,
    course: Annotated[
        str, typer.Option(envvar="HEADTOHEAD_COURSE", help="The secret of the course: it decides the bugs, too.")
    ] = "",
    answer: Annotated[bool, typer.Option("--answer", help="Print the answer key.")] = False,
    check: Annotated[str | None, typer.Option(help="Mark this folder, as it was handed in.")] = None,
    seconds: Annotated[float, typer.Option(min=1, help="With --check: the time limit.")] = 120,
    as_json: AsJson = False,
) -> None:
    """Plant bugs that differ from student to student; mark repairs.

    Example: h2h bughunt --student ada --course SECRET --out hunt-ada

    --check executes the file that was handed in. Exit 1 if a bug is left or a new one was made.
    """
    from headtohead import bughunt as hunts
    from headtohead.display.visible import visible
    from headtohead.errors import InputError

    if answer and check is not None:
        raise InputError("--answer and --check: give one of them")
    if check is not None:
        if out is not None:
            raise InputError("--out is for a task or a key: leave it out with --check")
        grade = hunts.check(check, student, course=course, seconds=seconds)
        print_json(grade.to_json()) if as_json else print(visible(str(grade)))
        raise typer.Exit(0 if grade.ok else 1)
    if answer:
        _show_key(hunts.answer(student, course=course, bugs=bugs), student, out, as_json)
        return
    if out is None:
        raise InputError("say what to do: --out FOLDER writes the task, --answer prints the key, --check FOLDER marks")
    folder = hunts.make(student, out, course=course, bugs=bugs)
    if as_json:
        print_json({"folder": str(folder), "student": student, "bugs": bugs})
    else:
        print(visible(f"wrote {folder}: give it to {student}; HUNT.md says what to do"))


def _show_key(key: tuple[Answer, ...], student: str, out: str | None, as_json: bool) -> None:
    import json

    from headtohead.disk.writing import write_whole
    from headtohead.display.visible import visible
    from headtohead.errors import InputError

    values = [a.to_json() for a in key]
    lines = [f"The bugs of {student}, by their lines in model.py"]
    for a in key:
        lines += ["", f"line {', '.join(map(str, a.lines))} ({a.family}): {a.wrong}"]
        lines += [f"    {'fix' if n == 0 else '   '}    {text}" for n, text in enumerate(a.fix.splitlines())]
        lines += [f"    shown  {a.shown_by()}"]
    text = json.dumps(values, indent=2) if as_json else "\n".join(lines)
    if out is not None and Path(out).is_dir():
        raise InputError(f"{out} is a folder: give --out a file for the key")
    if out is None:
        print(text)
    else:
        write_whole(Path(out), text + "\n")
        print(visible(f"wrote {out}"))
