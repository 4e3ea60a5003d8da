"""Objectives: what training minimises. Evaluation does not depend on them: it measures plain cross-entropy.

An objective is written as a loss of logits. `Predictions` computes the logits of a language model a few rows at a time
and never stores them all.

Shapes: B texts, T tokens, N targets, V tokens or classes. z (N, V) logits, y (N,) targets.
"""

from __future__ import annotations

import abc
import re
from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar, Protocol

import numpy as np
from torch import Tensor

from headtohead.errors import InputError
from headtohead.spec import Part, knob

IGNORED = -100  # the target of a token that the loss does not count

Loss = Callable[[Tensor, Tensor], Tensor]  # z, y → losses (N,)
TaughtLoss = Callable[[Tensor, Tensor, Tensor], Tensor]  # z, y, the teacher's logits → losses (N,)


class Predictions(Protocol):
    """What a model predicts for the targets of one batch."""

    @property
    def terms(self) -> Mapping[str, Tensor]:
        """What the model's modules add to the loss, by name."""

    def cross_entropy(self) -> Tensor:
        """Return the mean cross-entropy, in the fastest way."""

    def mean(self, loss: Loss) -> Tensor:
        """Return the mean of a loss over the targets that count."""

    def mean_taught(self, loss: TaughtLoss) -> Tensor:
        """Return the mean of a loss that also reads the teacher's logits."""

    def ahead(self) -> Sequence[Predictions]:
        """Return the predictions of the extra heads, the nearest token first."""


