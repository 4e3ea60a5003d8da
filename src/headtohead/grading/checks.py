"""The checks of a rubric. Each asks the process of the submission for numbers and judges them here, outside it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from headtohead.auditor.masks import lengths_mask
from headtohead.auditor.matching import Slot, heads_of, slots
from headtohead.auditor.reference import Reference, compare
from headtohead.errors import InputError, failure
from headtohead.grading.rubric import Item, Part, Rubric, solution_file
from headtohead.grading.tasks import make_task
from headtohead.sandbox import Work
from headtohead.spec.userfiles import load_file

CLOSE = 2e-4  # relative difference that single precision explains, through a few layers


@dataclass(frozen=True)
class Verdict:
    """The share of an item's points, from 0 to 1, and what the student is told."""

    share: float
    says: tuple[str, ...] = ()


def passed(*says: str) -> Verdict:
    return Verdict(1.0, says)


def failed(*says: str) -> Verdict:
    return Verdict(0.0, says)


@dataclass(frozen=True)
class Judge:
    """One part of a rubric, what is known of it, and the process of the submission."""

    rubric: Rubric
    part: Part
    work: Work
    notes: Sequence[str] = ()  # what was found under another name

    def ask(self, do: str, arrays: Mapping[str, np.ndarray] | None = None, **more: Any) -> tuple[Any, dict[str, Any]]:
        return self.work.ask({"do": do, **more}, arrays)

    def build(self, double: Mapping[str, np.ndarray] | None = None) -> Any:
        """Build the model; with texts, in double precision if they work in it."""
        return self.ask("build", double, arguments=dict(self.part.arguments), seed=self.rubric.seed)[0]

    @cached_property
    def solution(self) -> Any:
        return reference_of(str(self.rubric.folder), self.part.reference)

    def reference(self) -> nn.Module:
        torch.manual_seed(self.rubric.seed)
        try:
            return self.solution(**self.part.arguments).eval()
        except Exception as error:
            said = failure(error).splitlines()[0]
            raise InputError(
                f"the reference {self.part.reference} cannot be built: {said}; correct the rubric"
            ) from None

    def ids(self, rows: int, length: int, seed: int = 0) -> np.ndarray:
        """Hidden texts: the students do not know the rubric's seed."""
        vocab = int(self.part.arguments.get("vocab", 20))
        draw = np.random.default_rng([abs(self.rubric.seed), 7, seed])
        return draw.integers(1, vocab, (rows, length))

    @property
    def block(self) -> int:
        return int(self.part.arguments.get("block", 16))


@cache
def reference_of(folder: str, where: str) -> Any:
    """The class of the solution, or its module if no class is named."""
    file, _, name = where.partition(":")
    path = solution_file(Path(folder), file)
    _forget_others(path.parent)
    module = load_file(path)
    if not name:
        return module
    if not hasattr(module, name):
        raise InputError(f"the reference {where} of the rubric does not exist: correct the rubric")
    return getattr(module, name)


def _forget_others(folder: Path) -> None:
    """Forget modules of other folders that have the names of files here: a solution may import `decoder`."""
    for name in [file.stem for file in folder.glob("*.py")]:
        held = getattr(sys.modules.get(name), "__file__", None)
        if held and Path(held).resolve().parent != folder.resolve():
            del sys.modules[name]


def check_audit(judge: Judge, item: Item) -> Verdict:
    """Fewer points for each claim that is broken."""
    given = item.given
    claims = {name: given[name] for name in ("causal", "relative", "window") if name in given}
    claims |= {"only": _without(given.get("only", ()), given.get("skip", ())), "vocab": None}
    if "vocab" in judge.part.arguments:
        claims["vocab"] = judge.part.arguments["vocab"]
    report, _ = judge.ask("audit", arguments=dict(judge.part.arguments), claims=claims)
    broken = [f for f in report["findings"] if f["status"] == "broken"]
    advice = [f for f in report["findings"] if f["status"] == "advice"]
    each = given.get("per_broken", item.points / 3) / max(item.points, 1e-9)
    says = [f"{f['claim']}: {f['evidence']}" for f in broken]
    says += [f"advice: {f['claim']}: {f['evidence']}" for f in advice]
    return Verdict(max(0.0, 1 - each * len(broken)), tuple(says))


