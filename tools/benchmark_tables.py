"""Markdown tables of what the programs in benchmarks/ measured."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Sequence
from typing import Any

JSON = dict[str, Any]
MET = {True: "met", False: "missed", None: ""}


def table(head: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(str(cell).replace("|", "\\|") for cell in line) + " |" for line in lines)


def plain(results: JSON) -> str:
    """A table that a script wrote: columns and rows, the command, the machine and the date."""
    where = ", ".join(results[name] for name in ("machine", "date") if results.get(name))
    return f"{table(results['columns'], results['rows'])}\n\n`{results['command']}`" + (f", {where}." if where else ".")


def steps(results: list[JSON], task: str) -> str:
    """`python benchmarks/run.py`: training steps of each contender, and ours against the best of them."""
    (one,) = [s for s in results if s["task"] == task]
    machine = one["machine"]
    ways = list(machine["gflops"])
    rows = []
    for c in one["contenders"]:
        times = [f"{s['step_ms_minimum']:.1f} / {s['step_ms_median']:.1f}" for s in (c["settings"][w] for w in ways)]
        alone = max(c["runs_per_hour"][w] for w in ways if "process" not in w)
        runs = f"{alone:.0f} / {c['runs_per_hour'][ways[-1]]:.0f}"
        peak = f"{c['settings'][ways[0]]['peak_mb']:.0f}"
        rows.append([f"{c['name']} ({c['library']})", f"{c['parameters']:,}", *times, runs, peak])
    head = ["contender", "parameters", *(f"{way}, ms a step (minimum / median)" for way in ways)]
    speeds = ", ".join(f"{gflops:.0f} ({way})" for way, gflops in machine["gflops"].items())
    parts = [
        table([*head, "runs an hour, alone / together", "peak MB"], rows),
        "",
        table(
            ["ours against the best contender", "which", "median", "of the best", "rounds", "target", ""],
            (_compared(c) for c in one["comparisons"]),
        ),
        "",
        f"{one['rounds']} rounds of {one['steps_a_turn']} steps; {machine['cores']} cores, {machine['cpu']}; GFLOP/s "
        f"in large products: {speeds}." + (f" Its warning: {machine['warning']}." if machine["warning"] else ""),
    ]
    return "\n".join(parts)


def _compared(c: JSON) -> list[str]:
    def figure(value: float) -> str:
        return f"{100 * value:.0f} %" if c["what"].startswith("GFLOP/s") else f"{value:.2f} ×"

    target = "" if c["target"] is None else f"{'≤' if c['at_most'] else '≥'} {figure(c['target'])}"
    rounds = " – ".join(map(figure, c["rounds_from_to"]))
    return [c["what"], c["against"], figure(c["median"]), figure(c["best"]), rounds, target, MET[c["met"]]]


def finetune(results: list[JSON]) -> str:
    """`python benchmarks/run.py finetune`: texts a second."""
    (one,) = results
    rows = [
        [way, f"{statistics.median(found):.0f}", f"{one['ratios'][way]:.1f} ×" if way in one["ratios"] else ""]
        for way, found in one["texts_a_second"].items()
    ]
    return table(["way", f"texts a second, {one['threads']} threads, median", "ours is faster by"], rows)


def generation(results: list[JSON]) -> str:
    """`python benchmarks/run.py generation`: milliseconds a step."""
    (one,) = results
    rows = [[r["size"], r["way"], f"{r['median_ms']:.3g}", f"{r['best_ms']:.3g}"] for r in one["rows"]]
    ratios = [
        [
            r["size"],
            r["of"],
            f"{r['middle']:.1f} ×",
            f"{r['best']:.1f} ×",
            "" if r["target"] is None else f"{r['target']:g} ×",
            MET[r["met"]],
        ]
        for r in one["ratios"]
    ]
    return "\n".join(
        [
            table(["size", "way", "ms a step, median", "best"], rows),
            "",
            table(["size", "ours, as a multiple of", "by medians", "by the best", "wanted", ""], ratios),
        ]
    )


def verdict(results: JSON) -> str:
    """`benchmarks/measure/verdict.py`: what an equally certain verdict takes, ours and the usual way."""
    rows = []
    for q in results["questions"]:
        mine, theirs = q["ours"], q["usual"]
        rows.append(
            [
                f"{q['question']}: `{q['field']}`, {mine['effect']:+.4f}".replace("-", "−"),
                f"{mine['word']}, {mine['runs']} runs (sd {mine['sd']:.4f}), {mine['cpu']:.0f} s",
                f"{theirs['runs']} runs (sd {theirs['sd']:.4f}), {theirs['cpu']:.0f} s, p {theirs['p']:.2g}",
                f"{theirs['runs'] / mine['runs']:.1f} ×",
                f"{theirs['cpu'] / mine['cpu']:.1f} ×",
            ]
        )
    head = ["effect", "ours", "the usual way", "runs, usual / ours", "CPU time, usual / ours"]
    return f"{table(head, rows)}\n\n`{results['command']}`, {results['machine']}."


def attacks(results: JSON) -> str:
    """`benchmarks/measure/attacks.py`: the suites that attack the program, in version 0.1 and now."""
    rows = []
    for suite, now in results.items():
        ended = ", ".join(f"{count:,} {kind}" for kind, count in now["counts"].items())
        before = now.get("before", {"attempts": 0, "says": "not run"})
        tests = "all tests pass" if not now["failed"] else f"**{now['failed']} of {now['tests']} tests fail**"
        rows.append([f"`tests/{suite}`", f"{before['says']}", f"{now['attempts']:,}: {ended}; {tests}", now["date"]])
    said = "`python benchmarks/measure/attacks.py`; version 0.1 with the same cases, as far as it can run them."
    return f"{table(['suite', 'version 0.1', 'now', 'measured'], rows)}\n\n{said}"


def mixers(results: JSON) -> str:
    """`benchmarks/measure/mixers.py`: time, memory and generation speed of each mixer by length."""
    lengths = [str(n) for n in results["lengths"]]
    shown = [lengths[0], lengths[len(lengths) // 2], lengths[-1]]
    rows = []
    for r in results["rows"]:
        grows = "" if r["exponent"] is None else f"{r['exponent']:.2f}"
        rows.append(
            [
                r["name"] if r["library"] == "headtohead" else f"{r['name']} ({r['library']})",
                *(_at(r["step_ms"], n, lambda pair: f"{pair[0]:,.0f}") for n in shown),
                grows,
                _at(r["peak_mb"], shown[-1], lambda mb: f"{mb:,.0f}"),
                *(_at(r["tokens_per_second"], n, lambda speed: f"{speed:,.0f}") for n in (shown[0], shown[-1])),
                r["state"],
            ]
        )
    tokens = [f"{int(n):,} tokens" for n in shown]
    head = [
        *("mixer", *(f"ms a step, {n}" for n in tokens), "growth"),
        *(f"peak MB, {tokens[-1]}", *(f"tokens a second, {n}" for n in (tokens[0], tokens[-1])), "state"),
    ]
    absent = f" Not measured: {'; '.join(results['missing'])}." if results["missing"] else ""
    said = (
        f"`{results['command']}`, {results['machine']}, {results['date']}; {results['rounds']} rounds, load average "
        f"{results['load']}; the fastest step of all rounds, in processor time. Growth is the power of the length by "
        f"which a step grows at the three longest texts.{absent}"
    )
    return f"{table(head, rows)}\n\n{said}"


def _at(values: JSON, length: str, write: Callable[[Any], str]) -> str:
    return write(values[length]) if length in values else ""


# any other file in benchmarks/measured is a plain table
KINDS: dict[str, Callable[..., str]] = {
    "steps": steps,
    "finetune": finetune,
    "generation": generation,
    "verdict": verdict,
    "attacks": attacks,
    "mixers": mixers,
}
