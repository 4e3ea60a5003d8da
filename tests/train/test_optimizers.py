"""Optimizers: the updates that plain torch makes, every parameter once, and runs that go on as if never stopped."""

from __future__ import annotations

import copy
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from headtohead import Classifier, Full, InputError, LanguageModel, ModelSpec, RelativeBias, families
from headtohead.parts.optimizers import SGD, Adagrad, Adam, AdamW, Groups, Muon, Optimizer, orthogonalised
from headtohead.parts.positions import Disentangled
from headtohead.parts.schedules import OneCycle, WarmupCosine
from headtohead.spec import is_builtin
from headtohead.train import Trainer, TrainSpec, groups_of, reseed

V, T = 11, 6
SPEC = ModelSpec(width=8, heads=2, layers=2, block=T)
OPTIMIZERS = [cls() for cls in families("train")["optimizer"].values() if is_builtin(cls)]
ALL = [
    *OPTIMIZERS,
    SGD(momentum=0.0),
    SGD(nesterov=True, weight_decay=0.1),
    AdamW(decay_all=True),
    Muon(weight_decay=0.1),
]


def model_of(spec: ModelSpec = SPEC, seed: int = 0) -> LanguageModel:
    return LanguageModel(spec, V, seed)


def loss_of(model: LanguageModel) -> Callable[[int], Tensor]:
    def loss(step: int) -> Tensor:
        ids = torch.randint(0, V, (4, T + 1), generator=torch.Generator().manual_seed(step % 4))
        return model.mean_loss(ids[:, :-1], ids[:, 1:])

    return loss


def trained(
    spec: TrainSpec, steps: int, model: LanguageModel | None = None, seed: int = 0
) -> tuple[LanguageModel, list[float]]:
    model = model or model_of()
    trainer = Trainer(model, spec, steps, seed)
    return model, [float(step.loss) for step in trainer.fit(loss_of(model))]


def weights(model: nn.Module) -> dict[str, Tensor]:
    return {name: p.detach().clone() for name, p in model.named_parameters()}


def same(ours: dict[str, Tensor], theirs: dict[str, Tensor], within: float) -> None:
    assert ours.keys() == theirs.keys()
    for name in ours:
        assert (ours[name] - theirs[name]).abs().max() <= within, name


# -- against plain torch -----------------------------------------------------------------------------------------------


def wide_and_plain(model: nn.Module, decay: float) -> list[dict]:
    wide = [p for p in model.parameters() if p.ndim > 1]
    plain = [p for p in model.parameters() if p.ndim == 1]
    return [{"params": wide, "weight_decay": decay}, {"params": plain, "weight_decay": 0.0}]


PLAIN: dict[Optimizer, Callable[[nn.Module], torch.optim.Optimizer]] = {
    AdamW(lr=3e-3, weight_decay=0.3): lambda m: torch.optim.AdamW(wide_and_plain(m, 0.3), lr=3e-3, foreach=False),
    AdamW(betas=(0.8, 0.9), eps=1e-3, decay_all=True): lambda m: torch.optim.AdamW(
        m.parameters(), lr=1e-3, betas=(0.8, 0.9), eps=1e-3, weight_decay=0.01, foreach=False
    ),
    Adam(lr=3e-3): lambda m: torch.optim.Adam(m.parameters(), lr=3e-3, foreach=False),
    Adam(betas=(0.5, 0.7), eps=1e-4): lambda m: torch.optim.Adam(
        m.parameters(), lr=1e-3, betas=(0.5, 0.7), eps=1e-4, foreach=False
    ),
    SGD(): lambda m: torch.optim.SGD(m.parameters(), lr=0.1, momentum=0.9, foreach=False),
    SGD(momentum=0.0): lambda m: torch.optim.SGD(m.parameters(), lr=0.1, foreach=False),
    SGD(lr=0.05, nesterov=True, weight_decay=0.2): lambda m: torch.optim.SGD(
        wide_and_plain(m, 0.2), lr=0.05, momentum=0.9, nesterov=True, foreach=False
    ),
    Adagrad(): lambda m: torch.optim.Adagrad(m.parameters(), lr=0.01, foreach=False),
    Adagrad(lr=0.1, eps=1e-3, initial=0.5, weight_decay=0.2): lambda m: torch.optim.Adagrad(
        wide_and_plain(m, 0.2), lr=0.1, eps=1e-3, initial_accumulator_value=0.5, foreach=False
    ),
}


@pytest.mark.parametrize("optimizer", PLAIN, ids=str)
def test_ten_steps_are_those_of_plain_torch(optimizer):
    model, plain = model_of().double(), model_of().double()
    trained(TrainSpec(optimizer=optimizer), 10, model)
    theirs = PLAIN[optimizer](plain)
    loss = loss_of(plain)
    for step in range(10):
        theirs.zero_grad()
        loss(step).backward()
        theirs.step()
    same(weights(model), weights(plain), 1e-9)
    assert any((weights(model)[n] - w).abs().max() > 1e-3 for n, w in weights(model_of().double()).items())


