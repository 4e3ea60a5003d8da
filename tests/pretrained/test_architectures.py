"""Checkpoints as models of ours: the logits, maps, losses, labels and texts that transformers has."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from headtohead import Classifier, InputError, LanguageModel, classify, score
from headtohead.data import pretrained_checkpoints, tokenizers
from headtohead.data.corpora import Files
from headtohead.data.encoded import encode_texts
from headtohead.data.pretrained_checkpoints import MINILM_CONFIG, find
from headtohead.data.splits import DataSpec
from headtohead.data.tokenizers import Pieces
from headtohead.interpret.generate import Decoding, generate
from headtohead.interpret.maps import attention
from headtohead.pretrained import architectures
from headtohead.pretrained.architectures import UnknownArchitecture, classifier_spec, classifier_start, read
from headtohead.run.named import load, named
from helpers.checkpoints import TEXT, VOCAB, WORDS, saved, transformers
from helpers.comparing import difference, texts

KINDS = {
    "gpt2": "lm",
    "llama": "lm",
    "bert": "encoder",
    "bert-classifier": "classifier",
    "bert-masked": "encoder",
    "roberta": "encoder",
    "roberta-classifier": "classifier",
    "xlmroberta-classifier": "classifier",
    "camembert-masked": "encoder",
    "distilbert": "encoder",
    "distilbert-classifier": "classifier",
    "electra-classifier": "classifier",
}
each = pytest.mark.parametrize("kind", KINDS)
SAME, SAME_MAPS = 1e-5, 1e-6


def their_own(folder: Path):
    name = json.loads((folder / "config.json").read_text())["architectures"][0]
    return getattr(transformers, name).from_pretrained(folder, attn_implementation="eager").eval()


def hidden(theirs, ids, keep=None):
    """Logits, or of an encoder the states that a head would read."""
    out = theirs(ids, attention_mask=None if keep is None else keep.long(), output_hidden_states=True)
    name = type(theirs).__name__
    return out.logits if name.endswith(("Classification", "CausalLM", "LMHeadModel")) else out.hidden_states[-1]


# -- the same numbers --------------------------------------------------------------------------------------------------


@each
def test_logits_are_equal(checkpoint, kind):
    folder = checkpoint(kind)
    trained, theirs = load(str(folder)), their_own(folder)
    assert trained.task == KINDS[kind]
    ids = torch.tensor(trained.vocabulary.encode([TEXT, TEXT.upper()])[0].astype(np.int64))[None]
    assert difference(trained.model, lambda: hidden(theirs, ids), ids) <= SAME


@each
def test_padding_changes_nothing(checkpoint, kind):
    folder = checkpoint(kind)
    trained, theirs = load(str(folder)), their_own(folder)
    ids, keep = texts(VOCAB, [20, 11, 3])
    ids = torch.where(keep, ids.clamp(min=4), trained.vocabulary.pad)  # RoBERTa tells padding by its id
    at = keep if trained.task != "classifier" else None
    assert difference(trained.model, lambda: hidden(theirs, ids, keep), ids, keep, at=at) <= SAME


@each
def test_imported_maps_are_equal(checkpoint, kind):
    folder = checkpoint(kind)
    maps, theirs = attention(str(folder), TEXT), their_own(folder)
    ids = transformers.AutoTokenizer.from_pretrained(folder)(TEXT)["input_ids"]
    with torch.no_grad():
        out = theirs(torch.tensor([ids]), output_attentions=True)
    own = np.stack([a[0].numpy() for a in out.attentions])
    assert maps.real == len(ids)
    assert abs(maps.weights[:, :, : maps.real, : maps.real] - own).max() <= SAME_MAPS
    assert maps.ok
    assert maps.unknown == 1  # the zebra
    assert maps.step is None
    assert bool(maps.answers) == (KINDS[kind] != "encoder")


@pytest.mark.parametrize(
    ("kind", "settings"),
    [
        ("gpt2", {"activation_function": "relu", "n_inner": 20, "layer_norm_epsilon": 0.1}),
        ("gpt2", {"tie_word_embeddings": False}),
        ("gpt2", {"reorder_and_upcast_attn": True}),
        ("llama", {"num_key_value_heads": 4}),
        ("llama", {"num_key_value_heads": 1, "tie_word_embeddings": True}),
        (
            "llama",
            {"head_dim": 10, "rms_norm_eps": 0.1, "rope_parameters": {"rope_type": "default", "rope_theta": 50.0}},
        ),
        ("llama", {"attention_bias": True, "mlp_bias": True, "hidden_act": "gelu"}),
        ("bert-classifier", {"hidden_act": "gelu_new", "layer_norm_eps": 0.1, "type_vocab_size": 1}),
        ("roberta-classifier", {"pad_token_id": 3, "type_vocab_size": 1}),
        ("distilbert-classifier", {"activation": "relu"}),
        ("distilbert-classifier", {"sinusoidal_pos_embds": True}),
    ],
)
def test_settings_of_a_config_are_imported(tmp_path, kind, settings):
    folder = saved(tmp_path, kind, **settings)
    trained, theirs = load(str(folder)), their_own(folder)
    ids, _ = texts(VOCAB, [20, 20])
    ids = ids.clamp(min=4)
    assert difference(trained.model, lambda: hidden(theirs, ids), ids) <= SAME


def test_the_real_minilm_gives_equal_outputs(minilm):
    trained, theirs = load(minilm), transformers.BertModel.from_pretrained(find(minilm).folder).eval()
    theirs.set_attn_implementation("eager")
    text = "We will not tire, we will not falter: unbelievable perseverance."
    ids = transformers.AutoTokenizer.from_pretrained(find(minilm).folder)(text)["input_ids"]
    assert trained.vocabulary.encode([text])[0].tolist() == ids
    with torch.no_grad():
        out = theirs(torch.tensor([ids]), output_attentions=True)
        ours = trained.model(torch.tensor([ids]))
    assert float((ours - out.last_hidden_state).abs().max()) <= SAME
    maps = attention(trained, text)
    own = np.stack([a[0].numpy() for a in out.attentions])
    assert abs(maps.weights[:, :, : maps.real, : maps.real] - own).max() <= SAME_MAPS
    assert maps.ok
    assert maps.task == "encoder"


# -- the same words ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["gpt2", "llama"])
def test_scores_equal_the_losses_of_transformers(checkpoint, kind):
    folder = checkpoint(kind)
    theirs = their_own(folder)
    found = score(str(folder), TEXT)
    ids = torch.tensor([transformers.AutoTokenizer.from_pretrained(folder)(TEXT)["input_ids"]])
    with torch.no_grad():
        loss = float(theirs(ids, labels=ids).loss)
    assert found.loss == pytest.approx(loss, abs=1e-5)
    assert found.unknown == 1
    assert len(found.tokens) == ids.shape[1]


@pytest.mark.parametrize("kind", ["gpt2", "llama"])
def test_greedy_texts_equal_those_of_transformers(checkpoint, kind):
    folder = checkpoint(kind)
    trained, theirs = load(str(folder)), their_own(folder)
    assert trained.vocabulary.silent == (0, 1)
    (made,) = generate(trained, "we have come", tokens=15, decoding=Decoding(greedy=True))
    ids = torch.tensor([trained.vocabulary.encode(["we have come"])[0].tolist()])
    options = {"do_sample": False, "suppress_tokens": [0, 1], "eos_token_id": None, "pad_token_id": 0}
    whole = theirs.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=15, **options)
    names = trained.vocabulary.names()
    assert made.tokens == tuple(names[i] for i in whole[0, ids.shape[1] :])


def test_labels_in_any_order(checkpoint, tmp_path):
    folder = reconfigured(checkpoint, tmp_path, "bert-classifier", id2label={"2": "c", "0": "a", "1": "b"})
    assert load(str(folder)).labels == ("a", "b", "c")
    folder = reconfigured(checkpoint, tmp_path / "other", "bert-classifier", ("id2label",))
    assert load(str(folder)).labels == ("LABEL_0", "LABEL_1", "LABEL_2")


@pytest.mark.parametrize("kind", [k for k, task in KINDS.items() if task == "classifier"])
def test_labels_equal_those_of_transformers(checkpoint, kind):
    folder = checkpoint(kind)
    theirs = their_own(folder)
    long = " ".join([TEXT] * 3)
    found = classify(str(folder), [TEXT, long])
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    block = load(str(folder)).spec.arm.model.block
    for f, text in zip(found, (TEXT, long), strict=True):
        ids = tokenizer(text, truncation=True, max_length=block)["input_ids"]
        with torch.no_grad():
            p = theirs(torch.tensor([ids])).logits.double().softmax(dim=1)[0]
        assert list(f.probabilities.values()) == pytest.approx(p.tolist(), abs=1e-5)
        assert f.label == theirs.config.id2label[int(p.argmax())]
    assert [f.cut for f in found] == [False, True]
    assert found[1].tokens == len(tokenizer(long)["input_ids"])


# -- how state dicts come ----------------------------------------------------------------------------------------------


def rewritten(checkpoint, tmp_path, kind, change) -> Path:
    folder = Path(shutil.copytree(checkpoint(kind), tmp_path / kind))
    save_file(
        {k: v.contiguous() for k, v in change(load_file(folder / "model.safetensors")).items()},
        folder / "model.safetensors",
    )
    return folder


def reconfigured(checkpoint, tmp_path, kind, drop=(), **settings) -> Path:
    folder = Path(shutil.copytree(checkpoint(kind), tmp_path / kind))
    config = json.loads((folder / "config.json").read_text()) | settings
    (folder / "config.json").write_text(json.dumps({k: v for k, v in config.items() if k not in drop}))
    return folder


def same(a, b) -> bool:
    left, right = a.model.state_dict(), b.model.state_dict()
    return left.keys() == right.keys() and all(torch.equal(left[k], right[k]) for k in left)


@pytest.mark.parametrize(
    ("kind", "prefix"),
    [("gpt2", "transformer."), ("bert-classifier", "bert."), ("roberta-classifier", "roberta."), ("llama", "model.")],
)
def test_weights_without_the_model_prefix_are_read(checkpoint, tmp_path, kind, prefix):
    bare = lambda weights: {name.removeprefix(prefix): w for name, w in weights.items()}
    folder = rewritten(checkpoint, tmp_path, kind, bare)
    assert same(load(str(folder)), load(str(checkpoint(kind))))


def test_old_weight_names_are_read(checkpoint, tmp_path):
    def old(weights):
        gamma = {n.replace("LayerNorm.weight", "LayerNorm.gamma"): w for n, w in weights.items()}
        renamed = {n.replace("LayerNorm.bias", "LayerNorm.beta"): w for n, w in gamma.items()}
        return renamed | {"bert.embeddings.position_ids": torch.arange(24)[None]}

    assert same(
        load(str(rewritten(checkpoint, tmp_path, "bert-classifier", old))), load(str(checkpoint("bert-classifier")))
    )


def test_stored_masks_are_ignored(checkpoint, tmp_path):
    buffers = {"transformer.h.0.attn.bias": torch.ones(1, 1, 24, 24), "transformer.h.0.attn.masked_bias": torch.ones(1)}
    folder = rewritten(checkpoint, tmp_path, "gpt2", lambda weights: weights | buffers)
    assert same(load(str(folder)), load(str(checkpoint("gpt2"))))


def test_half_precision_becomes_single(checkpoint, tmp_path):
    folder = rewritten(checkpoint, tmp_path, "bert", lambda weights: {n: w.half() for n, w in weights.items()})
    model = load(str(folder)).model
    assert {w.dtype for w in model.state_dict().values()} == {torch.float32}
    assert torch.isfinite(model(torch.tensor([[2, 5, 3]]))).all()


def test_older_llama_configs_are_read(checkpoint, tmp_path):
    """theta beside the scaling, and what used to go without saying."""
    drop = ("rope_parameters", "head_dim", "attention_bias", "mlp_bias")
    folder = reconfigured(checkpoint, tmp_path, "llama", drop, rope_theta=50.0, rope_scaling=None)
    new = load(str(checkpoint("llama"))).spec.arm.model
    assert same(load(str(folder)), load(str(checkpoint("llama"))))
    assert load(str(folder)).spec.arm.model == new.set("position.theta", 50.0)
    assert new.position.theta == 10_000.0


def test_a_pooler_next_to_a_head_is_ignored(checkpoint, tmp_path):
    pooler = {"roberta.pooler.dense.weight": torch.ones(32, 32), "roberta.pooler.dense.bias": torch.ones(32)}
    folder = rewritten(checkpoint, tmp_path, "roberta-classifier", lambda weights: weights | pooler)
    assert same(load(str(folder)), load(str(checkpoint("roberta-classifier"))))


def test_a_head_for_another_task_is_dropped(checkpoint, tmp_path):
    folder = reconfigured(checkpoint, tmp_path, "bert-classifier", architectures=["BertForMultipleChoice"])
    assert load(str(folder)).task == "encoder"


# -- what is not supported ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "settings", "says"),
    [
        ("bert", {"model_type": "mamba"}, "'mamba' is not supported; supported: gpt2, llama, bert"),
        ("bert", {"model_type": None}, "no model_type"),
        ("bert", {"position_embedding_type": "relative_key"}, "position_embedding_type='relative_key'"),
        ("bert", {"is_decoder": True}, "is_decoder=True"),
        ("bert", {"add_cross_attention": True}, "add_cross_attention=True"),
        ("bert", {"hidden_act": "mish"}, "activation 'mish' is not supported; supported: relu"),
        ("electra-classifier", {"embedding_size": 16}, "embedding_size=16"),
        ("gpt2", {"scale_attn_by_inverse_layer_idx": True}, "scale_attn_by_inverse_layer_idx=True"),
        ("gpt2", {"scale_attn_weights": False}, "scale_attn_weights=False"),
        ("gpt2", {"architectures": ["GPT2ForSequenceClassification"]}, "GPT2ForSequenceClassification"),
        ("llama", {"rope_parameters": {"rope_type": "linear", "factor": 2.0, "rope_theta": 1e4}}, "'linear'"),
        ("llama", {"rope_parameters": None, "rope_scaling": {"type": "dynamic", "factor": 2.0}}, "'dynamic'"),
        ("llama", {"rope_parameters": {"partial_rotary_factor": 0.5, "rope_theta": 1e4}}, "rotary"),
    ],
)
def test_unsupported_settings_are_named(checkpoint, tmp_path, kind, settings, says):
    folder = reconfigured(checkpoint, tmp_path, kind, **settings)
    with pytest.raises(UnknownArchitecture) as caught:
        load(str(folder))
    assert says in str(caught.value)
    assert str(caught.value).isprintable()


@pytest.mark.parametrize(
    ("kind", "settings", "says"),
    [
        ("bert", {"hidden_size": "wide"}, "cannot be imported"),
        ("bert", {"num_hidden_layers": 10**9}, "layers must be a whole number from 1 to 10,000"),
        ("bert", {"intermediate_size": 10**9}, "do not match its config.json"),
        ("bert", {"num_hidden_layers": 4}, "lacks encoder.layer.3"),
        ("bert", {"intermediate_size": 50}, "do not match its config.json"),
        ("bert", {"vocab_size": VOCAB + 8}, f"has {VOCAB} token embeddings, but its config.json says {VOCAB + 8}"),
        ("bert", {"vocab_size": VOCAB - 8}, f"a token with id {VOCAB - 1} and the model has {VOCAB - 8}"),
        ("bert-classifier", {"id2label": {"0": "calm", "1": "war"}}, "has 3 classes and its config.json names 2"),
        ("bert-classifier", {"id2label": {"0": "a", "1": "b", "2": "a"}}, "has 3 classes and its config.json names 2"),
        ("bert-classifier", {"problem_type": "multi_label_classification"}, "one of several classes"),
        ("gpt2", {"tie_word_embeddings": False}, "lacks lm_head.weight"),
    ],
)
def test_weights_that_do_not_fit_the_config_are_refused(checkpoint, tmp_path, kind, settings, says):
    folder = reconfigured(checkpoint, tmp_path, kind, **settings)
    with pytest.raises(InputError) as caught:
        load(str(folder))
    assert says in str(caught.value)
    assert str(caught.value).isprintable()


def test_fewer_layers_than_weights_are_noticed(checkpoint, tmp_path):
    folder = reconfigured(checkpoint, tmp_path, "bert", num_hidden_layers=2)
    with pytest.raises(UnknownArchitecture, match=r"no place for encoder\.layer\.2"):
        load(str(folder))


def test_a_regression_checkpoint_is_refused(tmp_path):
    with pytest.raises(InputError, match="one of several classes"):
        load(str(saved(tmp_path, "bert-classifier", num_labels=1)))


def test_a_tokenizer_of_another_model_is_refused(checkpoint, tmp_path):
    folder = Path(shutil.copytree(checkpoint("bert"), tmp_path / "mixed"))
    tokenizer = json.loads((folder / "tokenizer.json").read_text())
    tokenizer["model"]["vocab"]["elsewhere"] = VOCAB  # one more than there are embeddings
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    with pytest.raises(InputError, match="embeddings: put the tokenizer"):
        load(str(folder))


WEIRD = [None, "x", -1, 10**9, [3], {"a": None}]
READ = "".join(Path(m.__file__).read_text() for m in (architectures, pretrained_checkpoints, tokenizers))


@pytest.mark.parametrize("kind", ["gpt2", "llama", "bert-classifier"])
def test_no_configuration_brings_a_traceback(checkpoint, tmp_path, kind):
    """Each setting as anything at all: it is imported, or refused in a line."""
    folder = Path(shutil.copytree(checkpoint(kind), tmp_path / kind))
    config = json.loads((folder / "config.json").read_text())
    said: list[str] = []
    for name in [*config, "computed", "id2label", "rope_scaling", "problem_type"]:
        if f'"{name}"' not in READ:  # nobody looks at it
            continue
        for value in WEIRD:
            (folder / "config.json").write_text(json.dumps(config | {name: value}))
            try:
                load(str(folder))
            except InputError as error:
                said.append(str(error))
    assert len(said) > 30
    assert all(map(str.isprintable, said))


# -- to train on -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "head", "activation"),
    [
        ("bert", "pooler.dense", "tanh"),
        ("bert-classifier", "bert.pooler.dense", "tanh"),
        ("bert-masked", None, "tanh"),
        ("roberta", "pooler.dense", "tanh"),
        ("roberta-classifier", "classifier.dense", "tanh"),
        ("distilbert", None, "relu"),
        ("distilbert-classifier", "pre_classifier", "relu"),
        ("electra-classifier", "classifier.dense", "gelu"),
    ],
)
def test_a_classifier_starts_with_the_weights_of_the_encoder(checkpoint, kind, head, activation):
    found = find(str(checkpoint(kind)))
    spec, weights = classifier_start(found, 5)
    model = Classifier(spec, VOCAB, 5)
    wanted = {"head.2.weight", "head.2.bias"} | (set() if head else {"head.0.weight", "head.0.bias"})
    left = model.load_state_dict(weights, strict=False)
    assert set(left.missing_keys) == wanted
    assert left.unexpected_keys == []
    assert (spec.head.hidden, spec.head.activation, spec.dropout) == (32, activation, 0.0)
    assert classifier_start(found, 5, dropout=True)[0].dropout == 0.1
    if head:
        assert torch.equal(weights["head.0.weight"], found.tensors()[f"{head}.weight"])
    assert not any(name.startswith("head.2") for name in weights)


def test_checkpoints_without_an_encoder_cannot_start_a_classifier(checkpoint):
    with pytest.raises(InputError, match="it is a language model, but a classifier needs an encoder: bert, roberta"):
        classifier_start(find(str(checkpoint("gpt2"))), 2)
    with pytest.raises(InputError, match="two classes"):
        classifier_start(find(str(checkpoint("bert"))), 1)


def test_dropout_is_carried_over_only_when_asked(checkpoint):
    for kind, value in (("gpt2", 0.1), ("llama", 0.0), ("distilbert", 0.1)):
        found = find(str(checkpoint(kind)))
        assert read(found).spec.dropout == 0.0
        assert read(found, dropout=True).spec.dropout == value


# -- names -------------------------------------------------------------------------------------------------------------


def test_a_loaded_checkpoint_has_a_title_and_a_task(checkpoint):
    trained = load(str(checkpoint("gpt2")))
    assert isinstance(trained.model, LanguageModel)
    assert not trained.model.training
    assert trained.title == f"{checkpoint('gpt2')}: lm, 3 layers of 4 heads"
    with pytest.raises(InputError, match="is a language model: use h2h score"):
        classify(trained, ["x"])
    with pytest.raises(InputError, match="is a classifier: use h2h classify"):
        score(str(checkpoint("bert-classifier")), "x y")
    with pytest.raises(InputError, match="encoder without a head"):
        score(str(checkpoint("bert")), "x y")
    with pytest.raises(InputError, match="has no steps"):
        named(str(checkpoint("bert")), 3)
    with pytest.raises(InputError, match="has no steps"):
        attention(trained, "the people", step=3)


def test_texts_longer_than_the_positions_are_cut(checkpoint):
    """A language model reads them window by window, an encoder as much as it has room for, ends included."""
    long = " ".join([TEXT] * 10)
    assert len(score(str(checkpoint("gpt2")), long).tokens) == 10 * len(TEXT.split())
    maps = attention(str(checkpoint("bert")), long)
    assert (maps.real, maps.cut) == (24, 10 * len(TEXT.split()) + 2 - 24)
    assert (maps.tokens[0], maps.tokens[23]) == ("[CLS]", "[SEP]")
    assert maps.ok


def test_the_tokenizer_of_a_checkpoint_gives_its_ids(checkpoint):
    spec = Pieces(checkpoint=str(checkpoint("roberta")), longest=6)
    resolved = spec.resolved()
    vocabulary = resolved.learn(iter(["nothing is learned from this"]))
    assert resolved.content == find(str(checkpoint("roberta"))).fingerprint
    assert (vocabulary.pad, vocabulary.unknown, vocabulary.silent, vocabulary.size) == (1, 3, (1, 3), VOCAB)
    assert vocabulary.decode(vocabulary.encode(["the people of our union"])[0]) == "the people of our"
    assert vocabulary.encode([""])[0].tolist() == [0, 2]
    assert vocabulary.count("the people of our union") == 7
    assert vocabulary.encode(["the people of our union"])[0].tolist()[::5] == [0, 2]
    words = TEXT.split()
    assert len(vocabulary.encode_running([TEXT])[0]) == len(words)  # no ends, nothing cut
    assert vocabulary.encode([TEXT])[0].tolist()[::5] == [0, 2]  # and the next text is cut again
    again = resolved.restore(json.loads(json.dumps(vocabulary.state())))
    assert again.encode([TEXT])[0].tolist() == vocabulary.encode([TEXT])[0].tolist()
    with pytest.raises(InputError, match="has changed since this run was created"):
        Pieces(checkpoint=str(checkpoint("bert")), content=resolved.content).resolved()
    for state in ("x", {}, {"tokenizer": {}}):
        with pytest.raises(InputError, match=r"is not the tokenizer of a checkpoint"):
            resolved.restore(state)


def test_the_built_in_minilm_config_matches_the_real_one(minilm):
    assert classifier_spec("minilm", dropout=True) == classifier_start(find(minilm), 2, dropout=True)[0]
    config = find(minilm).config
    assert {name: config[name] for name in MINILM_CONFIG} == MINILM_CONFIG


def test_running_text_is_tokenized_without_ends(checkpoint, tmp_path):
    """Running text comes in large pieces. No piece is cut, and no piece gets extra end tokens."""
    path = tmp_path / "mine.txt"
    path.write_text("\n".join(" ".join(WORDS) for _ in range(2000)) + "\n")
    data = DataSpec(corpus=Files(path=str(path)))
    encoded = encode_texts(data, Pieces(checkpoint=str(checkpoint("llama")), longest=8))
    tokens = [len(encoded.train.tokens), *(len(held.tokens) for held in encoded.held.values())]
    assert sum(tokens) == 2000 * len(WORDS)
    assert not np.isin(encoded.train.tokens, [2, 3]).any()
