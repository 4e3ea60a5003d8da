"""What `h2h report` computes from the models: audits, attention maps, heads over training, samples."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from headtohead.auditor.stored import audit_once
from headtohead.data.batches import Batch
from headtohead.data.samples import sample
from headtohead.errors import InputError, describe
from headtohead.interpret import draw
from headtohead.interpret.evolution import TEXTS, Evolution, evolution
from headtohead.interpret.generate import Decoding, generate
from headtohead.interpret.maps import Maps, attention
from headtohead.interpret.summary import summary
from headtohead.outcome.outcome import Outcome
from headtohead.report.findings import Audited, Evolved, Extras, Picture, Sample
from headtohead.report.number_text import joined
from headtohead.run import files
from headtohead.run.load import Trained, load_trained, snapshot_steps
from headtohead.run.store import Record
from headtohead.spec import Spec
from headtohead.spec.trust import NotApproved
from headtohead.training.arm import is_causal
from headtohead.training.tasks import task_of

T = TypeVar("T")
Pairs = tuple[tuple[int, int], ...]  # layer and head

ARMS = 6  # whose models are loaded: the control and the first five
MOST_HEADS = 4  # by default
EVOLVED_SEEDS = 3  # of each arm
TOKENS = 60  # of a sample


def read_heads(text: str | None) -> Pairs:
    """0.0,1.1 → layer 0 head 0 and layer 1 head 1."""
    try:
        pairs = [tuple(map(int, part.split("."))) for part in (text or "").split(",") if part.strip()]
    except ValueError:
        pairs = [()]
    if any(len(pair) != 2 or min(pair) < 0 for pair in pairs):
        raise InputError(f"--heads takes LAYER.HEAD,LAYER.HEAD, counted from 0, such as 0.0,1.1, not '{text}'")
    return tuple((layer, head) for layer, head in pairs)


@dataclass
class _Arm:
    """An arm of the first table with its complete runs."""

    name: str
    number: int
    spec: dict[str, Any]
    records: list[Record]  # complete, with weights
    code: Path | None  # the folder with the source of the user's parts

    @property
    def seed(self) -> int:
        return int(self.records[0].spec["seed"])

    def lacks(self, pairs: Pairs) -> Pairs:
        """The heads of the list that its model does not have."""
        model = self.spec["model"]
        return tuple(pair for pair in pairs if pair[0] >= model["layers"] or pair[1] >= model["heads"])


@dataclass
class _Look:
    """Collects findings in a study's models. What fails is left out with the reason, and the page is written anyway."""

    outcome: Outcome
    heads: Pairs
    text: str
    prompt: str
    keep: bool = True  # audits in the store
    absent: dict[str, str] = field(default_factory=dict)
    failed: bool = False

    def attempt(self, what: str, arm: str, make: Callable[[], T]) -> T | None:
        try:
            return make()
        except NotApproved:
            self.failed = True
            self.absent[what] = (
                "Left out where the code of a part is not approved: "
                f"h2h trust {self.outcome.folder.name} shows it and asks."
            )
            return None
        except Exception as error:  # the page is written even if a model fails
            self.failed = True
            said = f"{arm}: {describe(error)}"
            self.absent[what] = f"{self.absent[what]}; {said}" if what in self.absent else f"Left out: {said}"
            return None

    def arms(self) -> list[_Arm]:
        table = self.outcome.record.tables[0]
        found = []
        for number, arm in enumerate(table.arms):
            rows = self.outcome.rows[table.title, arm.name]
            done = [Record.at(self.outcome.home, row.run) for row in rows if row.status == "complete"]
            there = [record for record in done if (record.folder / files.WEIGHTS).is_file()]
            begun = [Record.at(self.outcome.home, row.run).code for row in rows]
            code = next((folder for folder in begun if folder.is_dir()), None)
            found.append(_Arm(arm.name, number, arm.spec, there, code))
        return found

    # -- audit ---------------------------------------------------------------------------------------------------------

    def audit(self, arm: _Arm) -> Audited | None:
        def made() -> Audited:
            model = Spec.from_json(arm.spec["model"], arm.code)
            report = audit_once(
                model, arm.name, causal=is_causal(arm.spec, arm.code), home=self.outcome.home if self.keep else None
            )
            broken = tuple((f.title, f.evidence, f.meaning) for f in report.broken)
            return Audited(arm.name, report.summary().rpartition(": ")[2], broken)

        return self.attempt("audit", arm.name, made)

    # -- attention -----------------------------------------------------------------------------------------------------

    def map(self, arm: _Arm, trained: Trained) -> Picture | None:
        def made() -> Picture | None:
            maps = attention(trained, self.text)
            self.heads = self.heads or _sharpest(maps)
            lacks = arm.lacks(self.heads)
            mine = tuple(pair for pair in self.heads if pair not in lacks)
            if not mine:  # reported once, below
                return None
            svg = draw.image(draw.chosen(maps, mine), "svg")
            return Picture(svg, f"{arm.name}, seed {arm.seed}", _in_words(arm.name, maps, mine))

        return self.attempt("maps", arm.name, made)

    def evolve(self, arm: _Arm) -> Evolved | None:
        kept = [record for record in arm.records if snapshot_steps(record)][:EVOLVED_SEEDS]
        if not kept or arm.lacks(self.heads):
            return None

        def made() -> Evolved:
            *_, found = evolution(kept, _held_out)
            assert isinstance(found, Evolution)
            if "entropy" in found.not_applicable:
                raise InputError(found.not_applicable["entropy"])
            layers, heads = ([pair[n] for pair in self.heads] for n in (0, 1))
            values = {name: v[:, :, layers, heads] for name, v in found.values.items()}
            return Evolved(arm.name, arm.number, found.steps, self.heads, values)

        return self.attempt("evolution", arm.name, made)

    def say(self, arm: _Arm, trained: Trained) -> Sample | None:
        def made() -> Sample:
            one = generate(trained, self.prompt, tokens=TOKENS, decoding=Decoding(seed=0))[0]
            seen = "".join(c if c.isprintable() or c == "\n" else "\ufffd" for c in one.text)
            return Sample(arm.name, arm.seed, one.prompt, seen)

        return self.attempt("samples", arm.name, made)


