"""Training steps against peers: same sizes, same batches, same threads, in turns.

Every contender is a file in benchmarks/ that runs as a process of its own and waits while another has its turn, so that
a machine that slows down slows all of them down. Nothing here imports torch.

Words: a *setting* is so many processes of a contender at once with so many threads each; a *turn* is one contender in
one setting for a few steps; a *round* is one turn of everybody. Ratios below 1 are in our favour for step times,
above 1 for runs per hour.
"""

from __future__ import annotations

import json
import os
import platform
import queue
import re
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from headtohead.doctor import processor
from headtohead.errors import InputError, nearest

if TYPE_CHECKING:
    from rich.console import Console

OURS = "headtohead_steps"
YARDSTICK = "large_product"
NO_CONTENDERS = {"contender", YARDSTICK}
LARGE = 2048  # side of the matrices whose product tells what the machine can do
PRODUCTS_A_TURN = 3
WARM_UP_ROUNDS = 2
QUIET = 0.95  # share of its core that a thread gets, below which figures are not to be trusted
UNSTEADY = 1.15  # the fastest round of large products over the slowest, likewise
SETTLE_SECONDS = 0.02  # OpenMP threads spin a little after their last work: let the last contender's fall asleep
READY_SECONDS, ANSWER_SECONDS = 600.0, 300.0


@dataclass(frozen=True)
class Task:
    """What is trained, from the documents this project grew from, and what is promised of it."""

    name: str
    feedforward: int
    steps_a_run: int
    classes: int | None  # None: a language model
    step_target: float  # our step takes at most this share of the best contender's
    runs_target: float  # we do at least so many times the runs per hour of the best contender
    share_target: float = 0.55  # of the machine's GFLOP/s in large products
    vocab: int = 5755
    block: int = 32
    batch: int = 16
    width: int = 64
    heads: int = 2
    layers: int = 4
    hidden: int = 100  # of the classifier's head
    rate: float = 1e-3

    def flops(self, tokens: float, pairs: float) -> float:
        """Floating-point operations of one training step on `tokens` tokens and `pairs` query-key pairs.

        A product of (n, a) and (a, b) is 2·n·a·b. Forward: four D×D projections and two of the feed-forward a token
        and layer; q·k and a·v, 2·D each, a pair and layer; the head. Backward is twice forward: a product for the
        gradient of the input and one for that of the weight. Not counted, because it is no product: embeddings,
        norms, softmax, cross-entropy, the optimizer; nor what an implementation computes a second time.
        """
        D = self.width
        token = self.layers * 2 * (4 * D * D + 2 * D * self.feedforward)
        pair = self.layers * 2 * 2 * D
        if self.classes is None:
            head = tokens * 2 * D * self.vocab
        else:
            head = self.batch * 2 * (D * self.hidden + self.hidden * self.classes)
        return 3 * (tokens * token + pairs * pair + head)

    def padded_flops(self) -> float:
        """Of the full rectangle: every text at the length of the block, attention over all T×T pairs."""
        return self.flops(self.batch * self.block, self.batch * self.block**2)


TASKS = {
    task.name: task
    for task in (
        Task("decoder", feedforward=100, steps_a_run=500, classes=None, step_target=0.75, runs_target=2),
        Task("classifier", feedforward=256, steps_a_run=15 * 131, classes=3, step_target=0.6, runs_target=3),
    )
}


class Setting(NamedTuple):
    processes: int  # at the same time
    threads: int  # of each

    def __str__(self) -> str:
        threads = "1 thread" if self.threads == 1 else f"{self.threads} threads"
        return threads if self.processes == 1 else f"{self.processes} processes"


SINGLE = Setting(1, 1)


# ---------------------------------------------------------------------------------------------------------- processes


class ContenderError(Exception):
    """A contender cannot go on; the message is the row's reason."""


