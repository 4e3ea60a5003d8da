"""The steps of `h2h reproduce`: find the recipes, forecast, train, compare with the stored results, judge."""

from __future__ import annotations

import contextlib
import dataclasses
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headtohead.claims import ledger, run
from headtohead.claims import stored as kept
from headtohead.claims.comparisons import Interaction
from headtohead.claims.evidence import Finding, Outcomes
from headtohead.claims.experiments import QUICK_SEEDS, Experiment, asked_for, experiments, figures
from headtohead.claims.published_figures import Row, row_of
from headtohead.claims.report_tables import LEGEND, ReportTables, report_tables
from headtohead.display.claims import Section, Shown, Table
from headtohead.display.study import study_screen
from headtohead.display.training_screen import duration, forecast_line
from headtohead.errors import InputError
from headtohead.puzzles.published import met
from headtohead.run import files, store
from headtohead.run.executors.execution import Execution
from headtohead.run.forecast import Forecast
from headtohead.spec.userfiles import published_recipes
from headtohead.study.workflow import StudyStopped, train_and_load

if TYPE_CHECKING:
    from rich.console import Console


SMALL = "a small version"
DECIDES_NOTHING = f"{QUICK_SEEDS} pairs of short runs decide nothing. Verdicts of full runs: h2h reproduce --stored"


@dataclass(frozen=True)
class Plan:
    """What remains to be trained, and how long it will take."""

    needs: list[run.Need]
    jobs: int

    @property
    def seconds(self) -> float:
        return sum(need.seconds for need in self.needs) / self.jobs

    @property
    def line(self) -> str:
        return forecast_line(Forecast(sum(need.runs for need in self.needs), self.jobs, self.seconds))

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
    return Plan(run.needs(found, quick=quick, home=home, where=published_recipes(), jobs=jobs), jobs)


def follow(
    found: list[Experiment], quick: bool, home: Path, jobs: int | None, save_every: float, screen: Console
) -> bool:
    """Train and measure what is missing, study by study. Returns False if it was stopped.

    If runs of a study fail, the other studies are trained all the same.
    """
    total = sum(len(e.studies) for e in found)
    number = 0
    for experiment in found:
        for name, study in experiment.to_run(quick).items():
            number += 1
            screen.print(f"{number} of {total}, {study.name}: {study.question}", markup=False, soft_wrap=True)
            how = Execution(jobs, device="cpu", save_every=save_every)
            try:
                with study_screen(study.measured, screen) as shown:
                    outcome, _ = train_and_load(study, how, home, shown.hear)
            except StudyStopped:
                return False
            if experiment.measure is not None:
                with screen.status("reading the weights") as status:
                    for share in run.measured(outcome, experiment.name, experiment.measure):
                        status.update(f"reading the weights, {share:.0%}")
            if not quick:
                file = home / files.PUBLISHED / f"{name}.json"
                try:
                    kept.write(outcome, file)
                except InputError as error:
                    file.unlink(missing_ok=True)  # written by an earlier, complete call
                    screen.print(f"{study.name} is incomplete: {error}", markup=False, soft_wrap=True)
    return True


def compare_with_stored(found: list[Experiment], home: Path) -> Iterator[str]:
    """Say how many runs equal the stored ones bit for bit."""
    changed = common = 0
    other_processors: set[str] = set()
    for experiment in found:
        for name in experiment.studies:
            mine, stored = home / files.PUBLISHED / f"{name}.json", published_recipes() / run.STORED / f"{name}.json"
            if not mine.is_file():
                yield f"{name} is incomplete and was not compared with the stored results"
            elif stored.is_file():
                here, there = kept.read(mine), kept.read(stored)
                more, both = kept.differences(here, there)
                changed, common = changed + more, common + both
                processors = [study.environment.get("processor") or "" for study in (here, there)]
                if more and processors[0] != processors[1]:
                    other_processors.add(processors[1])
    if common:
        why = (
            f"; the others were stored on {' and '.join(sorted(other_processors))}, which rounds differently"
            if other_processors
            else ""
        )
        yield f"{common - changed} of {common} runs equal the stored ones bit for bit{why}"


