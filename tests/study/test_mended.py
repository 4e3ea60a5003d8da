"""Defects that strangers met, and that must not come back."""

from __future__ import annotations

import io
import math
import os
import re
import signal
import subprocess
import sys
import time
import warnings
from contextlib import nullcontext
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from headtohead.arm import RunSpec, read_run
from headtohead.carry import Stage, carry_out, folder_of
from headtohead.errors import Unavailable
from headtohead.metrics import text_of
from headtohead.outcome import ArmVerdict, Excluded, Verdicts, load_outcome
from headtohead.report.figures import forest, shortened
from headtohead.report.page import p_text, page, parameters_text, r_text, verdict_table
from headtohead.runs import Finished, NotBegun, Options, Progress, Started, Stopped, Waiting
from headtohead.stats import compare_all
from headtohead.watch_study import Board, show
from headtohead.wording import interval_text, share_text, word
from runs.small import SMALL, results

from .small import carried, control, study
from .test_carry import SLOW

# -- scripts -----------------------------------------------------------------------------------------------------------

SCRIPT = f"""
from headtohead import Arm, Files, NoPosition, Study
SETTINGS = {[*SMALL, "train.steps=4"]!r}
PART
study = Study(
    question="?",
    control=Arm.of("lm", Files(path="mine.txt")).settings(SETTINGS),
    vary={{"model.position": [VALUES]}},
    seeds=2,
    again=False,
    name="script",
)
for row in study.run(jobs=2):
    print(row.arm, row.verdict.pairs, row.excluded)
"""