def look_into(
    outcome: Outcome, heads: Pairs = (), text: str | None = None, prompt: str = "The", most: int = ARMS
) -> Iterator[float | Extras]:
    """Yield the share that is done; at last the findings in the first `most` arms."""
    import torch

    torch.set_num_threads(1)
    look = _Look(outcome, heads, text or sample("short"), prompt)
    every = look.arms()
    arms = every[:most]
    _check_heads(heads, arms)
    shown = [arm for arm in arms if arm.records]
    work = len(arms) + 2 * len(shown)
    audits, maps, samples, evolved = [], [], [], []
    for done, arm in enumerate(arms):
        audits.append(look.audit(arm))
        yield (done + 1) / work
    for done, arm in enumerate(shown):
        trained = look.attempt("maps", arm.name, partial(load_trained, arm.records[0]))
        if trained is not None:
            maps.append(look.map(arm, trained))
            if trained.task == "lm":
                samples.append(look.say(arm, trained))
        yield (len(arms) + done + 1) / work
    for done, arm in enumerate(shown):
        evolved.append(look.evolve(arm) if look.heads else None)
        yield (len(arms) + len(shown) + done + 1) / work
    _say_absent(look, shown)
    _say_lacking(look, shown)
    if len(every) > most:
        fewer = f"The first {most} of {len(every)} arms are looked into here; h2h report --arms {len(every)} does all."
        for what in ("audit", "maps", *(["samples"] if any(samples) else [])):
            look.absent[what] = f"{fewer} {look.absent.get(what, '')}".strip()
    yield Extras(
        audits=tuple(filter(None, audits)),
        text=look.text,
        maps=tuple(filter(None, maps)),
        evolution=tuple(filter(None, evolved)),
        samples=tuple(filter(None, samples)),
        absent=look.absent,
        failed=look.failed,
    )


