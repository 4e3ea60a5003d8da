"""Each trap is planted once and must be warned of; the same model without it must not be."""

from __future__ import annotations

import copy
import math
import shlex
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from headtohead import (
    Arm,
    FeedForward,
    Files,
    Norm,
    Position,
    PositionHooks,
    Residual,
    RunSpec,
    families,
    knob,
)
from headtohead.recipes.demo import demo
from headtohead.run.events import Finished, Started, Stopped
from headtohead.run.session import Options, Stop, _Session
from headtohead.spec.spec import is_builtin
from headtohead.training import first_batch
from headtohead.training.first_batch import FirstStep, warnings
from headtohead.training.tasks import task_of
from helpers.runs import AskedInStep, results, run_on, train

NO_HELD = ["data.validation=0", "data.test=0", "train.batch=16"]


def first_step(arm: Arm, seed: int = 0) -> FirstStep:
    task = task_of(arm)
    return FirstStep.of(task, task.build(seed), seed, "cpu")


def lm(text: Path, *settings: str) -> list[str]:
    return warnings(first_step(run_on(text, *settings).arm))


def with_part(text: Path, path: str, part: Any, *settings: str) -> list[str]:
    return warnings(first_step(run_on(text, *settings).arm.set(f"model.{path}", part)))


def classifier(table: Path, *settings: str) -> list[str]:
    return warnings(first_step(classifier_arm(table, *settings)))


def classifier_arm(table: Path, *settings: str) -> Arm:
    arm = Arm.of("classifier", Files(path=str(table)))
    return arm.settings(["model.width=16", "model.layers=1", "train.batch=8", *settings])


def texts(folder: Path, lengths: list[int]) -> Path:
    path = folder / "lengths.csv"
    rows = [f"{' '.join(f'w{(n * k) % 50}' for k in range(length))},{'ud'[n % 2]}" for n, length in enumerate(lengths)]
    path.write_text("\n".join(["text,label", *rows]) + "\n")
    return path


def remedy(warning: str) -> str:
    words = shlex.split(warning.partition("; try ")[2])
    assert words[0] == "--set", warning
    return words[1]


