"""Training and using models as a stranger types it: files of every kind, and one line for whatever is wrong."""

from __future__ import annotations

import signal
import statistics
from pathlib import Path
from typing import Any

import pytest

from helpers.corpora import ROWS, written
from helpers.runs import CLASSIFIER, LM
from helpers.terminal import Done, Type, h2h, is_one_line

# -- files of every kind -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", ["txt", "csv", "tsv", "jsonl", "parquet"])
def test_a_language_model_learns_from_a_file_of_any_kind(suffix: str, tmp_path: Path, type_in: Type) -> None:
    done = type_in(*LM, "--data", written(tmp_path, f"mine.{suffix}"), "--json")
    assert done.code == 0
    assert done.json[0]["status"] == "complete"
    sets = done.json[0]["data"]["sets"]
    assert sum(s["bytes"] for s in sets.values()) == sum(len(text) + 1 for text, _ in ROWS)


@pytest.mark.parametrize("suffix", ["csv", "tsv", "jsonl", "parquet"])
def test_a_classifier_learns_from_a_table_of_any_kind(suffix: str, tmp_path: Path, type_in: Type) -> None:
    done = type_in(*CLASSIFIER, "--data", written(tmp_path, f"mine.{suffix}"), "--json")
    assert done.code == 0
    assert done.json[0]["data"]["labels"] == ["down", "up"]
    assert sum(s["texts"] for s in done.json[0]["data"]["sets"].values()) == len(ROWS)


def test_files_for_validation_and_testing_and_columns_by_name(tmp_path: Path, type_in: Type) -> None:
    names = ("said", "mood")
    train, validation, test = (
        written(tmp_path, f"{n}.csv", rows, names)
        for n, rows in (("a", ROWS[:80]), ("b", ROWS[80:100]), ("c", ROWS[100:]))
    )
    files = ["--data", train, "--validation", validation, "--test", test, "--text", "said", "--label", "mood"]
    sets = type_in(*CLASSIFIER, *files, "--json").json[0]["data"]["sets"]
    assert {name: s["texts"] for name, s in sets.items()} == {"train": 80, "validation": 20, "test": 20}
    texts = type_in(*LM, *files[:6], "--text", "said", "--json").json[0]["data"]["sets"]
    assert set(texts) == {"train", "validation", "test"}


def test_training_works_without_held_out_sets(text: Path, type_in: Type) -> None:
    done = type_in(*LM, "--data", text, "--set", "data.validation=0", "--set", "data.test=0", "--json")
    assert done.code == 0
    assert list(done.json[0]["data"]["sets"]) == ["train"]


def test_training_works_without_evaluations(text: Path, type_in: Type) -> None:
    nothing = [f"--set={s}=0" for s in ("data.validation", "data.test", "evaluate.train")]
    assert type_in(*LM, "--data", text, *nothing).code == 0


def test_a_line_of_ten_megabytes_trains(tmp_path: Path, type_in: Type) -> None:
    (tmp_path / "long.txt").write_text("we the people " * 750_000)
    limits = ["--set", "evaluate.windows=4", "--set", "evaluate.train=4"]
    done = type_in(*LM, *limits, "--data", tmp_path / "long.txt", "--json")
    assert done.code == 0


def test_an_arm_of_a_file_takes_settings(tmp_path: Path, text: Path, type_in: Type) -> None:
    code = f"from headtohead import *\nmine = Arm.of('lm', Files(path={str(text)!r})).settings(['model.width=16'])\n"
    (tmp_path / "arms.py").write_text(code)
    arm = ["--arm", f"{tmp_path}/arms.py:mine", "--set", "tokenizer=Byte", "--steps", 1]
    done = type_in("train", *arm, "--json")
    assert done.code == 0
    assert done.json[0]["steps"] == 1


# -- using what was trained --------------------------------------------------------------------------------------------


def test_a_trained_classifier_shows_its_confusion(table: Path, type_in: Type) -> None:
    shown = type_in(*CLASSIFIER, "--data", table).out
    assert "truth" in shown
    assert "macro f1" in shown


def test_a_csv_of_semicolons_is_read(tmp_path: Path, type_in: Type) -> None:
    path = tmp_path / "mine.csv"
    path.write_text("".join(f"{text};{label}\n" for text, label in [("text", "label"), *ROWS]))
    assert type_in(*CLASSIFIER, "--data", path, "--json").json[0]["data"]["labels"] == ["down", "up"]


def test_several_seeds_are_listed_and_averaged(text: Path, type_in: Type) -> None:
    command = [*LM, "--data", text, "--jobs", 1]
    type_in(*command, "--seed", 1)  # is there already, and so the first to end
    done = type_in(*command, "--seeds", 3, "--json").json
    assert [run["seed"] for run in done] == [0, 1, 2]
    measured = [run["values"]["test/perplexity"] for run in done]
    shown = type_in(*command, "--seeds", 3).out
    titles = [line.strip() for line in shown.splitlines() if line.startswith("Run ")]
    assert titles == [f"Run {run['run']}, seed {run['seed']}" for run in done]
    mean, sd = statistics.mean(measured), statistics.stdev(measured)
    last = " ".join(shown.splitlines()[-1].split())
    assert last.startswith("mean over 3 seeds: validation perplexity ")
    assert last.endswith(f"test perplexity {mean:.2f} (sd {sd:.2f})")
    assert "mean over" not in type_in(*command).out