def _without(only: Sequence[str], skip: Sequence[str]) -> list[str]:
    from headtohead.auditor import CHECKS

    known = [check.name for check in CHECKS]
    for name in (*only, *skip):
        if name not in known:
            raise InputError(f"the rubric names a check '{name}' that the audit does not have: correct it")
    return [name for name in only or known if name not in skip]


def check_signature(judge: Judge, item: Item) -> Verdict:
    """Names as the assignment gives them."""
    built = judge.build()
    says = [*judge.notes, *built["notes"]]
    wanted = list(item.given.get("forward", ()))
    if wanted:
        answer, _ = judge.ask("signature", forward=wanted)
        says += [f"forward has no argument '{name}': it has {', '.join(answer['has'])}" for name in answer["lacks"]]
    return failed(*says) if says else passed()


def check_parameters(judge: Judge, item: Item) -> Verdict:
    """The number of parameters."""
    found = int(judge.build()["trained"])
    given = item.given.get("value")
    wanted = int(given) if given is not None else sum(p.numel() for p in judge.reference().parameters())
    if found == wanted:
        return passed()
    sizes = ", ".join(f"{name}={value}" for name, value in judge.part.arguments.items())
    return failed(f"{found:,} parameters instead of {wanted:,} with {sizes}")


def check_reference(judge: Judge, _item: Item) -> Verdict:
    """The outputs of the solution, with its weights copied by shape and order; else trained alike."""
    reference = Reference.of(judge.reference())
    ids = judge.ids(4, max(2, judge.block - 3))
    texts, keep = {"ids": ids}, None
    padded = lengths_mask(*ids.shape).numpy()
    with_padding = {"ids": np.where(padded, ids, 0), "mask": padded}
    built = judge.build(double=with_padding if reference.mask else texts)
    if reference.mask and built["mask"]:  # both take a mask
        texts, keep = with_padding, torch.from_numpy(padded)
    wanted = reference.outputs(torch.from_numpy(texts["ids"]), keep)
    theirs = [Slot(name, tuple(shape), kind, biased) for name, shape, kind, biased in built["slots"]]

    def outputs(given: dict[str, Tensor]) -> Tensor:
        judge.ask("load", {name: value.numpy() for name, value in given.items()})
        return torch.from_numpy(judge.ask("run", texts)[1]["out"])

    heads = heads_of(reference.model) or built["heads"]
    found = compare(slots(reference.model), reference.weights, wanted, theirs, outputs, heads, keep)
    if found.verdict == "equal":
        return passed()
    if found.verdict == "different":
        return failed(found.says)
    return _trained_alike(judge, found.says)


def _trained_alike(judge: Judge, why: str) -> Verdict:
    """Train both on one task with several seeds: the results must not differ by more than chance and a tenth."""
    ours, theirs = [], []
    for seed in range(4):
        task = _task(judge, "majority" if "classes" in judge.part.arguments else "chain", seed)
        settings = {"steps": 60, "batch": 16, "lr": 0.003, "seed": judge.rubric.seed + seed}
        theirs.append(_loss(judge, task, settings))
        ours.append(_own_loss(judge, task, settings))
    gap = np.asarray(theirs) - np.asarray(ours)
    spread = float(gap.std(ddof=1) / np.sqrt(len(gap)))
    margin = 0.1 * float(np.mean(ours))
    if abs(float(gap.mean())) - 3 * spread > margin:
        return failed(
            f"{why}; trained alike, its loss is {np.mean(theirs):.3f} and that of the solution {np.mean(ours):.3f}"
        )
    return passed(f"{why}; trained alike, it learns as the solution does")


def _task(judge: Judge, name: str, seed: int) -> Any:
    given = judge.part.arguments
    size = int(given.get("vocab", 20)), judge.block, int(given.get("classes", 3))
    return make_task(name, judge.rubric.seed * 1000 + seed, *size)


def _loss(judge: Judge, task: Any, settings: Mapping[str, Any]) -> float:
    training, test = task.training, task.test
    judge.ask("train", _arrays(training), arguments=dict(judge.part.arguments), **settings)
    out = judge.ask("run", _arrays(test, labels=False))[1]["out"]
    return _cross_entropy(torch.from_numpy(out), test)


