"""Tiny language models trained by the trainer alone, with every optimizer."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from headtohead import Classifier, Full, LanguageModel, ModelSpec, families
from headtohead.parts.optimizers import SGD, AdamW, Muon
from headtohead.parts.positions import Disentangled
from headtohead.parts.schedules import Constant
from headtohead.spec import is_builtin
from headtohead.training.trainer import Trainer, TrainSpec

V, T = 11, 6
PLAIN_LOOP = TrainSpec(schedule=Constant(), clip=None)  # torch's optimizers without anything around them
TINY = ModelSpec(width=8, heads=2, layers=2, block=T)
DEFAULTS = [cls() for cls in families("train")["optimizer"].values() if is_builtin(cls)]
OPTIMIZERS = [
    *DEFAULTS,
    SGD(momentum=0.0),
    SGD(nesterov=True, weight_decay=0.1),
    AdamW(decay_all=True),
    Muon(weight_decay=0.1),
]
MODELS = {
    "language model": lambda: LanguageModel(TINY, V),
    "tied": lambda: LanguageModel(TINY.set("tied", True).set("head_bias", True), V),
    "classifier": lambda: Classifier(TINY.set("pattern", Full()), V, 3),
    "disentangled": lambda: Classifier(TINY.set("pattern", Full()).set("position", Disentangled()), V, 3),
}


def model_of(spec: ModelSpec = TINY, seed: int = 0) -> LanguageModel:
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