class Objective(Part, family="objective", of="train"):
    """What training minimises. Label smoothing, z-loss and the model's own terms combine with every objective."""

    tasks: ClassVar[tuple[str, ...]] = ("lm", "classifier")
    predicts: ClassVar[str] = "next tokens"  # what a language model's loss measures; all arms of a study have the same
    sees_both_sides: ClassVar[bool] = False  # needs a model in which a token sees later ones
    extra_tokens: ClassVar[int] = 0  # token ids after those of the vocabulary
    taught: ClassVar[bool] = False  # needs a teacher

    smoothing: float = knob(
        default=0.0, ge=0, lt=1, help="label smoothing: share of the target that goes to all tokens or classes alike"
    )
    z_loss: float = knob(
        default=0.0, ge=0, help="weight of the squared log of the softmax's denominator, which keeps logits small"
    )
    auxiliary: float = knob(
        default=0.01, ge=0, help="weight of the model's own terms, such as the load balance of experts"
    )

    def loss(self, of: Predictions) -> Tensor:
        """Return the loss of a batch."""
        total = self.of_batch(of)
        for term in of.terms.values():
            total = total + self.auxiliary * term
        return total

    @abc.abstractmethod
    def of_batch(self, of: Predictions) -> Tensor:
        """Return the loss of a batch without the model's own terms."""

    def mean(self, of: Predictions) -> Tensor:
        """Return the mean cross-entropy with label smoothing and z-loss."""
        return of.mean(self.of_logits) if self.smoothing or self.z_loss else of.cross_entropy()

    def of_logits(self, z: Tensor, y: Tensor) -> Tensor:
        """Return the losses (N,): −Σ_v q_v log p_v + z_loss · log² Σ_v exp z_v."""
        log_sum = z.logsumexp(dim=1)
        of_target = log_sum - z.gather(1, y[:, None])[:, 0]  # −log p of the target
        of_all = log_sum - z.mean(dim=1)  # the mean of −log p over all tokens
        return (1 - self.smoothing) * of_target + self.smoothing * of_all + self.z_loss * log_sum.square()

    def prepare(self, ids: np.ndarray, targets: np.ndarray, mask: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
        """Return ids and targets (B, T) as the objective trains on them, a function of the arguments alone. `mask` is
        the first token id after the vocabulary."""
        return ids, targets

    @property
    def extra_heads(self) -> int:
        """The number of heads that exist in training only."""
        return 0

    @property
    def teacher(self) -> str:
        """The id of the run whose model is the teacher; empty: none."""
        return ""

    @property
    def scale(self) -> float:
        """The loss of a model that guesses, as a multiple of one cross-entropy."""
        return 1.0


class NextToken(Objective):
    """Cross-entropy of the next token; in a classifier, of the label."""

    equation: ClassVar[str] = (
        "mean of −Σ_v q_v log p_v + z_loss · log² Z,  q = (1−smoothing)·[v = target] + smoothing/V,  Z = Σ_v exp z_v"
    )
    reference: ClassVar[str] = (
        "Bengio et al. 2003, A Neural Probabilistic Language Model; Szegedy et al. 2016 for label smoothing; "
        "Chowdhery et al. 2022, PaLM, for z-loss"
    )

    def of_batch(self, of: Predictions) -> Tensor:
        return self.mean(of)


class MultiToken(Objective):
    """Cross-entropy of the next token and of tokens farther ahead.

    Each farther token has a head: one more block over the trunk's output, and the model's output layer. The heads exist
    in training only, and the model's own weights start as without them.
    """

    equation: ClassVar[str] = "L_1 + weight · (L_2 + … + L_n) / (n−1),  L_k the mean of −log p(x_{t+k} | x_1 … x_t)"
    reference: ClassVar[str] = (
        "Gloeckle et al. 2024, Better & Faster Large Language Models via Multi-token Prediction; the weight as in "
        "DeepSeek-AI 2024, DeepSeek-V3"
    )
    tasks: ClassVar[tuple[str, ...]] = ("lm",)

    tokens: int = knob(default=2, ge=2, le=64, help="n, number of tokens that are predicted at each position")
    weight: float = knob(default=0.3, ge=0, help="weight of the farther tokens' mean loss")

    @property
    def extra_heads(self) -> int:
        return self.tokens - 1

    @property
    def scale(self) -> float:
        return 1 + self.weight

    def of_batch(self, of: Predictions) -> Tensor:
        farther = [self.mean(head) for head in of.ahead()]
        return self.mean(of) + self.weight / len(farther) * sum(farther[1:], farther[0])


class MaskedTokens(Objective):
    """Cross-entropy of tokens that are hidden from a model that sees both sides.

    Evaluation hides a fixed share of each window, always the same tokens, whatever the share in training.
    """

    equation: ClassVar[str] = (
        "mean of −log p(x_t | the text with the chosen tokens hidden) over the chosen t;  a chosen token becomes the "
        "mask, or with `random` another token, or with `kept` stays"
    )
    reference: ClassVar[str] = "Devlin et al. 2019, BERT"
    tasks: ClassVar[tuple[str, ...]] = ("lm",)
    predicts: ClassVar[str] = "masked tokens"
    sees_both_sides: ClassVar[bool] = True
    extra_tokens: ClassVar[int] = 1  # the mask

    share: float = knob(default=0.15, gt=0, le=1, help="share of the tokens that are chosen, at least one per window")
    random: float = knob(default=0.1, ge=0, le=1, help="share of the chosen tokens that become a random token")
    kept: float = knob(default=0.1, ge=0, le=1, help="share of the chosen tokens that stay")

    def check(self) -> None:
        if self.random + self.kept > 1:
            raise InputError(f"MaskedTokens: random={self.random:g} and kept={self.kept:g} must add up to at most 1")

    def prepare(self, ids: np.ndarray, targets: np.ndarray, mask: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
        draw = np.random.Generator(np.random.Philox(key=seed))
        chosen = choose(ids.shape, self.share, draw)
        fate, others = draw.random(ids.shape), draw.integers(0, mask, ids.shape)
        hidden = np.where(fate < self.random, others, np.where(fate < self.random + self.kept, ids, mask))
        return np.where(chosen, hidden, ids), np.where(chosen, ids, IGNORED)

    def of_batch(self, of: Predictions) -> Tensor:
        return self.mean(of)


def choose(shape: tuple[int, ...], share: float, draw: np.random.Generator) -> np.ndarray:
    """Choose a share of the tokens of each row (B, T) at random, at least one."""
    count = max(1, round(share * shape[1]))
    return draw.random(shape).argsort(axis=1).argsort(axis=1) < count


class Distillation(Objective):
    """Cross-entropy of the targets, and the predictions of a teacher: the model of a stored run."""

    equation: ClassVar[str] = "(1−weight) · L + weight · τ² · KL( softmax(z_teacher/τ) ‖ softmax(z/τ) )"
    reference: ClassVar[str] = "Hinton et al. 2015, Distilling the Knowledge in a Neural Network"
    taught: ClassVar[bool] = True

    run: str = knob(
        default="", help="id of the run whose model is the teacher: the sixteen hex digits of h2h list runs"
    )
    temperature: float = knob(default=2.0, gt=0, help="τ: larger values show more of the teacher's small probabilities")
    weight: float = knob(default=0.5, ge=0, le=1, help="share of the teacher's term in the loss")

    def check(self) -> None:
        if self.run and not re.fullmatch("[0-9a-f]{16}", self.run):
            raise InputError(
                f"Distillation.run is the whole id of a run, sixteen hex digits, not '{self.run}': "
                "h2h list runs --json has it"
            )

    @property
    def teacher(self) -> str:
        return self.run

    def of_batch(self, of: Predictions) -> Tensor:
        return of.mean_taught(self.of_taught)

    def of_taught(self, z: Tensor, y: Tensor, z_teacher: Tensor) -> Tensor:
        """Return the losses (N,) of logits z, given the teacher's logits."""
        log_p, log_q = (z / self.temperature).log_softmax(dim=1), (z_teacher / self.temperature).log_softmax(dim=1)
        divergence = (log_q.exp() * (log_q - log_p)).sum(dim=1)
        return (1 - self.weight) * self.of_logits(z, y) + self.weight * self.temperature**2 * divergence
