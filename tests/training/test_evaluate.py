"""Evaluation: every figure is what a plain loop over windows or sentences gives."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn import functional as F

from headtohead import Classifier, Full, LanguageModel, ModelSpec
from headtohead.data.batches import Encoded
from headtohead.data.encoded import TextSet
from headtohead.training.evaluate import EvalSpec, labelled, running_text

V = 7


class Told:
    """A language model whose loss of a token says what it was told: its inputs' sum, its place, its target."""

    def token_losses(self, ids: Tensor, targets: Tensor) -> Tensor:
        assert ids.shape == targets.shape
        assert torch.equal(ids[:, 1:], targets[:, :-1])
        return ids.cumsum(dim=1) * 0.01 + torch.arange(ids.shape[1]) * 0.1 + targets


def text_of(tokens: list[int], bytes_: int | None = None) -> TextSet:
    return TextSet(np.array(tokens, np.uint16), 3 * len(tokens) if bytes_ is None else bytes_, 0.0)


def naive(tokens: list[int], block: int, spec: EvalSpec) -> list[tuple[int, int, float]]:
    """(start, tokens counted, mean loss) of each window, one window at a time."""
    stride = spec.stride or block
    found: list[tuple[int, int, float]] = []
    counted_to = 0  # targets before this place are counted
    for start in range(0, len(tokens) - 1, stride):
        window = tokens[start : start + block + 1]
        if stride < block and len(window) <= block and start > 0:
            break  # overlapping windows are whole ones
        if spec.windows is not None and len(found) == spec.windows:
            break
        losses = [
            sum(window[: i + 1]) * 0.01 + i * 0.1 + window[i + 1]
            for i in range(len(window) - 1)
            if spec.count == "all" or start + i + 1 > counted_to
        ]
        counted_to = start + len(window) - 1
        found.append((start, len(losses), sum(losses) / len(losses)))
    return found


some_tokens = st.lists(st.integers(0, V - 1), min_size=2, max_size=40)


@settings(max_examples=400, deadline=None)
@given(
    some_tokens,
    st.integers(1, 9),
    st.none() | st.integers(1, 12),
    st.sampled_from(["all", "new"]),
    st.none() | st.integers(1, 5),
    st.integers(1, 5),
)
def test_evaluation_of_text_matches_a_plain_loop(tokens, block, stride, count, windows, batch):
    spec = EvalSpec(stride=stride, count=count, windows=windows, batch=batch)
    found = running_text(Told(), text_of(tokens), spec, block, "cpu")
    expected = naive(tokens, block, spec)
    assert found.items["start"].tolist() == [s for s, _, _ in expected]
    assert found.items["tokens"].tolist() == [n for _, n, _ in expected]
    assert found.items["loss"].tolist() == pytest.approx([loss for _, _, loss in expected], rel=1e-5)
    total = sum(n for _, n, _ in expected)
    assert found.values["tokens"] == total
    assert found.values["loss"] == pytest.approx(sum(n * loss for _, n, loss in expected) / total, rel=1e-5)


@settings(max_examples=100, deadline=None)
@given(some_tokens, st.integers(1, 50))
def test_by_default_each_token_counts_once(tokens, block):
    found = running_text(Told(), text_of(tokens), EvalSpec(batch=3), block, "cpu")
    starts, counted = found.items["start"], found.items["tokens"]
    targets = [int(s) + i + 1 for s, n in zip(starts, counted, strict=True) for i in range(n)]
    assert targets == list(range(1, len(tokens)))


@settings(max_examples=100, deadline=None)
@given(some_tokens, st.integers(1, 9), st.integers(1, 9))
def test_count_new_counts_each_token_once(tokens, block, stride):
    found = running_text(Told(), text_of(tokens), EvalSpec(stride=min(stride, block), count="new"), block, "cpu")
    ends = [min(int(s) + block, len(tokens) - 1) for s in found.items["start"]]
    targets = [t for e, n in zip(ends, found.items["tokens"], strict=True) for t in range(e - n + 1, e + 1)]
    assert targets == list(range(1, len(targets) + 1))
    assert len(tokens) - 1 - len(targets) < stride


