"""DeBERTa-v2: disentangled attention, with texts longer than the span and each crossed term on its own."""

import pytest

from headtohead import Disentangled, ModelSpec, Trunk
from headtohead.model.init import Seeded
from helpers.comparing import DIFFERENT, SAME, difference, parameters, randomised, texts

from .copying import Weights, deberta_spec, deberta_weights, filled

transformers = pytest.importorskip("transformers")
# their module scripts a few functions when it is first imported
pytestmark = pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated:DeprecationWarning")

VOCAB, BLOCK, SPAN = 61, 24, 6
BOTH = ["p2c", "c2p"]


def tiny(terms: list[str]):
    config = transformers.DebertaV2Config(
        vocab_size=VOCAB,
        hidden_size=32,
        num_hidden_layers=3,
        num_attention_heads=4,
        intermediate_size=48,
        max_position_embeddings=BLOCK,
        type_vocab_size=0,
        relative_attention=True,
        max_relative_positions=SPAN,
        position_buckets=-1,
        pos_att_type=terms,
        share_att_key=False,
        position_biased_input=False,
        norm_rel_ebd="none",
    )
    return randomised(transformers.DebertaV2Model(config))


def ours_of(spec: ModelSpec, weights: Weights) -> Trunk:
    return filled(Trunk(spec, VOCAB, Seeded(0)), weights)


@pytest.mark.parametrize("terms", [BOTH, ["c2p"], ["p2c"]], ids="+".join)
@pytest.mark.parametrize("lengths", [[BLOCK, BLOCK], [BLOCK, 10, 1]], ids=["full", "padded"])
def test_hidden_states_are_equal(terms, lengths):
    theirs = tiny(terms)
    spec = deberta_spec(theirs.config)
    ours = ours_of(spec, deberta_weights(theirs.state_dict(), spec))
    ids, keep = texts(VOCAB, lengths)
    expected = lambda: theirs(ids, attention_mask=keep.long()).last_hidden_state
    assert parameters(ours) == parameters(theirs)
    assert difference(ours, expected, ids, keep, at=keep) <= SAME


def narrower(weights: Weights) -> Weights:
    return weights | {"position.table.weight": weights["position.table.weight"][1:-1]}  # the inner offsets' vectors


def swapped(weights: Weights) -> Weights:
    return weights | {
        name: weights[name.replace("position.keys", "position.queries")] for name in weights if "position.keys" in name
    }


def without_queries(weights: Weights) -> Weights:
    return {name: tensor for name, tensor in weights.items() if "position.queries" not in name}


@pytest.mark.parametrize(
    ("path", "value", "alter"),
    [
        ("position", Disentangled(span=SPAN - 1), narrower),
        ("position", Disentangled(span=SPAN, terms="content-to-position"), without_queries),
        ("position", Disentangled(span=SPAN), swapped),
        ("feedforward.activation", "relu", dict),
    ],
)
def test_a_changed_part_is_noticed(path, value, alter):
    theirs = tiny(BOTH)
    spec = deberta_spec(theirs.config)
    weights = alter(deberta_weights(theirs.state_dict(), spec))
    ids, keep = texts(VOCAB, [BLOCK, BLOCK])
    other = ours_of(spec.set(path, value), weights)
    assert difference(other, lambda: theirs(ids).last_hidden_state, ids, keep) > DIFFERENT
