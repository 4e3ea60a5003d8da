"""The ledger of claims: what was claimed, how it was tested, what came of it. Written from stored runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from headtohead.errors import InputError
from headtohead.reproduce.benchmarks import table
from headtohead.reproduce.evidence import Claim, Finding, Outcomes, Word
from headtohead.reproduce.kinds import Interaction
from headtohead.reproduce.tables import HEAD, Row

MARKS = {"holds": "**holds**", "does not hold": "**does not hold**", "unresolved": "unresolved"}


@dataclass(frozen=True)
class Judged:
    """A claim with its verdict."""

    claim: Claim
    says: str
    word: Word
    findings: list[Finding]
    also: list[Finding]
    scopes: dict[str, str]  # of each study it rests on
    commands: dict[str, str]
    tuned: dict[str, str]  # of those that were: what each arm chose

    @property
    def verdict(self) -> str:
        """With what it is confined to: **holds**, with slope 1."""
        return MARKS[self.word] + (f", {self.claim.only}" if self.claim.only else "")

    @property
    def anchor(self) -> str:
        return self.claim.id.replace(".", "")

    def lines(self, mark: str = "**") -> list[str]:
        """What decides it, each with its word; then what stands beside it."""
        studies = {f.study for f in (*self.findings, *self.also) if f.study}

        def where(f: Finding) -> str:
            return f" (study {f.study})" if f.study and len(studies) > 1 else ""

        own = [f"{f.line}{_margin(f)}{where(f)}: {mark}{f.word}{mark}" for f in self.findings]
        return own + [f"beside it: {f.line}{where(f)}" for f in self.also]

    def to_json(self) -> dict[str, Any]:
        return {
            "id": self.claim.id,
            "claim": self.says,
            "verdict": self.word,
            "only": self.claim.only,
            "because": self.claim.because,
            "revised": self.claim.revised,
            "findings": [f.to_json() for f in (*self.findings, *self.also)],
            "scopes": self.scopes,
            "commands": self.commands,
            "tuned": self.tuned,
        }


@dataclass(frozen=True, order=True)
class Untested:
    """A claim whose runs are not there."""

    id: str
    says: str


def says(claim: Claim, figures: dict[str, Any]) -> str:
    """What was claimed."""
    report, _, number = claim.id.partition(".")
    try:
        place = int(number) - 1
    except ValueError:
        raise InputError(f"a claim is named by its report and its place there, 000.1, not '{claim.id}'") from None
    try:
        if place < 0:
            raise IndexError
        return str(figures[f"doc{report}"]["claims"][place])
    except (KeyError, IndexError, TypeError):
        raise InputError(f"figures.toml has no claim {claim.id}: write it into [doc{report}], claims = [ … ]") from None


def judged(claim: Claim, says: str, outcomes: Outcomes) -> Judged:
    word, findings, also = claim.judged(outcomes)
    scopes, commands, tuned = {}, {}, {}
    for evidence in (*claim.evidence, *claim.also):
        study = getattr(evidence, "study", None)
        if study is not None:
            outcome = outcomes(study)
            scopes[outcome.said["name"]] = outcome.verdicts().scope
            commands[outcome.said["name"]] = outcome.said["command"]
            if outcome.said["tuning"]:
                tuned[outcome.said["name"]] = "; ".join(map(_chosen, outcome.said["tuning"]))
    return Judged(claim, says, word, findings, also, scopes, commands, tuned)


def _chosen(tuned: dict[str, Any]) -> str:
    """Rope: lr 0.001."""
    best = ", ".join(f"{path.rpartition('.')[2]} {value:g}" for path, value in tuned["best"].items())
    return f"{tuned['arm']}: {best}{', the edge of the grid' if tuned['edge'] else ''}"


def summary(claims: Sequence[Judged], untested: Sequence[Untested] = ()) -> str:
    """Of 16 claims 9 hold, 6 do not, 1 is unresolved."""
    count: Counter[str] = Counter(c.word for c in claims)
    good, bad, open_ = (count[word] for word in MARKS)
    left = len(untested)
    total = len(claims) + left
    return (
        f"Of {total} claim{'s' * (total != 1)} {good} hold{'s' * (good == 1)}, {bad} do{'es' * (bad == 1)} not, "
        f"{open_} {'is' if open_ == 1 else 'are'} unresolved"
        + (f"; {left} {'is' if left == 1 else 'are'} not tested yet." if left else ".")
    )


def short(claims: Sequence[Judged], page: str) -> str:
    """Claim, verdict, and a comparison that decided it, with links into the ledger."""
    rows = []
    for c in claims:
        said = [f for f in c.findings if f.effect]
        deciding = next((f for f in said if f.word == c.word), said[0] if said else None)
        shown = "" if deciding is None else f"{deciding.says}: {deciding.effect}"
        rows.append([f"[{c.claim.id}]({page}#{c.anchor})", c.says, c.verdict, shown])
    return table(["", "claim", "verdict", "for instance"], rows)


Interactions = Sequence[tuple[Interaction, Finding]]


def markdown(
    claims: Sequence[Judged],
    untested: Sequence[Untested],
    interactions: Interactions,
    rows: Sequence[Row],
    pictures: Collection[str],
    notes: Sequence[str] = (),
) -> str:
    parts = [
        "# The claims ledger\n",
        f"{summary(claims, untested)} Written by `h2h reproduce --claims` from the runs stored in "
        "`recipes/published/measured/`; explanations are by the recipes' authors. `h2h reproduce` trains them all "
        "again.\n",
        "A claim *holds* if every comparison it rests on does, *does not hold* if one of them is decided the other "
        "way (of several, with a p corrected for their number) or if the difference is surely too small to matter, "
        "and is *unresolved* where the runs cannot tell. An effect is a mean over pairs of runs with the same seed, "
        "variant − control unless it says otherwise, with its 95 % interval by Student's t; *better* and *lower* are "
        "tested by sign flips as well, all of them up to 16 pairs and 20,000 drawn ones beyond. Differences of "
        "accuracies are in points. Whether arms at one learning rate decide, or each at its own best, or both, differs "
        "from claim to claim and is said by each. Arms held against a study's control are corrected for all its arms, "
        "other comparisons stand alone. Within a margin means that an interval lies inside it: that of "
        "90 % where two arms are compared, of 95 % where runs are held against a number. No interval is corrected for "
        "a design that was changed after earlier results had been seen; where one was, its section says so.\n",
        table(["", "claim", "design", "verdict", "effect", "what explains it"], map(_overview, claims)),
        "",
        *(_section(c, c.claim.picture in pictures) for c in claims),
        *(
            f"## {c.id} {c.says}\n\nNot tested yet: `h2h reproduce {c.id[:3]} --keep` trains what it rests on.\n"
            for c in untested
        ),
    ]
    if interactions:
        parts.append("## Where two reports contradict each other\n")
        parts += [f"- {f.says}. The one less the other: {f.measured}. {asked.because}" for asked, f in interactions]
        parts.append("")
        for name, command in {f.study: asked.study.command for asked, f in interactions}.items():
            parts += [f"Study `{name}`: `{command}`\n", *_runs([f for _, f in interactions if f.study == name])]
    parts.append("## Published and measured\n")
    parts.append("A published figure *matches* where one more run of ours would fall in 95 cases of a hundred.\n")
    parts.append(beside(rows))
    for note in notes:
        parts.append(f"\n{note}")
    return "\n".join(parts) + "\n"


def beside(rows: Sequence[Row]) -> str:
    """Published and measured, a row each."""
    return table(HEAD, (row.cells for row in sorted(rows, key=lambda r: r.figure)))


def _overview(c: Judged) -> list[str]:
    design = "; ".join(dict.fromkeys(f.design for f in c.findings))
    effects = "; ".join(f.effect for f in c.findings if f.effect)  # how many pairs is said by the design
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
    """All that findings rest on, folded away."""
    runs = list(dict.fromkeys(run for f in findings for run in f.runs))
    listed = " ".join(run[:16] for run in runs)
    return [f"<details><summary>{len(runs)} runs</summary>", "", listed, "", "</details>", ""]


def _margin(f: Finding) -> str:
    return "" if f.verdict is None or f.verdict.margin is None else f"; margin {f.verdict.margin:.3g}"