def test_the_schedule_scales_every_group():
    model, plain = model_of().double(), model_of().double()
    schedule = OneCycle()
    trained(TrainSpec(optimizer=AdamW(lr=3e-3), schedule=schedule), 10, model)
    theirs = torch.optim.AdamW(wide_and_plain(plain, 0.01), lr=3e-3, foreach=False)
    for step in range(10):
        for group in theirs.param_groups:
            group["lr"] = 3e-3 * schedule.share(step, 10)
        theirs.zero_grad()
        loss_of(plain)(step).backward()
        theirs.step()
    same(weights(model), weights(plain), 1e-9)


def test_gradients_are_cut_to_their_norm():
    model, plain = model_of().double(), model_of().double()
    trained(TrainSpec(optimizer=SGD(momentum=0.0), clip=0.01), 3, model)
    for step in range(3):
        plain.zero_grad()
        loss_of(plain)(step).backward()
        norm = torch.cat([p.grad.flatten() for p in plain.parameters()]).norm()
        assert norm > 0.01
        with torch.no_grad():
            for p in plain.parameters():
                p -= 0.1 * p.grad * 0.01 / norm
    same(weights(model), weights(plain), 1e-7)


# -- Muon --------------------------------------------------------------------------------------------------------------


def newton_schulz(g: Tensor, steps: int, eps: float = 0.0) -> Tensor:
    """One matrix by the definition: p(X) = aX + b(XXᵀ)X + c(XXᵀ)²X."""
    x = g / (g.pow(2).sum().sqrt() + eps)
    for _ in range(steps):
        x = 3.4445 * x - 4.7750 * (x @ x.T) @ x + 2.0315 * (x @ x.T) @ (x @ x.T) @ x
    return x


