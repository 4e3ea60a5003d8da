"""Figures of a run beyond those of its result: read off its weights, before training and after. Each gives names to
values, such as entropy/before and entropy/after; torch is loaded when one is taken."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

import numpy as np

from headtohead.run.store import Record

if TYPE_CHECKING:
    from torch import Tensor

    from headtohead.data.batches import Batch
    from headtohead.run.load import Trained
    from headtohead.training.tasks import Task

Measure = Callable[[Record], dict[str, float]]
WINDOWS = 256  # that get another future


def entropy(record: Record) -> dict[str, float]:
    """Of attention weights, in nats, the mean over all heads: before training, after, and at every step in between
    whose weights were kept."""
    from headtohead.interpret.evolution import TEXTS, common_steps, measured
    from headtohead.run.load import load_steps

    texts: Batch | None = None
    steps, found = common_steps([record]), {}
    for step, trained in zip(steps, load_steps(record, steps), strict=True):
        task = _task_of(trained)
        texts = texts or task.sample(task.held_out(), TEXTS)
        found[step] = float(measured(trained, texts)["entropy"].mean())
    at = {f"entropy/{step}": value for step, value in found.items()}
    return {"entropy/before": found[steps[0]], "entropy/after": found[steps[-1]], **at}


def weight_on(word: str, name: str) -> Measure:
    """The weight that other words put on this one, as a multiple of what equal weights would: 1 is indifference."""

    def measure(record: Record) -> dict[str, float]:
        from headtohead.run.load import load_steps

        before, after = (_weight_on(trained, word) for trained in load_steps(record, [0, None]))
        return {f"{name}/before": before, f"{name}/after": after}

    return measure


def _weight_on(trained: Trained, word: str) -> float:
    import torch

    from headtohead.model.hooks import WEIGHTS, capture

    task = _task_of(trained)
    batch = task.sample(task.held_out(), 256)
    wanted = int(trained.vocabulary.encode([word])[0][0])
    ids = torch.from_numpy(batch.ids)
    filling = ids == wanted  # (B, T)
    if not bool(filling.any()):
        return math.nan
    keep = torch.ones_like(filling) if batch.keep is None else torch.from_numpy(batch.keep)
    with torch.inference_mode(), capture(trained.model, WEIGHTS) as seen:
        trained.model.trunk(ids, keep)  # type: ignore[operator]
    asks = (keep & ~filling).float()  # words that look
    share = (filling & keep).sum(dim=1) / keep.sum(dim=1)  # what equal weights would give, text by text
    some = share > 0
    ratios = []
    for calls in seen.values():
        on = (calls[0] * filling[:, None, None, :]).sum(dim=-1)  # (B, H, T)
        mean = (on * asks[:, None]).sum(dim=-1) / asks.sum(dim=1).clamp(min=1)[:, None]  # (B, H)
        ratios.append((mean[some] / share[some, None]).mean().item())
    return float(np.mean(ratios))


def frequencies(of: str) -> Measure:
    """The loss of a model that knows nothing but how frequent each token is in the training text, on a set."""

    def measure(record: Record) -> dict[str, float]:
        from headtohead.data.encoded import EncodedTexts
        from headtohead.training.arm import read_run
        from headtohead.training.tasks import task_of

        data = task_of(read_run(record.spec).arm).data
        assert isinstance(data, EncodedTexts)
        counts = 1.0 + np.bincount(np.asarray(data.train.tokens), minlength=data.vocabulary.size)
        tokens = np.asarray(data.held[of].tokens)
        return {"frequencies/loss": float(-np.log(counts / counts.sum())[tokens].mean())}

    return measure


def by_familiarity(record: Record) -> dict[str, float]:
    """Accuracy on the test sentences that are in the training set too, and on those that are not."""
    from headtohead.data.splits import copies
    from headtohead.training.arm import read_run

    found = read_run(record.spec).arm.data.sentences()
    assert found.test is not None
    items = record.items("test")
    known = copies(found.train, found.test)[items["item"]]
    right = items["label"] == items["predicted"]
    return {
        "seen/accuracy": float(right[known].mean()),
        "unseen/accuracy": float(right[~known].mean()),
        "unseen/sentences": float((~known).sum()),
    }


def sentences(record: Record) -> dict[str, float]:
    """Perplexity of the samples: a normal sentence, a weird one, a long one, each on its own."""
    from headtohead.interpret.score import score_samples
    from headtohead.run.load import load_trained

    return {f"{name}/perplexity": s.perplexity for name, s in score_samples(load_trained(record)).items()}


def other_future(record: Record) -> dict[str, float]:
    """The loss of the same tokens before what follows them and before what follows in another window: equal, unless a
    model reads the future."""
    import torch

    from headtohead.model.transformer import LanguageModel
    from headtohead.run.load import load_trained

    trained = load_trained(record)
    model, task = trained.model, _task_of(trained)
    assert isinstance(model, LanguageModel)
    batch = task.sample(task.held_out(), WINDOWS)
    ids, targets = torch.from_numpy(batch.ids), torch.from_numpy(batch.targets)
    half = ids.shape[1] // 2
    mixed = torch.cat([ids[:, :half], ids.roll(1, dims=0)[:, half:]], dim=1)  # (B, T)
    with torch.inference_mode():
        own, other = (
            torch.cat([model.token_losses(i, t)[:, half // 2 : half - 1] for i, t in _few(seen, targets)]).mean()
            for seen in (ids, mixed)
        )
    return {"own/loss": float(own), "other/loss": float(other)}


def _few(ids: Tensor, targets: Tensor) -> Iterable[tuple[Tensor, Tensor]]:
    return zip(ids.split(32), targets.split(32), strict=True)


def _task_of(trained: Trained) -> Task:
    from headtohead.training.tasks import task_of

    return task_of(trained.spec.arm)
