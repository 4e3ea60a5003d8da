"""Write the page of claims from the stored results: python tools/claims_page.py > docs/claims.md"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from benchmark_tables import table
from gallery import drawable
from headtohead.claims.evidence import Finding
from headtohead.claims.ledger import Judged, summary
from headtohead.claims.report_tables import LEGEND
from headtohead.claims.workflow import Results
from stored_results import exit_with, judged, stored_studies

INTRODUCTION = """\
**One rule for all claims.** A claim is tested in the form in which the report made it: its model, its comparison, \
its learning rate, and its training length where that is affordable. This comparison alone decides. The same \
comparison with each arm at its own best learning rate, and other forms, are shown beside it and do not decide. \
Where a claim was tested on fewer tokens than the report used, its verdict says so. Where earlier pairs had led to \
more pairs, new pairs decide, whose number was fixed before any of them was judged. The rule itself was fixed after \
the first verdicts; each section says what else was decided after results had been seen.

A claim *holds* if every comparison it rests on holds. It *does not hold* if a comparison is decided the other way \
(with a p corrected for the number of comparisons), or if the difference is certainly too small to matter. A claim \
that has parts *holds in part* if some parts hold and the others do not. Otherwise it is *unresolved*. A published \
difference is *excluded* or *compatible* by the same interval. An effect is a mean over pairs of runs with the same \
seed, variant − control unless stated otherwise. Its 95 % interval comes from a sign-flip test and decides \
([how](explanation/studies.md)). Comparisons with a study's control are corrected for all its arms; other comparisons \
are not. Differences of accuracies are in points. *Within a margin* means that the interval lies inside it. No \
interval is corrected for a design that was changed after results had been seen."""


def page(found: Results, pictures: Collection[str]) -> str:
    """The page as Markdown; `pictures` names those that are in docs/pictures/published."""
    parts = [
        "# The claims ledger\n",
        f"{summary(found.claims, found.untested)} Written by `python tools/claims_page.py` from the results in "
        "`src/headtohead/recipes/published/measured/`; explanations are by the recipes' authors. `h2h reproduce` "
        "trains everything again.\n",
        f"{INTRODUCTION}\n",
        table(["", "claim", "design", "verdict", "effect", "what explains it"], map(_overview, found.claims)),
        "",
        *(_section(c, c.claim.picture in pictures) for c in found.claims),
        *(f"## {c.id} {c.says}\n\nNot tested yet: run `h2h reproduce {c.id[:3]}`.\n" for c in found.untested),
    ]
    if found.interactions:
        parts.append("## Where two reports contradict each other\n")
        for asked, finding in found.interactions:
            parts.append(f"- {finding.says}. Difference of the two: {finding.measured}. {asked.because}")
        parts.append("")
        for name, command in {f.study: asked.study.command for asked, f in found.interactions}.items():
            runs = _runs([f for _, f in found.interactions if f.study == name])
            parts += [f"Study `{name}`: `{command}`\n", *runs]
    parts += ["## Published and measured\n", f"{LEGEND}\n", *(report.markdown() for report in found.reports)]
    return "\n".join(parts).rstrip() + "\n"


def _overview(c: Judged) -> list[str]:
    design = "; ".join(dict.fromkeys(f.design for f in c.findings))
    effects = "; ".join(f.effect for f in c.findings if f.effect)  # the design has the number of pairs
    link = f"[{c.claim.id}](#{c.anchor})"
    return [link, c.says, design, c.verdict, effects, c.claim.because]


def _section(c: Judged, pictured: bool) -> str:
    lines = [
        f'<a id="{c.anchor}"></a>',
        f"## {c.claim.id} {c.says}\n",
        f"{c.verdict[0].upper()}{c.verdict[1:]}." if c.word == "unresolved" else f"It {c.verdict}.",
    ]
    if c.claim.because:
        lines[-1] += f" {c.claim.because}"
    lines.append("")
    lines += [f"- {line}" for line in c.lines()]
    lines.append("")
    if c.claim.revised:
        revised = c.claim.revised[0].upper() + c.claim.revised[1:]
        lines += [f"*Changed after earlier results had been seen*: {revised}", ""]
    if pictured:
        lines += [f"![{c.says}: what the runs show](pictures/published/{c.claim.picture}.png)", ""]
    for name, scope in c.scopes.items():
        chosen = f" Own best: {c.tuned[name]}." if name in c.tuned else ""
        lines.append(f"Study `{name}`: {scope}. `{c.commands[name]}`{chosen}\n")
    return "\n".join([*lines, *_runs((*c.findings, *c.also))])


def _runs(findings: Sequence[Finding]) -> list[str]:
    """The ids of all runs, in a section that can be opened."""
    runs = list(dict.fromkeys(run for f in findings for run in f.runs))
    listed = " ".join(run[:16] for run in runs)
    return [f"<details><summary>{len(runs)} runs</summary>", "", listed, "", "</details>", ""]


def main() -> None:
    found = judged()
    with stored_studies() as load:
        print(page(found, {picture.name for picture in drawable(load)}), end="")


if __name__ == "__main__":
    exit_with(main)
