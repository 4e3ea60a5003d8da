"""h2h doctor: check this machine."""

from __future__ import annotations

from headtohead.cli.entry import MACHINE, app
from headtohead.cli.options import AsJson
from headtohead.cli.printing import console, plain, print_json


@app.command(rich_help_panel=MACHINE)
def doctor(as_json: AsJson = False) -> None:
    """Check this machine, and say what to do about what is missing."""
    from headtohead.run.doctor import examine

    findings = examine()
    if as_json:
        print_json([f._asdict() for f in findings])
        return
    from rich.table import Table

    table = Table("", "found", "what to do", title="This machine", title_justify="left")
    for f in findings:
        table.add_row(f.what, plain(f.found), plain(f.remedy))
    console().print(table)