# -- results -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Results:
    """Figures next to the published ones, and claims with their verdicts."""

    rows: list[Row]
    reports: list[ReportTables]
    claims: list[ledger.Judged]
    interactions: list[tuple[Interaction, Finding]]
    untested: list[ledger.Untested]
    missing: list[str]  # studies without results, and why
    damaged: list[str]  # those of them that have results which cannot be used
    puzzles: tuple[int, int] | None  # of 003: how many printed figures ours equal, and how many are printed


def judge_stored(report: str, hear: Callable[[str], object] | None = None) -> Shown:
    """Figures and claims by the results that are stored with the recipes."""
    return shown(results(asked(report), quick=False, stored=True, home=store.home(), report=report, hear=hear))


def results(
    found: list[Experiment],
    *,
    quick: bool,
    stored: bool,
    home: Path,
    report: str = "all",
    hear: Callable[[str], object] | None = None,
) -> Results:
    """Compare figures and judge claims, from the store or from the results stored with the recipes. `hear` is told the
    name of each experiment before it is judged."""

    def wanted(name: str) -> bool:
        return report in ("all", name)

    published = figures()
    rows: list[Row] = []
    claims: list[ledger.Judged] = []
    interactions: list[tuple[Interaction, Finding]] = []
    untested: list[ledger.Untested] = []
    missing: dict[str, bool] = {}  # why, and whether there are results that cannot be used
    with run.room() as room:
        for experiment in found:
            if hear is not None:
                hear(experiment.name)
            outcomes: Outcomes = (
                run.outcomes_stored(experiment, published_recipes(), Path(room))
                if stored
                else run.outcomes_in_store(experiment, quick=quick, home=home)
            )
            for shown in experiment.shown:
                if wanted(shown.figure[3:6]):
                    with _noted(experiment, missing):
                        row = row_of(dataclasses.replace(shown, unlike=SMALL) if quick else shown, published, outcomes)
                        if row.runs or not quick:  # short runs end before some of the published steps
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
    return Results(
        rows=rows,
        reports=[report_tables(published, rows, name[3:]) for name in sorted(published) if wanted(name[3:])],
        claims=sorted(claims, key=lambda c: c.claim.id),
        interactions=interactions,
        untested=sorted(untested),
        missing=list(missing),
        damaged=[why for why, there in missing.items() if there],
        puzzles=met() if wanted("003") else None,
    )


@contextlib.contextmanager
def _noted(experiment: Experiment, missing: dict[str, bool]) -> Iterator[None]:
    """Note a study without results, and go on with the others."""
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


def shown(found: Results, *, quick: bool = False) -> Shown:
    """Figures and claims as plain values, for the screen and the cache."""
    sections: list[Section] = []
    for report in found.reports:
        notes = [*report.notes, _puzzles(found.puzzles)] if report.number == "003" and found.puzzles else report.notes
        claims = []
        for judged in found.claims:
            if judged.claim.id[:3] == report.number:
                only = f", {judged.claim.only}" if judged.claim.only else ""
                claims.append([f"{judged.claim.id} {judged.says}: {judged.word}{only}", *judged.lines(mark="")])
        tables: list[Table] = [
            {"title": t.title, "head": [*t.head], "rows": [[*row] for row in t.rows], "left": [*t.left]}
            for t in report.tables
        ]
        title = f"{report.number}: {report.title}"
        sections.append({"title": title, "tables": tables, "notes": notes, "claims": claims})
    lines = [f"{finding.says}. Difference of the two: {finding.measured}" for _, finding in found.interactions]
    if found.claims:
        lines.append(DECIDES_NOTHING if quick else ledger.summary(found.claims, found.untested))
    lines += [f"not yet: {line}" for line in found.missing]
    return {
        "json": to_json(found),
        "legend": LEGEND if found.rows else "",
        "sections": sections,
        "lines": lines,
        "missing": found.missing,
        "damaged": found.damaged,
    }


def _puzzles(found: tuple[int, int]) -> str:
    return f"puzzles: {found[0]} of {found[1]} printed figures are equal to the last digit (h2h puzzles published)"
