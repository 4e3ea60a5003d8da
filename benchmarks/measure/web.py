"""What `h2h serve` needs with 10,000 stored runs, and what it costs a study that trains.

    python benchmarks/measure/web.py          # ten minutes; needs Chromium and playwright

One run is trained and copied as runs of other seeds; 500 studies of twenty runs each are written. The server is a
process of its own, pages are those of a real Chromium. The pace of training is that of a run whose progress ten
pages follow, against windows of time in which the server and the pages are paused.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parents[1]
STUDIES, SEEDS = 500, 10  # of two arms each: 10,000 runs
PAGES, PAIRS, WINDOW = 10, 40, 2  # windows in seconds
SMALL = ["model.width=16", "model.layers=1", "model.block=16", "tokenizer=Byte", "train.batch=4", "train.steps=4"]
PACED = ["model.width=64", "model.layers=2", "model.block=64", "tokenizer=Byte", "train.batch=8", "train.steps=1000000"]
ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run"]
PACE = """
import os, sys, time
from pathlib import Path
from headtohead import Arm, Files
from headtohead.run.events import Progress
from headtohead.run.progress import ProgressFile
from headtohead.training.tasks import task_of
from headtohead.training.trainer import Trainer
arm = Arm.of("lm", Files(path=sys.argv[1])).settings(sys.argv[4:])
task, told = task_of(arm), ProgressFile(Path(sys.argv[2]))
model, count = task.build(0), os.open(sys.argv[3], os.O_RDWR | os.O_CREAT)
told.stage = "runs"
for step in Trainer(model, arm.train, task.steps, 0).fit(lambda n: task.loss(model, task.batch(0, n), "cpu")):
    os.pwrite(count, step.done.to_bytes(8, "little"), 0)
    told.hear(Progress("0" * 16, step.done, task.steps, 1.0, 1000.0, 100.0))
