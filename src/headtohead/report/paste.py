"""Text to paste into a paper or a README: the table in LaTeX and Markdown, and a paragraph on the methods."""

from __future__ import annotations

import re
from collections.abc import Sequence

from headtohead.outcome.metrics import UNITS, figure_of, text_of
from headtohead.outcome.outcome import Outcome, Verdicts
from headtohead.outcome.wording import family, p_text, parameters_text, share_text, time_text, word
from headtohead.report.number_text import amount, between, difference_text, unit_of
from headtohead.report.user_code import user_classes
from headtohead.stats import EXACT_PAIRS, LEAST_PAIRS, sign_patterns

SPECIAL = ["\\", "~", "^", "<", ">", "|", '"', "−", "…", "–", "±", "×", "→"]
WRITTEN = r"\textbackslash{} \textasciitilde{} \textasciicircum{} \textless{} \textgreater{} \textbar{} \textquotedbl{}"
WRITTEN += r" $-$ \ldots{} -- $\pm$ $\times$ $\to$"
LATEX = dict(zip(SPECIAL, WRITTEN.split(), strict=True)) | {letter: f"\\{letter}" for letter in "{}$&#_%"}


def cells(verdicts: Verdicts) -> list[list[str]]:
    """The head, the control, an arm a row: as text, not yet escaped for anything."""
    unit = UNITS[figure_of(verdicts.metric)]
    metric = f"{verdicts.metric}, {unit}" if unit else verdicts.metric
    moved = "difference, points" if unit_of(verdicts.metric) == "points" else "difference"
    head = ["arm", metric, moved, "95 % interval", "p", "verdict", "pairs", "parameters", "time", "FLOPs"]
    rows = [head, [f"{verdicts.control} (control)", text_of(verdicts.metric, verdicts.control_mean), *[""] * 8]]
    for row in verdicts:
        v = row.verdict
        difference, interval = difference_text(verdicts.metric, v.difference), between(verdicts.metric, v.low, v.high)
        said = [row.arm, text_of(verdicts.metric, row.mean), difference, interval, p_text(row), word(row), str(v.pairs)]
        rows.append([*said, parameters_text(row), time_text(row), share_text(row.extra_flops)])
    return rows


def latex(verdicts: Verdicts) -> str:
    head, *rows = cells(verdicts)
    caption = f"{verdicts.question} {verdicts.scope}; {verdicts.better} is better."
    return latex_table(caption, head, rows, "lrrrrlrrrr")


def latex_table(caption: str, head: Sequence[str], rows: Sequence[Sequence[str]], align: str) -> str:
    """A table for booktabs; `align` has a letter for each column, l or r."""
    top, *others = [" & ".join(map(tex, row)) + " \\\\" for row in (head, *rows)]
    return "\n".join(
        [
            r"% \usepackage{booktabs}",
            r"\begin{table}",
            rf"\caption{{{tex(caption)}}}",
            rf"\begin{{tabular}}{{{align}}}",
            r"\toprule",
            top,
            r"\midrule",
            *others,
            r"\bottomrule",
            r"\end{tabular}",
            r"\end{table}",
            "",
        ]
    )


def tex(text: str) -> str:
    return "".join(LATEX.get(letter, letter) for letter in " ".join(text.split()))


def markdown(verdicts: Verdicts) -> str:
    head, *rows = cells(verdicts)
    return markdown_table(head, rows, left=(0, 5))


def markdown_table(head: Sequence[str], rows: Sequence[Sequence[str]], left: Sequence[int]) -> str:
    """Columns named in `left` are aligned to the left, all others to the right."""
    line = ["---" if n in left else "---:" for n in range(len(head))]
    escaped = [[_md(cell) for cell in row] for row in (head, *rows)]
    return "\n".join(f"| {' | '.join(row)} |" for row in [escaped[0], line, *escaped[1:]]) + "\n"


def _md(text: str) -> str:
    return re.sub(r"([\\|*_`<\[\]])", r"\\\1", " ".join(text.split()))


# -- methods -----------------------------------------------------------------------------------------------------------


def methods(outcome: Outcome, verdicts: Verdicts) -> str:
    """A paragraph that describes how this study was done."""
    study, many = outcome.record, len(verdicts) > 1
    task = "language model" if study.task == "lm" else study.task
    varied = " and ".join(study.vary)
    scope = verdicts.scope.replace(f", {study.corpus}, seeds", ", seeds")  # the corpus is named before it
    if not len(verdicts):
        return (
            f"We trained a {task} on {study.corpus} ({scope}) with {verdicts.seeds} seeds. The outcome is "
            f"{verdicts.metric} {_when(outcome)}."
        )
    parts = [
        f"We compared {len(verdicts)} variant{'s' if many else ''} of a {task} with a control "
        f"({verdicts.control}) that differ{'' if many else 's'} from it in {varied}{_alone(verdicts)}, on "
        f"{study.corpus} ({scope}).",
        f"Every arm was trained with {_seeds(verdicts)}. Within a seed, weights that two arms share start "
        f"bit-identical, {_order(study.vary)}dropout draws from the same stream, so differences are taken seed by "
        "seed.",
        f"The outcome is {verdicts.metric} {_when(outcome)}; {verdicts.better} is better.",
        *_tuned(outcome, verdicts),
        *_analyses(verdicts),
        "We report the mean paired difference with the 95 % interval and p-value of "
        f"{_test(verdicts)}{_family(verdicts)}.",
        f"An arm is called better or worse if this interval lies on one side of zero, with {LEAST_PAIRS} pairs or more"
        + _margin(verdicts)
        + "; otherwise it is unresolved.",
        *([verdicts.plan] if "locked" in verdicts.plan else []),
        *_noise(verdicts),
        *_lost(verdicts),
        *_own_code(outcome),
    ]
    return " ".join(parts)