def test_train_shows_the_best_evaluation_and_the_last(text: Path, type_in: Type) -> None:
    shown = type_in(*LM, "--data", text).out
    assert "best evaluation during training: validation/loss" in shown
    assert "evaluations during training use up to 16 samples; this table uses all" in shown
    shown = type_in(*LM, "--data", text, "--set", "evaluate.along=none").out
    assert "best evaluation during training: validation/loss" in shown
    assert "evaluations during training use" not in shown


def test_a_stored_run_is_not_logged_again(text: Path, home: Path, type_in: Type) -> None:
    type_in(*LM, "--data", text)
    again = type_in(*LM, "--data", text, "--log-to", "tensorboard")
    assert again.code == 0
    said = "h2h: 1 of 1 runs were in the store already: they were not logged to tensorboard\n"
    assert again.err == said
    assert not (home / "tracking").exists()


@pytest.mark.parametrize("at", ["training.arms.arm_for", "run.train.train_runs"])
def test_ctrl_c_prints_one_line(at: str, text: Path, type_in: Type, monkeypatch: Any) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(f"headtohead.{at}", interrupt)
    before = signal.getsignal(signal.SIGINT)
    try:
        done = type_in(*LM, "--data", text)
    finally:
        signal.signal(signal.SIGINT, before)
    assert done == Done(130, "", "h2h: stopped. Type the same command again to continue.\n")


@pytest.mark.parametrize("command", ["list runs", "score latest hello", "train --resume abc"])
def test_a_home_that_is_a_file_is_one_line(command: str, home: Path, type_in: Type) -> None:
    home.write_text("mine")
    is_one_line(type_in(*command.split()), "is a file, not a folder: set HEADTOHEAD_HOME", code=3)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_tensorboard_logs_are_written_next_to_the_runs(text: Path, home: Path, type_in: Type) -> None:
    pytest.importorskip("tensorboard")
    run = type_in(*LM, "--data", text, "--log-to", "tensorboard", "--json").json[0]["run"]
    (events,) = (home / "tracking" / "tensorboard" / run).iterdir()
    content = events.read_bytes()
    assert b"validation/loss" in content
    assert b"summary/test/loss" in content


