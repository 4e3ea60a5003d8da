"""What a model predicts for a batch, as objectives see it: `Predictions` of parts/objectives.py, for both tasks.

Shapes: B texts, T tokens, D width, N = B · T targets, C classes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from headtohead.model.ahead import heads_of
from headtohead.model.transformer import Classifier, LanguageModel
from headtohead.parts.auxiliary import Terms, collect_terms
from headtohead.parts.objectives import Loss, Predictions, TaughtLoss


@dataclass(frozen=True)
class TokenPredictions:
    """A language model's predictions: logits are computed a few rows at a time."""

    model: LanguageModel
    ids: Tensor  # (B, T)
    x: Tensor  # (B, T, D), what the output layer reads
    targets: Tensor  # (B, T)
    counted: Tensor | None = None  # (B, T), true at the targets that count; None: all of them
    teacher: LanguageModel | None = None
    terms: Terms = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        model: LanguageModel,
        ids: Tensor,
        targets: Tensor,
        counted: Tensor | None = None,
        teacher: LanguageModel | None = None,
    ) -> TokenPredictions:
        with collect_terms() as terms:
            x = model.trunk(ids)
        return cls(model, ids, x, targets, counted, teacher, terms)

    def cross_entropy(self) -> Tensor:
        return self.model.mean_of(self._rows(self.x), self._rows(self.targets))

    def mean(self, loss: Loss) -> Tensor:
        y = self._rows(self.targets)
        return self.model.mean_of(self._rows(self.x), y, lambda z, rows: loss(z, y[rows]))

    def mean_taught(self, loss: TaughtLoss) -> Tensor:
        teacher = self.teacher
        assert teacher is not None
        with torch.no_grad():
            theirs = self._rows(teacher.trunk(self.ids))
        y = self._rows(self.targets)

        def taught(z: Tensor, rows: slice) -> Tensor:
            with torch.no_grad():
                z_teacher = teacher.logits_of(theirs[rows])
            return loss(z, y[rows], z_teacher)

        return self.model.mean_of(self._rows(self.x), y, taught)

    def ahead(self) -> Sequence[Predictions]:
        heads = heads_of(self.model)
        assert heads is not None
        return [self._farther(x, k) for k, x in enumerate(heads(self.model.trunk, self.x), start=1)]

    def _farther(self, x: Tensor, k: int) -> TokenPredictions:
        """The predictions of a head for the tokens that are k places after the next ones."""
        counted = None if self.counted is None else self.counted[:, k:]
        return TokenPredictions(self.model, self.ids, x[:, :-k], self.targets[:, k:], counted)

    def _rows(self, x: Tensor) -> Tensor:
        """What counts of (B, T, …), as rows (N, …)."""
        return x.flatten(0, 1) if self.counted is None else x[self.counted]


class LabelPredictions:
    """A classifier's predictions: its logits are few."""

    def __init__(
        self, model: Classifier, ids: Tensor, keep: Tensor, labels: Tensor, teacher: Classifier | None = None
    ) -> None:
        self.labels = labels
        with collect_terms() as self.terms:
            self.z = model(ids, keep)  # (B, C)
        self._taught: Callable[[], Tensor] = lambda: _without_gradients(teacher, ids, keep)

    def cross_entropy(self) -> Tensor:
        return F.cross_entropy(self.z, self.labels)

    def mean(self, loss: Loss) -> Tensor:
        return loss(self.z, self.labels).mean()

    def mean_taught(self, loss: TaughtLoss) -> Tensor:
        return loss(self.z, self.labels, self._taught()).mean()

    def ahead(self) -> Sequence[Predictions]:
        return ()


@torch.no_grad()
def _without_gradients(teacher: nn.Module | None, ids: Tensor, keep: Tensor) -> Tensor:
    assert teacher is not None
    return teacher(ids, keep)
