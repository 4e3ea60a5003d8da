"""h2h course: the material of a course on transformers."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from headtohead.cli.entry import TEACH, app
from headtohead.cli.options import AsJson
from headtohead.cli.printing import print_json


@app.command(rich_help_panel=TEACH)
def course(
    out: Annotated[Path, typer.Option(help="A new folder for the files.")],
    solution: Annotated[bool, typer.Option("--solution", help="Also write the solution.")] = False,
    seed: Annotated[
        int | None, typer.Option(min=0, help="The rubric's seed, which draws hidden texts, weights and data.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Write a course: assignment, starter files, slides, rubric.

    Give the students assignment.md, starter/ and the slides. Keep the rest. README.md says how to grade.
    """
    from headtohead.course.kit import write_kit

    files = write_kit(out, solution=solution, seed=seed)
    if as_json:
        print_json({"folder": str(out), "files": [path.relative_to(out).as_posix() for path in files]})
        return
    print(f"wrote {len(files)} files to {out}")
    print("for the students: assignment.md, starter/, slides.html; README.md is for the teacher")
    print(f"next: h2h grade SUBMISSION --rubric {out}")
