"""Grades as other programs read them: Gradescope's results.json, CSV, and a page with a table of the class."""

from __future__ import annotations

import csv
import html
import io
import json
from collections.abc import Sequence
from typing import Any

from headtohead.grading.grade import Grade, Scored
from headtohead.sandbox.batch import harmless


def gradescope(grade: Grade) -> str:
    """Gradescope's results.json: one test per check, visible to the student."""
    tests: list[dict[str, Any]] = [
        {
            "name": f"{item.part}: {item.name}",
            "score": item.points,
            "max_score": item.out_of,
            "output": "\n".join(item.says) or "right",
            "output_format": "text",
            "visibility": "visible",
        }
        for item in grade.items
    ]
    seconds = round(sum(item.seconds for item in grade.items))
    output = "\n".join([*grade.notes, *([grade.error] if grade.error else [])])
    values = {"score": grade.points, "execution_time": seconds, "output": output, "stdout_visibility": "hidden"}
    return json.dumps({**values, "tests": tests}, indent=2) + "\n"


def as_csv(grades: Sequence[Grade]) -> str:
    """One line per submission: points in all, points of each check, and what was said."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    names = _names(grades)
    writer.writerow(["submission", "points", "out_of", *names, "notes"])
    for grade in grades:
        points = {f"{item.part}: {item.name}": f"{item.points:g}" for item in grade.items}
        notes = " | ".join([*grade.notes, *([grade.error] if grade.error else [])])
        row = [grade.submission, f"{grade.points:g}", f"{grade.out_of:g}", *(points.get(n, "") for n in names), notes]
        writer.writerow([harmless(cell) for cell in row])
    return out.getvalue()


def _names(grades: Sequence[Grade]) -> list[str]:
    return list(dict.fromkeys(f"{item.part}: {item.name}" for grade in grades for item in grade.items))


PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>
:root {{ color-scheme: light dark; font: 16px/1.5 system-ui, sans-serif; }}
body {{ margin: 1.5rem; }}
.wide {{ overflow-x: auto; }}
table {{ border-collapse: collapse; font-variant-numeric: tabular-nums; }}
th, td {{ padding: .3rem .6rem; text-align: right; }}
tr {{ border-bottom: 1px solid color-mix(in srgb, currentColor 25%, transparent); }}
th:first-child {{ text-align: left; position: sticky; left: 0; background: Canvas; }}
thead th {{ vertical-align: bottom; }}
td.some {{ background: color-mix(in srgb, #e69f00 30%, Canvas); }}
td.none {{ background: color-mix(in srgb, #d55e00 35%, Canvas); }}
details {{ margin: .5rem 0; }}
li span {{ opacity: .75; }}
</style>
</head>
<body>
<h1>{title}</h1>
<p>{summary}</p>
<div class="wide"><table>
<thead><tr><th scope="col">submission</th><th scope="col">points</th>{heads}</tr></thead>
<tbody>
{rows}
</tbody>
</table></div>
<h2>What was said</h2>
{details}
</body>
</html>
"""


def page(grades: Sequence[Grade], title: str) -> str:
    """A page that needs nothing else: the class as a table, and the feedback of each submission."""
    names = _names(grades)
    out_of = grades[0].out_of if grades else 0
    values = sorted(grade.points for grade in grades)
    middle = values[len(values) // 2] if values else 0
    summary = f"{len(grades)} submissions, {out_of:g} points. The middle one has {middle:g}."
    rows = "\n".join(_row(grade, names) for grade in grades)
    heads = "".join(f'<th scope="col">{html.escape(name)}</th>' for name in names)
    details = "\n".join(_details(grade) for grade in grades)
    return PAGE.format(title=html.escape(title), summary=summary, heads=heads, rows=rows, details=details)


def _row(grade: Grade, names: Sequence[str]) -> str:
    found = {f"{item.part}: {item.name}": item for item in grade.items}
    cells = "".join(_cell(found.get(name)) for name in names)
    return f'<tr><th scope="row">{html.escape(grade.submission)}</th><td><b>{grade.points:g}</b></td>{cells}</tr>'


def _cell(item: Scored | None) -> str:
    if item is None:
        return "<td></td>"
    kind = "all" if item.points >= item.out_of else "some" if item.points > 0 else "none"
    says = html.escape(" ".join(item.says), quote=True)
    return f'<td class="{kind}" title="{says}">{item.points:g} / {item.out_of:g}</td>'


def _details(grade: Grade) -> str:
    lines = [html.escape(note) for note in (*grade.notes, grade.error) if note]
    lines += [
        f"{html.escape(item.part)}, {html.escape(item.name)}: {item.points:g} of {item.out_of:g} "
        f"<span>{html.escape('; '.join(item.says))}</span>"
        for item in grade.items
        if item.says
    ]
    listed = "".join(f"<li>{line}</li>" for line in lines) or "<li>all points</li>"
    name = f"{html.escape(grade.submission)}: {grade.points:g} of {grade.out_of:g}"
    return f"<details><summary>{name}</summary><ul>{listed}</ul></details>"
