"""What was measured, what was promised, and whether that is kept."""

from __future__ import annotations

import platform
import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from headtohead.run.doctor import processor
from steps.tasks import LARGE, SINGLE, Setting, Task, cores

if TYPE_CHECKING:
    from rich.console import Console

OURS = "headtohead_steps"
WARM_UP_ROUNDS = 2
QUIET = 0.95  # share of its core that a thread gets, below which figures are not to be trusted
UNSTEADY = 1.15  # the fastest round of large products over the slowest, likewise


@dataclass(frozen=True)
class Measure:
    """One contender in one setting."""

    seconds: tuple[tuple[tuple[float, ...], ...], ...]  # by round, process, step
    cpu: tuple[float, ...]  # seconds of processor time by round, all processes together
    peak_mb: float | None  # of one process; None where several share the work

    @property
    def _steps(self) -> list[float]:
        return [s for processes in self.seconds for steps in processes for s in steps]

    @property
    def least(self) -> float:
        """Milliseconds of the fastest step."""
        return 1e3 * min(self._steps)

    @property
    def median(self) -> float:
        """Milliseconds of the step in the middle."""
        return 1e3 * statistics.median(self._steps)

    @property
    def round_medians(self) -> list[float]:
        return [1e3 * statistics.median(s for steps in processes for s in steps) for processes in self.seconds]

    @property
    def round_speeds(self) -> list[float]:
        """Steps a second in each round, all processes together."""
        return [sum(len(steps) / sum(steps) for steps in processes) for processes in self.seconds]

    @property
    def speed(self) -> float:
        """Steps a second in the round in the middle."""
        return statistics.median(self.round_speeds)

    @property
    def cpu_share(self) -> float:
        """Processor time over time: of one thread, 1 where nobody else wanted its core."""
        return statistics.median(
            cpu / sum(sum(steps) for steps in processes) for cpu, processes in zip(self.cpu, self.seconds, strict=True)
        )

    def to_json(self) -> dict[str, Any]:
        return {
            "step_ms_minimum": round(self.least, 4),
            "step_ms_median": round(self.median, 4),
            "steps_per_second_median": round(self.speed, 4),
            "steps_per_second_best": round(max(self.round_speeds), 4),
            "cpu_share": round(self.cpu_share, 3),
            "peak_mb": self.peak_mb,
            "round_median_ms": [round(ms, 4) for ms in self.round_medians],
        }


@dataclass(frozen=True)
class Row:
    """What is known of one contender at the end; with a `problem`, why there is nothing to know."""

    name: str
    library: str
    parameters: int
    measures: dict[Setting, Measure]
    first_loss: float  # after the first turn
    last_loss: float
    batches: str  # a digest of all that it was trained on with one thread
    problem: str = ""

    @property
    def alone(self) -> dict[Setting, Measure]:
        """The settings with one process."""
        return {setting: m for setting, m in self.measures.items() if setting.processes == 1}

    @property
    def best(self) -> Measure:
        """Of one process, with the number of threads that suits it best."""
        return min(self.alone.values(), key=lambda m: m.median)

    def to_json(self, task: Task) -> dict[str, Any]:
        if self.problem:
            return {"name": self.name, "problem": self.problem}
        return {
            "name": self.name,
            "library": self.library,
            "parameters": self.parameters,
            "loss": {"after_first_turn": round(self.first_loss, 4), "last": round(self.last_loss, 4)},
            "batches_sha256": self.batches,
            "runs_per_hour": {str(s): round(_runs_per_hour(task, m), 2) for s, m in self.measures.items()},
            "settings": {str(s): m.to_json() for s, m in self.measures.items()},
        }


@dataclass(frozen=True)
class Comparison:
    """What was measured, what was promised, and whether that is kept. Judged on the median; the same
    figure from the fastest steps or rounds stands beside it."""

    what: str
    against: str
    median: float
    best: float
    rounds: tuple[float, float]  # between these lie the middle four fifths of the rounds
    target: float | None  # None: nothing was promised
    at_most: bool  # else at least
    per_cent: bool = False

    @property
    def met(self) -> bool | None:
        if self.target is None:
            return None
        return self.median <= self.target if self.at_most else self.median >= self.target

    def figure(self, value: float) -> str:
        return f"{100 * value:.0f} %" if self.per_cent else f"{value:.2f} ×"

    def to_json(self) -> dict[str, Any]:
        return {
            "what": self.what,
            "against": self.against,
            "median": round(self.median, 4),
            "best": round(self.best, 4),
            "rounds_from_to": [round(r, 4) for r in self.rounds],
            "target": self.target,
            "at_most": self.at_most,
            "met": self.met,
        }