def _check_heads(heads: Pairs, arms: list[_Arm]) -> None:
    """Refuse heads that no arm has, before any work."""
    nobody = tuple(pair for pair in heads if all(arm.lacks((pair,)) for arm in arms))
    if nobody:
        layers, each = (max(arm.spec["model"][what] for arm in arms) for what in ("layers", "heads"))
        raise InputError(
            f"no arm has the head {_said(nobody)}: layers are 0 to {layers - 1} and their heads 0 to {each - 1}; "
            "choose --heads among them, as LAYER.HEAD"
        )


def _say_lacking(look: _Look, shown: list[_Arm]) -> None:
    """Note which arms lack some of the heads that are shown."""
    by_heads: dict[Pairs, list[str]] = {}
    for arm in shown:
        if lacks := arm.lacks(look.heads):
            by_heads.setdefault(lacks, []).append(arm.name)
    for lacks, names in by_heads.items():
        said = f"{joined(names)} {'has' if len(names) == 1 else 'have'} no head {_said(lacks)}."
        look.absent["maps"] = f"{look.absent.get('maps', '')} {said}".strip()


def audits_of(outcome: Outcome) -> Extras:
    """Findings for the page that `h2h run` writes: only the audit made before training."""
    look = _Look(outcome, (), "", "")
    audits = tuple(filter(None, map(look.audit, look.arms())))
    ask = f"Not computed. Run h2h report {outcome.record.name}."
    return Extras(audits=audits, absent={"maps": ask, "samples": ask} | look.absent)


def audits_and_samples(
    outcome: Outcome, chosen: Collection[str], prompt: str = "The", most: int = ARMS, keep: bool = True
) -> Extras:
    """Findings for the page of a study in a browser: audits, and samples of language models, of the chosen arms."""
    import torch

    torch.set_num_threads(1)
    look = _Look(outcome, (), "", prompt, keep)
    arms = [arm for arm in look.arms() if arm.name in chosen][:most]
    audits, samples = [], []
    for arm in arms:
        audits.append(look.audit(arm))
        if arm.records and is_causal(arm.spec, arm.code):
            trained = look.attempt("samples", arm.name, partial(load_trained, arm.records[0]))
            samples.append(None if trained is None else look.say(arm, trained))
    if len(chosen) > most:
        look.absent["audit"] = (
            f"The first {most} of {len(chosen)} arms are looked into here. {look.absent.get('audit', '')}"
        )
    return Extras(audits=tuple(filter(None, audits)), samples=tuple(filter(None, samples)), absent=look.absent)


def _say_absent(look: _Look, shown: list[_Arm]) -> None:
    """Why a section is empty."""
    if not shown:
        gone = "No run of this study has its weights here: they were not copied along, or no run is complete."
        look.absent |= {"maps": gone, "samples": gone}
        return
    if not any(snapshot_steps(record) for arm in shown for record in arm.records):
        look.absent.setdefault(
            "evolution",
            "Attention over training is not shown, because no run has snapshots; --set evaluate.snapshots=20 keeps "
            "those of twenty steps.",
        )


def _held_out(model: Trained) -> Batch:
    task = task_of(model.spec.arm)
    return task.sample(task.held_out(), TEXTS)


def _sharpest(maps: Maps) -> Pairs:
    """The head of each layer with the lowest entropy."""
    best: dict[int, tuple[float, int]] = {}
    for row in summary(maps):
        found = (row["entropy"], row["head"])
        best[row["layer"]] = min(best.get(row["layer"], found), found)
    layers = sorted(best)
    if len(layers) > MOST_HEADS:  # from the first to the last
        layers = [layers[round(n * (len(layers) - 1) / (MOST_HEADS - 1))] for n in range(MOST_HEADS)]
    return tuple((layer, best[layer][1]) for layer in layers)


def _said(pairs: Pairs) -> str:
    return ", ".join(f"{layer}.{head}" for layer, head in pairs)


def _in_words(arm: str, maps: Maps, pairs: Pairs) -> str:
    """The alternative text of a map: where each head's weight is."""
    rows = {(row["layer"], row["head"]): row for row in summary(maps)}
    told = [
        f"layer {layer} head {head}: entropy {rows[layer, head]['entropy']:.2f} nats, strongest weight "
        f"{rows[layer, head]['strongest']}"
        for layer, head in pairs
    ]
    return f"Attention maps of {arm}. {'; '.join(told)}."
