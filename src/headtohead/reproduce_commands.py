"""What `h2h reproduce` does, without arguments to read: what is asked for, its forecast, its runs, its tables."""

from __future__ import annotations

import contextlib
import dataclasses
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headtohead import store, watch_study
from headtohead.carry import carry_out
from headtohead.errors import InputError
from headtohead.outcome import load_outcome
from headtohead.puzzles.published import met
from headtohead.reproduce import blocks, gallery, kept, ledger, run
from headtohead.reproduce.evidence import Finding, Outcomes
from headtohead.reproduce.experiments import QUICK_SEEDS, WHERE, Experiment, asked_for, experiments, figures
from headtohead.reproduce.kinds import Interaction
from headtohead.reproduce.tables import HEAD, Row, notes_on, row_of
from headtohead.runs import Options
from headtohead.screen import duration

if TYPE_CHECKING:
    from rich.console import Console


SMALL = "a small version"
DECIDES_NOTHING = (
    f"{QUICK_SEEDS} pairs of short runs decide nothing: h2h reproduce --stored has the verdicts of whole ones"
)


@dataclass(frozen=True)
class Plan:
    needs: list[run.Need]
    jobs: int

    @property
    def seconds(self) -> float:
        return sum(need.seconds for need in self.needs) / self.jobs

    @property
    def line(self) -> str:
        runs = sum(need.runs for need in self.needs)
        if not runs:
            return "forecast: everything is trained already"
        return f"forecast: {duration(self.seconds)} for {runs} runs, {self.jobs} at a time"

    def table(self) -> str:
        lines = [f"{n.study:28} {n.runs:4} runs  {duration(n.seconds / self.jobs)}" for n in self.needs]
        return "\n".join([*lines, self.line])

    def to_json(self) -> dict[str, Any]:
        studies = [vars(need) | {"seconds": need.seconds / self.jobs} for need in self.needs]
        return {"seconds": self.seconds, "jobs": self.jobs, "studies": studies}


def asked(report: str) -> list[Experiment]:
    return asked_for(report, experiments())


def forecast(found: list[Experiment], quick: bool, home: Path, jobs: int | None) -> Plan:
    jobs = jobs or os.cpu_count() or 1
    return Plan(run.needs(found, quick=quick, home=home, where=WHERE, jobs=jobs), jobs)


def follow(
    found: list[Experiment], quick: bool, home: Path, jobs: int | None, save_every: float, screen: Console
) -> bool:
    """Train and measure what is missing, study by study; whether it came to its end. A study some of whose runs failed
    does not keep the others from theirs."""
    total = sum(len(e.studies) for e in found)
    number = 0
    for experiment in found:
        for name, study in experiment.to_run(quick).items():
            number += 1
            screen.print(f"{number} of {total}, {study.name}: {study.question}", markup=False, soft_wrap=True)
            events = carry_out(study, home, jobs=jobs, options=Options(save_every=save_every))
            folder, _ = watch_study.follow(events, screen, study.measured)
            if folder is None:
                return False
            outcome = load_outcome(Path(folder))
            if experiment.measure is not None:
                with screen.status("reading the weights") as status:
                    for share in run.measured(outcome, experiment.name, experiment.measure):
                        status.update(f"reading the weights, {share:.0%}")
            if not quick:
                file = home / "published" / f"{name}.json"
                try:
                    kept.write(outcome, file)
                except InputError as error:
                    file.unlink(missing_ok=True)  # of an earlier, whole one
                    screen.print(f"{study.name} is not whole: {error}", markup=False, soft_wrap=True)
    return True


def after(found: list[Experiment], quick: bool, home: Path, keep: bool) -> Iterator[str]:
    """Whether the runs are those that are stored, bit for bit; and their place beside the recipes, if they are to have
    one."""
    if quick:
        return
    changed = common = 0
    elsewhere: set[str] = set()  # processors on which what differs was stored
    for experiment in found:
        for name in experiment.studies:
            mine, stored = home / "published" / f"{name}.json", WHERE / run.STORED / f"{name}.json"
            if not mine.is_file():
                yield f"{name} is not whole, and not compared with what is stored"
                continue
            if stored.is_file():
                here, there = kept.read(mine), kept.read(stored)
                more, both = kept.differences(here, there)
                changed, common = changed + more, common + both
                makes = [said["environment"].get("processor", "") for said in (here, there)]
                elsewhere |= {makes[1]} if more and makes[0] != makes[1] else set()
            if keep:
                store.write_whole(stored, mine.read_bytes())
    if common:
        why = (
            f"; others were stored on {' and '.join(sorted(elsewhere))}, which rounds sums otherwise"
            if elsewhere
            else ""
        )
        yield f"{common - changed} of {common} runs are those stored with the recipes, to the last bit{why}"
    if keep:
        yield f"kept in {WHERE / run.STORED}"


# -- what came of it ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Results:
    rows: list[Row]
    claims: list[ledger.Judged]
    interactions: list[tuple[Interaction, Finding]]
    untested: list[ledger.Untested]
    missing: list[str]  # why: studies without results
    damaged: list[str]  # those of them whose results are there and cannot be used
    notes: list[str]  # on the published figures
    puzzles: tuple[int, int] | None  # of 003: printed figures that ours equal, and how many are printed