@dataclass(frozen=True)
class Result:
    """A benchmark of one task. `show` prints it, `to_json` is what goes into a file."""

    task: Task
    rounds: int
    steps: int
    settings: tuple[Setting, ...]
    rows: tuple[Row, ...]
    machine: Row  # the large product, in every setting
    order: tuple[tuple[str, ...], ...]  # of turns, by round, warm-up first
    tokens: float  # real ones of a batch, on average
    pairs: float  # query-key pairs of real tokens
    lengths: str  # where the texts' lengths are from

    @property
    def ours(self) -> Row | None:
        return next((row for row in self.rows if row.name == OURS and not row.problem), None)

    @property
    def peers(self) -> list[Row]:
        return [row for row in self.rows if row.name != OURS and not row.problem]

    @property
    def together(self) -> Setting:
        """One worker a core: how studies run."""
        return max(s for s in self.settings if s.threads == 1)

    def useful_flops(self) -> float:
        """Of real tokens alone: as if every text were computed by itself, so padding earns nothing."""
        return self.task.flops(self.tokens, self.pairs)

    def gflops(self, setting: Setting) -> float | None:
        """What the machine reaches in large products, in the round in the middle."""
        measure = self.machine.measures.get(setting)
        return None if measure is None else 2 * LARGE**3 * measure.speed / 1e9

    def comparisons(self) -> list[Comparison]:
        """What was promised, and beside it what was not: peers side by side, as their users could run them too."""
        ours, task, found = self.ours, self.task, []
        if ours is not None and self.peers:
            best = {row.name: row.best for row in self.peers}
            for what, mine, peers in (
                ("step, 1 thread each", ours.measures[SINGLE], {row.name: row.measures[SINGLE] for row in self.peers}),
                ("step, best threads of each", ours.best, best),
            ):
                name = min(peers, key=lambda n: peers[n].median)
                rounds = [a / b for a, b in zip(mine.round_medians, peers[name].round_medians, strict=True)]
                least = mine.least / min(peer.least for peer in peers.values())
                ratio = mine.median / peers[name].median
                found.append(Comparison(what, name, ratio, least, _middle(rounds), task.step_target, at_most=True))
            mine = ours.measures[self.together]
            found.append(_faster("runs per hour, peers alone", mine, best, task.runs_target))
            if self.together != SINGLE:
                side = {row.name: row.measures[self.together] for row in self.peers}
                found.append(_faster("runs per hour, peers together", mine, side, None))
        if ours is not None and not self.machine.problem:
            products = {"large products": self.machine.measures[self.together]}
            worth = self.useful_flops() / (2 * LARGE**3)
            what = f"GFLOP/s, {self.together}"
            found.append(_faster(what, ours.measures[self.together], products, task.share_target, worth))
        return found

    def warning(self) -> str:
        """Why these figures are not to be trusted; empty where nothing speaks against them."""
        if self.machine.problem:
            return "the machine's own speed was not measured, so nothing is known of its steadiness"
        share = min(m.cpu_share for setting, m in self.machine.measures.items() if setting.threads == 1)
        low, high = (2 * LARGE**3 * s / 1e9 for s in _middle(self.machine.measures[SINGLE].round_speeds))
        if share < QUIET:
            return (
                f"others worked here too, a thread got {100 * share:.0f} % of its core: measure again when it is quiet"
            )
        if high > UNSTEADY * low:
            return f"the machine's pace changed, {low:.0f} to {high:.0f} GFLOP/s in large products: measure again"
        return ""

    def to_json(self) -> dict[str, Any]:
        return {
            "task": self.task.name,
            "rounds": self.rounds,
            "warm_up_rounds": WARM_UP_ROUNDS,
            "steps_a_turn": self.steps,
            "machine": {
                "cpu": processor(),
                "cores": cores(),
                "python": platform.python_version(),
                "torch": self.machine.library,
                "gflops": {str(s): round(self.gflops(s) or 0, 1) for s in self.machine.measures},
                "problem": self.machine.problem or None,
                "warning": self.warning() or None,
            },
            "step": {
                "real_tokens": round(self.tokens, 2),
                "tokens": self.task.batch * self.task.block,
                "lengths": self.lengths,
                "mflop_padded": round(self.task.padded_flops() / 1e6, 2),
                "mflop_useful": round(self.useful_flops() / 1e6, 2),
            },
            "contenders": [row.to_json(self.task) for row in self.rows],
            "comparisons": [c.to_json() for c in self.comparisons()],
            "order": [list(turns) for turns in self.order],
        }

    def show(self, console: Console) -> None:
        from rich.box import SIMPLE_HEAD
        from rich.table import Table
        from rich.text import Text

        title = f"{self.task.name}: ms per training step, minimum / median of {self.rounds} rounds × {self.steps} steps"
        table = Table(title=title, title_justify="left", title_style="bold", box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
        table.add_column("contender", min_width=22, max_width=30)
        runs = "runs/hour" if self.together == SINGLE else "runs/hour\nalone / together"
        for heading in ("parameters", *map(str, self.settings), runs, "peak MiB", "loss"):
            table.add_column(heading, justify="right")
        for row in self.rows:
            name = Text(row.name, style="bold" if row.name == OURS else "")
            if row.problem:
                table.add_row(name + Text(f"\n{row.problem}", style="red"), *["–"] * (len(self.settings) + 4))
                continue
            speeds = [row.best] if self.together == SINGLE else [row.best, row.measures[self.together]]
            table.add_row(
                name + Text(f"\n{row.library}", style="dim"),
                f"{row.parameters:,}",
                *(f"{row.measures[s].least:.1f} / {row.measures[s].median:.1f}" for s in self.settings),
                " / ".join(f"{_runs_per_hour(self.task, m):,.0f}" for m in speeds),
                f"{row.measures[SINGLE].peak_mb or 0:,.0f}",
                f"{row.first_loss:.2f} → {row.last_loss:.2f}",
            )
        if not self.machine.problem:
            table.add_section()
            table.add_row("machine, GFLOP/s", "", *(f"{self.gflops(s):.0f}" for s in self.settings))
        console.print(table)
        if self.machine.problem:
            console.print(Text(f"large products: {self.machine.problem}", style="red"), soft_wrap=True)
        if warning := self.warning():
            console.print(Text(warning, style="yellow"), soft_wrap=True)
        self._show_comparisons(console)

    def _show_comparisons(self, console: Console) -> None:
        from rich.box import SIMPLE_HEAD
        from rich.table import Table
        from rich.text import Text

        if not (comparisons := self.comparisons()):
            return
        table = Table(
            title=f"{self.task.name}: ours against", title_justify="left", title_style="bold", box=SIMPLE_HEAD
        )
        for heading in ("", "best contender", "median", "at its best", "rounds", "target", ""):
            table.add_column(heading)
        for c in comparisons:
            low, high = (c.figure(r) for r in c.rounds)
            verdict = {True: Text("met", style="green"), False: Text("missed", style="bold red"), None: Text("")}[c.met]
            target = "" if c.target is None else f"{'≤' if c.at_most else '≥'} {c.figure(c.target)}"
            table.add_row(c.what, c.against, c.figure(c.median), c.figure(c.best), f"{low} – {high}", target, verdict)
        console.print(table)


def _faster(
    what: str, mine: Measure, peers: dict[str, Measure], target: float | None, worth: float | None = None
) -> Comparison:
    """Our speed over that of the fastest, where one of our steps is `worth` so many of its."""
    factor = 1.0 if worth is None else worth
    name = max(peers, key=lambda n: peers[n].speed)
    rounds = [factor * a / b for a, b in zip(mine.round_speeds, peers[name].round_speeds, strict=True)]
    best = factor * max(mine.round_speeds) / max(max(peer.round_speeds) for peer in peers.values())
    ratio = factor * mine.speed / peers[name].speed
    return Comparison(what, name, ratio, best, _middle(rounds), target, at_most=False, per_cent=worth is not None)


def _runs_per_hour(task: Task, measure: Measure) -> float:
    return 3600 * measure.speed / task.steps_a_run


def _middle(values: list[float]) -> tuple[float, float]:
    """What is left of the values' range without the lowest and the highest tenth."""
    values = sorted(values)
    cut = len(values) // 10
    return values[cut], values[-1 - cut]
