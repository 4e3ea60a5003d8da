"""SST-2 through the real `load_dataset`, from folders that datasets wrote itself; no network."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from headtohead.data.hub import sst2_from_hub
from headtohead.errors import InputError, Unavailable

datasets = pytest.importorskip("datasets", reason="needs the extra hf")

TRAIN = {"idx": [0, 1, 2], "sentence": ["a gem ", "a bore ", "naïve, 'but' \"fine\" "], "label": [1, 0, 1]}
PAIRS = [("a gem", "1"), ("a bore", "0"), ("naïve, 'but' \"fine\"", "1")]


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(datasets.config, "HF_MODULES_CACHE", str(tmp_path / "modules"))
    datasets.disable_progress_bars()


@pytest.fixture
def folder(tmp_path):
    made = tmp_path / "sst2"
    made.mkdir()
    return made


def put(folder, ending="parquet", **splits):
    for split, columns in splits.items():
        data = datasets.Dataset.from_dict(columns)
        if "sentence" in columns and all(type(v) is int for v in columns["label"]):
            data = data.cast_column("label", datasets.ClassLabel(names=["negative", "positive"]))
        getattr(data, f"to_{ending}")(str(folder / f"{split}.{ending}"))


def load(folder) -> tuple[dict, list[str]]:
    said: list[str] = []
    return sst2_from_hub(str(folder), announce=said.append), said


def message(name, kind=InputError) -> str:
    with pytest.raises(InputError) as caught:
        sst2_from_hub(str(name), announce=lambda _: None)
    assert type(caught.value) is kind
    assert str(caught.value).isprintable()
    return str(caught.value)


def test_sst2_is_read_as_on_the_hub(folder):
    hidden = {"idx": [0, 1], "sentence": ["who knows ", "not us "], "label": [-1, -1]}
    put(folder, train=TRAIN, validation=TRAIN, test=hidden)
    found, said = load(folder)
    assert found == {
        "train": PAIRS,
        "validation": PAIRS,
    }  # test has no label: it is not there, and nothing is in its stead
    assert said == [f"{folder}: 2 rows of its test split have no label (-1) and are left out"]


def test_a_test_split_with_labels_is_kept(folder):
    put(folder, train=TRAIN, test={**TRAIN, "label": [1, -1, 0]})
    found, said = load(folder)
    assert found == {"train": PAIRS, "test": [PAIRS[0], (PAIRS[2][0], "0")]}
    assert said == [f"{folder}: 1 rows of its test split have no label (-1) and are left out"]


@pytest.mark.parametrize(
    ("labels", "read"),
    [
        (["pos", "neg", "pos"], ["pos", "neg", "pos"]),
        ([True, False, True], ["true", "false", "true"]),
        ([1.0, 0.0, 1.0], ["1", "0", "1"]),
    ],
)
def test_other_split_and_column_names_are_read(folder, labels, read):
    put(folder, "csv", train={"text": TRAIN["sentence"], "label": labels})
    found, said = load(folder)
    assert [label for _, label in found["train"]] == read
    assert said == []


def test_missing_hub_columns_are_refused(folder):
    put(folder, train={"premise": ["a"], "label": [1]})
    assert message(folder) == (
        f"{folder}, split train has the columns premise, label: "
        "exactly one must be called 'sentence' or 'text' or similar"
    )


def test_two_possible_label_columns_are_refused(folder):
    put(folder, train={**TRAIN, "class": [1, 2, 3]})
    assert "has the columns idx, sentence, label, class: exactly one must be called 'label' or similar" in message(
        folder
    )


def test_wrong_rows_are_refused(folder):
    put(folder, train={"text": ["fine", " "], "label": [1, 0]})
    assert message(folder) == f"{folder}, split train, row 2: text is empty or not a string: remove the row"
    put(folder, train={"text": ["fine", "too"], "label": [[1], [0]]})
    assert message(folder) == f"{folder}, split train, row 1: label is neither a string nor a number: change it"


def test_a_dataset_without_training_split_is_refused(folder):
    put(folder, validation=TRAIN)
    assert message(folder) == f"{folder} has no labels in a split train (splits: validation): name another dataset"


def test_folders_that_are_not_datasets_are_refused(folder):
    assert message(folder).startswith(f"{folder} is not the folder of a dataset (")
    assert message(folder).endswith("): put train.csv or train.parquet in it")
    (folder / "train.parquet").write_bytes(b"not a parquet at all")
    assert message(folder).startswith(f"{folder} is not the folder of a dataset (")


def test_offline(tmp_path):
    code = """
from headtohead.data.hub import sst2_from_hub
from headtohead.errors import Unavailable
try:
    sst2_from_hub(announce=print)
except Unavailable as error:
    print(error)
"""
    offline = {**os.environ, "HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path)}
    asked = subprocess.run([sys.executable, "-c", code], env=offline, capture_output=True, text=True, check=True)
    announced, said = asked.stdout.splitlines()
    assert announced.startswith("loading stanfordnlp/sst2 from the Hub, or from its cache; ")
    assert said.startswith("cannot load stanfordnlp/sst2 from the Hub (Couldn't reach 'stanfordnlp/sst2' on the Hub")
    assert said.endswith("): go online, or give a folder with its files instead of the name")


def test_without_datasets_the_install_command_is_shown(folder, monkeypatch):
    monkeypatch.setitem(sys.modules, "datasets", None)
    said = message(folder, Unavailable)
    assert said == "reading a dataset of the Hub needs the extra hf: pip install 'headtohead[hf]'"
