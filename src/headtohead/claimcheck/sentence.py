"""Reads a claim in a sentence: who beats whom, by how much, with how many runs. It guesses nothing that matters.

    Rope beats Learned by 1.2 points, one run each        RMSNorm is 0.02 nats worse than LayerNorm (3 seeds)
    Rope improves accuracy from 85.1 to 86.3, mean of 5   Rope gets 86.3 ± 0.4 vs Learned 85.1 ± 0.3, 5 seeds each

Each pattern takes what it understands out of the sentence. A number that no pattern takes is refused.
"""

from __future__ import annotations

import math
import re
import unicodedata
from dataclasses import dataclass, field, replace
from typing import Literal

from headtohead.errors import InputError, shortened

Unit = Literal["points", "percent", "plain", ""]  # plain: in the unit of a loss or a perplexity
Way = Literal["better", "worse", "up", "down", ""]
SpreadIs = Literal["sd", "se"]

WORDS = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
COUNTS = {word: n for n, word in enumerate(WORDS, start=1)} | {"a single": 1, "single": 1, "a": 1}
FIGURES = {
    "accuracy": r"\b(?:accurac(?:y|ies)|acc)\b",
    "macro_f1": r"\b(?:macro[- ]?)?f1\b",
    "perplexity": r"\b(?:perplexit(?:y|ies)|ppl)\b",
    "bits_per_byte": r"\bbits? ?(?:per|/) ?byte\b|\bbpb\b",
    "loss": r"\bloss\b|\blosses\b|\bnats?\b|\bcross[- ]entropy\b",
}
OTHER_FIGURES = (
    r"\b(?:(?:sacre)?BLEU|ROUGE(?:-\w+)?|METEOR|WER|CER|word error|AUC|AUROC|ROC|MCC|Matthews|recall|exact match|"
    r"pass@\w+|MRR|NDCG|(?-i:mAP)|IoU|RMSE|MSE|MAE|FID|Spearman|Pearson|correlation|win rate|Elo)\b"
)
ERRORS = r"\b(?:classification |test |validation )?errors?(?: rates?)?\b"
DENIED = r"\b(?:(?:does|do|did|is|was|are|were|has|have|can|could) ?n[o']t|cannot|can't|won't|never|fail(?:s|ed)? to)\b"
LONGEST = 1000  # characters of a sentence

NUMBER = r"[+-]?(?:\d+(?:\.\d+)?|\.\d+)(?:e[+-]?\d+)?(?![\w.]*\w)"
UNIT = (
    r"(?:(?:absolute |percentage |percent |accuracy |macro[- ]?f1 |f1 |perplexity |ppl )?(?:points?|pts?|pp)\b"
    r"|%|percent\b"
    r"|nats?\b|bits? ?(?:per|/) ?byte\b|bpb\b|perplexity\b|ppl\b|accuracy\b|acc\b|(?:macro[- ]?)?f1\b|loss\b)"
)
OF = r"(?:\s+(?:of|in)\s+(?:the\s+)?(?:\w+\s+)?(?:accuracy|f1|perplexity|ppl|loss))?"
AMOUNT = rf"(?<![\w.=])({NUMBER})\s*({UNIT})?{OF}(?:\s*\(?\s*±\s*({NUMBER})\)?\s*({UNIT})?{OF}\)?)?"
ABOUT = r"(?:about\s+|around\s+|roughly\s+|~\s*|only\s+|just\s+|a\s+)?"
COUNT = rf"(\d+|a single|single|a|{'|'.join(WORDS)})"
RUNS = r"(?:(?:lucky|different|random|independent|training|single)\s+)?(runs?|seeds?|trials?|repeats?|pairs?)\b"
EACH = r"(?:\s+(?:each|of each|per\s+\w+))?"
NAME = r"[^§,;:()]*?"


@dataclass(frozen=True)
class Amount:
    """A number as it was written."""

    number: float
    unit: Unit = ""
    spread: float | None = None  # the number after ±, in the same unit


@dataclass(frozen=True)
class Said:
    """What a sentence says. None or an empty text: it does not say."""

    variant: str = ""
    control: str = ""
    way: Way = ""
    by: Amount | None = None
    values: tuple[Amount, Amount] | None = None  # of variant and control
    runs: int | None = None  # of each
    paired: bool = False
    spread: float | None = None  # after ± or sd, apart from the amounts: of the runs
    figure: str = ""
    validation: bool = False  # a figure of the validation set
    relative: bool = False
    spread_is: SpreadIs | None = None
    ignored: tuple[str, ...] = ()


