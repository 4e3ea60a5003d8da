"""A report on paper: the page as PDF, printed by an installed browser; its figures as PDF for TeX and as PNG."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from headtohead.errors import Unavailable
from headtohead.figures.style import saved
from headtohead.outcome.outcome import Outcome
from headtohead.report import cost, facts, forest, paste, study_curves
from headtohead.run import store

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome", "msedge")
ELSEWHERE = ("/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",)
PATIENCE = 180  # seconds


def browser() -> str:
    found = next(filter(None, map(shutil.which, (*BROWSERS, *ELSEWHERE))), None)
    if found is None:
        raise Unavailable(
            "--pdf needs Chromium or Chrome and finds neither: install one (apt-get install chromium), "
            "or open the report in any browser and print it"
        )
    return found


def write_pdf(page: Path, program: str | None = None) -> Path:
    """Print the page into a PDF file next to it."""
    path = page.with_suffix(".pdf")
    with tempfile.TemporaryDirectory() as folder:  # a separate profile, because the user's browser may be open
        made = Path(folder) / "page.pdf"
        command = [program or browser(), "--headless", "--disable-gpu", f"--user-data-dir={folder}/profile"]
        command += ["--no-pdf-header-footer", f"--print-to-pdf={made}", page.resolve().as_uri()]
        if hasattr(os, "geteuid") and os.geteuid() == 0:
            command.insert(1, "--no-sandbox")  # Chromium's sandbox does not work as root, as in a container
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
            reason = " ".join(done.stderr.split())[-200:]
        except (OSError, subprocess.TimeoutExpired) as error:
            reason = " ".join(str(error).split())[:200]
        if not made.is_file():
            raise Unavailable(f"{command[0]} made no PDF ({reason}): open {page} in a browser and print it")
        store.write_whole(path, made.read_bytes())
    return path


# -- for TeX -----------------------------------------------------------------------------------------------------------

CAPTIONS = {
    "forest": "Paired differences from {control} in {metric}, with 95\\,\\% intervals and every seed.{more}",
    "curves": "{metric} during training: means over the seeds.{more}",
    "cost": "Cost of a training step against {metric}.{more}",
}
FIGURE = """\\begin{{figure}}
\\centering
\\includegraphics[width=\\linewidth]{{{name}.pdf}}
\\caption{{{caption}}}
\\label{{fig:{name}}}
\\end{{figure}}
"""


def make_folder(folder: Path) -> None:
    """Create the folder for figures, or say at once why it cannot be used."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        usable = os.access(folder, os.W_OK | os.X_OK)
        why = "" if usable else "you may not write there"
    except OSError as error:
        why = "it is a file" if folder.is_file() else str(error.strerror)
    if why:
        raise Unavailable(f"cannot write figures into {folder}: {why}; give --figures a folder of yours")


def write_figures(outcome: Outcome, folder: Path) -> list[Path]:
    """Write forest, curves and cost as PDF with embedded fonts and as PNG; table.tex; and figures.tex, which includes
    them all. A tuned study has each twice, the second with the name of the table."""
    make_folder(folder)
    written, included = [], []
    for title in outcome.titles:
        mark = "" if title == outcome.titles[0] else f"-{title.replace(' ', '-')}"
        verdicts = outcome.table(title)
        for name, drawing, metric, more in _drawn(outcome, title):
            path = folder / f"{name}{mark}.pdf"
            store.write_whole(path, saved(drawing, "pdf", transparent=True))
            store.write_whole(path.with_suffix(".png"), saved(drawing, "png", dpi=200))  # for slides
            written += [path, path.with_suffix(".png")]
            more = f" {paste.tex(more)}" if more else ""
            says = CAPTIONS[name].format(control=paste.tex(verdicts.control), metric=paste.tex(metric), more=more)
            included.append(FIGURE.format(name=path.stem, caption=says))
        path = folder / f"table{mark}.tex"
        store.write_whole(path, paste.latex(verdicts))
        written.append(path)
        included.append(f"\\input{{{path.stem}}}\n")
    path = folder / "figures.tex"
    store.write_whole(path, "% \\usepackage{graphicx,booktabs}\n" + "\n".join(included))
    return [*written, path]


def _drawn(outcome: Outcome, title: str) -> Iterator[tuple[str, Figure, str, str]]:
    """Name, drawing, metric and notes of every figure."""
    verdicts = outcome.table(title)
    if len(verdicts):
        dots = outcome.differences(title)
        yield "forest", forest.drawing(verdicts, dots), verdicts.metric, forest.beyond_text(verdicts, dots)
    learned = study_curves.along(outcome, title)
    if learned is not None:
        yield "curves", study_curves.drawing(learned), learned.name, study_curves.notes(learned)
    paid = facts.costs(outcome, title)
    drawing = cost.drawing(paid, verdicts.metric, verdicts.better)
    if drawing is not None:
        without = facts.without_runs(outcome, title)
        notes = " ".join(filter(None, (cost.beyond_text(paid, verdicts.metric, verdicts.better), without)))
        yield "cost", drawing, verdicts.metric, notes