@pytest.mark.parametrize("shape", [(6, 6), (4, 9), (9, 4), (1, 5), (5, 1)])
@pytest.mark.parametrize("steps", [1, 5])
def test_orthogonalised_is_newton_schulz(shape, steps):
    x = torch.randn(3, *shape, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    ours = orthogonalised(x, steps)
    for one, matrix in zip(ours, x, strict=True):
        assert (one - newton_schulz(matrix, steps)).abs().max() < 1e-5


@pytest.mark.parametrize("shape", [(16, 16), (8, 32), (32, 8)])
def test_singular_values_are_near_one_and_directions_stay(shape):
    draw = torch.Generator().manual_seed(1)
    u, _ = torch.linalg.qr(torch.randn(shape[0], min(shape), generator=draw, dtype=torch.float64))
    v, _ = torch.linalg.qr(torch.randn(shape[1], min(shape), generator=draw, dtype=torch.float64))
    x = u @ torch.diag(torch.linspace(0.05, 1, min(shape), dtype=torch.float64)) @ v.T
    made = orthogonalised(1e-3 * x[None], 5)[0]
    values = torch.linalg.svdvals(made)
    assert 0.6 < values.min() <= values.max() < 1.3
    diagonal = u.T @ made @ v
    assert (diagonal - torch.diag(diagonal.diagonal())).abs().max() < 1e-8, "the singular vectors are the same"


def test_a_gradient_of_zero_moves_nothing():
    assert orthogonalised(torch.zeros(2, 3, 4), 5).abs().max() == 0


def test_muon_moves_matrices_by_its_rule_and_the_rest_by_adamw():
    spec = Muon(lr=0.05, momentum=0.9, weight_decay=0.2, rest=AdamW(lr=2e-3, weight_decay=0.1))
    model, plain = model_of().double(), model_of().double()
    trained(TrainSpec(optimizer=spec), 5, model)
    linear = {id(m.weight) for n, m in plain.trunk.named_modules() if isinstance(m, nn.Linear)}
    matrices = [p for p in plain.parameters() if id(p) in linear]
    tables = [p for p in plain.parameters() if id(p) not in linear and p.ndim > 1]
    vectors = [p for p in plain.parameters() if p.ndim == 1]
    rest = torch.optim.AdamW(
        [{"params": tables, "weight_decay": 0.1}, {"params": vectors, "weight_decay": 0.0}], lr=2e-3, foreach=False
    )
    momentum = {p: torch.zeros_like(p) for p in matrices}
    for step in range(5):
        plain.zero_grad()
        loss_of(plain)(step).backward()
        rest.step()
        with torch.no_grad():
            for w in matrices:
                momentum[w] = 0.9 * momentum[w] + w.grad
                direction = newton_schulz(w.grad + 0.9 * momentum[w], 5, eps=1e-7)
                w *= 1 - 0.05 * 0.2
                w -= 0.05 * max(1.0, w.shape[0] / w.shape[1]) ** 0.5 * direction
    same(weights(model), weights(plain), 1e-9)
    assert len(matrices) == 2 * 6


# -- who owns what -----------------------------------------------------------------------------------------------------

MODELS = {
    "language model": lambda: LanguageModel(SPEC, V),
    "tied": lambda: LanguageModel(SPEC.set("tied", True).set("head_bias", True), V),
    "classifier": lambda: Classifier(SPEC.set("pattern", Full()), V, 3),
    "disentangled": lambda: Classifier(SPEC.set("pattern", Full()).set("position", Disentangled()), V, 3),
}


@pytest.mark.parametrize("optimizer", ALL, ids=str)
@pytest.mark.parametrize("make", MODELS.values(), ids=MODELS)
def test_every_parameter_is_owned_once(make, optimizer):
    model = make()
    owned = [id(p) for o in optimizer.build(groups_of(model)) for g in o.param_groups for p in g["params"]]
    assert len(owned) == len(set(owned))
    assert set(owned) == {id(p) for p in model.parameters()}


def names_in(model: nn.Module, parameters: tuple[nn.Parameter, ...]) -> set[str]:
    return {name for name, p in model.named_parameters() if any(p is q for q in parameters)}


@pytest.mark.parametrize("make", MODELS.values(), ids=MODELS)
def test_parameters_are_sorted_by_what_they_are(make):
    model = make()
    groups = groups_of(model)
    inside = {f"{n}.weight" for n, m in model.named_modules() if isinstance(m, nn.Linear) and not n.startswith("head")}
    assert names_in(model, groups.matrices) == inside
    assert names_in(model, groups.plain) == {n for n, p in model.named_parameters() if p.ndim == 1}
    tables = names_in(model, groups.tables)
    assert "trunk.tokens.weight" in tables
    assert all("head" in n or isinstance(model.get_submodule(n.rpartition(".")[0]), nn.Embedding) for n in tables)


def test_a_table_of_biases_by_distance_is_no_matrix():
    model = model_of(SPEC.set("position", RelativeBias()))
    assert names_in(model, groups_of(model).matrices) == {
        f"{n}.weight" for n, m in model.trunk.named_modules(prefix="trunk") if isinstance(m, nn.Linear)
    }


def test_only_matrices_and_tables_decay():
    groups = groups_of(model_of())
    for optimizer in (AdamW(weight_decay=0.1), SGD(weight_decay=0.1), Adagrad(weight_decay=0.1)):
        (made,) = optimizer.build(groups)
        decays = {p: g["weight_decay"] for g in made.param_groups for p in g["params"]}
        assert {decays[p] for p in (*groups.matrices, *groups.tables)} == {0.1}
        assert {decays[p] for p in groups.plain} == {0.0}
    (made,) = AdamW(weight_decay=0.1, decay_all=True).build(groups)
    assert {g["weight_decay"] for g in made.param_groups} == {0.1}


def test_a_model_without_some_kind_of_parameter_is_no_problem():
    table, vector = nn.Parameter(torch.zeros(3, 2)), nn.Parameter(torch.zeros(3))
    for optimizer in ALL:
        for groups in (Groups((table,), (), ()), Groups((), (table,), ()), Groups((), (), (vector,))):
            made = optimizer.build(groups)
            assert sum(len(g["params"]) for o in made for g in o.param_groups) == 1


# -- training ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("optimizer", ALL, ids=str)
def test_every_optimizer_learns(optimizer):
    _, losses = trained(TrainSpec(optimizer=optimizer), 30)
    assert sum(losses[-4:]) < sum(losses[:4]) - 0.05


def test_steps_say_what_was_done():
    model = model_of()
    trainer = Trainer(model, TrainSpec(optimizer=AdamW(lr=0.5), schedule=WarmupCosine(warmup=0.5)), 4, 0)
    before = float(loss_of(model)(0).detach())
    steps = list(trainer.fit(loss_of(model)))
    assert [s.done for s in steps] == [1, 2, 3, 4]
    assert [s.lr for s in steps] == pytest.approx([0.25, 0.5, 0.5, 0.5 * 0.55])
    assert float(steps[0].loss) == before
    assert not steps[0].loss.requires_grad
    assert all(p.grad is None for p in model.parameters())


def test_the_rate_that_is_shown_is_the_optimizers_own():
    model = model_of()
    (step,) = Trainer(model, TrainSpec(optimizer=Muon(lr=0.05)), 1, 0).fit(loss_of(model))
    assert step.lr == 0.05


def test_whoever_looks_in_between_changes_nothing():
    spec = TrainSpec(optimizer=AdamW())
    quiet, _ = trained(spec, 6, model_of(SPEC.set("dropout", 0.3)))
    model = model_of(SPEC.set("dropout", 0.3))
    for _step in Trainer(model, spec, 6, 0).fit(loss_of(model)):
        model.eval()
        torch.rand(7)
        loss_of(model)(0)
    same(weights(model), weights(quiet), 0.0)


def test_dropout_is_a_function_of_seed_and_step():
    spec, dropping = TrainSpec(), SPEC.set("dropout", 0.5)
    runs = [trained(spec, 4, model_of(dropping), seed=seed)[1] for seed in (1, 1, 2)]
    assert runs[0] == runs[1] != runs[2]
    reseed(3, "dropout", 5)
    first = torch.rand(3)
    reseed(3, "dropout", 6)
    assert not torch.equal(torch.rand(3), first)
    reseed(3, "dropout", 5)
    assert torch.equal(torch.rand(3), first)


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("optimizer", ALL, ids=str)
def test_a_run_that_stopped_goes_on_to_the_same_bits(optimizer, tied):
    spec = TrainSpec(optimizer=optimizer, schedule=OneCycle(), clip=1.0)
    shape = SPEC.set("dropout", 0.2).set("tied", tied)
    whole, losses = trained(spec, 8, model_of(shape), seed=3)
    model = model_of(shape)
    trainer = Trainer(model, spec, 8, 3)
    for step in trainer.fit(loss_of(model)):
        if step.done == 3:
            break
    kept = copy.deepcopy((model.state_dict(), trainer.state(), trainer.done))
    again = model_of(shape, seed=9)
    again.load_state_dict(kept[0])
    resumed = Trainer(again, spec, 8, 3)
    resumed.restore(kept[1], kept[2])
    torch.rand(11)
    assert [float(s.loss) for s in resumed.fit(loss_of(again))] == losses[3:]
    same(weights(again), weights(whole), 0.0)
    assert all(isinstance(t, Tensor) for t in kept[1].values())


def test_what_was_restored_is_a_copy():
    model = model_of()
    trainer = Trainer(model, TrainSpec(), 8, 0)
    next(trainer.fit(loss_of(model)))
    kept = copy.deepcopy(trainer.state())
    other = Trainer(model_of(), TrainSpec(), 8, 0)
    other.restore(kept, 1)
    before = {n: t.clone() for n, t in kept.items()}
    for _step in other.fit(loss_of(other.model)):
        pass
    assert all(torch.equal(kept[n], before[n]) for n in before)
    assert len(kept) == 3 * len(list(model.parameters()))


def test_frozen_parameters_stay():
    for optimizer in ALL:
        model = model_of()
        frozen = model.trunk.blocks[0].attention.q.weight.requires_grad_(False)
        before = frozen.clone()
        table = weights(model)["trunk.tokens.weight"]
        trained(TrainSpec(optimizer=optimizer, clip=1.0), 2, model)
        assert torch.equal(frozen, before), optimizer
        assert not torch.equal(model.trunk.tokens.weight, table), optimizer


# -- what a TrainSpec takes --------------------------------------------------------------------------------------------


def test_steps_or_epochs_but_not_both():
    assert TrainSpec().set("epochs", "3") == TrainSpec(steps=None, epochs=3)
    assert TrainSpec(steps=None, epochs=3).set("steps", 7) == TrainSpec(steps=7)
    for settings in ({"steps": None}, {"steps": 3, "epochs": 3}):
        with pytest.raises(InputError, match="set one of them"):
            TrainSpec(**settings)
    with pytest.raises(InputError, match=r"TrainSpec\.steps"):
        TrainSpec().set("steps", "many")


def test_the_loss_of_a_batch_is_that_of_its_logits():
    model = model_of()
    ids = torch.randint(0, V, (4, T + 1), generator=torch.Generator().manual_seed(0))
    plain = F.cross_entropy(model(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten())
    assert float(loss_of(model)(0).detach()) == pytest.approx(float(plain.detach()), abs=1e-6)


@pytest.mark.parametrize("decoupled", [True, False])
def test_the_fused_kernel_alone_gives_the_bits_of_the_optimizer_around_it(decoupled):
    ours, theirs = model_of(), model_of()
    trained(TrainSpec(optimizer=AdamW(weight_decay=0.1) if decoupled else Adam()), 5, ours)
    groups = wide_and_plain(theirs, 0.1 if decoupled else 0.0)
    optimizer = (torch.optim.AdamW if decoupled else torch.optim.Adam)(groups, lr=1e-3, fused=True)
    loss = loss_of(theirs)
    for step in range(5):
        optimizer.zero_grad()
        loss(step).backward()
        optimizer.step()
    assert all(torch.equal(a, b) for a, b in zip(ours.parameters(), theirs.parameters(), strict=True))
