"""The benchmark against peers: real processes, few steps. Nothing here says who is fast."""

from __future__ import annotations

import hashlib
import io
import itertools
import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest
import torch
from rich.console import Console
from torch.utils.flop_counter import FlopCounterMode

import steps
from headtohead import InputError, load_file
from steps import OURS, SINGLE, TASKS, Measure, Result, Row, Setting, run

BENCHMARKS = Path(__file__).parents[2] / "benchmarks" / "contenders"
TWO_CORES = pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="settings with two threads need two cores")

FAKE = """
import json, sys, time
print("chatter", file=sys.stderr)
print(json.dumps({{"ready": True, "parameters": 7, "library": "fake 1"}}), flush=True)
for line in sys.stdin:
    asked = json.loads(line)
    if "quit" in asked:
        end = {{"peak_mb": 1.0, "batches": "{batches}", "tokens": 512, "pairs": 16384, "lengths": "the block"}}
        print(json.dumps(end), flush=True)
        break
    {before}
    answer = {{"seconds": [{seconds}] * asked["steps"], "loss": 8.0, "cpu": {seconds} * asked["steps"]}}
    print(json.dumps(answer), flush=True)
"""


def fake(folder: Path, name: str, seconds: float = 0.01, batches: str = "same", before: str = "pass") -> None:
    """A contender without torch that says what it is told to say."""
    code = FAKE.format(seconds=seconds, batches=batches, before=before)
    (folder / f"{name}.py").write_text(textwrap.dedent(code), encoding="utf-8")


ALONE, TOGETHER, TWO_THREADS = Setting(1, 1), Setting(2, 1), Setting(1, 2)


@pytest.mark.parametrize(
    ("threads", "settings", "targets"),
    [
        ((1,), (ALONE,), [0.75, 0.75, 2, 0.55]),
        pytest.param(
            (1, 2),
            (ALONE, TWO_THREADS, TOGETHER),
            [0.75, 0.75, 2, None, 0.55],
            marks=[TWO_CORES, pytest.mark.slow],
        ),
    ],
)
def test_a_small_benchmark_measures_every_contender(threads, settings, targets, monkeypatch):
    monkeypatch.setattr(steps.running, "WARM_UP_ROUNDS", 1)
    monkeypatch.setattr(steps.running, "PRODUCTS_A_TURN", 1)
    result = run("decoder", BENCHMARKS, rounds=2, steps=2, threads=threads, only=["per_head", OURS])
    ours, per_head = result.rows
    assert (ours.name, per_head.name, result.machine.problem) == (OURS, "per_head", "")
    assert result.settings == settings

    for row in result.rows:
        assert row.problem == ""
        assert row.parameters == 863_243, "the documents' decoder"
        assert 8 < row.first_loss < 9.5, "near ln 5755 at first"
        assert row.last_loss < row.first_loss
        for setting, measure in row.measures.items():
            assert [len(steps) for processes in measure.seconds for steps in processes] == [2] * 2 * setting.processes
            assert 0 < measure.least <= measure.median
            assert (measure.peak_mb or 0) > 50 or setting.processes > 1

    assert len(result.order) == 1 + 2
    turns = [f"{name}, {setting}" for name in (OURS, "per_head", "large_product") for setting in result.settings]
    for n, taken in enumerate(result.order):
        assert list(taken) == turns[n:] + turns[:n], "everybody once a round, each round one turn later"

    # one thread had its own turns and those of two processes: every batch, in order, and the same for both
    turns_of_one = 1 + (TOGETHER in settings)
    contender = load_file(BENCHMARKS / "contender.py")
    digest = hashlib.sha256()
    for batch in itertools.islice(contender.batches(TASKS["decoder"]), len(result.order) * 2 * turns_of_one):
        digest.update(batch.ids.tobytes() + batch.targets.tobytes())
    assert ours.batches == per_head.batches == digest.hexdigest()

    said = json.loads(json.dumps(result.to_json()))
    assert [c["name"] for c in said["contenders"]] == [OURS, "per_head"]
    assert list(said["machine"]["gflops"]) == ["1 thread", "2 threads", "2 processes"][: len(settings)]
    assert min(said["machine"]["gflops"].values()) > 0.1
    assert [c["target"] for c in said["comparisons"]] == targets
    assert said["step"]["mflop_useful"] == said["step"]["mflop_padded"] == pytest.approx(1540.42, abs=0.01)
    shown = printed(result)
    for text in ("863,243", "per_head", "large products", "GFLOP/s", "target", "step, 1 thread each"):
        assert text in shown