@dataclass
class _Reader:
    """The part of a sentence that is not understood yet. `§` stands where an amount was."""

    text: str
    kept: list[str] = field(default_factory=list)  # names with numbers in them, such as Local(window=8)

    def take(self, pattern: str, by: str = " ") -> re.Match[str] | None:
        found = re.search(pattern, self.text, re.IGNORECASE)
        if found:
            self.text = self.text[: found.start()] + by + self.text[found.end() :]
        return found

    def protect(self, pattern: str) -> None:
        def keep(found: re.Match[str]) -> str:
            self.kept.append(found[0])
            return f"NAME{'abcdefghij'[len(self.kept) - 1]}" if len(self.kept) <= 10 else found[0]

        self.text = re.sub(pattern, keep, self.text)

    def name(self, text: str) -> str:
        """A name as it was written, without words around it."""
        for letter, kept in zip("abcdefghij", self.kept, strict=False):
            text = text.replace(f"NAME{letter}", kept)
        text = re.sub(
            r"^(?:that|we find that|our|the|using|with|a|over|than|compared to)\s+",
            "",
            text.strip(" .'\"`“”‘’"),
            flags=re.I,
        )
        return "" if re.fullmatch(rf"(?:{'|'.join(FIGURES.values())}|it|this|test|validation)?", text, re.I) else text


def read_sentence(sentence: str) -> Said:
    """Read a claim. Raises InputError with one line where the sentence contradicts itself or a number stays over."""
    if len(sentence) > LONGEST:
        raise InputError(f"the claim is longer than {LONGEST} characters: give one sentence, or the options")
    reader = _Reader(_normal(sentence))
    denied = re.search(DENIED, reader.text, re.IGNORECASE)
    if denied:
        raise InputError(f"the sentence says '{denied[0]}': write the difference that was measured, whatever it proves")
    validation = bool(re.search(r"\bval(?:idation)?\b", reader.text, re.IGNORECASE))
    relative = bool(reader.take(r"\brelative(?:ly)?\b"))
    said = Said(figure=_figure(reader.text), validation=validation, relative=relative)
    said = _runs(reader, said)
    said = _spread_words(reader, said)
    reader.protect(r"[A-Za-z_]\w*\([^()]*\)")
    reader.protect(r"[A-Za-z_]\w*=[\w.+-]+")
    said = replace(said, ignored=_context(reader))
    said = _names(reader, _amounts(reader, said))
    _refuse_left(reader, sentence)
    return said


def read_amount(value: float | str) -> tuple[Amount, str]:
    """An amount that was given alone, such as `1.2 points of accuracy`, and the figure that it names."""
    text = str(value).strip()
    try:
        number = float(text)
        if math.isfinite(number):
            return Amount(number), ""
    except ValueError:
        try:
            said = read_sentence(text if text[:1] in "+-" else f"+{text}")
        except InputError:
            said = Said()
        if said.by is not None:
            return said.by, said.figure
    raise InputError(f"a difference is a number with or without its unit, such as '1.2 points' or 0.02, not '{text}'")


def _normal(text: str) -> str:
    text = unicodedata.normalize("NFKC", text)
    for old, new in (("−", "-"), ("–", "-"), ("—", ", "), ("+/-", "±"), ("+-", "±"), ("→", " to "), ("’", "'")):
        text = text.replace(old, new)
    text = re.sub(r"(?<![\w.])([+-]?\d+(?:\.\d+)?|\.\d+)(pp|pts?|points?|nats?|ppl|bpb)\b", r"\1 \2", text, flags=re.I)
    return " ".join(text.split())


def _figure(text: str) -> str:
    known = [name for name, pattern in FIGURES.items() if re.search(pattern, text, re.IGNORECASE)]
    if len(known) > 1:
        raise InputError(f"the sentence names {' and '.join(known)}: give one claim at a time")
    return known[0] if known else ""


def unknown_figure(sentence: str) -> str:
    """A figure that is named and whose noise is not known, such as BLEU; empty if there is none."""
    found = re.search(OTHER_FIGURES, sentence, re.IGNORECASE)
    return found[0] if found else ""


def is_of_errors(sentence: str) -> bool:
    """Whether a sentence is about errors, of which fewer are better."""
    return re.search(ERRORS, re.sub(r"\bstandard errors?\b", "", sentence, flags=re.I), re.IGNORECASE) is not None


def _runs(reader: _Reader, said: Said) -> Said:
    found: set[int] = set()
    paired = bool(reader.take(r"\b(?:with\s+)?(?:the\s+)?(?:same|equal|shared|identical)\s+seeds?\b|\bpaired\b"))
    patterns = (
        rf"\(?\b(?:mean|average|averaged|averages)\s+(?:of|over|across)\s+{COUNT}\b(?:\s+{RUNS})?{EACH}\)?",
        rf"\(?\b(?:with|over|from|across|of|on|in|after)?\s*\b{COUNT}\s+{RUNS}{EACH}\)?",
        r"\(?\bn\s*=\s*(\d+)\b()\)?",
        r"\bsingle[- ](run|seed)s?\b",
    )
    for pattern in patterns:
        while match := reader.take(pattern, " , "):
            found.add(1 if match.re.groups == 1 else _count(match[1]))
            paired |= match.re.groups > 1 and (match[2] or "").lower().startswith("pair")
    if len(found) > 1:
        counts = " and ".join(map(str, sorted(found)))
        raise InputError(f"the sentence gives {counts} runs: say which with --runs and --control-runs")
    return replace(said, runs=found.pop() if found else None, paired=paired)


