"""BERT's classifier: both ways, norm last, a norm on the embeddings, exact gelu, the first token through tanh."""

import pytest

from headtohead import Classifier, ModelSpec
from headtohead.pretrained.architectures import bert_spec, bert_weights
from helpers.comparing import DIFFERENT, SAME, difference, parameters, randomised, texts

from .copying import bare, filled

transformers = pytest.importorskip("transformers")

VOCAB, CLASSES, SEGMENTS, WIDTH = 61, 3, 2, 32


@pytest.fixture(scope="module")
def theirs():
    config = transformers.BertConfig(
        vocab_size=VOCAB,
        hidden_size=WIDTH,
        num_hidden_layers=3,
        num_attention_heads=4,
        intermediate_size=48,
        max_position_embeddings=24,
        type_vocab_size=SEGMENTS,
        num_labels=CLASSES,
    )
    return randomised(transformers.BertForSequenceClassification(config))


def ours_of(theirs, spec: ModelSpec | None = None) -> Classifier:
    spec = spec or bert_spec(theirs.config.to_dict())
    return filled(Classifier(spec, VOCAB, CLASSES), bert_weights(bare(theirs, "bert."), spec))


def test_the_norms_are_those_of_bert(theirs):
    spec = bert_spec(theirs.config.to_dict())
    assert spec.norm.eps == spec.embedding_norm.eps == 1e-12


@pytest.mark.parametrize("lengths", [[24, 24, 24], [20, 11, 1]], ids=["full", "padded"])
def test_logits_are_equal(theirs, lengths):
    ours = ours_of(theirs)
    ids, keep = texts(VOCAB, lengths)
    expected = lambda: theirs(ids, attention_mask=keep.long()).logits
    assert parameters(ours) == parameters(theirs) - SEGMENTS * WIDTH
    assert difference(ours, expected, ids, keep) <= SAME
    assert difference(ours, expected, ids) <= SAME  # zeros are padding, unless told otherwise


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("feedforward.activation", "relu"),
        ("head.activation", "relu"),
        ("pattern", "Local(3)"),
        ("pooling", "Mean"),
    ],
)
def test_a_changed_part_is_noticed(theirs, path, value):
    ids, keep = texts(VOCAB, [20, 11, 5])
    other = ours_of(theirs, bert_spec(theirs.config.to_dict()).set(path, value))
    assert difference(other, lambda: theirs(ids, attention_mask=keep.long()).logits, ids, keep) > DIFFERENT


def test_a_changed_mask_is_noticed(theirs):
    ids, keep = texts(VOCAB, [20, 11, 5])
    assert difference(ours_of(theirs), lambda: theirs(ids).logits, ids, keep) > DIFFERENT