def printed(result: Result) -> str:
    out = io.StringIO()
    result.show(Console(file=out, width=200))
    return out.getvalue()


def test_a_failed_contender_is_a_row_with_its_reason(tmp_path):
    fake(tmp_path, OURS)
    fake(tmp_path, "slower", seconds=0.02)
    fake(tmp_path, "cheats", batches="other")
    fake(tmp_path, "gives_up", before="raise MemoryError('all gone')")
    fake(tmp_path, "mute", before="asked = {}")
    (tmp_path / "raises.py").write_text("raise RuntimeError('no such luck')", encoding="utf-8")
    (tmp_path / "absent.py").write_text("import not_here.at_all", encoding="utf-8")
    (tmp_path / "quiet.py").write_text("raise SystemExit(5)", encoding="utf-8")
    (tmp_path / "chats.py").write_text("print('hello', flush=True); input()", encoding="utf-8")
    result = run("decoder", tmp_path, rounds=1, steps=3, threads=(1,))
    problems = {row.name: row.problem for row in result.rows}
    assert problems == {
        OURS: "",
        "slower": "",
        "cheats": f"it trained on other batches than {OURS}: draw them with contender.py",
        "gives_up": "MemoryError: all gone",
        "mute": "KeyError: 'steps'",
        "raises": "RuntimeError: no such luck",
        "absent": "not-here is not installed: pip install not-here",
        "quiet": "it ended with exit code 5 and said nothing",
        "chats": "said 'hello', which is no JSON object; only the protocol belongs on its stdout",
    }
    assert "large_product.py" in result.machine.problem, "there is none in this folder"
    shown = printed(result)
    assert "no such luck" in shown
    assert "not measured" in shown
    failed = next(row for row in result.to_json()["contenders"] if row["name"] == "raises")
    assert failed == {"name": "raises", "problem": "RuntimeError: no such luck"}
    steps = result.comparisons()[0]
    assert (steps.against, steps.median, steps.met) == ("slower", pytest.approx(0.5), True)


def test_ctrl_c_ends_all_contender_processes(tmp_path):
    fake(
        tmp_path,
        OURS,
        before=f"open({str(tmp_path / 'pid')!r}, 'w').write(str(__import__('os').getpid())); time.sleep(60)",
    )
    call = f"import pathlib, steps as b; b.run('decoder', pathlib.Path({str(tmp_path)!r}), 1, 1, (1,))"
    parent = subprocess.Popen(
        [sys.executable, "-c", call],
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(BENCHMARKS.parent)},
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # a shell's background jobs ignore it
    )
    wait_for(lambda: (tmp_path / "pid").is_file() and (tmp_path / "pid").read_text())
    parent.send_signal(signal.SIGINT)
    _, said = parent.communicate(timeout=20)
    assert "KeyboardInterrupt" in said
    child = int((tmp_path / "pid").read_text())
    wait_for(lambda: not Path(f"/proc/{child}").exists())


def wait_for(what, seconds=20.0):
    end = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < end
        time.sleep(0.05)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"task": "decodr"}, "did you mean decoder"),
        ({"only": ["per_haed"]}, "did you mean per_head"),
        ({"rounds": 0}, "at least 1"),
        ({"folder": Path("/nowhere")}, "no contenders in /nowhere"),
    ],
)
def test_bad_options_are_one_line(arguments, message):
    with pytest.raises(InputError, match=message):
        run(**{"task": "decoder", "folder": BENCHMARKS, "rounds": 1, "steps": 1, **arguments})


def test_the_harness_imports_no_torch():
    code = "import sys, steps; sys.exit('torch' in sys.modules or 'numpy' in sys.modules)"
    environment = {**os.environ, "PYTHONPATH": str(BENCHMARKS.parent)}
    assert subprocess.run([sys.executable, "-c", code], check=False, env=environment).returncode == 0


def test_counted_operations_match_a_hand_count():
    decoder, classifier = TASKS["decoder"], TASKS["classifier"]
    token = 4 * (4 * 2 * 64 * 64 + 2 * 2 * 64 * 100) + 2 * 64 * 5755  # four blocks, then the head
    attention = 4 * (2 * 32 * 32 * 64 + 2 * 32 * 32 * 64)  # of a text: scores and weighted sum, in four blocks
    assert decoder.padded_flops() == 3 * (16 * 32 * token + 16 * attention) == 1_540_423_680
    assert classifier.padded_flops() == 654_954_624
    # sixteen sentences of two words each: four pairs a sentence
    words = 32 * 4 * (4 * 2 * 64 * 64 + 2 * 2 * 64 * 256)
    pairs = 16 * 4 * 4 * (2 * 64 + 2 * 64)
    assert classifier.flops(32, 64) == 3 * (words + pairs + 16 * 2 * (64 * 100 + 100 * 3))


