"""Adding a part touches one file: written down, it is listed, read, saved, built, trained and audited."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from headtohead import Classifier, Full, LanguageModel, ModelSpec, Part, families, load_file, parse
from headtohead.cli import app
from helpers.registry import forgotten

FILE = '''
"""One new part of every family."""

from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from headtohead import (
    FeedForward, Fusion, FusionHooks, Norm, Pattern, Pooling, Position, PositionHooks, Residual, knob
)


class Wobble(Position):
    """A wave of one length, learned in size."""

    equation: ClassVar[str] = "x_i = e_i + g · sin(rate · i)"
    reference: ClassVar[str] = "nobody"

    rate: float = knob(default=0.5, gt=0, help="turns per token")

    def build(self, dims):
        return WobbleHooks(dims, self.rate)


class WobbleHooks(PositionHooks):
    def __init__(self, dims, rate):
        super().__init__()
        self.rate = rate
        self.size = nn.Parameter(torch.randn(dims.width))

    def embed(self, x: Tensor, i: Tensor) -> Tensor:
        return x + self.size * torch.sin(self.rate * i)[..., None]


class Even(Pattern):
    """Keys an even number of places away."""

    equation: ClassVar[str] = "allowed(i, j) = (i − j) mod every = 0"
    reference: ClassVar[str] = "nobody"

    every: int = knob(default=2, ge=1, help="step")

    def allowed(self, i: Any, j: Any) -> Any:
        return (i - j) % self.every == 0


class Scaled(Fusion):
    """Each head times a learned number."""

    equation: ClassVar[str] = "[g_1·O_1 … g_H·O_H]"
    reference: ClassVar[str] = "nobody"

    def build(self, dims, layer):
        return ScaledHooks(dims)


class ScaledHooks(FusionHooks):
    def __init__(self, dims):
        super().__init__()
        self.gains = nn.Parameter(torch.ones(dims.heads))

    def forward(self, o, keep):
        return o * self.gains[:, None, None]


class Tanh(Norm):
    """Squashed."""

    equation: ClassVar[str] = "tanh(x)"
    reference: ClassVar[str] = "nobody"

    def build(self, width):
        return nn.Tanh()


class Halved(Residual):
    """Half of what the sublayer says."""

    equation: ClassVar[str] = "x + f(norm(x)) · share"
    reference: ClassVar[str] = "nobody"

    share: float = knob(default=0.5, gt=0, help="of the sublayer")

    def build(self, norm):
        return HalvedWire(norm, self.share)


class HalvedWire(nn.Module):
    def __init__(self, norm, share):
        super().__init__()
        self.norm, self.share = norm(), share

    def forward(self, x, f):
        return x + self.share * f(self.norm(x))


class Single(FeedForward):
    """One layer."""

    equation: ClassVar[str] = "relu(W x)"
    reference: ClassVar[str] = "nobody"

    bias: bool = knob(default=True, help="learn one")

    def build(self, dims):
        layer = nn.Linear(dims.width, dims.width, bias=self.bias)
        layer.into_residual = True
        return nn.Sequential(layer, nn.GELU())


class Sum(Pooling):
    """The sum of the real tokens."""

    equation: ClassVar[str] = "Σ_t keep_t x_t / 4"
    reference: ClassVar[str] = "nobody"

    def pool(self, x, keep):
        return (x * keep[:, :, None]).sum(dim=1) / 4
'''

NEW = {
    "position": ("Wobble", "rate", 0.25),
    "pattern": ("Even", "every", 3),
    "fusion": ("Scaled", None, None),
    "norm": ("Tanh", None, None),
    "residual": ("Halved", "share", 0.75),
    "feedforward": ("Single", "bias", False),
    "pooling": ("Sum", None, None),
}
SMALL = ModelSpec(width=16, heads=4, layers=2, block=12)
each = pytest.mark.parametrize("family", NEW)


@pytest.fixture
def file(tmp_path: Path) -> Iterator[Path]:
    """The file, not loaded yet; whatever it defines is forgotten afterwards."""
    path = tmp_path / "new_parts.py"
    path.write_text(FILE, encoding="utf-8")
    with forgotten():
        yield path


def h2h(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, list(arguments))
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, result.stdout


def text_of(family: str) -> str:
    name, knob, value = NEW[family]
    return f"{name}({knob}={value})" if knob else name


def test_a_new_part_exists_for_every_family(file):
    assert NEW.keys() == families().keys()
    load_file(file)
    for family, (name, _knob, _value) in NEW.items():
        assert families()[family][name]().family == family


def test_forgotten_parts_leave_nothing_registered(file):
    with forgotten():
        load_file(file)
    assert "Wobble" not in families()["position"]


def test_a_new_part_is_listed(file):
    code, out = h2h("list", "parts", str(file), "--json")
    assert code == 0
    rows = {row["name"]: row for row in json.loads(out)}
    for family, (name, knob, _value) in NEW.items():
        assert rows[name]["family"] == family
        assert rows[name]["equation"]
        assert not knob or knob in json.dumps(rows[name]["knobs"])
    code, out = h2h("list", "parts", str(file))
    assert code == 0
    assert all(name in out for name, *_ in NEW.values())


@each
def test_a_new_part_is_read_from_text(file, family):
    part = parse(f"{file}:{text_of(family)}")
    name, knob, value = NEW[family]
    assert type(part).__name__ == name
    assert not knob or getattr(part, knob) == value
    assert parse(str(part)) == part
    assert SMALL.set(family, str(part)).get(family) == part
    assert SMALL.set(family, f"{file}:{text_of(family)}").get(family) == part


def test_a_new_part_is_saved_and_loaded_by_another_process(file):
    """Which has the JSON and the file it names, and nothing else."""
    load_file(file)
    parts = [parse(text_of(family)) for family in NEW]
    model = SMALL
    for family, part in zip(NEW, parts, strict=True):
        model = model.set(family, part)
    code = """
