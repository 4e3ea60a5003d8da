"""Checkpoint folders and weights that somebody else wrote: none of their code runs, no pickle is read, and a wrong
header is one line."""

from __future__ import annotations

import json
import random
import shutil
import struct
from pathlib import Path
from typing import Any

import pytest

from headtohead import ModelSpec
from headtohead.spec.statements import digest
from helpers.checkpoints import saved
from helpers.hostile import Attempt, Lab

NORMAL, SLOW = 25, 1500  # random headers
COMMANDS: list[list[str]] = [
    ["attend", "FOLDER", "we have come to talk"],
    ["score", "FOLDER", "we have come"],
    ["classify", "FOLDER", "we have come"],
    ["generate", "FOLDER", "we", "--tokens", "2"],
    ["export", "FOLDER", "exported"],
    ["audit", "FOLDER"],
    ["list", "parameters", "FOLDER"],
]


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return saved(tmp_path_factory.mktemp("checkpoint"), "gpt2")


@pytest.fixture
def lab(tmp_path: Path, sound: Path, monkeypatch: pytest.MonkeyPatch, counted: Any) -> Lab:
    (tmp_path / "cwd").mkdir()
    monkeypatch.chdir(tmp_path / "cwd")
    monkeypatch.setenv("HEADTOHEAD_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("HEADTOHEAD_TRUST", str(tmp_path / "trusted.json"))
    monkeypatch.delenv("HEADTOHEAD_DATA", raising=False)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    made = counted(Lab(tmp_path))
    shutil.copytree(sound, tmp_path / "theirs")
    return made


def typed(command: list[str], lab: Lab) -> list[str]:
    shutil.rmtree(lab.folder / "cwd" / "exported", ignore_errors=True)
    return [str(lab.folder / "theirs") if word == "FOLDER" else word for word in command]


def change(folder: Path, file: str, **values: Any) -> None:
    path = folder / file
    data = json.loads(path.read_text()) if path.is_file() else {}
    path.write_text(json.dumps(data | values))


AUTO = {
    "AutoConfig": "evil.EvilConfig",
    "AutoModel": "evil.EvilModel",
    "AutoModelForCausalLM": "evil.EvilModel",
    "AutoTokenizer": ["evil.EvilTokenizer", "evil.EvilTokenizer"],
}


@pytest.mark.parametrize("kind", ["gpt2", "evil", "bloom", "headtohead_lm"])
def test_custom_code_of_a_checkpoint_never_runs(kind: str, lab: Lab, attempt: Attempt) -> None:
    folder = lab.folder / "theirs"
    evil = lab.payload + "from transformers import PretrainedConfig as EvilConfig, GPT2LMHeadModel as EvilModel\n"
    evil += "from transformers import PreTrainedTokenizerFast as EvilTokenizer\n"
    for name in ("evil.py", "modeling_headtohead.py", "tokenization_evil.py", "torch.py", "__init__.py"):
        (folder / name).write_text(evil)
    change(folder, "config.json", auto_map=AUTO, model_type=kind, trust_remote_code=True, custom_pipelines=AUTO)
    change(folder, "tokenizer_config.json", auto_map=AUTO, tokenizer_class="EvilTokenizer", trust_remote_code=True)
    for command in COMMANDS:
        attempt(lab, f"auto_map of {kind}", *typed(command, lab))
    (folder / "tokenizer.json").unlink()
    (folder / "vocab.json").write_text("{}")
    (folder / "merges.txt").write_text("")
    for command in COMMANDS[:2]:
        attempt(lab, f"auto_map of {kind}, old tokenizer", *typed(command, lab), codes={2, 3})


def test_specs_in_a_config_name_no_code(lab: Lab, attempt: Attempt) -> None:
    """A model that headtohead exported has its spec in config.json."""
    folder, evil = lab.folder / "theirs", lab.folder / "evil.py"
    evil.write_text(lab.evil())
    part = {"kind": "Evil", "file": str(evil), "source": digest(lab.evil(), "Evil")}
    sound = json.loads(json.dumps(ModelSpec().to_json()))
    for model in (part, {**sound, "position": part}, {**sound, "position": [part]}, {**sound, "nope": [{"x": [part]}]}):
        change(folder, "config.json", model_type="headtohead_lm", model=model)
        for command in COMMANDS:
            attempt(lab, "spec in config.json", *typed(command, lab), codes={2, 3})


def test_pickled_weights_are_never_read(lab: Lab, attempt: Attempt) -> None:
    folder = lab.folder / "theirs"
    for name in ("pytorch_model.bin", "model.pt", "training_args.bin", "optimizer.pkl"):
        (folder / name).write_bytes(lab.pickled())
    for command in COMMANDS:
        attempt(lab, "pickle beside weights", *typed(command, lab))
    (folder / "model.safetensors").write_bytes(lab.pickled())
    for command in COMMANDS:
        attempt(lab, "pickle as weights", *typed(command, lab), codes={2})
    (folder / "model.safetensors").unlink()
    for command in COMMANDS:
        attempt(lab, "pickle alone", *typed(command, lab), codes={2})
    change(folder, "model.safetensors.index.json", weight_map={"a": "../evil.safetensors", "b": "pytorch_model.bin"})
    for command in COMMANDS:
        attempt(lab, "shards elsewhere", *typed(command, lab), codes={2})
    change(folder, "model.safetensors.index.json", weight_map={"a": "pytorch_model.bin"})
    for command in COMMANDS[:2]:
        attempt(lab, "pickle as shard", *typed(command, lab), codes={2})


def headers(rng: random.Random, sound: bytes) -> bytes:
    """A safetensors file whose header is wrong in some way."""
    (length,) = struct.unpack("<Q", sound[:8])
    header: dict[str, Any] = json.loads(sound[8 : 8 + length])
    data = sound[8 + length :]
    name = rng.choice([key for key in header if key != "__metadata__"])
    tensor = header[name]
    match rng.randrange(12):
        case 0:
            return struct.pack("<Q", rng.choice([2**63, 2**64 - 1, 10**12, len(sound), 0, 1])) + sound[8:]
        case 1:
            tensor["data_offsets"] = [0, rng.choice([10**15, -1, 2**64, len(data) + 1])]
        case 2:
            tensor["shape"] = rng.choice([[2**40, 2**40], [-1], [10**9], [], "x", None, [1.5]])
        case 3:
            tensor["dtype"] = rng.choice(["F128", "", None, 5, "I64", "BF16", "F64", "os.system"])
        case 4:
            del header[name]
        case 5:
            header[rng.choice(["../../evil", "\0", "\ud7ff" * 10, "x" * 10_000, "__metadata__"])] = tensor
        case 6:
            header["__metadata__"] = rng.choice([5, [], {"a": 1}, {"format": "pickle"}, {"facts": "["}])
        case 7:
            return sound[: rng.randrange(len(sound))]
        case 8:
            flipped = bytearray(sound)
            for _ in range(20):
                flipped[rng.randrange(8 + length)] = rng.randrange(256)
            return bytes(flipped)
        case 9:
            text = rng.choice([b"[" * 50_000, b"{" * 50_000, b"null", b"", b"\xff" * 100, b'{"a":' * 20_000])
            return struct.pack("<Q", len(text)) + text + data
        case 10:
            tensor["data_offsets"] = rng.choice([None, [], [0], [4, 0], "ab", [0, 1, 2], {"a": 1}])
        case _:
            header = {key: {**value, "dtype": "F32", "shape": [1]} for key, value in header.items()}
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def wrong_headers(lab: Lab, attempt: Attempt, count: int, seed: int) -> None:
    rng, weights = random.Random(seed), lab.folder / "theirs" / "model.safetensors"
    sound = weights.read_bytes()
    for number in range(count):
        weights.write_bytes(headers(rng, sound))
        command = rng.choice(COMMANDS)
        attempt(lab, f"seed {seed}, header {number}", *typed(command, lab))


def test_wrong_headers_of_weights_are_one_line(lab: Lab, attempt: Attempt) -> None:
    wrong_headers(lab, attempt, NORMAL, seed=1)


@pytest.mark.slow
def test_many_wrong_headers_of_weights_are_one_line(lab: Lab, attempt: Attempt) -> None:
    wrong_headers(lab, attempt, SLOW, seed=2)
