"""Run ids: two ways of saying the same thing are one run, and ids of stored runs stay as they are."""

from __future__ import annotations

import dataclasses
import json
import shutil
from pathlib import Path

import pytest

from headtohead import Arm, Copying, Files, InputError, RunSpec, Symbols
from headtohead.data.corpora import Held
from headtohead.spec import Spec
from helpers.runs import SMALL_OPTIONS, run_on
from helpers.terminal import h2h

WORDS = [(word, label, n) for n in range(20) for word, label in (("good", "praise"), ("bad", "blame"))]


@pytest.fixture
def reviews(tmp_path: Path) -> Path:
    """Columns that are found without their names."""
    path = tmp_path / "reviews.csv"
    rows = [f"{label},{word} film number {n}" for word, label, n in WORDS]
    path.write_text("\n".join(["about,review", *rows]) + "\n")
    return path


@pytest.fixture
def odd(tmp_path: Path) -> Path:
    """Columns that have to be named; parted by semicolons."""
    path = tmp_path / "odd.csv"
    rows = [f"{n};{label};{word} film number {n};x" for word, label, n in WORDS]
    path.write_text("\n".join(["id;about;says;more", *rows]) + "\n")
    return path


def run_id(path: object, task: str = "classifier", **columns: object) -> str:
    """The id of a run with the defaults of version 0.1, written out."""
    arm = Arm.of(task, Files(path=str(path), **columns))  # type: ignore[arg-type]
    earlier = ["train.optimizer.lr=1e-3", "train.schedule=Constant", "train.clip=none"]
    return RunSpec(arm=arm.settings(earlier)).resolved().id


def test_ids_of_detected_columns_are_unchanged(reviews: Path):
    """These ids were computed before columns were normalised: when they change, stored runs are lost."""
    assert run_id(reviews) == "5bb561a7bbd03eb9"
    assert run_id(reviews, "lm") == "33b22202b7274cc7"


def test_ids_of_named_columns_are_unchanged(odd: Path):
    assert run_id(odd, text="says", label="about") == "f3b5afaf88034475"


@pytest.mark.parametrize(
    "columns",
    [
        {"text": "review", "label": "about"},
        {"text": "review"},
        {"label": "about"},
        {"text": "Review ", "label": "ABOUT"},
        {"text": "2", "label": "1"},
    ],
    ids=str,
)
def test_named_columns_that_are_found_anyway_give_the_same_id(reviews: Path, columns: dict[str, str]):
    assert run_id(reviews, **columns) == run_id(reviews)


@pytest.mark.parametrize("columns", [{"text": "Says", "label": "about"}, {"text": "3", "label": "about"}], ids=str)
def test_named_columns_have_one_id(odd: Path, columns: dict[str, str]):
    assert run_id(odd, **columns) == run_id(odd, text="says", label="about")


def test_swapped_columns_are_another_run(reviews: Path):
    ids = {run_id(reviews), run_id(reviews, text="about", label="review"), run_id(reviews, "lm", text="about")}
    assert len(ids) == 3


def test_language_model_ignores_the_label(reviews: Path):
    assert run_id(reviews, "lm", text="review", label="about") == run_id(reviews, "lm")


def test_columns_of_a_text_file_are_ignored(tmp_path: Path):
    path = tmp_path / "mine.txt"
    path.write_text("some words to read\n" * 40)
    assert run_id(path, "lm", text="review") == run_id(path, "lm")


def test_a_header_that_is_known_only_by_name_keeps_its_names(tmp_path: Path):
    """Without the names the first row would be read as a text."""
    path = tmp_path / "short.csv"
    path.write_text("kind,words\n" + "".join(f"{label},{word} film number {n}\n" for word, label, n in WORDS[:8]))
    named = RunSpec(arm=Arm.of("classifier", Files(path=str(path), text="words", label="kind"))).resolved()
    assert (named.arm.data.corpus.get("text"), named.arm.data.corpus.get("label")) == ("words", "kind")
    assert named.id != run_id(path)