# -- nothing to warn of ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("task", ["lm", "classifier"])
def test_default_settings_give_no_warning(task: Any, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HEADTOHEAD_CACHE")  # tokenized once, for all tests
    assert warnings(first_step(Arm.of(task), seed)) == []


def test_demo_gives_no_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HEADTOHEAD_CACHE")
    assert len(demo.variants) == 5
    assert {v.name: warnings(first_step(v.arm)) for v in demo.variants} == {v.name: [] for v in demo.variants}


PARTS = [cls() for members in families().values() for cls in members.values() if is_builtin(cls)]
PATHS = [(p.family, p) for p in PARTS] + [(f, p) for p in PARTS if p.family == "norm" for f in ("qk_norm",)]


@pytest.mark.parametrize(("path", "part"), PATHS, ids=lambda x: str(x).replace("()", ""))
def test_parts_at_defaults_warn_only_of_sinusoidal_size(path: str, part: Any, text: Path, table: Path) -> None:
    expected = [True] if str(part) == "Sinusoidal()" else []
    for found in (with_part(text, path, part), warnings(first_step(classifier_arm(table).set(f"model.{path}", part)))):
        assert ["position vectors" in line for line in found] == expected


def test_relu_at_default_init_gives_no_warning(text: Path) -> None:
    for name in ("Mlp", "Gated"):
        assert lm(text, f"model.feedforward={name}(activation='relu')") == []


def test_torch_initial_weights_give_no_warning(text: Path) -> None:
    torch_init = ["model.init.embedding_std=1", "model.init.linear=torch", "model.init.residual_scaling=false"]
    assert lm(text, *torch_init, "model.position=Sinusoidal") == []


# -- token and position vectors ----------------------------------------------------------------------------------------


def test_large_sinusoids_give_a_warning_with_an_amplitude(text: Path) -> None:
    (line,) = lm(text, "model.position=Sinusoidal")
    assert line.startswith("position vectors are 35 × as large as token vectors (rms 0.707 and 0.0")
    assert remedy(line) == "model.position=Sinusoidal(amplitude=0.02)"
    assert lm(text, remedy(line)) == []


def test_tiny_sinusoids_give_a_warning(text: Path) -> None:
    (line,) = lm(text, "model.position=Sinusoidal(amplitude=0.0005)")
    assert "× smaller than token vectors" in line
    assert "hardly sees their order" in line
    assert lm(text, remedy(line)) == []


def test_the_suggested_position_keeps_its_other_knobs(text: Path) -> None:
    (line,) = lm(text, "model.position=Sinusoidal(base=500, amplitude=3)")
    assert remedy(line) == "model.position=Sinusoidal(base=500.0, amplitude=0.02)"


@pytest.mark.parametrize(("amplitude", "warned"), [(0.25, False), (0.32, True)])
def test_sizes_give_a_warning_from_ten_times_on(amplitude: float, warned: bool, text: Path) -> None:
    """The rms of a sine is 0.707 of its amplitude, and tokens start with 0.02."""
    assert bool(lm(text, f"model.position=Sinusoidal(amplitude={amplitude})")) is warned


class Added(PositionHooks):
    def __init__(self, size: float, tokens: float = 1.0) -> None:
        super().__init__()
        self.size, self.times = size, tokens

    def embed(self, x: Tensor, i: Tensor) -> Tensor:
        x.mul_(self.times)  # in place, as a user might
        return x + self.size * torch.cos(i[..., None] * torch.arange(1, x.shape[-1] + 1))


class Loud(Position):
    """A position with a size of its own, under a name of its own."""

    equation: ClassVar[str] = "x_i = e_i + loudness · cos(i·m)"
    reference: ClassVar[str] = "a test"
    pitch: float = knob(default=1.0, gt=0, help="changes nothing")
    loudness: float = knob(default=1.0, gt=0, help="size")

    def build(self, dims: Any) -> PositionHooks:
        return Added(self.loudness)


class Fixed(Position):
    """A position without a knob."""

    equation: ClassVar[str] = "x_i = e_i + cos(i·m)"
    reference: ClassVar[str] = "a test"

    def build(self, dims: Any) -> PositionHooks:
        return Added(1.0)


class Vaswani(Position):
    """Token vectors times 50, then waves of size one: both are of one size."""

    equation: ClassVar[str] = "x_i = 50 · e_i + cos(i·m)"
    reference: ClassVar[str] = "a test"

    def build(self, dims: Any) -> PositionHooks:
        return Added(1.0, tokens=50.0)


def test_scale_knob_of_a_user_position_is_found(text: Path) -> None:
    (line,) = with_part(text, "position", Loud())
    assert remedy(line) == "model.position.loudness=0.02"
    assert with_part(text, "position", Loud(loudness=0.02)) == []


def test_without_a_scale_knob_the_embedding_size_is_named(text: Path) -> None:
    (line,) = with_part(text, "position", Fixed())
    assert remedy(line) == "model.init.embedding_std=0.7"
    assert with_part(text, "position", Fixed(), remedy(line)) == []


def test_rescaled_token_vectors_count_as_tokens(text: Path) -> None:
    assert with_part(text, "position", Vaswani()) == []


# -- feed-forwards -----------------------------------------------------------------------------------------------------


class Shifted(FeedForward):
    """ReLUs whose biases start at one value."""

    equation: ClassVar[str] = "W_2 · relu(W_1 · x + b)"
    reference: ClassVar[str] = "a test"
    bias: float = knob(default=-5.0, help="of every hidden unit at the start")
    share: float = knob(default=1.0, ge=0, le=1, help="of the hidden units that are shifted")
    as_module: bool = knob(default=False, help="the activation is a module, and nothing carries into_residual")

    def build(self, dims: Any) -> nn.Module:
        return ShiftedLayers(dims.width, self)


class ShiftedLayers(nn.Module):
    def __init__(self, width: int, spec: Shifted) -> None:
        super().__init__()
        bias = torch.zeros(40)
        bias[: round(40 * spec.share)] = spec.bias
        self.up, self.bias = nn.Linear(width, 40, bias=False), nn.Parameter(bias)
        self.act = nn.ReLU(inplace=True) if spec.as_module else F.relu
        self.down = nn.Linear(40, width)
        self.down.into_residual = not spec.as_module  # type: ignore[assignment]

    def forward(self, x: Tensor) -> Tensor:
        return self.down(self.act(self.up(x) + self.bias))


@pytest.mark.parametrize("as_module", [True, False])
def test_dead_units_give_a_warning(as_module: bool, text: Path) -> None:
    (line,) = with_part(text, "feedforward", Shifted(share=0.75, as_module=as_module), "model.layers=2")
    assert line.startswith("75% of the hidden units in the feed-forward of layers 0, 1 are zero for every token")
    assert remedy(line) == "model.feedforward=Mlp"


@pytest.mark.parametrize("spec", [Shifted(bias=0.0), Shifted(share=0.4), Shifted(bias=5.0)], ids=str)
def test_living_units_give_no_warning(spec: FeedForward, text: Path) -> None:
    assert with_part(text, "feedforward", spec) == []


def test_units_dead_at_all_real_tokens_are_counted(table: Path) -> None:
    """Padding cannot wake a unit, and cannot kill one."""
    found = warnings(first_step(classifier_arm(table).set("model.feedforward", Shifted(share=0.6))))
    assert [line.partition("%")[0] for line in found] == ["60"]


def test_an_output_that_starts_at_zero_is_not_dead(text: Path) -> None:
    class Silent(Shifted):
        def build(self, dims: Any) -> nn.Module:
            made = ShiftedLayers(dims.width, self)
            made.down = ZeroLinear(40, dims.width)
            made.down.into_residual = True  # type: ignore[assignment]
            return made

    assert with_part(text, "feedforward", Silent(bias=0.0)) == []


class ZeroLinear(nn.Module):
    def __init__(self, a: int, b: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(b, a))

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(x, self.weight)


# -- attention ---------------------------------------------------------------------------------------------------------

LARGE = "model.init.linear_std=3"


def about(lines: list[str], words: str) -> list[str]:
    return [line for line in lines if words in line]


@pytest.mark.parametrize("task", ["lm", "classifier"])
def test_saturated_attention_gives_a_warning(task: str, text: Path, table: Path) -> None:
    find = lm if task == "lm" else classifier
    where = text if task == "lm" else table
    block = [] if task == "lm" else ["tokenizer=Byte"]
    (line,) = about(find(where, LARGE, "model.layers=2", *block), "attention rows of layers 0, 1 put more than 0.99")
    assert remedy(line) == "model.init.linear_std=0.02"
    assert int(line.partition("%")[0]) > 80


def test_rows_with_few_keys_may_be_sharp(text: Path) -> None:
    assert about(lm(text, LARGE, "model.pattern=Causal() & Local(4)"), "attention rows") == []
    assert about(lm(text, LARGE, "model.pattern=Causal() & Local(5)"), "attention rows")


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        (["model.mixer=LinearAttention + Attention"], "layer 1 "),
        (["model.pattern=(Causal & Local(4)) + Causal"], "layer 1 "),
        (["model.pattern=Causal & PerHead((Local(4), Causal))"], "layers 0, 1 "),
        (["model.loops.times=2"], "layers 0, 1 "),
    ],
)
def test_saturated_layers_are_named_by_their_own_patterns(settings: list[str], named: str, text: Path) -> None:
    (line,) = about(lm(text, LARGE, "model.layers=2", *settings), "attention rows")
    assert f"attention rows of {named}" in line


