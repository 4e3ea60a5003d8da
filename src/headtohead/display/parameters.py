"""The parameters and settings of a model: of a run, a checkpoint, or the default model with settings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from headtohead.display.catalogue import Catalogue, catalogue, is_spec
from headtohead.errors import InputError
from headtohead.model.count import Breakdown, breakdown, count
from headtohead.model.spec import ModelSpec
from headtohead.model.transformer import Classifier, LanguageModel
from headtohead.report.named_runs import about, arm_of, group_runs
from headtohead.run import store
from headtohead.run.load import read_record
from headtohead.run.named import named
from headtohead.run.studies import find_runs


@dataclass(frozen=True)
class Parameters:
    """A model's parameters per component, and what model it is."""

    name: str  # of a run or a checkpoint; empty for a model that is not trained
    spec: ModelSpec
    vocab: int
    classes: int | None
    counted: Breakdown
    learning: int | None = None  # parameters that training changes, where known
    load: tuple[str, float] | None = None  # a set, and the tokens of the busiest expert there, 1 for a balanced load

    def lines(self) -> list[str]:
        """A description of the model."""
        size = f"vocabulary {self.vocab:,}" + (f", {self.classes} classes" if self.classes else "")
        shape = (
            f"{self.spec.layers} layers of {self.spec.heads} heads, width {self.spec.width}, block {self.spec.block}"
        )
        said = [self.name, f"{shape}, {size}"] if self.name else [f"{self.spec}, {size}"]
        if self.learning is not None and self.learning != self.counted.total:
            said.append(f"{self.learning:,} of {self.counted.total:,} parameters learn")
        if self.load is not None:
            said.append(
                f"the busiest expert computes {self.load[1]:.2f} times its share of the {self.load[0]} set's tokens"
            )
        return said

    def to_json(self) -> dict[str, Any]:
        said = {"name": self.name, "vocabulary": self.vocab, "classes": self.classes, "learning": self.learning}
        return {"spec": self.spec.to_json(), **said, **self.counted.to_json()}


def parameters_with(settings: list[str], vocab: int, classes: int | None) -> Parameters:
    """Parameters of the default model with these settings."""
    spec = ModelSpec()
    for setting in settings:
        path, equals, value = setting.partition("=")
        if not equals or not path.startswith("model."):
            raise InputError(f"--set takes model.FIELD=VALUE, such as model.position=Rope, not '{setting}'")
        spec = spec.set(path.removeprefix("model."), value)
    return Parameters("", spec, vocab, classes, breakdown(spec, vocab, classes))


def parameters_of(name: str) -> Parameters:
    """Parameters of a run's model, which needs no weights, or of a checkpoint."""
    try:
        record = find_runs(name, store.home())[0]
    except InputError:
        model = named(name)  # a checkpoint, or an error about the name
        classes = len(model.labels) or None
        counted = count(model.model)
        return Parameters(model.checkpoint, model.spec.arm.model, model.vocabulary.size, classes, counted)
    result = record.require_result()
    spec = read_record(record)
    vocab, classes = int(result.data["vocabulary"]), len(result.labels) or None
    with torch.device("meta"):  # shapes alone
        made: Any = (
            LanguageModel(spec.arm.model, vocab) if classes is None else Classifier(spec.arm.model, vocab, classes)
        )
        spec.arm.start.shape(made)
    loads = ((name.partition("/")[0], x) for name, x in result.values.items() if name.endswith("/busiest_expert"))
    load = min(loads, key=lambda pair: pair[0] != "validation", default=None)
    return Parameters(_title(record), spec.arm.model, vocab, classes, count(made), result.learning, load)


def settings_of(name: str) -> tuple[str, dict[str, str]]:
    """The title of a run, and the value of each of its settings. They are read from its JSON, so that no code of a part
    is executed."""
    record = find_runs(name, store.home())[0]
    arm, known = arm_of(record), catalogue()
    return _title(record), {s.name: known.text(_value(arm, s.name, known)).removesuffix("()") for s in known.settings}


def _value(arm: dict[str, Any], path: str, known: Catalogue) -> Any:
    """The value of a setting. A setting that an old run does not name has its default."""
    value: Any = arm
    for name in path.split("."):
        form = known.form(value) if is_spec(value) else None
        if not isinstance(value, dict) or (name not in value and (form is None or name not in form.knobs)):
            raise InputError("run.json does not hold a run's spec: it was not written by headtohead")
        value = value[name] if name in value or form is None else form.knobs[name]
    return value


def _title(record: store.Record) -> str:
    return f"run {record.id[:8]}: {about(group_runs([record]))}, seed {record.spec['seed']}"
