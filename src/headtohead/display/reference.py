"""Parts and settings with their documentation, read from the classes; and the list of parts on a screen.

Reading the classes imports torch. display/catalogue.py has the same values without it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any, Literal, get_args, get_origin

if TYPE_CHECKING:
    from rich.console import Console

    from headtohead.spec import Part, Spec


@dataclass(frozen=True)
class Setting:
    name: str
    type: str
    default: str
    help: str


@dataclass(frozen=True)
class Entry:
    """One part."""

    family: str
    name: str
    says: str
    equation: str
    reference: str
    knobs: tuple[Setting, ...]

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def parts() -> list[Entry]:
    """Every part known now, families in the order of the model's settings."""
    from headtohead.model.spec import ModelSpec
    from headtohead.spec import families, knobs

    order = {k.name: n for n, k in enumerate(knobs(ModelSpec))}
    known = sorted(families().items(), key=lambda item: order.get(item[0], len(order)))
    known += [item for place in ("train", "data") for item in families(place).items()]
    return [entry(cls) for _family, members in known for cls in members.values()]


def entry(cls: type[Part]) -> Entry:
    from headtohead.spec import knobs

    return Entry(
        cls.family,
        cls.__name__,
        summary(cls),
        cls.equation,
        cls.reference,
        tuple(Setting(k.name, _type(k.type), str(k.default), k.help) for k in knobs(cls)),
    )


def summary(cls: type) -> str:
    """The first paragraph of a class's docstring, on one line."""
    return " ".join((cls.__doc__ or "").strip().partition("\n\n")[0].split())


def settings(spec: type[Spec] | None = None, path: str = "") -> list[Setting]:
    """Everything that --set, --vary, --over and a study's `vary` can name."""
    from headtohead.spec import Part, Spec, knobs

    if spec is None:
        from headtohead.training.arm import Arm

        spec = Arm
    found: list[Setting] = []
    for k in knobs(spec):
        if isinstance(k.type, type) and issubclass(k.type, Spec) and not issubclass(k.type, Part):
            found += settings(k.type, f"{path}{k.name}.")
        else:
            found.append(Setting(f"{path}{k.name}", _type(k.type), str(k.default), k.help))
    return found


def _type(kind: Any) -> str:
    from headtohead.spec import Layers, Part

    if get_origin(kind) is Literal:
        return " or ".join(map(str, get_args(kind)))
    if Layers in get_args(kind):
        return f"{_type(get_args(kind)[0])}, may differ from layer to layer"
    if isinstance(kind, type) and issubclass(kind, Part) and Part in kind.__bases__:  # any part of that family
        return kind.family
    return getattr(kind, "__name__", str(kind)) if isinstance(kind, type) else str(kind)


def show(known: Sequence[Entry], console: Console) -> None:
    """Every part under its family; lines are wrapped between words."""
    from rich.text import Text

    indent = max(len(e.name) for e in known) + 4

    def wrapped(text: str) -> list[str]:
        return [line.plain.rstrip() for line in Text(text).wrap(console, max(20, console.width - indent))]

    for family, entries in groupby(known, key=lambda e: e.family):
        console.print(f"\n{family}", style="bold underline")
        for e in entries:
            first, *more = wrapped(e.says)
            console.print(Text.assemble((f"  {e.name}".ljust(indent), "bold"), first), soft_wrap=True)
            knobs = ", ".join(f"{k.name} = {k.default}" for k in e.knobs)
            for line in more:
                console.print(" " * indent + line, markup=False, soft_wrap=True)
            for text in filter(None, (e.equation, knobs and f"knobs: {knobs}", e.reference)):
                for line in wrapped(text):
                    console.print(" " * indent + line, style="dim", markup=False, soft_wrap=True)
