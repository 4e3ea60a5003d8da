"""h2h grade: points for a submission to a transformer assignment."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headtohead.cli.entry import TEACH, app
from headtohead.cli.options import AsJson
from headtohead.cli.printing import console, print_json

if TYPE_CHECKING:
    from headtohead.grading import Grade, Rubric


@app.command(rich_help_panel=TEACH)
def grade(
    rubric: Annotated[Path, typer.Option(help="The rubric: a TOML file, or the folder with rubric.toml.")],
    submission: Annotated[
        Path | None, typer.Argument(help="A folder or .zip file; with --class, a folder of them.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Write Gradescope's results.json to this file.")] = None,
    whole_class: Annotated[bool, typer.Option("--class", help="Grade every submission in the folder.")] = False,
    to_csv: Annotated[Path | None, typer.Option("--csv", help="Write a table, one line per submission.")] = None,
    html: Annotated[Path | None, typer.Option(help="Write a page with the table and all feedback.")] = None,
    jobs: Annotated[int | None, typer.Option(min=1, help="With --class: processes; by default one per core.")] = None,
    within: Annotated[
        float | None, typer.Option(min=10, help="Seconds for a submission; --nbgrader: for a part. Then 600 if absent.")
    ] = None,
    to_gradescope: Annotated[
        Path | None, typer.Option("--gradescope", help="Write an autograder.zip for Gradescope; grades nothing.")
    ] = None,
    wheel: Annotated[Path | None, typer.Option(help="With --gradescope: the wheel of headtohead to install.")] = None,
    otter: Annotated[
        Path | None, typer.Option(help="Write tests for otter-grader to this folder; grades nothing.")
    ] = None,
    nbgrader: Annotated[Path | None, typer.Option(help="Write a notebook for nbgrader; grades nothing.")] = None,
    as_json: AsJson = False,
) -> None:
    """Grade submissions by what they do, in processes with limits.

    Each check runs in a process of its own, with limits. The exit code is 0 when the grading is done, however many
    points there are.
    """
    if to_gradescope or otter or nbgrader:
        if submission is not None:
            raise typer.BadParameter("--gradescope, --otter and --nbgrader need no submission: leave it out")
        _write(rubric, to_gradescope, wheel, within, otter, nbgrader)
        return
    if wheel is not None:
        raise typer.BadParameter("--wheel needs --gradescope")
    if submission is None:
        raise typer.BadParameter("give a submission: a folder or a .zip file")
    if within is not None and (whole_class or to_csv or html):
        raise typer.BadParameter("--within is for one submission: leave out --class, --csv and --html")
    import torch

    torch.set_num_threads(1)
    from headtohead.disk.writing import write_whole
    from headtohead.display.visible import visible
    from headtohead.grading import grade_class, read_rubric, submissions_in
    from headtohead.grading.formats import as_csv, gradescope, page

    read = read_rubric(rubric)
    if whole_class and out is not None:
        raise typer.BadParameter("--out is for one submission: with --class, use --csv or --html")
    if not whole_class and not submission.exists():
        from headtohead.errors import InputError

        raise InputError(f"no submission {submission}: give a folder or a .zip file")
    if whole_class:
        _grade_class(submissions_in(submission), read, jobs or os.cpu_count() or 1, to_csv, html, as_json)
        return
    if within is not None:
        _grade_within(submission, read, within, out, as_json)
        return
    grades = list(grade_class([submission], read))
    if grades[0].error:
        from headtohead.errors import InputError

        raise InputError(grades[0].error)
    for path, text in (
        (out, gradescope(grades[0])),
        (to_csv, as_csv(grades)),
        (html, page(grades, read.title)),
    ):
        if path is not None:
            write_whole(path, visible(text))
            print(f"wrote {path}", file=sys.stderr)
    if as_json:
        print_json(grades[0].to_json())
    else:
        _show(grades[0])


def _write(
    rubric: Path,
    to_gradescope: Path | None,
    wheel: Path | None,
    within: float | None,
    otter: Path | None,
    nbgrader: Path | None,
) -> None:
    """Write what other graders need."""
    from headtohead.grading.gradescope import write_autograder
    from headtohead.grading.nbgrader import write_notebook
    from headtohead.grading.otter import write_tests

    if to_gradescope is not None:
        names = write_autograder(rubric, to_gradescope, wheel, within or 600.0)
        print(f"wrote {to_gradescope}: {len(names)} files, at most {within or 600:g} seconds for a submission")
    if otter is not None:
        for path in write_tests(rubric, otter):
            print(f"wrote {path}")
    if nbgrader is not None:
        seconds = within or 600.0
        print(f"wrote {nbgrader}: cells {', '.join(write_notebook(rubric, nbgrader, seconds))}")
        print(
            f"put c.ExecutePreprocessor.timeout = {seconds + 60:.0f} into nbgrader_config.py: its default is 30 seconds"
        )


def _grade_class(
    todo: list[Path], rubric: Rubric, jobs: int, to_csv: Path | None, html: Path | None, as_json: bool
) -> None:
    """Grade a class. What is finished is told and kept at once, so that an interruption loses only what was running."""
    import signal
    from contextlib import closing
    from functools import partial

    from headtohead.disk.writing import write_whole
    from headtohead.display.visible import visible
    from headtohead.grading import as_graded
    from headtohead.grading.formats import as_csv, page

    done: dict[int, Grade] = {}
    stopped = False
    try:
        with closing(as_graded(todo, rubric, jobs)) as found:
            for place, one in found:
                done[place] = one
                if to_csv is not None:
                    write_whole(to_csv, visible(as_csv(_in_order(done))))
                said = one.error or f"{one.points:g} of {one.out_of:g} points, {one.seconds:.0f} s"
                print(visible(f"{len(done)} of {len(todo)}  {one.submission}: {said}"), file=sys.stderr, flush=True)
    except KeyboardInterrupt:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # ignore further Ctrl-C while files are written
        stopped = True
    grades, written = _in_order(done), []
    for path, text in ((to_csv, as_csv), (html, partial(page, title=rubric.title))):
        if path is not None and grades:
            write_whole(path, visible(text(grades)))
            written.append(str(path))
    if stopped:
        kept = f"Their points are in {' and '.join(written)}." if written else "No points are kept."
        print(f"h2h: stopped after {len(done)} of {len(todo)} submissions. {kept}", file=sys.stderr)
        raise typer.Exit(130)
    for name in written:
        print(f"wrote {name}", file=sys.stderr)
    if as_json:
        print_json([one.to_json() for one in grades])
    else:
        _show_class(grades)


def _in_order(done: dict[int, Grade]) -> list[Grade]:
    return [done[place] for place in sorted(done)]


def _grade_within(submission: Path, rubric: Rubric, seconds: float, out: Path | None, as_json: bool) -> None:
    from headtohead.disk.writing import write_whole
    from headtohead.grading.formats import gradescope
    from headtohead.grading.gradescope import grade_within

    for found in grade_within(submission, rubric, seconds):
        if out is not None:
            write_whole(out, gradescope(found))
    if out is not None:
        print(f"wrote {out}", file=sys.stderr)
    if as_json:
        print_json(found.to_json())
    else:
        _show(found)


def _show(grade: Grade) -> None:
    from rich.padding import Padding
    from rich.text import Text

    screen = console()
    part = ""
    for item in grade.items:
        if item.part != part:
            part = item.part
            screen.print(Text(part, style="bold"))
        style = "green" if item.points >= item.out_of else "yellow" if item.points else "red"
        screen.print(Text.assemble(("  ", ""), (f"{item.points:>6g} of {item.out_of:<6g}", style), item.name))
        for says in item.says:
            screen.print(Padding(Text(says, style="dim"), (0, 0, 0, 18)))
    for note in grade.notes:
        screen.print(Text(note, style="dim"))
    screen.print(Text(f"{grade.submission}: {grade.points:g} of {grade.out_of:g} points", style="bold"))


def _show_class(grades: list[Grade]) -> None:
    from headtohead.cli.printing import in_columns

    parts = list(dict.fromkeys(item.part for item in grades[0].items))
    rows = []
    for grade in grades:
        sums = [sum(item.points for item in grade.items if item.part == part) for part in parts]
        rows.append([grade.submission, f"{grade.points:g}", *(f"{s:g}" for s in sums), grade.error])
    in_columns(("submission", "points", *parts, ""), rows, (("submission", 12), ("", 10)))