@pytest.mark.parametrize("name", TASKS)
def test_counted_operations_match_torch(name):
    """Of the plain model, where every product is one that torch sees: forward and backward."""
    task = TASKS[name]
    contender, per_head = (load_file(BENCHMARKS / f"{file}.py") for file in ("contender", "per_head"))
    built = getattr(per_head, name)(task)
    batch = contender.Batch(*map(torch.from_numpy, next(contender.batches(task))))
    with FlopCounterMode(display=False) as counter:
        built.step(batch)
    assert counter.get_total_flops() == task.padded_flops()


@pytest.mark.parametrize("name", TASKS)
def test_contenders_get_the_batches_of_the_task(name, monkeypatch, tmp_path):
    contender, task = load_file(BENCHMARKS / "contender.py"), TASKS[name]
    monkeypatch.delenv("HEADTOHEAD_DATA", raising=False)
    some = list(itertools.islice(contender.batches(task), 50))
    assert len({batch.ids.tobytes() for batch in some}) == 50, "fresh at every step"
    for ids, targets, keep in some:
        assert ids.shape == keep.shape == (16, 32)
        assert ids.max() < 5755
        assert ((ids == 0) == ~keep).all(), "0 is padding and nothing else"
        if name == "decoder":
            assert keep.all()
            assert (ids[:, 1:] == targets[:, :-1]).all(), "the target is the next token"
        else:
            assert set(targets) <= {0, 1, 2}
            assert keep[:, 0].all()
            assert (keep[:, :-1] >= keep[:, 1:]).all(), "padding comes last"
    if name == "classifier":
        assert 16 < sum(batch.keep.sum() for batch in some) / 50 / 16 < 20, "18 of 32 on average"
        (tmp_path / "speeches").mkdir()
        sentences = "0\tWe can't wait.\n1\tYes, we can.\n"  # four and five words and marks
        (tmp_path / "speeches" / "train_CLS.tsv").write_text(sentences, encoding="utf-8")
        monkeypatch.setenv("HEADTOHEAD_DATA", str(tmp_path))
        assert set(next(contender.batches(task)).keep.sum(axis=1)) == {4, 5}


def row(name: str, *, alone: float, side: float) -> Row:
    """Seconds a step with one thread, and in two processes; three rounds, the middle one as told."""
    around = lambda s: (0.9 * s, s, 1.2 * s)
    single = tuple(((s, s),) for s in around(alone))
    double = tuple(((s, s), (s, s)) for s in around(side))
    measures = {
        SINGLE: Measure(single, tuple(2 * s for s in around(alone)), 100.0),
        Setting(2, 1): Measure(double, tuple(4 * s for s in around(side)), None),
    }
    return Row(name, "lib 1", 1, measures, 9.0, 6.0, "same")


def test_ratios_and_targets_follow_from_the_times():
    task = TASKS["decoder"]
    rows = (row(OURS, alone=0.03, side=0.036), row("a", alone=0.05, side=0.08), row("b", alone=0.04, side=0.048))
    product = 2 * 2048**3 / 80e9  # seconds at 80 GFLOP/s
    machine = row("large_product", alone=product, side=product)
    settings = (SINGLE, Setting(2, 1))
    result = Result(task, 3, 2, settings, rows, machine, (), 512, 16384, "the block")
    one, best, runs, side, share = result.comparisons()
    assert (one.against, best.against, runs.against, side.against) == ("b", "b", "b", "b")
    assert [one.median, best.median, one.best] == pytest.approx([0.75] * 3)
    assert runs.median == pytest.approx(2 * 0.04 / 0.036)
    assert side.median == pytest.approx(0.048 / 0.036)
    assert share.median == pytest.approx(2 / 0.036 * 1.54042368 / 160)
    assert [c.met for c in (runs, side, share)] == [True, None, False]
    assert result.gflops(SINGLE) == pytest.approx(80)
    assert "pace changed" in result.warning()
    shown = printed(result)
    assert "met" in shown
    assert "missed" in shown
    assert "≥ 55 %" in shown