def _count(text: str) -> int:
    if text.isdecimal():
        if len(text) > 6:
            raise InputError(f"{shortened(text, 20)} runs are too many: give a number up to 999,999")
        return int(text)
    return COUNTS[" ".join(text.lower().split())]


def _spread_words(reader: _Reader, said: Said) -> Said:
    """`(sd 0.4)` and `± 0.4 (standard error)` become ± 0.4 with its kind."""
    if re.search(r"\bCI\b|\bconfidence\b", reader.text):
        raise InputError("an interval is not read: give the spread between runs with --spread and --spread-is sd or se")
    kinds: dict[SpreadIs, str] = {
        "sd": r"s\.?d\.?|std(?:ev)?\.?|standard deviations?",
        "se": r"s\.?e\.?m?\.?|std ?err(?:or)?|standard errors?",
    }
    named: set[SpreadIs] = set()
    for kind, words in kinds.items():
        while re.search(rf"(?<![\w.])(?:{words})(?![\w])", reader.text, re.I):
            named.add(kind)
            number = rf"\(?(?<![\w.])(?:with\s+)?(?:an?\s+)?(?:{words})(?:\s*(?:=|of|:)\s*|\s+)({NUMBER})\)?"
            before = re.search(number, reader.text, re.I)
            if before:
                reader.take(number, f" ± {before[1]} ")
            else:
                reader.take(rf"\(?(?:±\s+is\s+(?:the\s+)?)?(?<![\w.])(?:{words})(?![\w])\)?")
    if len(named) > 1:
        raise InputError("the sentence names a standard deviation and a standard error: say which with --spread-is")
    return replace(said, spread_is=named.pop() if named else None)


# -- amounts -----------------------------------------------------------------------------------------------------------


def _amounts(reader: _Reader, said: Said) -> Said:
    pair = reader.take(rf"\bfrom\s+{AMOUNT}\s+to\s+{AMOUNT}", " § ")
    if pair:
        old, new = _pair(pair.groups())
        said = replace(said, values=(new, old))
    else:
        between = r"(?:vs\.?|versus|against|compared\s+(?:to|with)|and|while|but|instead\s+of|rather\s+than|over)"
        gets = r"(?:(?:with|at|gets?|got|reach(?:es|ed)?|has|had|scor(?:es|ed)|achiev(?:es|ed)|gave|gives)\s+)?"
        pair = reader.take(rf"{AMOUNT}\s*,?\s*{between}\s+((?:(?!by\b)[A-Za-z_]\S*\s+){{0,4}}?){gets}{AMOUNT}", " § ")
        if pair:
            new, old = _pair((*pair.groups()[:4], *pair.groups()[5:]))
            said = replace(said, values=(new, old), control=reader.name(pair[5]))
    by = reader.take(rf"\bby\s+{ABOUT}{AMOUNT}", " § ") or reader.take(
        rf"{ABOUT}{AMOUNT}(?=\s+(?:better|worse|higher|lower|more|above|below|ahead|behind|improvement|gain|increase|drop))",
        " § ",
    )
    if not by and not said.values:
        by = reader.take(
            rf"\b(?:gains?|improvement|increase|decrease|drop|lead|difference)\s+of\s+{ABOUT}{AMOUNT}", " § "
        )
        by = by or reader.take(AMOUNT.replace(f"({UNIT})?", f"({UNIT})", 1), " § ")
        by = by or reader.take(r"(?<![\w.=])([+-](?:\d+(?:\.\d+)?|\.\d+))(?![\w.]*\w)()()()", " § ")
    loose = reader.take(rf"±\s*({NUMBER})", " , ")
    return replace(said, by=_amount(by.groups()) if by else None, spread=float(loose[1]) if loose else None)


def _pair(groups: tuple[str | None, ...]) -> tuple[Amount, Amount]:
    one, two = _amount(groups[:4]), _amount(groups[4:8])
    unit = one.unit or two.unit
    return replace(one, unit=unit), replace(two, unit=unit)


def _amount(groups: tuple[str | None, ...]) -> Amount:
    number, unit, spread, unit_after = (groups[n] or "" for n in range(4))
    return Amount(float(number), _unit(unit or unit_after), float(spread) if spread else None)