import json, sys
from headtohead import Part, ModelSpec
given = json.load(sys.stdin)
specs = [Part.from_json(data) for data in given["parts"]] + [ModelSpec.from_json(given["model"])]
print(json.dumps([[spec.to_json(), spec.id, str(spec)] for spec in specs]))
"""
    given = json.dumps({"parts": [part.to_json() for part in parts], "model": model.to_json()})
    command = [sys.executable, "-W", "error", "-c", code]
    done = subprocess.run(command, input=given, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [[s.to_json(), s.id, str(s)] for s in (*parts, model)]
    assert all(Part.from_json(part.to_json()) == part for part in parts)


def test_a_model_of_new_parts_loads_without_earlier_imports():
    code = """
import json, sys
from headtohead import Spec, parse
assert parse(sys.argv[1]).width == 16
assert Spec.from_json(json.loads(sys.argv[2])).width == 16
"""
    command = [sys.executable, "-c", code, str(SMALL), json.dumps(SMALL.to_json())]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr


@each
def test_a_new_part_is_built_and_learns(file, family):
    load_file(file)
    spec = SMALL.set(family, text_of(family))
    ids = torch.randint(1, 19, (4, 12), generator=torch.Generator().manual_seed(0))
    pattern = spec.pattern if family == "pattern" else Full()
    models = [Classifier(spec.set("pattern", pattern), vocab=19, classes=3)]
    models += [] if family == "pooling" else [LanguageModel(spec, vocab=19)]
    for model in models:
        before = model(ids)
        assert torch.isfinite(before).all()
        steps = torch.optim.SGD(model.parameters(), lr=0.1)
        before.pow(2).mean().backward()
        assert all(p.grad is not None for p in model.parameters())
        steps.step()
        assert not torch.equal(model(ids), before)


def test_the_model_uses_a_new_part(file):
    load_file(file)
    ids = torch.randint(1, 19, (4, 12), generator=torch.Generator().manual_seed(0))
    plain = Classifier(SMALL.set("pattern", Full()), vocab=19, classes=3)
    for family in NEW:
        changed = Classifier(plain.spec.set(family, text_of(family)), vocab=19, classes=3)
        with torch.no_grad():
            for name, p in changed.named_parameters():
                if name.endswith("gains"):
                    p.mul_(3)  # starts as what it replaces
        assert (changed(ids) - plain(ids)).abs().max() > 1e-7, family


@each
def test_a_new_part_passes_the_audit(file, family):
    code, out = h2h("audit", f"{file}:{NEW[family][0]}", "--json")
    reports = json.loads(out)
    broken = [f for report in reports for f in report["findings"] if f["status"] == "broken"]
    assert broken == []
    assert code == 0
    assert sum(f["status"] == "proved" for report in reports for f in report["findings"]) >= 10
