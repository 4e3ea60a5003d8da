"""This project: the documents' own specs, as `h2h train` trains them."""

from __future__ import annotations

from collections.abc import Callable

from contender import Batch, Built, count, serve
from torch import Tensor, nn
from torch.nn import functional as F

from headtohead import AdamW, Classifier, Constant, LanguageModel, Trainer, TrainSpec, load_file
from headtohead.spec.userfiles import RECIPES
from steps import Task

RECIPE = RECIPES / "published" / "documents.py"
FOREVER = 10**9


def decoder(task: Task) -> Built:
    model = LanguageModel(load_file(RECIPE).decoder, task.vocab)
    return _training(model, task, lambda batch: model.mean_loss(batch.ids, batch.targets))


def classifier(task: Task) -> Built:
    model = Classifier(load_file(RECIPE).classifier, task.vocab, task.classes or 2)
    model.trunk.packs = True  # as `headtohead.training.tasks` sets it
    # as in a run, padding ends with the longest text of the batch
    return _training(model, task, lambda batch: F.cross_entropy(model(_trimmed(batch.ids)), batch.targets))


def _trimmed(ids: Tensor) -> Tensor:
    return ids[:, : int((ids != 0).sum(dim=1).max())]


def _training(model: nn.Module, task: Task, loss_of: Callable[[Batch], Tensor]) -> Built:
    # a constant rate without clipping, as the peers train
    spec = TrainSpec(steps=FOREVER, optimizer=AdamW(lr=task.rate, weight_decay=0.0), schedule=Constant(), clip=None)
    trainer = Trainer(model, spec, FOREVER, seed=0)
    current: list[Batch] = []
    steps = trainer.fit(lambda _step: loss_of(current[0]))

    def step(batch: Batch) -> Tensor:
        current[:] = [batch]
        return next(steps).loss

    return Built(step, count(model))


if __name__ == "__main__":
    serve("headtohead", decoder=decoder, classifier=classifier)