def test_bits_per_byte_matches_a_hand_calculation():
    class Half:
        def token_losses(self, ids: Tensor, targets: Tensor) -> Tensor:
            return torch.full(ids.shape, math.log(2))  # one bit a token

    found = running_text(Half(), text_of([1] * 12, bytes_=48), EvalSpec(), 5, "cpu").values
    assert found["bits_per_byte"] == pytest.approx(12 / 48)
    assert found["perplexity"] == pytest.approx(2)
    assert found["loss"] == pytest.approx(math.log(2))


def test_a_huge_loss_has_infinite_perplexity():
    class Lost:
        def token_losses(self, ids: Tensor, targets: Tensor) -> Tensor:
            return torch.full(ids.shape, 1e6)

    found = running_text(Lost(), text_of([1] * 12), EvalSpec(), 5, "cpu").values
    assert (found["loss"], found["perplexity"]) == (1e6, math.inf)


@settings(max_examples=60, deadline=None)
@given(st.integers(2, 70), st.integers(1, 8), st.integers(1, 9), st.integers(1, 70))
def test_sampled_windows_spread_over_the_text(count, block, stride, some):
    text, spec = text_of(list(np.arange(count) % V)), EvalSpec(stride=stride)
    every = running_text(Told(), text, spec, block, "cpu").items
    found = running_text(Told(), text, spec, block, "cpu", spread=some).items
    starts, all_starts = found["start"].tolist(), every["start"].tolist()
    assert len(starts) == min(some, len(all_starts))
    assert starts == sorted(set(starts))
    assert starts[0] == 0
    assert len(starts) == 1 or starts[-1] == all_starts[-1]
    of_all = dict(zip(all_starts, zip(every["tokens"], every["loss"], strict=True), strict=True))
    for start, tokens, loss in zip(starts, found["tokens"], found["loss"], strict=True):
        assert (tokens, pytest.approx(loss)) == of_all[start]


def stirred(model: nn.Module) -> nn.Module:
    with torch.no_grad():
        for n, p in enumerate(model.parameters()):
            p.add_(0.5 * torch.randn(p.shape, generator=torch.Generator().manual_seed(n)))
    return model.double().eval()


def test_losses_of_a_model_match_its_logits():
    model = stirred(LanguageModel(ModelSpec(width=8, heads=2, layers=1, block=6), V))
    tokens = np.random.default_rng(0).integers(0, V, 45)
    nats = []
    with torch.no_grad():
        for start in range(0, 44, 6):
            window = torch.tensor(tokens[start : start + 7])
            nats += F.cross_entropy(model(window[None, :-1])[0], window[1:], reduction="none").tolist()
    found = running_text(model, text_of(tokens.tolist()), EvalSpec(batch=4), 6, "cpu")
    assert found.values["loss"] == pytest.approx(np.mean(nats), abs=1e-10)
    assert found.values["tokens"] == 44
    otherwise = running_text(model, text_of(tokens.tolist()), EvalSpec(batch=3), 6, "cpu")
    assert otherwise.items["loss"] == pytest.approx(found.items["loss"], abs=1e-12)


# -- sentences ---------------------------------------------------------------------------------------------------------

CLASSES = 3


def encoded(texts: list[list[int]], labels: list[int]) -> Encoded:
    offsets = np.concatenate([[0], np.cumsum([len(t) for t in texts])]).astype(np.int64)
    return Encoded(np.array([i for t in texts for i in t], np.uint16), offsets, np.array(labels))


def some_items(count: int = 40, longest: int = 9) -> tuple[list[list[int]], list[int]]:
    dice = np.random.default_rng(1)
    texts = [dice.integers(1, V, dice.integers(1, longest)).tolist() for _ in range(count)]
    return texts, dice.integers(0, CLASSES, count).tolist()