def test_every_file_of_a_corpus_must_agree(reviews: Path, tmp_path: Path):
    """In the test file the columns are not found without their names, so they stay."""
    test = tmp_path / "test.csv"
    test.write_text("id,about,review,text\n" + "".join(f"{n},{label},{w} film {n},x\n" for w, label, n in WORDS))
    held = Held(path=str(test))
    named = RunSpec(arm=Arm.of("classifier", Files(path=str(reviews), test=held, text="review", label="about")))
    assert named.resolved().arm.data.corpus.get("text") == "review"


def test_relative_and_absolute_paths_are_one_run(reviews: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(reviews.parent)
    assert run_id("reviews.csv") == run_id(reviews) == run_id(f"../{reviews.parent.name}/reviews.csv")
    held = [run_id(reviews, test=Held(path=path)) for path in ("reviews.csv", str(reviews))]
    assert held[0] == held[1]


def test_a_stored_run_keeps_the_id_it_was_made_with(reviews: Path):
    """Runs stored with named columns are resumed in their own folder."""
    corpus = Files(path=str(reviews), text="review", label="about")
    content = corpus.fingerprint()
    stored = RunSpec(arm=Arm.of("classifier", dataclasses.replace(corpus, content=content)))
    again = Spec.from_json(json.loads(json.dumps(stored.to_json())))
    assert again.resolved().id == stored.id != run_id(reviews)


def test_train_finds_the_run_whose_columns_were_named(reviews: Path):
    given = ["train", "classifier", *SMALL_OPTIONS, "--set", "tokenizer=Word", "--epochs", 1, "--json"]
    (first,) = h2h(*given, "--data", reviews.name).json
    named = h2h(*given, "--data", reviews, "--label", "about", "--text", "review")
    assert named.code == 0, named.err
    assert named.json[0]["run"] == first["run"]
    assert "step" not in named.err, "it was not trained again"


def test_a_run_id_depends_on_content_not_on_paths(text: Path, tmp_path: Path) -> None:
    there = tmp_path / "there" / "other.txt"
    there.parent.mkdir()
    shutil.copy(text, there)
    assert run_on(there).id == run_on(text).id
    there.write_text(there.read_text() + "x")
    assert run_on(there).id != run_on(text).id


def test_every_setting_changes_the_run_id(text: Path) -> None:
    changes = ["model.width=18", "model.dropout=0.1", "train.batch=5", "train.steps=7", "train.optimizer.lr=0.002"]
    changes += [
        "tokenizer=Character",
        "evaluate.every=3",
        "evaluate.snapshots=1",
        "data.validation=0.2",
        "train.clip=none",
    ]
    changes += ["evaluate.train=1", "train.schedule=OneCycle", "model.position=Rope", "data.prepare=Lowercase"]
    specs = [run_on(text), *(run_on(text, change) for change in changes), run_on(text, seed=1)]
    specs += [specs[0].set("threads", 2), specs[0].set("device", "cuda")]
    assert len({s.id for s in specs}) == len(specs)


def test_a_validation_file_and_a_test_file_are_two_runs(text: Path, tmp_path: Path) -> None:
    held = tmp_path / "held.txt"
    held.write_text("we the people\n" * 20)
    a, b = (run_on(text, f"data.corpus.{use}=Held(path='{held}')") for use in ("validation", "test"))
    assert a.id != b.id


def test_a_table_and_a_text_of_the_same_bytes_are_two_runs(table: Path, tmp_path: Path) -> None:
    shutil.copy(table, tmp_path / "same.txt")
    assert run_on(table).id != run_on(tmp_path / "same.txt").id


def test_the_default_arm_of_a_task_fits_its_symbols_and_lengths():
    arm = Arm.of("lm", Copying(length=4, test_length=(8, 20)))
    assert (arm.tokenizer, arm.model.block) == (Symbols(), 40)
    assert RunSpec(arm=arm).resolved().arm.data.corpus.content
    with pytest.raises(InputError, match="no labels"):
        Arm.of("classifier", Copying())


def test_ids_of_synthetic_runs_are_unchanged():
    """If other examples are drawn, the fingerprint changes, so that stored runs are not mixed with new ones."""
    arm = Arm.of("lm", Copying(length=4, test_length=(8,), tested=50))
    assert RunSpec(arm=arm).resolved().arm.data.corpus.content == "66e8aa0a2f716871"
