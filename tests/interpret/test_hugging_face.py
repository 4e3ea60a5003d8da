"""Maps of Hugging Face folders: tiny random models with tokenizers of their own, saved here and read back."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from helpers.terminal import h2h

transformers = pytest.importorskip("transformers", reason="Hugging Face maps need pip install 'headtohead[hf]'")

WORDS = ["[PAD]", "[UNK]", "the", "people", "of", "our", "union", "are", "at", "peace"]


def folder(tmp_path: Path, kind: str) -> Path:
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from tokenizers.pre_tokenizers import Whitespace

    words = Tokenizer(WordLevel({w: n for n, w in enumerate(WORDS)}, unk_token="[UNK]"))
    words.pre_tokenizer = Whitespace()
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=words, pad_token="[PAD]", unk_token="[UNK]")
    torch.manual_seed(0)
    if kind == "gpt2":
        sizes = {"n_layer": 2, "n_head": 2, "n_embd": 16, "n_positions": 12, "vocab_size": len(WORDS)}
        model = transformers.GPT2LMHeadModel(transformers.GPT2Config(**sizes, bos_token_id=0, eos_token_id=0))
    else:
        sizes = {"num_hidden_layers": 2, "num_attention_heads": 2, "hidden_size": 16, "intermediate_size": 32}
        config = transformers.BertConfig(
            **sizes, max_position_embeddings=12, vocab_size=len(WORDS), id2label={0: "calm", 1: "war"}
        )
        model = transformers.BertForSequenceClassification(config)
    model.save_pretrained(tmp_path / kind)
    tokenizer.save_pretrained(tmp_path / kind)
    return tmp_path / kind


@pytest.mark.parametrize("kind", ["gpt2", "bert"])
def test_maps_equal_those_of_transformers(tmp_path, kind, monkeypatch):
    monkeypatch.chdir(tmp_path)
    where = folder(tmp_path, kind)
    done = h2h("attend", where, "the people of our zebra", "--json", "--out", "map.html")
    assert done.code == 0, done.err
    said = done.json[0]
    cls = transformers.GPT2LMHeadModel if kind == "gpt2" else transformers.BertForSequenceClassification
    model = cls.from_pretrained(where, attn_implementation="eager").eval()
    with torch.no_grad():
        out = model(torch.tensor([[2, 3, 4, 5, 1]]), output_attentions=True)
    own = np.stack([a[0].numpy() for a in out.attentions])
    np.testing.assert_allclose(np.array(said["weights"])[:, :, :5, :5], own, atol=1e-6)
    assert said["tokens"][:5] == ["the", "people", "of", "our", "[UNK]"]
    assert said["unknown"] == 1
    verdicts = {c["name"]: c["verdict"] for c in said["checks"]}
    assert verdicts["future"] == ("proved" if kind == "gpt2" else "not claimed")
    assert "broken" not in verdicts.values()
    if kind == "bert":
        assert {a["says"] for a in said["answers"]} == {"calm", "war"}


def test_a_long_text_or_an_unknown_model_is_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    where = folder(tmp_path, "gpt2")
    done = h2h("attend", where, "the people " * 8)
    assert "cut to the block: the first 12 of 16" in done.out, done.err
    (where / "model.safetensors").write_bytes(b"torn")
    done = h2h("attend", where, "the people")
    assert done.code == 2
    assert len(done.err.strip().splitlines()) == 1
    assert "safetensors" in done.err