# -- whatever is wrong is one line -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("command", "says"),
    [
        ("train", "say what to train"),
        ("train lm --arm x.py:y", "lm and --arm both say what to train: give one of them"),
        (
            "train --arm arms.py:mine --data mine.txt",
            "an arm has its own data, changed by --set data.…: leave out --data",
        ),
        ("train --arm arms.py:mine --test mine.txt", "leave out --test"),
        ("train --arm arms.py:mine --validation mine.txt", "leave out --validation"),
        ("train --arm arms.py:mine --label x", "leave out --label"),
        ("train --arm arms.py:mine --text x", "leave out --text"),
        ("train --resume abc --seed 0", "--resume uses the run's own settings: leave out --seed"),
        ("train --resume abc --steps 9", "leave out --steps"),
        ("train --resume abc --set model.width=3", "leave out --set"),
        ("train --resume abc --arm arms.py:mine", "leave out --arm"),
        ("train lm --resume abc", "leave out lm"),
        ("train lm --data mine.txt --steps 3 --set train.epochs=2", "--steps and --set train.epochs both set"),
        ("train lm --data mine.txt --epochs 3 --set train.steps=2", "--epochs and --set train.steps both set"),
        ("train lm --data mine.txt --epochs 3 --steps 2", "give one of them"),
        ("train lm --data mine.txt --set train.lr=1", "did you mean optimizer.lr"),
        ("train lm --data mine.txt --threads 9999", "--threads 9999 is more than the"),
        ("train lm --data mine.txt --set model.width=1000000000000000000", "from 1 to 65,536"),
        ("train lm --data notes.md", "rename it to .txt"),
        ("train lm --data nowhere.txt", "no file nowhere.txt"),
        ("train lm --data shakespear", "did you mean shakespeare?"),
        ("train lm --data mine.doc", "mine.doc"),
        ("train lm --data .", "is a folder without the files of a known corpus"),
        ("train lm --data empty.txt", "empty.txt is empty"),
        ("train lm --data blank.txt", "blank.txt is empty"),
        ("train lm --data binary.txt", "binary.txt is binary"),
        ("train lm --data latin.txt", "latin.txt is not UTF-8"),
        ("train lm --data short.txt", "one window needs 33"),
        ("train lm --data mine.txt --set data.validation=0.5 --set data.test=0.5", "leave nothing to train on"),
        ("train lm --data mine.txt --set model.widht=3", "did you mean width?"),
        ("train lm --data mine.txt --set model.width=many", "must be a whole number"),
        ("train lm --data mine.txt --set model.width", "--set takes FIELD=VALUE"),
        ("train lm --data mine.txt --set train.steps=none", "train.steps and train.epochs"),
        ("train lm --data mine.txt --steps 0", "--steps"),
        ("train lm --data mine.txt --device gpu", "--device takes auto, cpu, cuda or mps"),
        ("train lm --data mine.txt --validation nowhere.txt", "no file nowhere.txt"),
        ("train lm --data mine.txt --validation empty.txt", "empty.txt is empty"),
        ("train lm --test mine.txt", "--test needs your own data file"),
        ("train lm --data one.csv --text nothing", "nothing"),
        ("train classifier --data mine.txt", "has no labels"),
        ("train classifier --data one.csv", "only one class"),
        ("train classifier --data columns.csv", "columns.csv"),
        ("train classifier --data good.csv --label nothing", "nothing"),
        ("train classifier --data good.csv --test unlabelled.csv", "unlabelled.csv"),
        ("train classifier --data good.csv --test unseen.csv", "the test set has the label 'sideways'"),
        ("train classifier --data good.csv --test unseen.csv", "name the column of the labels with --label"),
        ("train classifier --data quotes.csv", "wrong quotes"),
        ("train classifier --data broken.jsonl", "broken.jsonl, line 2"),
        ("train classifier --data broken.parquet", "is not a valid parquet file"),
        ("train painter", "painter"),
        ("train --arm arms.py", "--arm takes FILE.py:NAME"),
        ("train --arm nowhere.py:mine", "no file nowhere.py"),
        ("train --arm arms.py:mien", "did you mean mine?"),
        ("train --resume abc", "there are no runs in"),
        ("score latest hello", "there are no runs in"),
        ("classify abc hello", "there are no runs in"),
    ],
)
@pytest.mark.usefixtures("text")
def test_bad_input_prints_one_line_with_the_cause(command: str, says: str, tmp_path: Path, type_in: Type) -> None:
    bad = {
        "empty.txt": b"",
        "blank.txt": b" \n \n",
        "binary.txt": bytes(range(256)) * 9,
        "latin.txt": "caf\u00e9 ".encode("latin1") * 99,
        "short.txt": b"short\n",
        "one.csv": b"text,label\na,x\nb,x\n" + b"".join(b"t%d,x\n" % n for n in range(50)),
        "columns.csv": b"a,b\nfoo,1\nbar,2\n",
        "unlabelled.csv": b"text\ngood\nbad\n",
        "unseen.csv": b"text,label\ngood,up\nbad,sideways\n",
        "quotes.csv": b'text,label\n"a,b\n',
        "broken.jsonl": b'{"text": "a", "label": "b"}\n{"text"\n',
        "broken.parquet": b"PAR1xxxxPAR1",
        "mine.doc": b"text",
        "notes.md": b"text",
        "arms.py": b"from headtohead import Arm\nmine = Arm()\n",
    }
    for name, content in bad.items():
        (tmp_path / name).write_bytes(content)
    written(tmp_path, "good.csv")
    is_one_line(type_in(*command.split()), says)


def test_snapshots_beyond_the_end_are_one_line(text: Path, type_in: Type) -> None:
    is_one_line(type_in(*LM, "--data", text, "--set", "evaluate.snapshots=(3,)"), "choose steps from 0 to 2")


@pytest.mark.parametrize("wrong", ["--set=model.block=99999", "--log-to=nonsense", "--set=evaluate.snapshots=(3,)"])
def test_a_refused_run_is_not_listed(wrong: str, text: Path) -> None:
    assert h2h(*LM, "--data", text, wrong).code == 2
    assert h2h("list", "runs", "--json").json == []


def test_an_unknown_tracker_name_is_one_line(text: Path) -> None:
    is_one_line(h2h(*LM, "--data", text, "--log-to", "nonsense"), "there is no tracker 'nonsense'")


def test_an_absent_device_is_one_line(text: Path, type_in: Type) -> None:
    import torch

    if torch.cuda.is_available():
        pytest.skip("it is here")
    is_one_line(type_in(*LM, "--data", text, "--device", "cuda"), "no cuda that torch can use", code=3)


def test_steps_and_epochs_together_are_refused(text: Path, type_in: Type) -> None:
    is_one_line(type_in(*LM, "--data", text, "--epochs", 1), "epochs")


def test_train_works_in_a_separate_process(text: Path) -> None:
    done = h2h(*LM, "--data", text, "--json")
    assert done.code == 0
    assert done.json[0]["status"] == "complete"
    bad = h2h(*LM, "--data", "nowhere.txt")
    is_one_line(bad, "no file nowhere.txt")
