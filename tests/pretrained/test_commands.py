"""Whatever takes a run takes a checkpoint: attend, score, generate, classify, heads; and the audit."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from headtohead.audit import Claims, audit_module, audit_named
from headtohead.data.corpora import Files
from headtohead.data.encoded import encode_texts
from headtohead.data.splits import DataSpec
from headtohead.data.tokenizers import Pieces
from headtohead.imported import load
from headtohead.inspect.surgery import Surgery, reading, surgery
from runs.small import Done, h2h

from .tiny import TEXT, WORDS, saved, transformers

LEARNED = {"seed", "initial-loss"}  # what is asked of weights that were drawn, and not of those that were learned


def refused(done: Done, *says: str) -> None:
    assert done.code in (2, 3)
    assert len(done.err.strip().splitlines()) == 1, done.err
    for words in says:
        assert words in done.err


def test_a_language_model(checkpoint, tmp_path):
    folder = checkpoint("llama")
    done = h2h("attend", folder, TEXT, "--out", "map.html")
    assert done.code == 0, done.err
    assert "lm, 3 layers of 4 heads" in " ".join(done.out.split())
    assert "next token" in done.out
    assert "✗" not in done.out
    assert (tmp_path / "map.html").stat().st_size > 10_000
    assert "perplexity" in h2h("score", folder, TEXT).out
    said = h2h("generate", folder, "we have come", "--tokens", 8, "--greedy").out
    assert said.startswith("we have come ")
    assert len(said) > len("we have come peace peace")
    refused(h2h("classify", folder, TEXT), "is a language model: use h2h score")
    refused(h2h("attend", folder, TEXT, "--step", 3), "is a checkpoint: it has no steps")
    refused(h2h("attend", folder, "--evolution"), "is a checkpoint")
    refused(h2h("attend", folder, TEXT, "--film", "--layer", 0, "--head", 0, "--out", "f.png"), "is a checkpoint")


def test_an_encoder(checkpoint, tmp_path):
    folder = checkpoint("distilbert")
    done = h2h("attend", folder, TEXT, "--out", "map.png")
    assert done.code == 0, done.err
    assert "it predicts nothing" in done.out
    assert (tmp_path / "map.png").is_file()
    for command in (["score", folder, TEXT], ["generate", folder, "we"], ["classify", folder, TEXT], ["heads", folder]):
        refused(h2h(*command), "is an encoder without a head", "use h2h attend")


def test_what_is_wrong_is_a_line(tmp_path, checkpoint):
    folder = Path(shutil.copytree(checkpoint("gpt2"), tmp_path / "spoilt"))
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    refused(h2h("score", folder, TEXT), "which can run code")
    said = h2h("score", "hub:nobody/nothing", TEXT)
    assert said.code == 3
    assert said.err.splitlines()[0] == "h2h: loading nobody/nothing from the Hub, or from its cache"
    refused(said._replace(err=said.err.partition("\n")[2]), "cannot have nobody/nothing from the Hub")
    refused(h2h("generate", "./nowhere", "we"), "there is no folder './nowhere'")
    (tmp_path / "models").mkdir()
    refused(h2h("generate", "models", "we"), "models holds no config.json")


@pytest.mark.parametrize(
    ("spoil", "says"), [(lambda w: w * float("nan"), "holds NaN or infinity"), (lambda w: w.to(torch.int8), "int8")]
)
def test_weights_that_are_no_numbers_are_refused(tmp_path, checkpoint, spoil, says):
    folder = Path(shutil.copytree(checkpoint("bert-classifier"), tmp_path / "spoilt"))
    weights = load_file(folder / "model.safetensors")
    name = next(n for n in weights if n.endswith("query.weight"))
    save_file({**weights, name: spoil(weights[name])}, folder / "model.safetensors")
    for command in (["classify", folder, TEXT, "--json"], ["attend", folder, TEXT]):
        refused(h2h(*command), says, "have the weights again")


def test_an_architecture_without_words_here_is_shown_by_its_own_code(tmp_path):
    """The maps are those of transformers, and the output is made the same way."""
    config = transformers.OPTConfig(
        vocab_size=28, hidden_size=16, num_hidden_layers=2, num_attention_heads=2, ffn_dim=32, word_embed_proj_dim=16
    )
    torch.manual_seed(0)
    model = transformers.OPTForCausalLM(config).eval()
    folder = Path(shutil.copytree(saved(tmp_path, "gpt2"), tmp_path / "opt"))
    model.save_pretrained(folder)
    done = h2h("attend", folder, "the people of our union", "--json")
    assert done.code == 0, done.err
    said = done.json[0]
    model.set_attn_implementation("eager")
    ids = transformers.AutoTokenizer.from_pretrained(folder)("the people of our union", return_tensors="pt")
    with torch.no_grad():
        out = model(ids["input_ids"], output_attentions=True)
    own = np.stack([a[0].numpy() for a in out.attentions])
    n = own.shape[-1]
    np.testing.assert_allclose(np.array(said["weights"])[:, :, :n, :n], own, atol=1e-6)
    refused(h2h("score", folder, TEXT), "'opt' is not known here: known are gpt2")


def test_what_its_own_code_cannot_show_is_a_line(tmp_path, checkpoint):
    """Weights that are missing would be drawn at random, and the maps be of nothing."""
    folder = Path(shutil.copytree(checkpoint("gpt2"), tmp_path / "opt"))
    sizes = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "ffn_dim": 32}
    transformers.OPTConfig(vocab_size=28, word_embed_proj_dim=16, **sizes).save_pretrained(folder)
    refused(h2h("attend", folder, TEXT), "would draw it at random")
    odd = Path(shutil.copytree(checkpoint("bert-classifier"), tmp_path / "odd"))
    config = json.loads((odd / "config.json").read_text())
    (odd / "config.json").write_text(json.dumps({**config, "model_type": "t5"}))
    refused(h2h("attend", odd, TEXT), "holds no Hugging Face model")
    mamba = Path(shutil.copytree(checkpoint("gpt2"), tmp_path / "mamba"))
    transformers.MambaForCausalLM(
        transformers.MambaConfig(vocab_size=28, hidden_size=16, num_hidden_layers=1)
    ).save_pretrained(mamba)
    refused(h2h("attend", mamba, TEXT), "does not give attention weights")


# -- heads -------------------------------------------------------------------------------------------------------------


def data(folder: Path, labels: list[str]) -> Path:
    rows = [f"{' '.join(WORDS[n % 9 : n % 9 + 5])} {WORDS[n % 7]},{labels[n % len(labels)]}" for n in range(60)]
    path = folder / "mine.csv"
    path.write_text("\n".join(["text,label", *rows]) + "\n")
    return path


def done(found) -> Surgery:
    *_, last = found
    return last


def test_surgery_on_a_language_model(checkpoint, tmp_path):
    (tmp_path / "mine.txt").write_text("\n".join(" ".join(WORDS[n % 5 :]) for n in range(40)) + "\n")
    said = h2h("heads", checkpoint("gpt2"), "--data", "mine.txt", "--items", 8, "--json")
    assert said.code == 0, said.err
    assert said.json["runs"] == [str(checkpoint("gpt2"))]
    assert len([e for e in said.json["effects"] if e["head"] is not None]) == 12
    assert any(abs(e["difference"]) > 1e-3 for e in said.json["effects"])
    refused(h2h("heads", checkpoint("gpt2")), "brings no texts: give some with --data")


def test_a_whole_text_is_read_by_the_tokenizer_of_a_checkpoint(checkpoint, tmp_path):
    """Running text comes in large pieces: none may be cut, and none gets ends of its own."""
    path = tmp_path / "mine.txt"
    path.write_text("\n".join(" ".join(WORDS) for _ in range(2000)) + "\n")
    data = DataSpec(corpus=Files(path=str(path)))
    encoded = encode_texts(data, Pieces(checkpoint=str(checkpoint("llama")), longest=8))
    tokens = [len(encoded.train.tokens), *(len(held.tokens) for held in encoded.held.values())]
    assert sum(tokens) == 2000 * len(WORDS)
    assert not np.isin(encoded.train.tokens, [2, 3]).any()


def test_classes_of_the_data_are_put_in_order(checkpoint, tmp_path):
    """Whatever the order of its labels, the same texts have the same loss."""
    folder = Path(shutil.copytree(checkpoint("bert-classifier"), tmp_path / "named"))
    config = json.loads((folder / "config.json").read_text())
    losses = []
    for labels, written in ((["zeal", "calm", "mild"], ["Zeal", "calm", "MILD"]), (None, ["0", "1", "2"])):
        config["id2label"] = {str(n): name for n, name in enumerate(labels or ["LABEL_0", "LABEL_1", "LABEL_2"])}
        (folder / "config.json").write_text(json.dumps(config))
        corpus = Files(path=str(data(tmp_path, written)))
        trained = reading(load(str(folder)), corpus)
        found = done(surgery([trained], items=40))
        assert found.models == str(folder)
        losses.append(found.loss)
        assert sorted(trained.labels) == sorted(config["id2label"].values())
    assert trained.labels == ("LABEL_0", "LABEL_1", "LABEL_2")
    assert losses[0] == pytest.approx(losses[1], abs=1e-5)
    data(tmp_path, ["calm", "war"])
    refused(h2h("heads", folder, "--data", "mine.csv"), "calm, war", "LABEL_0")
    data(tmp_path, ["0", "1"])
    refused(h2h("heads", folder, "--data", "mine.csv"), "name the data's like the model's")


# -- the audit ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "claims"),
    [("gpt2", {"causal": True}), ("llama", {"causal": True, "relative": True}), ("roberta-classifier", {"pad": 1})],
)
def test_the_audit_of_an_imported_model(checkpoint, kind, claims):
    report = audit_module(lambda: load(str(checkpoint(kind))).model, kind, **claims)
    broken = {f.check for f in report.findings if f.status == "broken"}
    assert broken <= LEARNED
    assert sum(f.status == "proved" for f in report.findings) >= 12


@pytest.mark.parametrize("kind", ["gpt2", "llama", "roberta-classifier", "bert"])
def test_the_audit_of_a_checkpoint_by_its_name(checkpoint, kind):
    done = h2h("audit", checkpoint(kind), "--json")
    assert done.code == 0, done.err
    (report,) = done.json
    status = {f["check"]: f["status"] for f in report["findings"]}
    assert status["seed"] == status["initial-loss"] == "does not apply"
    assert sum(s == "proved" for s in status.values()) >= 12
    assert status["future-tokens"] == ("proved" if kind in ("gpt2", "llama") else "does not apply")


MODULES = """
def lm():
    import transformers
    return transformers.GPT2LMHeadModel.from_pretrained("{lm}")

def classifier():
    import transformers
    return transformers.BertForSequenceClassification.from_pretrained("{classifier}")

def imported():
    from headtohead.imported import load
    return load("{lm}").model

def looks_ahead():
    made = imported()
    import dataclasses
    from headtohead import Full
    made.trunk.spec = dataclasses.replace(made.trunk.spec, pattern=Full())
    return made
"""


def test_the_audit_of_modules_in_a_file(checkpoint, tmp_path):
    places = {"lm": checkpoint("gpt2"), "classifier": checkpoint("bert-classifier")}
    (tmp_path / "mine.py").write_text(MODULES.format(**places))
    for name, claims in (("lm", Claims(causal=True)), ("classifier", Claims()), ("imported", Claims(causal=True))):
        (report,) = audit_named(f"mine.py:{name}", claims)
        assert {f.check for f in report.findings if f.status == "broken"} <= LEARNED, name
        assert sum(f.status == "proved" for f in report.findings) >= 12
    (report,) = h2h("audit", "mine.py:looks_ahead", "--causal", "--json").json
    assert {"future-gradient", "future-tokens"} <= {f["check"] for f in report["findings"] if f["status"] == "broken"}