@pytest.fixture(scope="module")
def classifier() -> Classifier:
    model = stirred(Classifier(ModelSpec(width=8, heads=2, layers=1, block=6, pattern=Full()), V, CLASSES))
    texts, _labels = some_items()
    with torch.no_grad():  # no class is everybody's favourite
        model.head[2].bias -= torch.stack([model(torch.tensor([text[:6]]))[0] for text in texts]).mean(dim=0)
    return model


def one_by_one(model: Classifier, texts: list[list[int]], labels: list[int]) -> tuple[list[int], list[float]]:
    predicted, losses = [], []
    with torch.no_grad():
        for text, label in zip(texts, labels, strict=True):
            logits = model(torch.tensor([text[:6]]))[0]
            predicted.append(int(logits.argmax()))
            losses.append(float(-logits.log_softmax(0)[label]))
    return predicted, losses


@pytest.mark.parametrize("batch", [1, 7, 64])
def test_sentences_are_measured_as_if_one_by_one(classifier, batch):
    texts, labels = some_items()
    predicted, losses = one_by_one(classifier, texts, labels)
    found = labelled(classifier, encoded(texts, labels), CLASSES, EvalSpec(batch=batch), 6, "cpu")
    assert found.items["predicted"].tolist() == predicted
    assert found.items["loss"].tolist() == pytest.approx(losses, abs=1e-10)
    assert found.items["label"].tolist() == labels
    assert found.items["item"].tolist() == list(range(40))
    assert found.values["accuracy"] == sum(p == y for p, y in zip(predicted, labels, strict=True)) / 40
    assert found.values["loss"] == pytest.approx(sum(losses) / 40)
    assert found.values["texts"] == 40
    assert len(set(predicted)) > 1, "else the test shows little"


@pytest.mark.parametrize("packs", [True, False])
def test_metrics_do_not_depend_on_the_batch_size(classifier, packs):
    texts, labels = some_items()
    classifier.trunk.packs = packs
    found = [labelled(classifier, encoded(texts, labels), CLASSES, EvalSpec(batch=b), 6, "cpu") for b in (1, 3, 40)]
    classifier.trunk.packs = False
    for other in found[1:]:
        assert other.items["predicted"].tolist() == found[0].items["predicted"].tolist()
        assert other.items["loss"].tolist() == pytest.approx(found[0].items["loss"].tolist(), abs=1e-10)
        assert other.values["confusion"] == found[0].values["confusion"]


class Says(nn.Module):
    """Predicts the class that its first token names, with a logit of one."""

    def forward(self, ids: Tensor, keep: Tensor) -> Tensor:
        return F.one_hot(ids[:, 0], CLASSES).float()


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2)), min_size=1, max_size=30))
def test_confusion_and_f1_by_counting(pairs):
    truth, predicted = [t for t, _ in pairs], [p for _, p in pairs]
    found = labelled(Says(), encoded([[p] for p in predicted], truth), CLASSES, EvalSpec(batch=4), 6, "cpu").values
    confusion = [[sum(pair == (t, p) for pair in pairs) for p in range(CLASSES)] for t in range(CLASSES)]
    assert found["confusion"] == confusion
    scores = []
    for c in sorted({*truth, *predicted}):  # a class that is neither has no score, as in scikit-learn
        hits = sum(t == p == c for t, p in pairs)
        precision = hits / max(1, predicted.count(c))
        recall = hits / max(1, truth.count(c))
        scores.append(0.0 if hits == 0 else 2 * precision * recall / (precision + recall))
    assert found["macro_f1"] == pytest.approx(sum(scores) / len(scores))
    assert found["accuracy"] == pytest.approx(sum(t == p for t, p in pairs) / len(pairs))