def _when(outcome: Outcome) -> str:
    spec = outcome.record.tables[0].control.spec
    if spec.get("evaluate", {}).get("keep") == "best":
        return "of the weights that did best on the validation set"
    return "at the end of the completed schedule"


def _alone(verdicts: Verdicts) -> str:
    return ", each at settings chosen for it" if verdicts.title == "own best" else " alone"


def _order(varied: Sequence[str]) -> str:
    """The batch order is the same unless arms differ in texts, tokens or batches."""
    other = ("data", "tokenizer", "train.batch", "train.order", "train.sampling", "train.steps", "train.epochs")
    return "" if any(path.startswith(other) for path in varied) else "batches come in the same order and "


def _tuned(outcome: Outcome, verdicts: Verdicts) -> list[str]:
    if not outcome.record.tuning:
        return []
    fields = " and ".join(outcome.record.tuning[0].best)
    subject = "For the control, and so for all arms," if verdicts.title == "shared" else "For every arm"
    return [f"{subject} {fields} was chosen from the same grid by the validation set, on separate seeds."]


def _seeds(verdicts: Verdicts) -> str:
    counts = sorted({row.verdict.pairs for row in verdicts if row.verdict.pairs})
    if len(counts) > 1 and verdicts.planned is not None and len(verdicts.planned.analyses) > 1:
        return f"the seeds of the control until it was decided ({counts[0]} to {counts[-1]} seeds)"
    return f"the same {verdicts.seeds} seeds"


def _analyses(verdicts: Verdicts) -> list[str]:
    planned = verdicts.planned
    if planned is None or len(planned.analyses) == 1:
        return []
    points = ", ".join(map(str, planned.analyses[:-1]))
    spent = ", ".join(f"{share:.4f}" for share in planned.spent)
    return [
        f"Analyses were planned after {points} and {planned.pairs} pairs, with cumulative error {spent}; an arm that "
        "was decided at one of them was not trained further."
    ]


def _test(verdicts: Verdicts) -> str:
    if verdicts.planned is not None and verdicts.planned.rule == "t":
        return "a group-sequential t-test (limits from simulated normal noise)"
    most = max((row.verdict.pairs for row in verdicts), default=0)
    which = "all sign patterns" if most <= EXACT_PAIRS else f"a subgroup of {len(sign_patterns(most)):,} sign patterns"
    return f"an exact sign-flip test over {which}"


def _family(verdicts: Verdicts) -> str:
    many = family(verdicts)
    if many < 2:
        return ""
    enough = any(row.verdict.pairs >= LEAST_PAIRS for row in verdicts)
    some = f"the {many} arms with {f'{LEAST_PAIRS} pairs' if enough else 'one pair'} or more"
    which = f"all {many} arms" if many == len(verdicts) else some
    return f", simultaneous for {which} by the maximum over joint flips of whole seeds"


def _margin(verdicts: Verdicts) -> str:
    margin = next((row.verdict.margin for row in verdicts if row.verdict.margin is not None), None)
    if margin is None:
        return ""
    within = amount(verdicts.metric, margin, signed=False)
    return f", and equivalent if two one-sided tests, corrected in the same way, place it within ± {within}"


def _noise(verdicts: Verdicts) -> list[str]:
    if verdicts.noise is None or not verdicts.noise.verdict.pairs:
        return []
    n = verdicts.noise.verdict
    return [
        "The control trained again with reshuffled batches differed from itself by "
        f"{amount(verdicts.metric, n.difference)} ({between(verdicts.metric, n.alone_low, n.alone_high)})."
    ]


def _own_code(outcome: Outcome) -> list[str]:
    return [
        f"{c.name} is our own code, defined in {c.origin} (sha256 {c.sha256[:16]})."
        for c in user_classes(outcome)
        if c.sha256
    ]


def _lost(verdicts: Verdicts) -> list[str]:
    lost = {(e.arm, e.seed) for e in (*verdicts.control_excluded, *(e for row in verdicts for e in row.excluded))}
    if not lost:
        return []
    many = f"{len(lost)} runs have no value and their pairs are left out."
    return [many if len(lost) > 1 else "One run has no value and its pair is left out."]
