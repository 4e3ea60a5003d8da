"""Audits the torch modules of changed files: python -m headtohead.testing.changed FILE… | --since COMMIT

It executes your code, as pytest does. A class is audited with the claims of [tool.headtohead.audit] in pyproject.toml;
other classes are found and audited without claims. Exit codes: 0 nothing is broken, 1 something is, 2 a class that is
declared cannot be audited, or the settings are wrong.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from headtohead.errors import InputError
from headtohead.testing.imports import imported_files
from headtohead.testing.project import Rule, candidates, is_excluded, is_test, load, read_rules, rule_for

Status = Literal["ok", "broken", "skipped", "failed"]


@dataclass(frozen=True)
class Result:
    """What became of one class, or of one file."""

    target: str  # file.py:Class, or file.py
    status: Status
    text: str

    def __str__(self) -> str:
        return f"{self.status:<8} {self.target}  {self.text}"


def audit_changed(files: Iterable[str | Path], root: str | Path = ".") -> Iterator[Result]:
    """Audit the classes in these files, and declared classes whose files import one of them. `root` has the
    pyproject.toml."""
    base = Path(root).resolve()
    rules = read_rules(base)
    changed = {(base / file).resolve() for file in files}
    for file in sorted(f for f in changed | _dependents(changed, rules, base) if f.suffix == ".py" and f.is_file()):
        yield from _of_file(file, base, rules)


def _dependents(changed: set[Path], rules: list[Rule], root: Path) -> set[Path]:
    """Files with declared classes that import a changed file."""
    declared = {(root / rule.file).resolve() for rule in rules if rule.is_exact and rule.audit and rule.name != "*"}
    return {file for file in declared if file.is_file() and imported_files(file, root) & changed}


def _of_file(file: Path, root: Path, rules: list[Rule]) -> Iterator[Result]:
    shown = file.relative_to(root).as_posix() if file.is_relative_to(root) else file.as_posix()
    declared = [r.name for r in rules if r.file == shown and r.is_exact and r.audit and r.name != "*"]
    found = [] if is_test(shown) else candidates(file)
    names = list(dict.fromkeys([*declared, *(n for n in found if not _is_off(rules, shown, n))]))
    if not names:
        reason = "it is set to false in pyproject.toml" if is_excluded(rules, shown) or found else ""
        reason = reason or ("it is a test" if is_test(shown) else "it defines no subclass of nn.Module")
        yield Result(shown, "skipped", f"{reason}; it was not executed")
        return
    try:
        module = load(file, root)
    except InputError as error:
        yield Result(shown, "failed" if declared else "skipped", str(error))
        return
    for name in names:
        yield _of_class(module, shown, name, rule_for(rules, shown, name), name in declared)


def _is_off(rules: list[Rule], file: str, name: str) -> bool:
    rule = rule_for(rules, file, name)
    return rule is not None and not rule.audit


def _of_class(module: Any, file: str, name: str, rule: Rule | None, declared: bool) -> Result:
    from headtohead.testing.assertions import audited

    target = f"{file}:{name}"
    value = getattr(module, name, None)
    rule = rule or Rule(file, name)
    try:
        if value is None:
            raise InputError(f"{file} has no class {name}")
        if not declared:
            _refuse_hidden_states(value, name, dict(rule.claims))
        report = audited(value, dict(rule.claims), rule.only, rule.skip)
    except InputError as error:
        return Result(target, "failed" if declared else "skipped", str(error))
    if report.broken:
        from headtohead.testing.assertions import line_of

        return Result(target, "broken", line_of(report).partition(": ")[2])
    claims = ", ".join(f"{k} = {str(v).lower()}" for k, v in rule.claims.items()) or "no claims in pyproject.toml"
    return Result(target, "ok", f"{report.summary().partition(': ')[2]} ({claims})")


def _refuse_hidden_states(cls: Any, name: str, claims: dict[str, Any]) -> None:
    """Refuse a class that was only found, not declared, and whose output does not look like logits."""
    from headtohead.auditor import Claims
    from headtohead.auditor.module import from_module

    subject = from_module(cls, name, Claims(**claims))
    width = subject.outputs(subject.fresh().eval(), subject.text(2)).shape[-1]
    if subject.gives == "tokens" and width != subject.vocab:
        raise InputError(
            f"it gives {width} numbers for each token of a vocabulary of {subject.vocab}, so it seems to be a part of "
            "a model: declare it in pyproject.toml to audit it"
        )


# -- the command -------------------------------------------------------------------------------------------------------


def since(commit: str, root: str | Path = ".") -> list[str]:
    """The files that changed since this branch left `commit`, those that are not committed included."""
    base = git(
        ["merge-base", commit, "HEAD"], root, f"{commit} and HEAD have no common commit: fetch the whole history"
    )
    names = git(["diff", "--name-only", "-z", "--diff-filter=d", "--relative", base.strip(), "--"], root)
    return [name for name in names.split("\0") if name]


def git(arguments: Sequence[str], root: str | Path = ".", remedy: str = "") -> str:
    """Run git and return what it prints. One line if it fails."""
    try:
        done = subprocess.run(["git", *arguments], cwd=root, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise InputError("git is not installed: install it, or give file names") from None
    if done.returncode:
        said = (done.stderr.strip().splitlines() or ["no message"])[0]
        raise InputError(f"git {arguments[0]} failed: {said}{f'; {remedy}' if remedy else ''}")
    return done.stdout


def exit_code(results: Sequence[Result]) -> int:
    statuses = {result.status for result in results}
    return 1 if "broken" in statuses else 2 if "failed" in statuses else 0


def main(arguments: Sequence[str] | None = None) -> int:
    """Audit changed files and print one line for each class."""
    parser = argparse.ArgumentParser(
        prog="python -m headtohead.testing.changed",
        description="Audit the torch modules in changed files. Your code is executed.",
    )
    parser.add_argument("files", nargs="*", help="Python files, as pre-commit passes them.")
    parser.add_argument("--since", metavar="COMMIT", help="The files that changed since this branch left COMMIT.")
    parser.add_argument("--json", action="store_true", help="Print JSON instead of text.")
    given = parser.parse_args(arguments)
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # the models of an audit are small
    try:
        if bool(given.files) == (given.since is not None):
            raise InputError("give file names or --since COMMIT")
        found = []
        for result in audit_changed(given.files or since(given.since)):
            found.append(result)
            if not given.json:
                print(result, flush=True)
    except InputError as error:
        print(f"h2h: {error}", file=sys.stderr)
        return error.exit_code
    if given.json:
        print(json.dumps([asdict(result) for result in found], indent=2))
    elif not found:
        print("no Python file was changed")
    return exit_code(found)


if __name__ == "__main__":
    sys.exit(main())