def test_models_without_attention_have_no_saturated_rows(text: Path) -> None:
    assert about(lm(text, LARGE, "model.layers=2", "model.mixer=LinearAttention"), "attention rows") == []


def test_the_warning_suggests_the_default_of_a_bad_knob(text: Path) -> None:
    (line,) = lm(text, "model.position=Alibi(slope=9)")
    assert line.startswith("100% of the attention rows of layer 0 put")
    assert remedy(line) == "model.position=Alibi"


class Sharp(Position):
    """Queries between two places read one key alone."""

    equation: ClassVar[str] = "bias_ij = −99 · |i − j| where first ≤ i < last"
    reference: ClassVar[str] = "a test"
    first: int = knob(default=0, ge=0, help="place")
    last: int = knob(default=99, ge=0, help="place")

    def build(self, dims: Any) -> PositionHooks:
        return SharpHooks(self)


class SharpHooks(PositionHooks):
    def __init__(self, spec: Sharp) -> None:
        super().__init__()
        self.spec = spec

    def bias(self, q: Tensor, k: Tensor, i: Tensor, j: Tensor) -> Tensor:
        return -99.0 * (i - j).abs() * ((i >= self.spec.first) & (i < self.spec.last))


def saturation(folder: Path, lengths: list[int], position: Position) -> list[float]:
    arm = classifier_arm(texts(folder, lengths), *NO_HELD).set("model.position", position)
    first = first_step(arm)
    assert first.batch.ids.shape == (len(lengths), max(lengths))
    return first_batch._saturation(first, first.model)


def test_queries_at_padding_are_not_counted(tmp_path: Path) -> None:
    found = saturation(tmp_path, [6] * 7 + [16], Sharp(first=8))
    assert found == pytest.approx([8 / (7 * 6 + 16)])