"""


def fill(home: Path, text: Path) -> None:
    """A store of 10,000 runs in 500 studies, from one trained study of two runs."""
    from headtohead import Arm, Files, Study
    from headtohead.run import seal, store
    from headtohead.run.executors.execution import Execution
    from headtohead.run.studies import read_study, write_study
    from headtohead.study.execution import train_study
    from headtohead.training.arm import read_run

    control = Arm.of("lm", Files(path=str(text))).settings(SMALL)
    vary = {"model.position": ["Learned", "Rope"]}
    study = Study(question="?", control=control, vary=vary, seeds=2, again=False, chaos=False, name="first")
    list(train_study(study, Execution(jobs=1, device="cpu"), home=home))
    record = read_study(home / "studies" / "first")
    for n in range(STUDIES):
        arms = []
        for number, arm in enumerate(record.tables[0].arms):
            first = store.Record.at(home, next(iter(arm.runs.values())))
            result, times = first.require_result().to_json(), first.times.to_json()
            contents = {p.name: p.read_bytes() for p in first.folder.iterdir() if p.is_file()}
            spec, runs = read_run(first.spec, None), {}
            for pair in range(SEEDS):
                other = spec.set("seed", 10 + n * SEEDS + pair)
                folder = home / "runs" / other.id
                folder.mkdir()
                for name, content in contents.items():
                    (folder / name).write_bytes(content)
                (folder / "run.json").write_text(store.to_text(other.to_json()))
                (folder / "times.json").write_text(store.to_text(seal.times_of(folder, other.id, times)))
                shifted = _shifted(result, 0.01 * number * (1 + pair % 3) + 0.001 * (n % 7))
                (folder / "result.json").write_text(store.to_text(seal.result_of(folder, other.id, shifted, {})))
                runs[other.seed] = other.id
            arms.append(dataclasses.replace(arm, runs=runs))
        table = dataclasses.replace(record.tables[0], arms=tuple(arms))
        name = f"study-{n:03}"
        made = dataclasses.replace(
            record, name=name, question=f"Question {n}?", tables=(table,), seeds=tuple(arms[0].runs), design=None
        )
        (home / "studies" / name).mkdir()
        write_study(home / "studies" / name, made)


def _shifted(value: Any, by: float) -> Any:
    """The result with other losses, so that studies differ."""
    if isinstance(value, dict):
        return {k: v + by if k == "loss" and isinstance(v, float) else _shifted(v, by) for k, v in value.items()}
    return value


@contextlib.contextmanager
def server(home: Path, cache: Path) -> Iterator[tuple[subprocess.Popen[str], str, float]]:
    """`h2h serve`, its address, and when it was started."""
    environment = os.environ | {
        "HEADTOHEAD_HOME": str(home),
        "HEADTOHEAD_CACHE": str(cache),
        "XDG_STATE_HOME": str(cache / "state"),
        "PYTHONUNBUFFERED": "1",
    }
    began = time.perf_counter()
    command = [sys.executable, "-m", "headtohead.cli", "serve"]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            found = re.search(r"http://\S+", process.stdout.readline())
            assert found is not None
            yield process, found[0], began
        finally:
            process.kill()


def resident(pid: int) -> float:
    """Megabytes of a process that are its own."""
    fields = dict(line.split(":") for line in Path(f"/proc/{pid}/status").read_text().splitlines() if ":" in line)
    return int(fields["RssAnon"].split()[0]) / 1024


def painted(page: Any, url: str) -> float:
    """Seconds from the navigation until the first row of the board is painted."""
    page.goto(url)
    page.locator("[role=row]").first.wait_for(timeout=300_000)
    now = "new Promise(d => requestAnimationFrame(() => requestAnimationFrame(() => d(performance.now() / 1000))))"
    return float(page.evaluate(now))


def board(browser: Any, home: Path, cache: Path) -> list[list[str]]:
    rows = []
    with server(home, cache) as (process, url, _):  # the first start makes the index
        page = browser.new_page()
        page.goto(url)
        began = time.perf_counter()
        while not page.evaluate("fetch('api/board').then(r => r.json()).then(b => b.ready)"):
            time.sleep(0.5)
        rows.append([f"index of {STUDIES * SEEDS * 2:,} runs made, once", f"{time.perf_counter() - began:.1f} s"])
        page.close()
    starts, paints = [], []
    for _ in range(3):
        with server(home, cache) as (_, url, began):
            page = browser.new_page()
            paints.append(painted(page, url))
            starts.append(time.perf_counter() - began)
            page.close()
    rows.append(["from the command to the first paint of the board, second start", _spread(starts, "s")])
    rows.append(["first paint of the board after the address is opened", _spread(paints, "s")])
    with server(home, cache) as (process, url, _):
        page = browser.new_page()
        painted(page, url)
        session = page.context.new_cdp_session(page)
        session.send("Performance.enable")
        time.sleep(15)
        rows.append(["memory of the server", f"{resident(process.pid):.0f} MB"])
        heap = {m["name"]: m["value"] for m in session.send("Performance.getMetrics")["metrics"]}
        rows.append(["memory of the page (JavaScript heap)", f"{heap['JSHeapUsedSize'] / 2**20:.0f} MB"])
        filtered = page.evaluate(FILTER)
        rows.append(["filter the board by a word", _spread(filtered, "ms")])
        frames = page.evaluate(SCROLL)
        rows.append(["frames while scrolling: median and slowest of 120", f"{frames[60]:.0f} ms, {frames[-1]:.0f} ms"])
        used = _processor(process.pid)
        time.sleep(10)
        rows.append(
            ["processor used by an idle server", f"{100 * (_processor(process.pid) - used) / 10:.0f} % of a core"]
        )
        page.close()
    return rows


FILTER = """async () => {
  const field = document.querySelector('input[type=search]');
  const times = [];
  for (const text of ['question 4', 'question 49', 'question 499', 'rope', '']) {
    const began = performance.now();
    field.value = text;
    field.dispatchEvent(new Event('input'));
    await new Promise(d => requestAnimationFrame(() => requestAnimationFrame(d)));
    times.push(performance.now() - began);
  }
  return times;
}"""
SCROLL = """async () => {
  const times = [];
  let last = performance.now();
  for (let n = 0; n < 120; n++) {
    scrollBy(0, 400);
    await new Promise(d => requestAnimationFrame(d));
    const now = performance.now();
    times.push(now - last);
    last = now;
  }
  return times.sort((a, b) => a - b);
}"""


DRAW = """async (text) => {
  const field = document.querySelector('textarea');
  let longest = 0;
  new PerformanceObserver(list => { for (const e of list.getEntries()) longest = Math.max(longest, e.duration); })
    .observe({entryTypes: ['longtask']});
  const began = performance.now();
  field.value = text;
  field.dispatchEvent(new Event('input'));
  while (!document.querySelector('.status').textContent.startsWith('2,048 tokens'))
    await new Promise(d => setTimeout(d, 5));
  await new Promise(d => requestAnimationFrame(() => requestAnimationFrame(d)));
  return [performance.now() - began, longest];
}"""


def _processor(pid: int) -> float:
    words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


def _spread(values: list[float], unit: str) -> str:
    digits = 2 if unit == "s" else 0
    low, middle, high = min(values), statistics.median(values), max(values)
    return f"{middle:.{digits}f} {unit} ({low:.{digits}f} to {high:.{digits}f})"


def large_map(browser: Any, home: Path, cache: Path, text: Path) -> list[list[str]]:
    """A text of 2,048 tokens on the page Inside."""
    from headtohead import Arm, Files, RunSpec
    from headtohead.run.session import execute

    settings = [*SMALL, "model.layers=4", "model.heads=4", "model.width=64", "model.block=2048", "train.batch=1"]
    settings = [s for s in settings if s not in ("model.layers=1", "model.width=16", "model.block=16", "train.batch=4")]
    spec = RunSpec(arm=Arm.of("lm", Files(path=str(text))).settings([*settings, "train.steps=1"])).resolved()
    list(execute(spec, home))
    body = {"arm": spec.id, "seed": 0, "text": text.read_text()[:2048]}
    with server(home, cache) as (process, url, _):
        page = browser.new_page()
        page.goto(url)
        ask = """async (body) => { const began = performance.now();
          const r = await fetch('api/inside/side/look', {method: 'POST', headers: {'x-h2h': '1',
          'content-type': 'application/json'}, body: JSON.stringify(body)});
          const told = await r.json(); return [performance.now() - began, told.tokens?.length ?? told.error]; }"""
        taken, tokens = page.evaluate(ask, body)
        assert tokens == 2048, tokens
        again = page.evaluate(ask, body)[0]
        page.goto(f"{url.split('?')[0]}#/inside?runs=1&left={spec.id}&right={spec.id}&head=0.0&text=the+king")
        page.locator("canvas.map").first.wait_for(timeout=60_000)
        drawn, longest = page.evaluate(DRAW, body["text"])
        page.close()
        return [
            ["all 16 maps of 2,048 tokens, first time with the model loaded", f"{taken / 1000:.1f} s"],
            ["the same again", f"{again:.0f} ms"],
            ["from pasting the text until two models' maps are drawn", f"{drawn / 1000:.1f} s"],
            ["longest time in which that page did not answer", f"{longest:.0f} ms"],
            ["memory of the server afterwards", f"{resident(process.pid):.0f} MB"],
        ]


def ten_pages(browser: Any, home: Path, cache: Path, text: Path) -> list[list[str]]:
    """Steps of a run in training while ten pages follow it, against windows of time in which the server and all pages
    are paused. Windows alternate, so that other programs of the machine slow both alike."""
    study, count = home / "studies" / "study-001", home.parent / "count"
    with server(home, cache) as (process, url, _):
        pages = [browser.new_context().new_page() for _ in range(PAGES)]
        for n, page in enumerate(pages):
            page.goto(f"{url}#/{'board' if n % 2 else 'study/study-001'}")
            page.locator("main h1").first.wait_for(timeout=60_000)
        others = [process.pid, *descendants(os.getpid())]
        trainer = subprocess.Popen(
            [sys.executable, "-c", PACE, str(text), str(study), str(count), *PACED],
            env=os.environ | {"OMP_NUM_THREADS": "1"},
        )
        try:
            time.sleep(15)
            assert trainer.poll() is None
            pages[0].locator(".bar-line").first.wait_for(timeout=30_000)
            ratios = []
            for turn in range(PAIRS):
                done = {}
                for watched in (True, False) if turn % 2 else (False, True):
                    for pid in others:
                        with contextlib.suppress(ProcessLookupError):
                            os.kill(pid, signal.SIGCONT if watched else signal.SIGSTOP)
                    time.sleep(0.3)
                    before, began = steps_of(count), time.perf_counter()
                    time.sleep(WINDOW)
                    done[watched] = (steps_of(count) - before) / (time.perf_counter() - began)
                ratios.append(100 * (done[True] / done[False] - 1))
        finally:
            for pid in others:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGCONT)
            trainer.kill()
            trainer.wait()
    (study / "progress.json").unlink(missing_ok=True)
    low, middle, high = statistics.quantiles(ratios, n=4)
    said = f"{middle:+.1f} % (quartiles {low:+.1f} and {high:+.1f}, {PAIRS} pairs of windows of {WINDOW} s)"
    return [[f"pace of training while {PAGES} pages follow it, all on this machine", said]]


def steps_of(count: Path) -> int:
    return int.from_bytes(count.read_bytes(), "little")


def descendants(pid: int) -> list[int]:
    """The processes that this one has started: here, the browser."""
    found = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        for child in (task / "children").read_text().split():
            found += [int(child), *descendants(int(child))]
    return found


def main() -> None:
    from playwright.sync_api import sync_playwright

    from headtohead.run.doctor import processor

    with tempfile.TemporaryDirectory() as made, sync_playwright() as playwright:
        folder = Path(os.environ.get("H2H_WEB_BENCH", made))
        home, cache, text = folder / "home", folder / "cache", folder / "text.txt"
        shutil.rmtree(cache, ignore_errors=True)
        if not home.is_dir():
            folder.mkdir(exist_ok=True)
            text.write_text("the king and the queen of spain went to town with a dog.\n" * 400)
            fill(home, text)
        program = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))))
        browser = playwright.chromium.launch(executable_path=program, args=ARGUMENTS)
        rows = [*board(browser, home, cache), *ten_pages(browser, home, cache, text)]
        rows += large_map(browser, home, cache, text)
        browser.close()
    told = {
        "command": "python benchmarks/measure/web.py",
        "machine": f"{os.cpu_count()} cores of an {processor()}",
        "date": datetime.now(UTC).date().isoformat(),
        "columns": ["with 10,000 stored runs", "measured"],
        "rows": rows,
    }
    (HERE / "measured" / "web.json").write_text(json.dumps(told, indent=1, ensure_ascii=False) + "\n")
    print(json.dumps(rows, indent=1, ensure_ascii=False))


if __name__ == "__main__":
    main()
