"""What goes into a paper or a README: the table in LaTeX and in Markdown, and a paragraph on the methods."""

from __future__ import annotations

import re

from headtohead.metrics import UNITS, figure_of, text_of
from headtohead.outcome import Outcome, Verdicts
from headtohead.report.amounts import amount, between, difference_text, family, unit_of
from headtohead.stats import DRAWS, EXACT_PAIRS, LEAST_PAIRS
from headtohead.wording import p_text, parameters_text, share_text, word

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
        rows.append([*said, parameters_text(row), share_text(row.extra_time), share_text(row.extra_flops)])
    return rows


def latex(verdicts: Verdicts) -> str:
    head, *rows = [[tex(cell) for cell in row] for row in cells(verdicts)]
    caption = f"{tex(verdicts.question)} {tex(verdicts.scope)}; {verdicts.better} is better."
    return "\n".join(
        [
            r"% \usepackage{booktabs}",
            r"\begin{table}",
            rf"\caption{{{caption}}}",
            r"\begin{tabular}{lrrrrlrrrr}",
            r"\toprule",
            f"{' & '.join(head)} \\\\",
            r"\midrule",
            *(f"{' & '.join(row)} \\\\" for row in rows),
            r"\bottomrule",
            r"\end{tabular}",
            r"\end{table}",
            "",
        ]
    )


def tex(text: str) -> str:
    return "".join(LATEX.get(letter, letter) for letter in " ".join(text.split()))


def markdown(verdicts: Verdicts) -> str:
    head, *rows = [[_md(cell) for cell in row] for row in cells(verdicts)]
    line = ["---" if n in (0, 5) else "---:" for n in range(len(head))]
    return "\n".join(f"| {' | '.join(row)} |" for row in [head, line, *rows]) + "\n"


def _md(text: str) -> str:
    return re.sub(r"([\\|*_`<\[\]])", r"\\\1", " ".join(text.split()))


# -- methods -----------------------------------------------------------------------------------------------------------


def methods(outcome: Outcome, verdicts: Verdicts) -> str:
    """How the figures came about, in sentences that hold for this study and for no other."""
    said, many = outcome.said, len(verdicts) > 1
    task = "language model" if said["task"] == "lm" else said["task"]
    varied = " and ".join(said["vary"])
    scope = verdicts.scope.replace(f", {said['corpus']}, seeds", ", seeds")  # the corpus is named before it
    if not len(verdicts):
        return (
            f"We trained a {task} on {said['corpus']} ({scope}) with {verdicts.seeds} seeds. The outcome is "
            f"{verdicts.metric} {_when(outcome)}."
        )
    parts = [
        f"We compared {len(verdicts)} variant{'s' if many else ''} of a {task} with a control "
        f"({verdicts.control}) that differ{'' if many else 's'} from it in {varied}{_alone(verdicts)}, on "
        f"{said['corpus']} ({scope}).",
        f"Every arm was trained with the same {verdicts.seeds} seeds. Within a seed, weights that two arms share start "
        f"bit-identical, {_order(said['vary'])}dropout draws from the same stream, so differences are taken seed by "
        "seed.",
        f"The outcome is {verdicts.metric} {_when(outcome)}; {verdicts.better} is better.",
        *_tuned(outcome, verdicts),
        "We report the mean paired difference with its 95 % interval by Student's t, and the p-value of a sign-flip "
        f"test ({_flips(verdicts)}){_family(verdicts)}.",
        "An arm is called better or worse at p of at most 0.05, with an interval on one side of zero and "
        f"{LEAST_PAIRS} pairs or more" + _margin(verdicts) + "; otherwise it is unresolved.",
        *_noise(verdicts),
        *_lost(verdicts),
    ]
    return " ".join(parts)


def _when(outcome: Outcome) -> str:
    spec = outcome.said["tables"][0]["arms"][0]["spec"]
    if spec.get("evaluate", {}).get("keep") == "best":
        return "of the weights that did best on the validation set"
    return "at the end of the completed schedule"


def _alone(verdicts: Verdicts) -> str:
    return ", each at settings chosen for it" if verdicts.title == "own best" else " alone"


def _order(varied: list[str]) -> str:
    """Only where no arm has other texts, tokens or batches than the control."""
    other = ("data", "tokenizer", "train.batch", "train.order", "train.sampling", "train.steps", "train.epochs")
    return "" if any(path.startswith(other) for path in varied) else "batches come in the same order and "


def _tuned(outcome: Outcome, verdicts: Verdicts) -> list[str]:
    if not outcome.said["tuning"]:
        return []
    fields = " and ".join(outcome.said["tuning"][0]["best"])
    who = "For the control, and so for all arms," if verdicts.title == "shared" else "For every arm"
    return [f"{who} {fields} was chosen from the same grid by the validation set, on seeds of its own."]


def _flips(verdicts: Verdicts) -> str:
    return "exact, over all sign patterns" if verdicts.seeds <= EXACT_PAIRS else f"{DRAWS:,} random sign patterns"


def _family(verdicts: Verdicts) -> str:
    many = family(verdicts)
    if many == 1:
        return ""
    which = f"all {many} arms" if many == len(verdicts) else f"the {many} arms with {LEAST_PAIRS} pairs or more"
    return f", corrected for {which} by the step-down maximum over joint flips of whole seeds"


def _margin(verdicts: Verdicts) -> str:
    margin = next((row.verdict.margin for row in verdicts if row.verdict.margin is not None), None)
    if margin is None:
        return ""
    return f", and equivalent where the 90 % interval lies within ± {amount(verdicts.metric, margin, signed=False)}"


def _noise(verdicts: Verdicts) -> list[str]:
    if verdicts.noise is None or not verdicts.noise.verdict.pairs:
        return []
    n = verdicts.noise.verdict
    return [
        "The control trained again with its batches in another order differed from itself by "
        f"{amount(verdicts.metric, n.difference)} ({between(verdicts.metric, n.low, n.high)})."
    ]


def _lost(verdicts: Verdicts) -> list[str]:
    lost = {(e.arm, e.seed) for e in (*verdicts.control_excluded, *(e for row in verdicts for e in row.excluded))}
    if not lost:
        return []
    many = f"{len(lost)} runs have no value and their pairs are left out."
    return [many if len(lost) > 1 else "One run has no value and its pair is left out."]