def test_keys_at_padding_are_not_counted(tmp_path: Path) -> None:
    """A text of four tokens has rows of four keys, whatever it is padded to."""
    assert saturation(tmp_path, [4] * 7 + [16], Sharp(last=4)) == [4 / 16]


# -- the first loss ----------------------------------------------------------------------------------------------------


def test_a_large_first_loss_gives_a_warning(text: Path, table: Path) -> None:
    (line,) = lm(text, "model.tied=true", "model.init.embedding_std=1")
    assert "and guessing gives 5.6 (ln 258): the logits start too large" in line
    assert remedy(line) == "model.init.embedding_std=0.02"
    assert lm(text, "model.tied=true", remedy(line)) == []
    (line,) = about(classifier(table, LARGE), "the first loss is")
    assert "and guessing gives 0.7 (ln 2)" in line
    assert remedy(line) == "model.init.linear_std=0.02"


@pytest.mark.parametrize(("above", "warned"), [(0.9, False), (1.1, True)])
def test_a_loss_one_nat_above_chance_gives_a_warning(above: float, warned: bool, text: Path) -> None:
    first = first_step(run_on(text).arm)
    object.__setattr__(first, "loss", math.log(258) + above)
    assert bool(about(warnings(first), "the first loss is")) is warned


class Broken(Norm):
    """Zero divided by zero."""

    equation: ClassVar[str] = "x / 0"
    reference: ClassVar[str] = "a test"

    def build(self, width: int) -> nn.Module:
        return BrokenLayer()