def _own_loss(judge: Judge, task: Any, settings: Mapping[str, Any]) -> float:
    from headtohead.grading.student import Student

    one = Student()
    one.target, one.name = judge.solution, "the solution"
    one.do_train(_arrays(task.training), dict(judge.part.arguments), **settings)
    out = one.do_run(_arrays(task.test, labels=False))[1]["out"]
    return _cross_entropy(torch.from_numpy(out), task.test)


def _arrays(texts: Any, *, labels: bool = True) -> dict[str, np.ndarray]:
    found = {"ids": texts.ids}
    if texts.labels is not None:
        found["mask"] = texts.mask
        if labels:
            found["labels"] = texts.labels
    return found


def _cross_entropy(logits: Tensor, texts: Any) -> float:
    logits = logits.double()
    if texts.labels is not None:
        return float(nn.functional.cross_entropy(logits, torch.from_numpy(texts.labels)))
    wanted = torch.from_numpy(texts.ids)[:, 1:].flatten()
    return float(nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1), wanted))


def check_figure(judge: Judge, item: Item) -> Verdict:
    """Accuracy or perplexity after training with seeds that the students do not know."""
    given = item.given
    values = []
    for seed in range(int(given.get("seeds", 1))):
        task = _task(judge, str(given["task"]), 100 + seed)
        settings = {
            "steps": int(given.get("steps", 200)),
            "batch": int(given.get("batch", 16)),
            "lr": float(given.get("lr", 0.003)),
            "seed": judge.rubric.seed + seed,
        }
        judge.ask("train", _arrays(task.training), arguments=dict(judge.part.arguments), **settings)
        out = torch.from_numpy(judge.ask("run", _arrays(task.test, labels=False))[1]["out"])
        if not torch.isfinite(out).all():
            return failed("the outputs after training are not finite")
        if task.metric == "accuracy":
            values.append(float((out.argmax(dim=-1).numpy() == task.test.labels).mean()))
        else:
            values.append(float(np.exp(_cross_entropy(out, task.test))))
            if values[-1] < 0.9 * task.best:
                return failed(f"perplexity {values[-1]:.2f} is below {task.best:.2f}, the best: it reads later tokens")
    value, full, none = float(np.mean(values)), float(given["full"]), float(given["none"])
    share = min(1.0, max(0.0, (value - none) / (full - none)))
    name = "accuracy" if task.metric == "accuracy" else "perplexity"
    said = f"{name} {value:.3g}; full points at {full:g}, none at {none:g}"
    return Verdict(share, () if share == 1 else (said,))


def check_cache(judge: Judge, _item: Item) -> Verdict:
    """A text in pieces with the cache gives the outputs of the whole text."""
    judge.build()
    length = judge.block
    ids = judge.ids(2, length)
    whole = judge.ask("run", {"ids": ids})[1]["out"]
    half, third = length // 2, length // 3
    cuts = {
        "token by token": [1] * length,
        f"as {half} tokens, then token by token": [half, *[1] * (length - half)],
        f"in pieces of {third}, {third} and {length - 2 * third} tokens": [third, third, length - 2 * third],
    }
    says = []
    for how, pieces in cuts.items():
        answer, found = judge.ask("cached", {"ids": ids}, pieces=pieces)
        if not answer["filled"]:
            return failed("the cache that was given stays empty: remember keys and values in it")
        if problem := _differs(found["out"], whole, "position", 1):
            says.append(f"fed {how}, {problem}")
    return Verdict(1 - len(says) / len(cuts), tuple(says))


def _differs(found: np.ndarray, wanted: np.ndarray, what: str, axis: int, close: float = CLOSE) -> str:
    """Say where two arrays differ; empty if they do not."""
    if found.shape != wanted.shape:
        return f"the shape is {found.shape}, not {wanted.shape}"
    if not np.isfinite(found[np.isfinite(wanted)]).all():
        return "an output is not finite"
    with np.errstate(invalid="ignore"):
        gap = np.where(found == wanted, 0, np.abs(found.astype(float) - wanted.astype(float)))
    size = 1 + np.abs(wanted[np.isfinite(wanted)]).max(initial=0)
    off = np.nan_to_num(gap, nan=np.inf) > close * size
    if not off.any():
        return ""
    place = tuple(int(n) for n in np.argwhere(off)[0])
    at = f"{what} {place[axis]}" if what else f"the entry {place}"
    return f"{at} is {found[place]:.4g} instead of {wanted[place]:.4g}"


