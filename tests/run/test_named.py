"""Commands take a checkpoint wherever they take a run."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from helpers.checkpoints import TEXT, saved, transformers
from helpers.terminal import h2h, refused

pytestmark = pytest.mark.usefixtures("offline")


def test_commands_take_a_language_model_checkpoint(checkpoint, tmp_path):
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


def test_commands_take_or_refuse_an_encoder_checkpoint(checkpoint, tmp_path):
    folder = checkpoint("distilbert")
    done = h2h("attend", folder, TEXT, "--out", "map.png")
    assert done.code == 0, done.err
    assert "it predicts nothing" in done.out
    assert (tmp_path / "map.png").is_file()
    for command in (["score", folder, TEXT], ["generate", folder, "we"], ["classify", folder, TEXT], ["heads", folder]):
        refused(h2h(*command), "is an encoder without a head", "use h2h attend")


def test_bad_checkpoints_are_one_line(tmp_path, checkpoint):
    folder = Path(shutil.copytree(checkpoint("gpt2"), tmp_path / "spoilt"))
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    refused(h2h("score", folder, TEXT), "which can run code")
    said = h2h("score", "hub:nobody/nothing", TEXT)
    assert said.code == 3
    assert said.err.splitlines()[0] == "h2h: loading nobody/nothing from the Hub, or from its cache"
    refused(said._replace(err=said.err.partition("\n")[2]), "cannot load nobody/nothing from the Hub")
    refused(h2h("generate", "./nowhere", "we"), "there is no folder './nowhere'")
    (tmp_path / "models").mkdir()
    refused(h2h("generate", "models", "we"), "models has no config.json")


@pytest.mark.parametrize(
    ("spoil", "says"), [(lambda w: w * float("nan"), "contains NaN or infinity"), (lambda w: w.to(torch.int8), "int8")]
)
def test_weights_that_are_not_finite_are_refused(tmp_path, checkpoint, spoil, says):
    folder = Path(shutil.copytree(checkpoint("bert-classifier"), tmp_path / "spoilt"))
    weights = load_file(folder / "model.safetensors")
    name = next(n for n in weights if n.endswith("query.weight"))
    save_file({**weights, name: spoil(weights[name])}, folder / "model.safetensors")
    for command in (["classify", folder, TEXT, "--json"], ["attend", folder, TEXT]):
        refused(h2h(*command), says, "get the weights")


def test_attend_shows_unknown_architectures_by_transformers(tmp_path):
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
    refused(h2h("score", folder, TEXT), "'opt' is not supported; supported: gpt2")


def test_models_without_attention_weights_are_one_line(tmp_path, checkpoint):
    """Weights that are missing would be drawn at random, and the maps be of nothing."""
    folder = Path(shutil.copytree(checkpoint("gpt2"), tmp_path / "opt"))
    sizes = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "ffn_dim": 32}
    transformers.OPTConfig(vocab_size=28, word_embed_proj_dim=16, **sizes).save_pretrained(folder)
    refused(h2h("attend", folder, TEXT), "would be random")
    odd = Path(shutil.copytree(checkpoint("bert-classifier"), tmp_path / "odd"))
    config = json.loads((odd / "config.json").read_text())
    (odd / "config.json").write_text(json.dumps({**config, "model_type": "t5"}))
    refused(h2h("attend", odd, TEXT), "has no Hugging Face model")
    mamba = Path(shutil.copytree(checkpoint("gpt2"), tmp_path / "mamba"))
    transformers.MambaForCausalLM(
        transformers.MambaConfig(vocab_size=28, hidden_size=16, num_hidden_layers=1)
    ).save_pretrained(mamba)
    refused(h2h("attend", mamba, TEXT), "returns no attention weights")