class Child:
    """One process of a contender, idle unless asked."""

    def __init__(self, file: Path, task: str, threads: int) -> None:
        self._said: queue.Queue[str] = queue.Queue()
        self._errors = tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace")  # noqa: SIM115
        quiet = {"TRANSFORMERS_VERBOSITY": "error", "HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}
        self._process = subprocess.Popen(
            [sys.executable, str(file), task, str(threads)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            env={**os.environ, **quiet, "OMP_NUM_THREADS": str(threads), "MKL_NUM_THREADS": str(threads)},
            start_new_session=True,  # Ctrl-C comes to us alone, and `close` ends the child without its traceback
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def ask(self, **request: Any) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()
        except OSError:
            raise ContenderError(self._why()) from None

    def answer(self, seconds: float = ANSWER_SECONDS) -> dict[str, Any]:
        try:
            line = self._said.get(timeout=seconds)
        except queue.Empty:
            raise ContenderError(f"no answer within {seconds:.0f} s; try fewer steps, or leave it out") from None
        if not line:
            raise ContenderError(self._why())
        try:
            said = json.loads(line)
        except json.JSONDecodeError:
            said = None
        if not isinstance(said, dict):
            raise ContenderError(
                f"said {line.strip()[:80]!r}, which is no JSON object; only the protocol belongs on its stdout"
            )
        return said

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        self._reader.join(timeout=10)
        for stream in (self._process.stdin, self._process.stdout, self._errors):
            try:
                if stream is not None:
                    stream.close()
            except OSError:
                pass  # it died with a request unread

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._said.put(line)
        self._said.put("")  # it has ended

    def _why(self) -> str:
        """The last thing the process complained of, in one line."""
        try:
            code = self._process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            return "it closed its stdout and went on running"
        self._errors.seek(0)
        lines = [line.strip() for line in self._errors if line.strip()]
        errors = [line for line in lines if re.match(r"[\w.]*(Error|Exception|Interrupt)\b", line)]
        if missing := re.search(r"No module named '(\w+)'", errors[-1] if errors else ""):
            name = missing[1].replace("_", "-")
            return f"{name} is not installed: pip install {name}"
        return (errors or lines or [f"it ended with exit code {code} and said nothing"])[-1][:300]


@dataclass
class Contender:
    """A contender while it is measured: its processes, and what they have said so far."""

    name: str
    children: dict[Setting, list[Child]] = field(default_factory=dict)
    seconds: dict[Setting, list[list[list[float]]]] = field(default_factory=dict)  # by round, process, step
    cpu: dict[Setting, list[float]] = field(default_factory=dict)  # seconds of all processes, by round
    losses: list[float] = field(default_factory=list)
    library: str = ""
    parameters: int = 0
    ends: dict[Setting, dict[str, Any]] = field(default_factory=dict)
    problem: str = ""

    def processes(self) -> list[Child]:
        return list(dict.fromkeys(child for children in self.children.values() for child in children))

    def start(self, file: Path, task: str, settings: Iterable[Setting]) -> None:
        """The process with one thread of the first setting is also one of those that work side by side."""
        for setting in settings:
            shared = self.children.get(SINGLE, []) if setting.threads == 1 else []
            new = [Child(file, task, setting.threads) for _ in range(setting.processes - len(shared))]
            self.children[setting] = [*shared, *new]
            self.seconds[setting], self.cpu[setting] = [], []

    def wait(self) -> None:
        for child in self.processes():
            said = child.answer(READY_SECONDS)
            self.library, self.parameters = str(said["library"]), int(said["parameters"])

    def turn(self, setting: Setting, steps: int, keep: bool) -> None:
        children = self.children[setting]
        for child in children:
            child.ask(steps=steps)
        said = [child.answer() for child in children]
        if sum(children[0] in serving for serving in self.children.values()) == 1:
            self.losses.append(float(said[0]["loss"]))  # of a process that has taken as many steps as everybody's
        if keep:
            self.seconds[setting].append([list(map(float, s["seconds"])) for s in said])
            self.cpu[setting].append(sum(float(s["cpu"]) for s in said))

    def end(self) -> None:
        for setting, children in self.children.items():
            if setting.processes == 1:
                children[0].ask(quit=True)
                self.ends[setting] = children[0].answer()

    @contextmanager
    def failing(self) -> Iterator[None]:
        """What goes wrong in here is this contender's row and nobody else's trouble."""
        try:
            yield
        except (ContenderError, KeyError, TypeError, ValueError) as error:
            said = isinstance(error, ContenderError)
            self.problem = str(error) if said else f"broke the protocol: {type(error).__name__} {error}"
            self.close()

    def close(self) -> None:
        for child in self.processes():
            child.close()


# -------------------------------------------------------------------------------------------------------------- result


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
                "cores": _cores(),
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


# -------------------------------------------------------------------------------------------------------------- running


def run(
    task: str,
    folder: Path,
    rounds: int,
    steps: int,
    threads: tuple[int, ...] = (1, 2),
    only: list[str] | None = None,
) -> Result:
    """Measure the contenders in `folder` (or `only` some of them) by turns, and the machine itself among them."""
    if task not in TASKS:
        raise InputError(f"no task '{task}' to measure: {nearest(task, TASKS)}")
    if min(rounds, steps, *threads) < 1:
        raise InputError("rounds, steps and threads must be at least 1")
    names = _contenders(folder, only)
    settings = _settings(threads)
    everybody = [Contender(name) for name in (*names, YARDSTICK)]
    tell = _Progress(task)
    try:
        for contender in everybody:
            contender.start(folder / f"{contender.name}.py", task, settings)
        tell(f"starting {sum(len(c.processes()) for c in everybody)} processes of {len(names)} contenders")
        for contender in everybody:
            with contender.failing():
                contender.wait()
        order = _rounds(everybody, settings, rounds, steps, tell)
        for contender in everybody:
            if not contender.problem:
                with contender.failing():
                    contender.end()
    finally:
        tell.done()
        for contender in everybody:
            contender.close()
    _same_batches([c for c in everybody if c.name != YARDSTICK])
    *rows, machine = (_row(contender) for contender in everybody)
    measured = next((c.ends[SINGLE] for c in everybody if SINGLE in c.ends and c.name != YARDSTICK), {})
    return Result(
        TASKS[task],
        rounds,
        steps,
        tuple(settings),
        tuple(rows),
        machine,
        order,
        float(measured.get("tokens", 0)),
        float(measured.get("pairs", 0)),
        str(measured.get("lengths", "")),
    )


def _contenders(folder: Path, only: list[str] | None) -> list[str]:
    found = sorted({file.stem for file in folder.glob("*.py")} - NO_CONTENDERS)
    if not found:
        raise InputError(f"no contenders in {folder}: give the folder benchmarks/ of a clone of the project")
    for name in only or []:
        if name not in found:
            raise InputError(f"no contender '{name}' in {folder}: {nearest(name, found)}")
    return sorted(only or found, key=lambda name: (name != OURS, name))


def _settings(threads: tuple[int, ...]) -> list[Setting]:
    """One process with each number of threads that there are cores for; then one process a core."""
    most = min(max(threads), _cores())
    alone = [Setting(1, n) for n in sorted({1, *threads}) if n <= most]
    return [*alone, Setting(most, 1)] if most > 1 else alone


def _rounds(
    everybody: list[Contender], settings: list[Setting], rounds: int, steps: int, tell: _Progress
) -> tuple[tuple[str, ...], ...]:
    """Every contender in every setting once a round. Each round begins one turn later than the last, so that nobody
    always follows the same neighbour at the same moment of the round."""
    turns = [(contender, setting) for contender in everybody for setting in settings]
    order: list[tuple[str, ...]] = []
    started = time.monotonic()
    total = WARM_UP_ROUNDS + rounds
    for n in range(total):
        taken: list[str] = []
        for contender, setting in turns[n % len(turns) :] + turns[: n % len(turns)]:
            if contender.problem:
                continue
            time.sleep(SETTLE_SECONDS)
            count = min(steps, PRODUCTS_A_TURN) if contender.name == YARDSTICK else steps
            with contender.failing():
                contender.turn(setting, count, keep=n >= WARM_UP_ROUNDS)
                taken.append(f"{contender.name}, {setting}")
        order.append(tuple(taken))
        left = (time.monotonic() - started) / (n + 1) * (total - n - 1)
        tell(f"round {n + 1} of {total}, {f'{left / 60:.0f} min' if left > 90 else f'{left:.0f} s'} left")
    return tuple(order)


def _same_batches(contenders: list[Contender]) -> None:
    """Nobody is compared who was given something else to learn."""
    whole = [c for c in contenders if not c.problem]
    for contender in whole[1:]:
        for setting, end in contender.ends.items():
            if end.get("batches") != whole[0].ends[setting].get("batches"):
                contender.problem = f"it trained on other batches than {whole[0].name}: draw them with contender.py"


def _row(c: Contender) -> Row:
    if c.problem:
        return Row(c.name, c.library, c.parameters, {}, 0.0, 0.0, "", c.problem)
    measures = {
        setting: Measure(
            tuple(tuple(tuple(s) for s in processes) for processes in taken),
            tuple(c.cpu[setting]),
            c.ends[setting]["peak_mb"] if setting in c.ends else None,
        )
        for setting, taken in c.seconds.items()
    }
    return Row(c.name, c.library, c.parameters, measures, c.losses[0], c.losses[-1], str(c.ends[SINGLE]["batches"]))


class _Progress:
    """One line on stderr, rewritten on a terminal. Not rich's: its refreshing would take time from who is measured."""

    def __init__(self, task: str) -> None:
        self.task, self.rewrite = task, sys.stderr.isatty()

    def __call__(self, text: str) -> None:
        line = f"bench {self.task}: {text}"
        print(f"\r{line:<79}" if self.rewrite else line, end="" if self.rewrite else "\n", file=sys.stderr, flush=True)

    def done(self) -> None:
        if self.rewrite:
            print(f"\r{'':<79}\r", end="", file=sys.stderr, flush=True)


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
