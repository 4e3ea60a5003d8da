"""Audits what a pull request changed, compares its base with its head, and writes the answer as a comment:

    python -m headtohead.testing.pull_request --base COMMIT [--arm FILE.py:NAME | --command CMD --pattern RE]

It executes the code of both commits. It writes `comment.md` and, on GitHub, the summary of the job; it posts nothing.
Exit codes: 0 done; 1 a check is broken, or the head is worse with --fail-on-worse; 2 the settings are wrong.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from headtohead.disk.writing import open_to_append, write_all, write_whole
from headtohead.errors import InputError
from headtohead.testing.changed import Result, audit_changed, exit_code, git, since

if TYPE_CHECKING:
    from headtohead.external.comparison import Comparison

MARK = "<!-- headtohead -->"  # by which a workflow finds its earlier comment


def comment(results: Sequence[Result], found: Comparison | None, problem: str, base: str, head: str) -> str:
    """The comment in Markdown."""
    parts = [MARK, "## headtohead", f"Base {base}, head {head}.", "### Audit of changed modules", _audit_text(results)]
    if found is not None or problem:
        parts += ["### Paired comparison", _study_text(found) if found is not None else f"Not done: {problem}"]
    return "\n\n".join(parts) + "\n"


def _audit_text(results: Sequence[Result]) -> str:
    audited = [r for r in results if r.status != "skipped"]
    skipped = [r for r in results if r.status == "skipped"]
    lines = [
        "| | class | |",
        "|---|---|---|",
        *(f"| **{r.status}** | `{_cell(r.target)}` | {_cell(r.text)} |" for r in audited),
    ]
    text = "\n".join(lines) if audited else "No torch module was changed."
    if not skipped:
        return text
    listed = "\n".join(f"- `{_cell(r.target)}`: {_cell(r.text)}" for r in skipped)
    return f"{text}\n\n<details><summary>{len(skipped)} skipped</summary>\n\n{listed}\n\n</details>"


def _cell(text: str) -> str:
    """Text for a cell of a table. What a module says must not become markup."""
    return " ".join(text.split()).replace("&", "&amp;").replace("<", "&lt;").replace("|", "\\|").replace("`", "'")


def _study_text(found: Comparison) -> str:
    from headtohead.testing.paired import VARIANT, is_same

    verdict = found.verdicts[VARIANT]
    if is_same(found):
        return "Both commits gave the same figures to the last digit: the change does not reach what was trained."
    word = {"unresolved": "**unresolved**: chance can explain the difference"}.get(
        verdict.verdict,
        f"the head is **{verdict.verdict}**" + (" to the base" if verdict.verdict == "equivalent" else ""),
    )
    return f"In {found.metric}, {word}.\n\n```text\n{_table(found)}\n```"


def _table(found: Comparison) -> str:
    """The comparison without the name of the temporary file that it was read from."""
    return "\n".join(line for line in str(found).splitlines() if not line.startswith("read:")).strip()


def _arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m headtohead.testing.pull_request",
        description="Audit what changed since the base, and compare base and head. Your code is executed.",
    )
    parser.add_argument("--base", required=True, metavar="COMMIT", help="The commit that the change starts from.")
    parser.add_argument("--arm", default="", metavar="FILE.py:NAME", help="An arm to train at both commits.")
    parser.add_argument("--command", default="", help="Your command, with {seed}, to run at both commits.")
    parser.add_argument("--pattern", default="", help="A regular expression with the figure in brackets.")
    parser.add_argument(
        "--metric", default="", help="The figure of an arm, such as validation/loss; a name, of a command."
    )
    parser.add_argument(
        "--better", choices=["lower", "higher"], help="Which values are better, if the name does not tell."
    )
    parser.add_argument("--margin", help="The largest difference that does not matter: 0.01, or 1%% of the base.")
    parser.add_argument("--seeds", type=int, default=6, help="Pairs; 6 or more.")
    parser.add_argument("--minutes", type=float, default=30, help="The time limit of one command.")
    parser.add_argument("--comment", default="comment.md", metavar="FILE", help="Where to write the comment.")
    parser.add_argument("--fail-on-worse", action="store_true", help="Exit 1 if the head is worse.")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    """Audit, compare, write the comment."""
    given = _arguments(arguments)
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    try:
        return _done(given)
    except InputError as error:
        print(f"h2h: {error}", file=sys.stderr)
        return error.exit_code


def _done(given: argparse.Namespace) -> int:
    from headtohead.testing.paired import Asked, compare_commits

    if not given.base:
        raise InputError("the base is empty: give --base COMMIT; outside a pull request the action needs `base`")
    asked = None
    if given.arm or given.command:
        names = ("arm", "command", "pattern", "metric", "better", "seeds", "margin", "minutes")
        asked = Asked(**{name: getattr(given, name) for name in names})
    base = git(["merge-base", given.base, "HEAD"], remedy="fetch the whole history").strip()
    head = git(["rev-parse", "HEAD"]).strip()
    results = []
    for result in audit_changed(since(base)):
        print(result, flush=True)
        results.append(result)
    found, problem = None, ""
    if asked is not None:
        try:
            found = compare_commits(base, head, asked, hear=lambda text: print(text, flush=True))
            print(_table(found))
        except InputError as error:  # the audit is still worth a comment
            problem = str(error)
            print(f"h2h: {problem}", file=sys.stderr)
    text = comment(results, found, problem, base[:10], head[:10])
    write_whole(Path(given.comment), text)
    _append_summary(text)
    print(f"wrote {given.comment}")
    worse = found is not None and given.fail_on_worse and any(v.verdict == "worse" for v in found.verdicts.values())
    return exit_code(results) or (2 if problem else int(worse))


def _append_summary(text: str) -> None:
    """Show the comment on the page of the job, where GitHub gives a file for it."""
    file = os.environ.get("GITHUB_STEP_SUMMARY")
    if file:
        handle = open_to_append(Path(file))
        try:
            write_all(handle, text.encode())
        finally:
            os.close(handle)


if __name__ == "__main__":
    sys.exit(main())