def _unit(text: str) -> Unit:
    text = text.lower()
    if re.search(r"points?|pts?|pp", text.replace("ppl", "")):
        return "plain" if re.search(r"perplexity|ppl", text) else "points"
    return "percent" if text in ("%", "percent") else "plain" if text else ""


# -- who and which way -------------------------------------------------------------------------------------------------

VERBS: dict[Way, str] = {
    "better": (
        r"beats?|outperform(?:s|ed)?|exceed(?:s|ed)?|surpass(?:es|ed)?|better(?:\s+than)?|ahead\s+of|"
        r"w[io]ns?\s+(?:over|against)|improv(?:es|ed|e)(?:\s+(?:on|over|upon))?|helps"
    ),
    "worse": (
        r"worse(?:\s+than)?|underperform(?:s|ed)?|los(?:es|t|e)\s+(?:to|against)|trail(?:s|ed)?|hurts?|"
        r"(?:lags?|falls?|is)?\s*behind"
    ),
    "up": r"rais(?:es|ed)|increas(?:es|ed)|higher(?:\s+than)?|above",
    "down": r"reduc(?:es|ed)|lower(?:s|ed)?(?:\s+than)?|decreas(?:es|ed)|cuts?|below",
}
END = r"(?=\s*(?:[,;:(§]|\.(?:\s|$)|\b(?:by|from|with|on|in|at|after|for|using|when)\b|$))"
HELPERS = r"(?:\b(?:is|was|are|were|does|did|do|slightly|clearly|significantly|consistently)\s+)*"


def _names(reader: _Reader, said: Said) -> Said:
    figure = rf"(?:the\s+)?(?:test\s+|validation\s+)?(?:{'|'.join(FIGURES.values())})"
    for way, verbs in VERBS.items():
        pattern = (
            rf"^(?P<x>{NAME})\s*{HELPERS}(?:§\s*)?(?:\b(?:{verbs})\b)\s*(?:{figure}\s*)?(?:\bof\s+)?(?P<y>{NAME}){END}"
        )
        found = re.search(pattern, reader.text, re.IGNORECASE)
        if found:
            over = re.search(
                rf"\b(?:over|compared\s+(?:to|with)|relative\s+to|than|versus|vs\.?)\s+(?P<y>[^§]{NAME}){END}",
                reader.text[found.end("x") :],
                re.IGNORECASE,
            )
            y = reader.name(found["y"]) or (reader.name(over["y"]) if over else "")
            return replace(said, way=way, variant=reader.name(found["x"]), control=said.control or y)
    gets = r"(?:gets?|got|reach(?:es|ed)?|has|had|scor(?:es|ed)|achiev(?:es|ed)|at|with|vs\.?|versus|against|over|:)"
    found = re.search(rf"^(?P<x>{NAME})\s*(?:{gets}\s+)?(?P<y>{NAME})\s*:?\s*§", reader.text, re.IGNORECASE)
    split = re.search(rf"^(?P<x>{NAME})\s+(?:vs\.?|versus|against|over)\s+(?P<y>{NAME})\s*:?\s*§", reader.text, re.I)
    if split:
        return replace(said, variant=reader.name(split["x"]), control=reader.name(split["y"]))
    if found and said.values:
        an_accuracy_of = rf"\s*\b{gets}\s*(?:an?\s+)?(?:{'|'.join(FIGURES.values())})?\s*(?:of)?\s*$"
        name = re.sub(an_accuracy_of, "", f"{found['x']} {found['y']}".strip(), flags=re.IGNORECASE)
        after = re.search(rf"§\s*(?:for|with|by)\s+(?P<y>{NAME}){END}", reader.text, re.IGNORECASE)
        control = said.control or (reader.name(after["y"]) if after else "")
        return replace(said, variant=reader.name(name), control=control)
    return said


CONTEXT = r"(?:steps?|epochs?|layers?|heads?|tokens?|parameters?|params?|blocks?|texts?|sentences?|classes)"


def _context(reader: _Reader) -> tuple[str, ...]:
    """Take out numbers that describe the model or its training: they are not used."""
    found = []
    pattern = rf"(?:\b(?:after|at|with|in|for|of)\s+)?((?<![\w.=])\d[\d.,]*\s*[kKMB]?\s*{CONTEXT}|\bseeds?\s+\d+)"
    while match := reader.take(pattern, " , "):
        found.append(match[1].strip())
    return tuple(found)


def _refuse_left(reader: _Reader, sentence: str) -> None:
    rest = re.search(rf"(?<![\w.=/-])({NUMBER})(?![-\w])", reader.text)
    if rest:
        raise InputError(
            f"{rest[1]} is in the sentence and was not understood: write 'Rope beats Learned by 1.2 points, 3 runs "
            "each', or give --difference and --runs"
        )
    if not sentence.strip():
        raise InputError("the claim is empty: write it in quotes, or give --difference, --runs and --metric")