def results(found: list[Experiment], *, quick: bool, stored: bool, home: Path, report: str = "all") -> Results:
    """Figures side by side and claims judged; of the store, or of what is kept with the recipes."""

    def wanted(name: str) -> bool:
        return report in ("all", name)

    published = figures()
    rows: list[Row] = []
    claims: list[ledger.Judged] = []
    interactions: list[tuple[Interaction, Finding]] = []
    untested: list[ledger.Untested] = []
    missing: dict[str, bool] = {}  # why, and whether something is there that cannot be used
    with run.room() as room:
        for experiment in found:
            outcomes: Outcomes = (
                run.outcomes_stored(experiment, WHERE, Path(room))
                if stored
                else run.outcomes_in_store(experiment, quick=quick, home=home)
            )
            for shown in experiment.shown:
                if wanted(shown.figure[3:6]):
                    with _noted(experiment, missing):
                        row = row_of(dataclasses.replace(shown, unlike=SMALL) if quick else shown, published, outcomes)
                        if row.runs or not quick:  # short runs never come to some of the published steps
                            rows.append(row)
            for claim in experiment.claims:
                if wanted(claim.id[:3]):
                    says = ledger.says(claim, published)
                    with _noted(experiment, missing):
                        claims.append(ledger.judged(claim, says, outcomes))
                    if not claims or claims[-1].claim is not claim:
                        untested.append(ledger.Untested(claim.id, says))
            for interaction in experiment.interactions:
                with _noted(experiment, missing):
                    interactions.append((interaction, interaction.judge(outcomes)))
    solved = met() if wanted("003") else None
    by_id = sorted(claims, key=lambda c: c.claim.id)
    damaged = [why for why, there in missing.items() if there]
    return Results(
        rows, by_id, interactions, sorted(untested), list(missing), damaged, notes_on(published, rows), solved
    )


@contextlib.contextmanager
def _noted(experiment: Experiment, missing: dict[str, bool]) -> Iterator[None]:
    """What has not been run does not keep the rest from being shown."""
    try:
        yield
    except InputError as error:
        missing[f"{experiment.name}: {error}"] = not isinstance(error, kept.Absent)


def to_json(found: Results) -> dict[str, Any]:
    return store.plain(
        {
            "figures": [row.to_json() for row in found.rows],
            "claims": [c.to_json() for c in found.claims],
            "interactions": [f.to_json() for _, f in found.interactions],
            "untested": [c.id for c in found.untested],
            "missing": found.missing,
            "puzzles": found.puzzles and dict(zip(("met", "printed"), found.puzzles, strict=True)),
        }
    )


def write_ledger(found: Results, path: Path) -> Path:
    """The ledger, and every figure in the docs that comes from the same runs."""
    if found.damaged:  # a ledger without it would say that it was never tested
        raise InputError(f"nothing is written: {found.damaged[0]}")
    if not found.claims:
        raise InputError(f"there is nothing to write down yet: {found.missing[0]}")
    with run.room() as room:
        loaded = run.stored_by_name(experiments(), WHERE, Path(room))
        store.write_whole(path, ledger_page(found, loaded))
        write = blocks.writer(found.claims, found.untested, found.rows, loaded)
        for page in blocks.pages(Path()):
            text = page.read_text(encoding="utf-8")
            if (new := blocks.filled(text, write)) != text:
                store.write_whole(page, new)
    return path


def ledger_page(found: Results, loaded: gallery.Loaded) -> str:
    drawn = {picture.name for picture in gallery.drawable(loaded)}
    return ledger.markdown(found.claims, found.untested, found.interactions, found.rows, drawn, found.notes)


def draw_gallery(folder: Path) -> list[Path]:
    """Pictures of the ledger, from the kept results: those whose studies are there."""
    with run.room() as room:
        loaded = run.stored_by_name(experiments(), WHERE, Path(room))
        there = gallery.drawable(loaded)
        if not there:
            raise InputError(f"{WHERE / run.STORED} has no results to draw: h2h reproduce all --keep")
        return list(gallery.draw(there, loaded, folder))


def show(found: Results, screen: Console, *, quick: bool = False) -> None:
    from rich.table import Table
    from rich.text import Text

    if found.rows:
        table = Table(*HEAD, title="Published and measured")
        table.columns[0].overflow = "fold"
        reasons = list(dict.fromkeys(row.why for row in found.rows if row.why))  # said once, below
        for row in sorted(found.rows, key=lambda r: r.figure):
            *cells, _ = row.cells
            mark = f"{row.mark} [{reasons.index(row.why) + 1}]" if row.why else row.mark
            table.add_row(*(Text(cell) for cell in (*cells, mark)))
        screen.print(table)
        for n, why in enumerate(reasons, start=1):
            screen.print(f"[{n}] {why}", markup=False, soft_wrap=True)
    if found.puzzles:
        screen.print(_puzzles(found.puzzles), markup=False, soft_wrap=True)
    for judged in found.claims:
        only = f", {judged.claim.only}" if judged.claim.only else ""
        heading = f"{judged.claim.id} {judged.says}: {judged.word}{only}"
        screen.print(heading, markup=False, style="bold", soft_wrap=True)
        for line in judged.lines(mark=""):
            screen.print(f"    {line}", markup=False, soft_wrap=True)
    for _, finding in found.interactions:
        screen.print(f"{finding.says}. The one less the other: {finding.measured}", markup=False, soft_wrap=True)
    if found.claims:
        summary = ledger.summary(found.claims, found.untested)
        screen.print(DECIDES_NOTHING if quick else summary, markup=False, soft_wrap=True)
    for line in found.missing:
        screen.print(f"not yet: {line}", markup=False, soft_wrap=True)


def _puzzles(found: tuple[int, int]) -> str:
    return (
        f"puzzles of 003: {found[0]} of {found[1]} printed figures come out to the last digit (h2h puzzles published)"
    )