@pytest.mark.parametrize("spread", [1, 2, 7, 39, 40, 100])
def test_sampled_sentences_spread_evenly(classifier, spread):
    texts, labels = some_items()
    predicted, losses = one_by_one(classifier, texts, labels)
    found = labelled(classifier, encoded(texts, labels), CLASSES, EvalSpec(batch=4), 6, "cpu", spread=spread)
    which = found.items["item"].tolist()
    assert len(which) == found.values["texts"] == min(spread, 40)
    assert which == sorted(set(which))
    assert spread == 1 or (which[0], which[-1]) == (0, 39)
    assert found.items["predicted"].tolist() == [predicted[n] for n in which]
    assert found.items["label"].tolist() == [labels[n] for n in which]
    assert found.values["loss"] == pytest.approx(np.mean([losses[n] for n in which]))
    assert sum(map(sum, found.values["confusion"])) == len(which)


def test_evaluation_keeps_no_graph(classifier):
    texts, labels = some_items(5)
    found = labelled(classifier, encoded(texts, labels), CLASSES, EvalSpec(), 6, "cpu")
    assert isinstance(found.items["loss"], np.ndarray)
    assert all(p.grad is None for p in classifier.parameters())


@pytest.mark.parametrize("stride", [1, 3, 5])
def test_windows_know_the_document_that_contains_them(stride: int):
    begins, block, count = [0, 7, 8, 20], 5, 33
    text = dataclasses.replace(text_of([n % V for n in range(count)]), documents=np.array(begins))
    found = running_text(Told(), text, EvalSpec(stride=stride), block, "cpu").items
    of_token = [max(n for n, begin in enumerate(begins) if begin <= place) for place in range(count)]
    for start, document in zip(found["start"], found["document"], strict=True):
        inside = set(of_token[start : start + block])
        assert document == (inside.pop() if len(inside) == 1 else -1)
    assert "document" not in running_text(Told(), text_of([1] * 33), EvalSpec(), block, "cpu").items


# -- masked tokens -----------------------------------------------------------------------------------------------------


class Recorded:
    """A model whose loss is the id that it sees at a token, and that keeps its inputs."""

    def __init__(self) -> None:
        self.ids: list[np.ndarray] = []
        self.targets: list[np.ndarray] = []

    def token_losses(self, ids: Tensor, targets: Tensor) -> Tensor:
        self.ids += list(ids.numpy())
        self.targets += list(targets.numpy())
        return ids.double() + 0.25


@pytest.mark.parametrize("count", [40, 41, 45, 8, 3])
@pytest.mark.parametrize("batch", [1, 2, 64])
def test_masked_tokens_are_hidden_and_only_they_count(count, batch):
    tokens, mask = np.arange(count) % 7, 99
    model = Recorded()
    measured = running_text(model, text_of(tokens.tolist()), EvalSpec(masked=0.3, batch=batch), 8, "cpu", mask=mask)
    hidden = 0
    for n, (ids, targets, start) in enumerate(zip(model.ids, model.targets, measured.items["start"], strict=True)):
        truth = tokens[start : start + 8]
        assert targets.tolist() == truth.tolist()
        at = ids == mask
        assert at.sum() == max(1, round(0.3 * len(truth))) == measured.items["tokens"][n]
        assert (ids[~at] == truth[~at]).all()
        hidden += at.sum()
    assert measured.values["tokens"] == hidden
    assert measured.values["loss"] == mask + 0.25
    assert measured.values.keys() == {"loss", "perplexity", "tokens"}


def test_which_tokens_are_hidden_depends_on_the_window_alone():
    tokens = np.arange(400) % 7
    seen = {}
    for batch, spread in ((1, None), (5, None), (64, 10)):
        model = Recorded()
        items = running_text(model, text_of(tokens.tolist()), EvalSpec(batch=batch), 8, "cpu", spread, mask=99).items
        for start, ids in zip(items["start"], model.ids, strict=True):
            assert seen.setdefault(int(start), ids.tolist()) == ids.tolist()
    assert len({tuple(np.flatnonzero(np.array(ids) == 99)) for ids in seen.values()}) > 5
