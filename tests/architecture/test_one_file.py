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

from headtohead import Attention, Classifier, Full, InitSpec, LanguageModel, ModelSpec, Part, families, load_file, parse
from headtohead.cli import app
from helpers.registry import forgotten

FILE = '''
"""One new part of every family."""

from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from headtohead import (
    Convolution, ConvolutionHooks, Embedding, EmbeddingHooks, FeedForward, Fusion, FusionHooks, Gate, GateHooks, Init,
    Mixer, MixerHooks, Norm, Output, OutputHooks, Pattern, Pooling, Position, PositionHooks, Residual, ScoreHooks,
    Scores, ValueHooks, Values, Weighting, WeightingHooks, knob
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


class Running(Mixer):
    """The mean of all tokens so far, or of all tokens."""

    equation: ClassVar[str] = "W · Σ_j≤i x_j / i"
    reference: ClassVar[str] = "nobody"
    uses: ClassVar[tuple[str, ...]] = ("pattern",)

    bias: bool = knob(default=True, help="learn one")

    def build(self, layer):
        return RunningHooks(layer, self.bias)


class RunningHooks(MixerHooks):
    def __init__(self, layer, bias):
        super().__init__()
        self.out = nn.Linear(layer.dims.width, layer.dims.width, bias=bias)

    def forward(self, x, mask, position, cache, memo):
        texts = mask.texts(x)
        allowed = mask.allowed[:, 0].to(x.dtype)  # (B|1, Tq, Tk)
        if cache is not None:
            seen = cache.states.get("seen")
            texts = texts if seen is None else torch.cat([seen, texts], dim=1)
            cache.states["seen"] = texts
        mean = allowed @ texts / allowed.sum(dim=-1, keepdim=True)
        return mask.like(self.out(mean), x)


class Cube(Scores):
    """Scores with a share of their cube."""

    equation: ClassVar[str] = "s + share · s³"
    reference: ClassVar[str] = "nobody"

    share: float = knob(default=0.5, gt=0, help="of the cube")

    def build(self, layer):
        return CubeHooks(self.share)


class CubeHooks(ScoreHooks):
    def __init__(self, share):
        super().__init__()
        self.share = share

    def forward(self, scores):
        return scores + self.share * scores**3


class Squares(Weighting):
    """Softmax of twice the scores."""

    equation: ClassVar[str] = "softmax(times · s)"
    reference: ClassVar[str] = "nobody"
    sums_to_one: ClassVar[bool] = True

    times: float = knob(default=2.0, gt=0, help="factor")

    def build(self, layer):
        return SquaresHooks(self.times)


class SquaresHooks(WeightingHooks):
    def __init__(self, times):
        super().__init__()
        self.times = times

    def forward(self, scores):
        return (self.times * scores).softmax(dim=-1)


class Louder(Values):
    """Values times a learned number."""

    equation: ClassVar[str] = "g · v"
    reference: ClassVar[str] = "nobody"

    def build(self, layer):
        return LouderHooks(layer)


class LouderHooks(ValueHooks):
    def __init__(self, layer):
        super().__init__()
        self.gains = nn.Parameter(torch.ones(layer.kv_heads))

    def forward(self, v, memo):
        return v * self.gains[:, None, None]


class Door(Gate):
    """One learned number for each head."""

    equation: ClassVar[str] = "sigmoid(g) · o"
    reference: ClassVar[str] = "nobody"

    start: float = knob(default=0.5, help="initial value of g")

    def build(self, layer):
        return DoorHooks(layer, self.start)


class DoorHooks(GateHooks):
    def __init__(self, layer, start):
        super().__init__()
        self.doors = nn.Parameter(torch.full((layer.dims.heads, 1, 1), start))

    def forward(self, o, x, mask):
        return o * self.doors.sigmoid()


class Back(Convolution):
    """A share of the token before, where the mixer begins."""

    equation: ClassVar[str] = "x_t + share · x_(t−1)"
    reference: ClassVar[str] = "nobody"

    share: float = knob(default=0.5, gt=0, help="of the token before")

    def before(self, site):
        return 1 if site == "A" else 0

    def build(self, layer, site, channels):
        return BackHooks(self.share) if site == "A" else ConvolutionHooks()


class BackHooks(ConvolutionHooks):
    def __init__(self, share):
        super().__init__()
        self.share = share

    def forward(self, x, mask, cache):
        texts = mask.texts(x)
        last = torch.zeros_like(texts[:, :1])
        if cache is not None:
            last, cache.states["back"] = cache.states.get("back", last), texts[:, -1:]
        return mask.like(texts + self.share * torch.cat([last, texts[:, :-1]], dim=1), x)


class Parity(Embedding):
    """A learned vector for tokens with an odd id."""

    equation: ClassVar[str] = "E[token] + (token mod 2) · size · v"
    reference: ClassVar[str] = "nobody"

    size: float = knob(default=1.0, gt=0, help="of the vector")

    def build(self, dims):
        return ParityHooks(dims, self.size)


class ParityHooks(EmbeddingHooks):
    def __init__(self, dims, size):
        super().__init__()
        self.size, self.odd = size, nn.Parameter(torch.randn(dims.width))

    def forward(self, x, ids, keep, cache):
        return x + self.size * (ids % 2)[..., None] * self.odd


class Tempered(Output):
    """Logits divided by a learned temperature."""

    equation: ClassVar[str] = "z / t"
    reference: ClassVar[str] = "nobody"

    start: float = knob(default=2.0, gt=0, help="initial value of t")

    def build(self, dims, vocab):
        return TemperedHooks(self.start)


class TemperedHooks(OutputHooks):
    def __init__(self, start):
        super().__init__()
        self.temperature = nn.Parameter(torch.tensor(start))

    def forward(self, z):
        return z / self.temperature


class Uniform(Init):
    """Uniform between −bound and bound."""

    equation: ClassVar[str] = "w ~ U(−bound, bound)"
    reference: ClassVar[str] = "nobody"

    bound: float = knob(default=0.1, gt=0, help="the largest value")

    def draw(self, weight, random):
        weight.values.uniform_(-self.bound, self.bound, generator=random)


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
    "mixer": ("Running", "bias", False),
    "scores": ("Cube", "share", 0.25),
    "weighting": ("Squares", "times", 3.0),
    "values": ("Louder", None, None),
    "gate": ("Door", "start", 0.25),
    "convolution": ("Back", "share", 0.25),
    "embedding": ("Parity", "size", 2.0),
    "output": ("Tempered", "start", 3.0),
    "init": ("Uniform", "bound", 0.2),
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
        model = model.set(family, part + Attention() if family == "mixer" else part)  # attention uses the other parts
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
    strong = SMALL.set("pattern", Full()).set("init", InitSpec.torch())  # scores that differ from token to token
    for family in NEW:
        specs = strong, strong.set(family, text_of(family))
        if family == "output":
            plain, changed = (LanguageModel(spec, vocab=19) for spec in specs)
        else:
            plain, changed = (Classifier(spec, vocab=19, classes=3) for spec in specs)
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