def check_generate(judge: Judge, item: Item) -> Verdict:
    """Greedy text, also beyond the longest text that the model reads."""
    judge.build()
    tokens = int(item.given.get("tokens", judge.block))
    ids = judge.ids(2, max(2, judge.block // 2))
    made = judge.ask("generate", {"ids": ids}, function=item.given["function"], tokens=tokens)[1]["out"]
    if made.shape != (len(ids), ids.shape[1] + tokens):
        return failed(f"{tokens} tokens after {ids.shape[1]} give the shape {made.shape}")
    if not (made[:, : ids.shape[1]] == ids).all():
        return failed("the given text is changed")
    text = ids
    for _ in range(tokens):
        out = judge.ask("run", {"ids": text[:, -judge.block :]})[1]["out"][:, -1]
        chosen = made[:, text.shape[1]]
        if (chosen < 0).any() or (chosen >= out.shape[-1]).any():
            return failed(f"token {text.shape[1]} is outside the vocabulary")
        rows = np.arange(len(text))
        if (out[rows, chosen] < out.max(axis=-1) - CLOSE * (1 + np.abs(out).max())).any() or np.isnan(out).any():
            where = "beyond the longest text " if text.shape[1] >= judge.block else ""
            row = int(np.argmax(out[rows, chosen] < out.max(axis=-1)))
            best = int(out[row].argmax())
            return failed(f"token {text.shape[1]} {where}is {int(chosen[row])}, and the model's best is {best}")
        text = np.concatenate([text, chosen[:, None]], axis=1)
    return passed()


def check_function(judge: Judge, item: Item) -> Verdict:
    """A function of the file, against that of the solution, in hidden cases."""
    function = str(item.given["function"])
    solution = reference_of(str(judge.rubric.folder), judge.part.reference.partition(":")[0])
    says = []
    cases = item.given["cases"]
    for n, case in enumerate(cases):
        values, arrays = _made(case, judge.rubric.seed + n)
        tensors = {name: torch.from_numpy(array) for name, array in arrays.items()}
        wanted = getattr(solution, function)(**values, **tensors).numpy()
        found = judge.ask("call", arrays, function=function, values=values)[1]["out"]
        if problem := _differs(found, wanted, "", 0, float(item.given.get("tolerance", CLOSE))):
            sizes = [f"{k}={v}" for k, v in values.items()] + [f"{k} of shape {a.shape}" for k, a in arrays.items()]
            says.append(f"{function}({', '.join(sizes)}): {problem}")
    return Verdict(1 - len(says) / max(1, len(cases)), tuple(says[:3]))


def _made(case: Mapping[str, Any], seed: int) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Values and tensors of a case: {random = [2, 3]} is drawn, {range = 5} counts."""
    draw = np.random.default_rng(abs(seed))
    values: dict[str, Any] = {}
    arrays: dict[str, np.ndarray] = {}
    for name, value in case.items():
        if isinstance(value, dict) and "random" in value:
            arrays[name] = np.asarray(draw.standard_normal(value["random"]), dtype=np.float32)
        elif isinstance(value, dict) and "range" in value:
            arrays[name] = np.arange(int(value["range"]))
        else:
            values[name] = value
    return values, arrays


def check_test(judge: Judge, item: Item) -> Verdict:
    """A test of the teacher's own."""
    file = judge.rubric.folder / str(item.given["tests"])
    try:
        source = file.read_text(encoding="utf-8")
    except OSError:
        raise InputError(f"the rubric's tests {item.given['tests']} cannot be read: correct the rubric") from None
    answer, _ = judge.ask("test", source=source, file=file.name, function=str(item.given["function"]))
    return passed() if answer["passed"] is True else failed(str(answer["says"]))


CHECKS: dict[str, Callable[[Judge, Item], Verdict]] = {
    "audit": check_audit,
    "signature": check_signature,
    "parameters": check_parameters,
    "reference": check_reference,
    "figure": check_figure,
    "cache": check_cache,
    "generate": check_generate,
    "function": check_function,
    "test": check_test,
}