@pytest.mark.usefixtures("text")
def test_a_script_that_trains_at_its_top_and_has_a_part_of_its_own():
    part = "class Mine(NoPosition): ..."
    Path("script.py").write_text(SCRIPT.replace("PART", part).replace("VALUES", "Mine(), 'Rope'"))
    done = subprocess.run([sys.executable, "script.py"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["Mine 2 ()", "Rope 2 ()"]
    assert done.stderr == ""


@pytest.mark.usefixtures("text")
def test_a_script_through_a_pipe():
    script = SCRIPT.replace("PART", "").replace("VALUES", "'Rope'")
    done = subprocess.run([sys.executable, "-"], input=script, capture_output=True, text=True)
    assert done.stdout.splitlines() == ["Rope 2 ()"], done.stderr


# -- Ray ---------------------------------------------------------------------------------------------------------------

# Ray closes its sockets and files when the process ends, not before
on_ray = pytest.mark.filterwarnings("ignore")


@pytest.fixture
def sleepy(tmp_path: Path) -> str:
    pytest.importorskip("ray", reason="Ray is not installed: pip install 'headtohead[ray]'")
    path = tmp_path / "parts.py"
    path.write_text(SLOW)
    return f"{path}:Sleepy(seconds=0.05)"


@on_ray
@pytest.mark.slow
def test_one_job_on_ray_is_one_run_at_a_time(text: Path, home: Path, sleepy: str):
    made = study(text, "train.steps=60", f"model.position={sleepy}", seeds=3, vary={"train.optimizer.lr": [0.01]})
    carried(made, home, on="ray", jobs=1)
    spans = sorted(  # env.json is written before the first step, result.json after the last
        ((run / "env.json").stat().st_mtime, (run / "result.json").stat().st_mtime) for run in (home / "runs").iterdir()
    )
    assert len(spans) == 6
    assert all(end - begin > 2 for begin, end in spans)  # long enough to be seen side by side
    assert all(first[1] <= then[0] for first, then in pairwise(spans))


def interrupted(made: Any, home: Path, **options: Any) -> list[Any]:
    """The events of a study that is stopped when its first run is under way."""
    seen, asked = [], False
    for event in carry_out(made, home, on="ray", jobs=1, **options):
        seen.append(event)
        if isinstance(event, Progress) and event.done > 10 and not asked:
            asked = True
            os.kill(os.getpid(), signal.SIGINT)
    assert asked
    return seen


@on_ray
@pytest.mark.slow
def test_a_stop_on_ray_saves_what_was_done(text: Path, home: Path, tmp_path: Path, sleepy: str):
    made = study(text, "train.steps=100", f"model.position={sleepy}", seeds=2, vary={"train.optimizer.lr": [0.01]})
    seen = interrupted(made, home, options=Options(save_every=1e9))
    assert isinstance(seen[-1], Stopped)
    assert 10 < seen[-1].done < 100
    begun = [event.id for event in seen if isinstance(event, Started)]
    assert begun == [seen[-1].id]
    assert (home / "runs" / begun[0] / "checkpoint.safetensors").is_file()
    rest = carried(made, home)
    assert next(e.done for e in rest if isinstance(e, Started) and e.id == begun[0]) == seen[-1].done
    carried(made, tmp_path / "calm")
    for run in (tmp_path / "calm" / "runs").iterdir():
        assert results(run) == results(home / "runs" / run.name)


@on_ray
@pytest.mark.slow
def test_a_stop_on_nodes_that_do_not_see_the_store_saves_it_too(
    text: Path, home: Path, tmp_path: Path, sleepy: str, monkeypatch: pytest.MonkeyPatch
):
    from headtohead import on_ray

    # the tasks look for a marker that is not there, as on a machine without this folder
    monkeypatch.setattr(on_ray, "_marker", lambda where: nullcontext(where / f".seen-{time.time_ns()}"))
    made = study(text, "train.steps=100", f"model.position={sleepy}", seeds=2, vary={"train.optimizer.lr": [0.01]})
    stopped = interrupted(made, home, options=Options(save_every=1e9))[-1]
    assert isinstance(stopped, Stopped)
    rest = carried(made, home, on="ray", jobs=1)  # there again, where what was saved is not
    assert next(e.done for e in rest if isinstance(e, Started) and e.id == stopped.id) == stopped.done
    carried(made, tmp_path / "calm")
    for run in (tmp_path / "calm" / "runs").iterdir():
        assert results(run) == results(home / "runs" / run.name)


@on_ray
@pytest.mark.slow
def test_what_could_not_be_saved_on_ray_is_said(text: Path, home: Path, sleepy: str, monkeypatch: pytest.MonkeyPatch):
    from headtohead import on_ray

    monkeypatch.setattr(on_ray, "STOPPING", 0.0)
    made = study(text, "train.steps=100", f"model.position={sleepy}", seeds=2, vary={"train.optimizer.lr": [0.01]})
    with pytest.raises(Unavailable, match="1 of the runs on Ray did not save themselves"):
        interrupted(made, home)


class Refs:
    """As much of Ray as `_Tasks` asks for: tasks that are over, or never will be."""

    class exceptions:  # noqa: N801
        TaskCancelledError = RayTaskError = KeyError
        WorkerCrashedError = NodeDiedError = ObjectLostError = OSError

    def __init__(self, answers: dict[str, Any]) -> None:
        self.answers = answers
        self.events: list[Any] = []

    def remote(self, spec: Any, *_: Any) -> str:
        return read_run(spec).id

    def wait(self, refs: list[str], timeout: float) -> tuple[list[str], list[str]]:
        return [r for r in refs if r in self.answers], []

    def get(self, ref: str) -> Any:
        return self.answers[ref]

    def cancel(self, ref: str, force: bool) -> None: ...

    def qsize(self) -> int:
        return len(self.events)

    def get_nowait_batch(self, count: int) -> list[Any]:
        return [self.events.pop(0) for _ in range(count)]


def test_events_that_are_late_do_not_undo_the_end_of_a_run(text: Path, home: Path):
    from headtohead.on_ray import _Tasks, _Told
    from headtohead.runs import Stop

    one, two = (RunSpec(arm=control(text), seed=seed).resolved() for seed in (0, 1))
    started = Started(one.id, 6, 0, 1, {}, [])
    ray = Refs({one.id: _Told(started, Finished(one.id, "there"))})
    tasks = _Tasks(ray, ray, home, home / "marker", Options(), ray)
    events = tasks.follow([one, two], Stop())
    assert [next(events), next(events)] == [started, Finished(one.id, "there")]  # though none was said on the way
    ray.events = [started, Progress(one.id, 3, 6, 1.0, 1.0, 1.0), Progress(two.id, 3, 6, 1.0, 1.0, 1.0)]
    assert next(events).id == two.id
    ray.answers[two.id] = _Told(None, None)
    assert next(events) == Waiting(two.id)


def test_runs_that_waited_for_a_processor_were_not_begun(text: Path, home: Path, monkeypatch: pytest.MonkeyPatch):
    from headtohead import on_ray
    from headtohead.runs import Stop

    monkeypatch.setattr(on_ray, "STOPPING", 0.0)
    ray = Refs({})
    tasks = on_ray._Tasks(ray, ray, home, home / "marker", Options(), ray)
    specs = [RunSpec(arm=control(text), seed=seed).resolved() for seed in (0, 1)]
    assert list(tasks.follow(specs, Stop(asked=True))) == [NotBegun(2)]


# -- the screen --------------------------------------------------------------------------------------------------------


def judged(*arms: str, question: str = "?", pairs: int = 6, metric: str = "test/loss", size: float = 0.1) -> Verdicts:
    """Verdicts that nobody had to train for. An arm named `diverged …` did."""
    draw = np.random.default_rng(0)
    base = 4 + 0.05 * draw.normal(size=pairs)
    values = {
        name: np.full(pairs, math.nan)
        if name.startswith("diverged")
        else base[::-1] - size + 0.01 * draw.normal(size=pairs)
        for name in arms
    }
    found = compare_all(base, values)
    rows = [
        ArmVerdict(
            arm=name,
            differs={},
            mean=float(values[name].mean()),
            verdict=found[name],
            extra_parameters=-1234,
            extra_time=-0.123,
            extra_flops=0.0,
            items=None,
            items_agree=None,
            items_pairs=0,
            excluded=tuple(
                Excluded(s, name, "diverged at step 2") for s in range(pairs) if name.startswith("diverged")
            ),
        )
        for name in arms
    ]
    return Verdicts(
        question=question,
        metric=metric,
        better="lower",
        title="",
        control="Learned",
        control_mean=float(base.mean()),
        control_excluded=(),
        arms=tuple(rows),
        noise=None,
        seeds=pairs,
        scope="of a test",
        notes=(),
    )


def shown(verdicts: Verdicts, width: int) -> str:
    out = io.StringIO()
    show(verdicts, Console(file=out, width=width, highlight=False))
    return out.getvalue()


ODD = ["Is [/b] a", "[bold]x[/bold]", ":smile: [link=x]", "[red]", "C:\\[/]"]


@pytest.mark.parametrize("width", [40, 90, 200])
def test_brackets_and_colons_in_names_are_shown_as_they_are(width: int):
    said = shown(judged(*ODD, question="Is [/b] or [bold] :smile: better?"), width)
    assert "Is [/b] or [bold] :smile: better?" in said
    for name in ODD:
        assert name in said


def test_a_failure_with_brackets_is_told(text: Path, home: Path):
    from headtohead.runs import Failed
    from headtohead.watch_study import follow

    out = io.StringIO()
    cells = [carried(study(text, seeds=2), home)[0].cells[0]]
    follow([Stage("runs", cells), Failed(cells[0].id, "no [/b] :smile:")], Console(file=out), "test/loss")
    assert "Learned, seed 0 failed: no [/b] :smile:" in out.getvalue()


@pytest.mark.parametrize("metric", ["test/loss", "validation/bits_per_byte"])
@pytest.mark.parametrize("width", [20, 30, 40, 60, 72, 80, 100, 132, 200])
def test_no_figure_and_no_verdict_is_cut(width: int, metric: str):
    verdicts = judged("Rope", "L" * 300, "diverged", metric=metric, pairs=5 if width % 20 else 6)
    said = shown(verdicts, width)
    table = said[: said.index("scope: ")].splitlines()[:-1]
    assert all(len(line) <= width for line in table if "pairs" not in line)
    for row in list(verdicts)[:2]:
        v = row.verdict
        whole = [text_of(metric, row.mean), text_of(metric, v.difference, signed=True), f"{v.agree}/{v.pairs}"]
        whole += [p_text(row), r_text(row), parameters_text(row), *share_text(row.extra_time).split()]
        for figure in [*whole, *interval_text(metric, v.low, v.high).split(), *word(row).split()]:
            assert re.search(rf"(?<!\S){re.escape(figure)}(?!\S)", said), (figure, said)
    assert said.count("L") - said.count("Learned") - said.count("FLOPs") >= 300


@pytest.mark.parametrize("width", [20, 40, 80, 200])
def test_no_figure_of_the_board_is_cut(width: int, text: Path, home: Path):
    made = study(text, seeds=6, vary={"model.position": ["Learned", "Rope"]})
    board = Board("test/loss")
    for event in carried(made, home):
        board.hear(event)
    out = io.StringIO()
    Console(file=out, width=width).print(board)
    for figure in made.results(home)["test/loss"]:
        assert re.search(rf"(?<!\S){figure:.4f}(?!\S)", out.getvalue()), out.getvalue()
    assert "…" not in out.getvalue()


def test_signs_and_small_p_are_written_alike_on_screen_and_page():
    many = judged("Rope", pairs=16)
    row = many["Rope"]
    assert row.verdict.p < 0.001
    assert row.verdict.correlation < 0
    for said in (shown(many, 200), verdict_table(many)):
        assert "<0.001" in said.replace("&lt;", "<")
        assert "0.000" not in said
        assert f"−{-row.verdict.correlation:.2f}" in said
        assert "-" not in re.sub(r"[<]/?[^<]*>", "", said)


# -- the report --------------------------------------------------------------------------------------------------------


def drawn(svg: str) -> list[str]:
    return [re.sub(r"\s+", " ", t).strip() for t in re.findall(r"<text[^>]*>([^<]*)</text>", svg)]


def test_names_are_shortened_in_the_middle_and_stay_apart():
    assert shortened(["Rope", "Alibi"]) == ["Rope", "Alibi"]
    short = shortened(["a" * 300, "a" * 299, "中文" * 40, "lr=1" + "0" * 50 + "=end"])
    assert short[0] == "a" * 15 + "…" + "a" * 14
    assert short[1] == short[0] + " (2)"
    assert len(short[2]) < 18
    assert short[3].startswith("lr=1")
    assert short[3].endswith("=end")


def test_long_names_and_foreign_letters_leave_room_for_the_figure():
    svg = forest(judged("L" * 300, "中文 🦄", "Rope"))  # warnings are errors here
    assert "L" * 40 not in svg
    assert any("…" in label for label in drawn(svg))
    assert "中文 🦄" in drawn(svg)


def test_arms_without_pairs_say_why_in_the_figure():
    assert drawn(forest(judged("Rope", "diverged far"))).count("diverged") == 1
    assert drawn(forest(judged("diverged", "diverged too"))).count("diverged") == 3  # one of them a name
    assert "no pairs" not in forest(judged("Rope"))


def long_study(text: Path, home: Path) -> Path:
    base = control(text)
    names = ["L" * 300, "an arm with a name of many words " * 4, *(f"lr={n}" for n in range(9))]
    arms = {name.strip(): base.set("train.optimizer.lr", 0.01 + n / 1000) for n, name in enumerate(names)}
    made = study(
        text,
        question="W" * 200,
        vary=["train.optimizer.lr"],
        arms=arms,
        seeds=2,
        again=True,
        command="h2h run " + "x" * 100,
    )
    carried(made, home)
    return folder_of(made, home)


def test_a_page_of_long_names_is_drawn_without_warnings_and_keeps_the_names(text: Path, home: Path):
    folder = long_study(text, home)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        made = page(load_outcome(folder))
    assert not caught
    svgs = re.findall(r'<svg role="img".*?</svg>', made, re.DOTALL)
    assert len(svgs) == 3  # forest, curves, cost
    svgs = [svg.partition(">")[2] for svg in svgs]  # what is drawn: descriptions have the whole names
    assert all("L" * 40 not in svg for svg in svgs)
    assert f">{'L' * 300}<" in made


MEASURE = """<script>
document.querySelectorAll("details").forEach(d => d.open = true);
const seen = [...document.querySelectorAll("svg[role=img]")].filter(s => s.checkVisibility());
const figures = seen.map(s => {
  const box = s.getBoundingClientRect();
  const out = [...s.querySelectorAll("text")].filter(t => {
    const b = t.getBoundingClientRect();
    return b.left < box.left - 1 || b.right > box.right + 1 || b.top < box.top - 1 || b.bottom > box.bottom + 1; });
  return [Math.round(box.width), out.length]; });
const table = document.querySelector(".h2h-verdicts").parentElement;
document.title = JSON.stringify({page: document.documentElement.scrollWidth - document.documentElement.clientWidth,
  table: table.scrollWidth - table.clientWidth, figures});
</script>"""


@pytest.mark.parametrize("width", [390, 1300])
def test_the_page_fits_its_window(width: int, chromium: str, text: Path, home: Path, tmp_path: Path):
    import html
    import json

    file = tmp_path / "page.html"
    file.write_text(page(load_outcome(long_study(text, home))) + MEASURE)
    # a window is never narrower than 500, a frame is
    frame = f'<iframe src="page.html" style="width: {width}px; height: 900px; border: 0"></iframe>'
    (tmp_path / "frame.html").write_text(
        frame + "<script>onload = () => document.title = frames[0].document.title</script>"
    )
    command = [chromium, "--headless", "--no-sandbox", "--disable-gpu", "--allow-file-access-from-files"]
    command += ["--window-size=1400,1000", "--virtual-time-budget=3000", "--dump-dom", f"file://{tmp_path}/frame.html"]
    dom = subprocess.run([str(c) for c in command], capture_output=True, text=True, timeout=120).stdout
    seen = json.loads(html.unescape(re.search(r"<title>(.*?)</title>", dom).group(1)))
    assert seen["page"] <= 0
    assert all(wide >= 500 and not outside for wide, outside in seen["figures"]), seen
    if width == 1300:
        assert seen["table"] <= 0  # every column is seen