class BrokenLayer(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x * math.nan


def test_a_loss_that_is_not_finite_names_its_source(text: Path) -> None:
    (line,) = with_part(text, "qk_norm", Broken(), "model.layers=2")
    assert line.startswith("the first loss is nan: trunk.blocks.0.attention.q_norm is the first to return a value")
    assert remedy(line) == "model.qk_norm=NoNorm"


def test_a_position_that_is_not_finite_is_named(text: Path) -> None:
    (line,) = with_part(text, "position", Loud(loudness=1e39))
    assert "trunk.position is the first to return a value that is not finite" in line
    assert remedy(line) == "model.position.loudness=1.0"


# -- gradients ---------------------------------------------------------------------------------------------------------


class Cut(FeedForward):
    """A feed-forward whose result is detached."""

    equation: ClassVar[str] = "f(x), detached"
    reference: ClassVar[str] = "a test"
    exploding: bool = knob(default=False, help="a gradient that is not finite, in place of none")

    def build(self, dims: Any) -> nn.Module:
        return CutLayer(dims.width, self.exploding)


class CutLayer(nn.Module):
    def __init__(self, width: int, exploding: bool) -> None:
        super().__init__()
        self.up, self.exploding = nn.Linear(width, width), exploding

    def forward(self, x: Tensor) -> Tensor:
        h = self.up(x)
        return (h * 0).sqrt() if self.exploding else h.detach()


class ReZero(Residual):
    """A residual that starts as the identity: gradients reach the sublayers from the second step on."""

    equation: ClassVar[str] = "x + a · f(x),  a zero at first"
    reference: ClassVar[str] = "a test"

    def build(self, norm: Any) -> nn.Module:
        return ReZeroWire()

    def build_last(self, norm: Any) -> nn.Module:
        return norm()


class ReZeroWire(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a = nn.Parameter(torch.zeros(()))

    def forward(self, x: Tensor, f: Any) -> Tensor:
        return x + self.a * f(x)


def test_parameters_without_a_gradient_give_a_warning(text: Path) -> None:
    (line,) = with_part(text, "feedforward", Cut(), "model.layers=2")
    assert line.startswith("no gradient reaches trunk.blocks.0.feedforward and 1 more (norm 0 in the first backward")


def test_a_gradient_that_is_not_finite_gives_a_warning(text: Path) -> None:
    (line,) = with_part(text, "feedforward", Cut(exploding=True))
    assert line.startswith("the first gradient of trunk.blocks.0.feedforward and 3 more is not finite though the")


def test_a_layer_that_starts_at_zero_gives_no_warning(text: Path) -> None:
    first = first_step(run_on(text).arm.set("model.residual", ReZero()))
    assert not first.model.trunk.blocks[0].attention.q.weight.grad.any()
    assert warnings(first) == []


# -- texts -------------------------------------------------------------------------------------------------------------


def test_a_batch_of_padding_gives_a_warning(tmp_path: Path) -> None:
    path = texts(tmp_path, [*range(3, 18), 400])
    (line,) = classifier(path, *NO_HELD, "model.block=400")
    assert line.startswith("9")
    assert "% of the first batch is padding: its longest text has 400 tokens and most have 10 or fewer" in line
    assert "--set model.block=" in line
    setting = line.partition("--set ")[2].split()[0]
    assert about(classifier(path, *NO_HELD, setting), "padding") == []


def test_cut_texts_give_a_warning_with_a_block(tmp_path: Path) -> None:
    path = texts(tmp_path, [100] * 12 + [10] * 4)
    (line,) = classifier(path, *NO_HELD)
    assert line.startswith("75% of the training texts are longer than model.block=32, so 66% of their tokens are never")
    assert "--set model.block=104" in line
    assert classifier(path, *NO_HELD, "model.block=104") == []


def test_unknown_words_in_training_give_a_warning(text: Path) -> None:
    (line,) = lm(text, "tokenizer=Word(vocab=5)")
    assert "% of the first batch's tokens are unknown words" in line
    assert line.endswith("--set tokenizer=Bpe")
    assert lm(text, "tokenizer=Word") == []


# -- no side effects ---------------------------------------------------------------------------------------------------


class Counting(Norm):
    """A norm that counts its calls in a buffer, and draws at random even in evaluation."""

    equation: ClassVar[str] = "x + noise"
    reference: ClassVar[str] = "a test"

    def build(self, width: int) -> nn.Module:
        return CountingLayer()


class CountingLayer(nn.Module):
    calls: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        return x + 1e-3 * torch.randn_like(x)


def test_the_check_changes_no_weight_and_no_random_stream(text: Path) -> None:
    arm = run_on(text, "model.dropout=0.2", "model.position=Sinusoidal").arm.set("model.norm", Counting())
    task = task_of(arm)
    model = task.build(0).eval()
    before = copy.deepcopy(model.state_dict())
    torch.manual_seed(7)
    state = torch.get_rng_state()
    found = warnings(FirstStep.of(task, model, 0, "cpu"))
    assert about(found, "position vectors")
    assert torch.equal(torch.get_rng_state(), state)
    assert not any(module.training for module in model.modules())
    assert all(p.grad is None for p in model.parameters())
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())
    assert not any(m._forward_hooks for m in model.modules())
    assert warnings(FirstStep.of(task, model, 0, "cpu")) == found


@pytest.mark.parametrize("task", ["lm", "classifier"])
@pytest.mark.parametrize("position", ["Learned", "Sinusoidal"])
def test_results_are_the_same_bits_without_the_check(
    task: str, position: str, text: Path, table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = ["train.steps=20", "model.dropout=0.2", f"model.position={position}", "evaluate.snapshots=(0, 10)"]
    if task == "lm":
        spec = run_on(text, *settings, seed=2)
    else:
        spec = RunSpec(arm=classifier_arm(table, *settings), seed=2).resolved()
    with_it = train(spec, tmp_path / "with")
    monkeypatch.setattr(first_batch, "warnings", lambda _first: [])
    without = train(spec, tmp_path / "without")
    assert isinstance(with_it[-1], Finished)
    assert isinstance(without[-1], Finished)
    assert with_it[-1].id == without[-1].id
    ours, theirs = (results(events[-1].record.folder) for events in (with_it, without))
    result, bare = (events[-1].record.require_result().to_json() for events in (with_it, without))
    del ours["result.json"], theirs["result.json"]
    assert ours == theirs
    warned, data = result.pop("warnings"), bare.pop("warnings")
    assert result == bare
    assert [line for line in warned if line not in data] == about(warned, "position vectors")
    assert len(warned) - len(data) == (position == "Sinusoidal")


def test_a_resumed_run_has_the_warnings_of_its_start(text: Path, home: Path, tmp_path: Path) -> None:
    spec = run_on(text, "train.steps=40", "model.position=Sinusoidal", "evaluate.train=0")
    train(spec, home)
    folder = tmp_path / "elsewhere" / "runs" / spec.id
    session = _Session(spec, folder, Options(save_every=1e9))
    assert isinstance(list(session.run(AskedInStep(20)))[-1], Stopped)
    events = list(_Session(spec, folder, Options(save_every=1e9)).run(Stop()))
    assert isinstance(events[0], Started)
    assert events[0].done == 21
    assert about(events[0].warnings, "position vectors")
    assert results(folder) == results(home / "runs" / spec.id)


def test_large_batches_are_measured_in_part(text: Path) -> None:
    first = first_step(run_on(text, "train.batch=600", "model.position=Sinusoidal").arm)
    assert first.batch.ids.shape == (600, 16)
    assert first.few.ids.shape == (256, 16)
    assert about(warnings(first), "36 × as large")
