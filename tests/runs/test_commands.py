"""Training and using models as a stranger types it: files of every kind, and one line for whatever is wrong."""

from __future__ import annotations

import csv
import io
import json
import signal
import statistics
import sys
from pathlib import Path
from typing import Any

import pytest

from headtohead.cli import main

from .small import SMALL_OPTIONS, Done, h2h

LM = ["train", "lm", *SMALL_OPTIONS, "--steps", "2"]
CLASSIFIER = ["train", "classifier", *SMALL_OPTIONS, "--steps", "3"]


@pytest.fixture
def type_in(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Any:
    """A command in this process, which is quick."""

    def typed(*arguments: object, stdin: str | bytes = "") -> Done:
        raw = stdin.encode() if isinstance(stdin, str) else stdin
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(raw), encoding="utf-8"))
        monkeypatch.setattr(sys, "argv", ["h2h", *map(str, arguments)])
        capfd.readouterr()
        with pytest.raises(SystemExit) as exit:
            main()
        out, err = capfd.readouterr()
        return Done(int(exit.value.code or 0), out, err)

    return typed


# -- files of every kind -----------------------------------------------------------------------------------------------

ROWS = [(f"{word} {n} times", label) for n in range(60) for word, label in (("good", "up"), ("bad", "down"))]


def written(
    folder: Path, name: str, rows: list[tuple[str, str]] = ROWS, names: tuple[str, str] = ("text", "label")
) -> Path:
    path = folder / name
    dicts = [dict(zip(names, row, strict=True)) for row in rows]
    if path.suffix == ".txt":
        path.write_text("".join(f"{text}\n" for text, _ in rows))
    elif path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(d) + "\n" for d in dicts))
    elif path.suffix == ".parquet":
        import pyarrow
        from pyarrow import parquet

        parquet.write_table(pyarrow.Table.from_pylist(dicts), path)
    else:
        with path.open("w", newline="") as file:
            writer = csv.writer(file, delimiter="\t" if path.suffix == ".tsv" else ",")
            writer.writerow(names)
            writer.writerows(rows)
    return path


@pytest.mark.parametrize("suffix", ["txt", "csv", "tsv", "jsonl", "parquet"])
def test_a_language_model_learns_from_a_file_of_any_kind(suffix: str, tmp_path: Path, type_in: Any) -> None:
    done = type_in(*LM, "--data", written(tmp_path, f"mine.{suffix}"), "--json")
    assert done.code == 0
    assert done.json[0]["status"] == "complete"
    sets = done.json[0]["data"]["sets"]
    assert sum(s["bytes"] for s in sets.values()) == sum(len(text) + 1 for text, _ in ROWS)


@pytest.mark.parametrize("suffix", ["csv", "tsv", "jsonl", "parquet"])
def test_a_classifier_learns_from_a_table_of_any_kind(suffix: str, tmp_path: Path, type_in: Any) -> None:
    done = type_in(*CLASSIFIER, "--data", written(tmp_path, f"mine.{suffix}"), "--json")
    assert done.code == 0
    assert done.json[0]["data"]["labels"] == ["down", "up"]
    assert sum(s["texts"] for s in done.json[0]["data"]["sets"].values()) == len(ROWS)


def test_files_for_validation_and_testing_and_columns_by_name(tmp_path: Path, type_in: Any) -> None:
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


def test_no_set_need_be_held_out(text: Path, type_in: Any) -> None:
    done = type_in(*LM, "--data", text, "--set", "data.validation=0", "--set", "data.test=0", "--json")
    assert done.code == 0
    assert list(done.json[0]["data"]["sets"]) == ["train"]


def test_no_set_need_be_looked_at(text: Path, type_in: Any) -> None:
    nothing = [f"--set={s}=0" for s in ("data.validation", "data.test", "evaluate.train")]
    assert type_in(*LM, "--data", text, *nothing).code == 0


def test_a_line_of_ten_megabytes_is_a_text_like_any_other(tmp_path: Path, type_in: Any) -> None:
    (tmp_path / "long.txt").write_text("we the people " * 750_000)
    limits = ["--set", "evaluate.windows=4", "--set", "evaluate.train=4"]
    done = type_in(*LM, *limits, "--data", tmp_path / "long.txt", "--json")
    assert done.code == 0


def test_an_arm_of_a_file_with_settings(tmp_path: Path, text: Path, type_in: Any) -> None:
    code = f"from headtohead import *\nmine = Arm.of('lm', Files(path={str(text)!r})).settings(['model.width=16'])\n"
    (tmp_path / "arms.py").write_text(code)
    arm = ["--arm", f"{tmp_path}/arms.py:mine", "--set", "tokenizer=Byte", "--steps", 1]
    done = type_in("train", *arm, "--json")
    assert done.code == 0
    assert done.json[0]["steps"] == 1


# -- using what was trained --------------------------------------------------------------------------------------------


def test_a_text_is_scored_token_by_token(text: Path, type_in: Any) -> None:
    run = type_in(*LM, "--data", text, "--set", "evaluate.snapshots=(0,)", "--json").json[0]["run"]
    for said in ("we", "we the people of this union and a long way past the block", "line\nbreaks\n"):
        found = type_in("score", run[:5], said, "--json").json
        assert len(found["tokens"]) == len(found["losses"]) == len(said.encode())
        assert found["losses"][0] is None
        assert found["loss"] == pytest.approx(sum(found["losses"][1:]) / (len(said) - 1))
    assert type_in("score", "latest", "-", "--json", stdin=said).json == found
    assert type_in("score", run, said, "--step", 0, "--json").json["loss"] > found["loss"]
    shown = type_in("score", run, said)
    assert shown.code == 0
    assert "nats a token" in shown.out


def test_texts_are_classified(table: Path, type_in: Any) -> None:
    run = type_in(*CLASSIFIER[:-1], 60, "--data", table, "--json").json[0]["run"]
    found = type_in("classify", run, "good 3 times", "bad 3 times", "x" * 99, "--json").json
    assert [f["label"] for f in found[:2]] == ["up", "down"]
    assert [f["cut"] for f in found] == [False, False, True]
    for f in found:
        assert sum(f["probabilities"].values()) == pytest.approx(1)
    piped = type_in("classify", run, "-", "--json", stdin="good 3 times\nbad 3 times\n").json
    assert piped == found[:2]
    shown = type_in("classify", run, "good [bold]3[/bold] times")
    assert "[bold]3[/bold]" in shown.out


def test_runs_and_corpora_are_listed(text: Path, type_in: Any) -> None:
    assert "there are no runs here yet" in type_in("list", "runs").out
    assert type_in("list", "runs", "--json").json == []
    for seed in (0, 1):
        type_in(*LM, "--data", text, "--seed", seed)
    rows = type_in("list", "runs", "--json").json
    assert [(r["state"], r["seed"], r["steps"]) for r in rows] == [("complete", 0, 2), ("complete", 1, 2)]
    assert rows[0]["differs"]["train.steps"] == "2"
    type_in(*CLASSIFIER, "--data", written(text.parent, "mine.csv"))
    said = type_in("list", "runs", "--json").json[-1]["what"]
    assert "train.steps=3" in said
    assert "train.epochs" not in said
    assert {"sotu", "shakespeare"} <= {r["name"] for r in type_in("list", "corpora", "--json").json}
    assert "sotu" in type_in("list", "corpora").out


def test_the_model_of_a_table_shows_its_confusion(table: Path, type_in: Any) -> None:
    shown = type_in(*CLASSIFIER, "--data", table).out
    assert "truth" in shown
    assert "macro f1" in shown


def test_labels_are_printed_as_they_are_written(tmp_path: Path, type_in: Any) -> None:
    rows = [(text, {"up": "[pos]", "down": "[/neg]"}[label]) for text, label in ROWS]
    shown = type_in(*CLASSIFIER, "--data", written(tmp_path, "mine.csv", rows))
    assert shown.code == 0
    assert shown.out.count("[pos]") == shown.out.count("[/neg]") == 2
    shown = type_in("classify", "latest", "good 3 times")
    assert shown.code == 0
    assert "[pos]" in shown.out
    assert "[/neg]" in shown.out


def test_a_csv_of_semicolons_is_read(tmp_path: Path, type_in: Any) -> None:
    path = tmp_path / "mine.csv"
    path.write_text("".join(f"{text};{label}\n" for text, label in [("text", "label"), *ROWS]))
    assert type_in(*CLASSIFIER, "--data", path, "--json").json[0]["data"]["labels"] == ["down", "up"]


def test_runs_are_told_apart_by_their_seeds_and_summed_up(text: Path, type_in: Any) -> None:
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


def test_the_best_look_is_told_from_the_end(text: Path, type_in: Any) -> None:
    shown = type_in(*LM, "--data", text).out
    assert "best of the looks on the way: validation/loss" in shown
    assert "a look reads at most 16 windows or texts of a set, the table all" in shown
    shown = type_in(*LM, "--data", text, "--set", "evaluate.along=none").out
    assert "best of the looks on the way: validation/loss" in shown
    assert "a look reads" not in shown


def test_a_long_text_is_shown_in_part_and_between_words(text: Path, type_in: Any, monkeypatch: Any) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    type_in("train", "lm", *SMALL_OPTIONS, "--set", "tokenizer=Word", "--steps", 1, "--data", text)
    words = ("we the people of this union and a " * 100).split()
    shown = type_in("score", "latest", " ".join(words)).out
    lines = shown.splitlines()
    assert "… and 400 tokens more; --json has them all" in lines
    stream = lines[: lines.index("… and 400 tokens more; --json has them all")]
    assert max(map(len, stream)) <= 40
    assert [word for line in stream for word in line.rstrip("·").split("·")] == words[:400]
    assert len(type_in("score", "latest", " ".join(words), "--json").json["tokens"]) == 800


def test_blank_lines_are_left_out_and_unknown_words_are_said(tmp_path: Path, type_in: Any) -> None:
    options = [*CLASSIFIER, "--set", "tokenizer=Word", "--data", written(tmp_path, "mine.csv")]
    type_in(*options)
    done = type_in("classify", "latest", "-", "--json", stdin="good 3 times\n\n  \nbad zzz\n")
    assert [f["text"] for f in done.json] == ["good 3 times", "bad zzz"]
    assert done.err == "h2h: blank lines of standard input are left out: 2, 3\n"
    assert "unknown" not in type_in("classify", "latest", "good 3 times").out
    shown = type_in("classify", "latest", "bad zzz", "qqq zzz")
    assert "unknown" in shown.out
    assert "50%" in shown.out
    assert "no word of 'qqq zzz' was seen in training: its label is a guess" in shown.out
    assert "no word of 'bad" not in shown.out


def test_a_run_that_is_there_is_not_logged_and_that_is_said(text: Path, home: Path, type_in: Any) -> None:
    type_in(*LM, "--data", text)
    again = type_in(*LM, "--data", text, "--log-to", "tensorboard")
    assert again.code == 0
    said = "h2h: 1 of 1 runs were in the store already: nothing of them was logged to tensorboard\n"
    assert again.err == said
    assert not (home / "tracking").exists()


@pytest.mark.parametrize("at", ["arm_for", "execute_all"])
def test_ctrl_c_is_always_answered_in_one_line(at: str, text: Path, type_in: Any, monkeypatch: Any) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(f"headtohead.commands.{at}", interrupt)
    before = signal.getsignal(signal.SIGINT)
    try:
        done = type_in(*LM, "--data", text)
    finally:
        signal.signal(signal.SIGINT, before)
    assert done == Done(130, "", "h2h: stopped; give the same command again to go on\n")


@pytest.mark.parametrize("command", ["list runs", "score latest hello", "train --resume abc"])
def test_a_home_that_is_a_file_is_one_line(command: str, home: Path, type_in: Any) -> None:
    home.write_text("mine")
    is_one_line(type_in(*command.split()), "is a file, and runs go into a folder: set HEADTOHEAD_HOME", code=3)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_curves_go_to_tensorboard_next_to_the_runs(text: Path, home: Path, type_in: Any) -> None:
    pytest.importorskip("tensorboard")
    run = type_in(*LM, "--data", text, "--log-to", "tensorboard", "--json").json[0]["run"]
    (events,) = (home / "tracking" / "tensorboard" / run).iterdir()
    content = events.read_bytes()
    assert b"validation/loss" in content
    assert b"summary/test/loss" in content


# -- whatever is wrong is one line -------------------------------------------------------------------------------------


def is_one_line(done: Done, says: str, code: int = 2) -> None:
    assert done.code == code, done
    assert done.err.startswith("h2h: ")
    assert done.err.count("\n") == 1, done.err
    assert says in done.err
    assert done.out == ""


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
        ("train --resume abc --seed 0", "--resume goes on with a run's own settings: leave out --seed"),
        ("train --resume abc --steps 9", "leave out --steps"),
        ("train --resume abc --set model.width=3", "leave out --set"),
        ("train --resume abc --arm arms.py:mine", "leave out --arm"),
        ("train lm --resume abc", "leave out lm"),
        ("train lm --data mine.txt --steps 3 --set train.epochs=2", "--steps and --set train.epochs both say"),
        ("train lm --data mine.txt --epochs 3 --set train.steps=2", "--epochs and --set train.steps both say"),
        ("train lm --data mine.txt --epochs 3 --steps 2", "give one of them"),
        ("train lm --data mine.txt --set train.lr=1", "did you mean optimizer.lr"),
        ("train lm --data mine.txt --threads 9999", "--threads 9999 is more than the"),
        ("train lm --data mine.txt --set model.width=1000000000000000000", "out of memory"),
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
        ("train lm --data mine.txt --set model.width=many", "must be a valid integer"),
        ("train lm --data mine.txt --set model.width", "--set takes FIELD=VALUE"),
        ("train lm --data mine.txt --set train.steps=none", "train.steps and train.epochs"),
        ("train lm --data mine.txt --steps 0", "--steps"),
        ("train lm --data mine.txt --device gpu", "--device takes auto, cpu, cuda or mps"),
        ("train lm --data mine.txt --validation nowhere.txt", "no file nowhere.txt"),
        ("train lm --data mine.txt --validation empty.txt", "empty.txt is empty"),
        ("train lm --test mine.txt", "--test goes with a file of yours"),
        ("train lm --data one.csv --text nothing", "nothing"),
        ("train classifier --data mine.txt", "has no labels"),
        ("train classifier --data one.csv", "one class only"),
        ("train classifier --data columns.csv", "columns.csv"),
        ("train classifier --data good.csv --label nothing", "nothing"),
        ("train classifier --data good.csv --test unlabelled.csv", "unlabelled.csv"),
        ("train classifier --data good.csv --test unseen.csv", "the test set has the label 'sideways'"),
        ("train classifier --data good.csv --test unseen.csv", "name the right column with --label"),
        ("train classifier --data quotes.csv", "wrong quotes"),
        ("train classifier --data broken.jsonl", "broken.jsonl, line 2"),
        ("train classifier --data broken.parquet", "is not a sound parquet file"),
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
def test_bad_input_is_one_line(command: str, says: str, tmp_path: Path, type_in: Any) -> None:
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
    is_one_line(type_in(*command.split()), says, code=3 if says == "out of memory" else 2)


def test_snapshots_beyond_the_end_are_one_line(text: Path, type_in: Any) -> None:
    is_one_line(type_in(*LM, "--data", text, "--set", "evaluate.snapshots=(3,)"), "choose from 0 to 2")


@pytest.mark.parametrize("wrong", ["--set=model.block=99999", "--log-to=nonsense", "--set=evaluate.snapshots=(3,)"])
def test_what_cannot_be_trained_is_not_listed_as_a_run(wrong: str, text: Path) -> None:
    assert h2h(*LM, "--data", text, wrong).code == 2
    assert h2h("list", "runs", "--json").json == []


def test_a_tracker_nobody_knows_is_one_line(text: Path) -> None:
    is_one_line(h2h(*LM, "--data", text, "--log-to", "nonsense"), "there is no tracker 'nonsense'")


def test_a_device_that_is_not_here_is_one_line(text: Path, type_in: Any) -> None:
    import torch

    if torch.cuda.is_available():
        pytest.skip("it is here")
    is_one_line(type_in(*LM, "--data", text, "--device", "cuda"), "no cuda that torch can use", code=3)


def test_a_run_that_cannot_be_told_or_used_is_one_line(text: Path, table: Path, type_in: Any) -> None:
    lm = type_in(*LM, "--data", text, "--json").json[0]["run"]
    classifier = type_in(*CLASSIFIER, "--data", table, "--json").json[0]["run"]
    is_one_line(type_in("score", "zzz", "hello"), "no run 'zzz'")
    is_one_line(type_in("score", "", "hello"), "begins 2 runs")
    is_one_line(type_in("score", classifier, "hello"), "use h2h classify")
    is_one_line(type_in("classify", lm, "hello"), "use h2h score")
    is_one_line(type_in("score", lm, "a"), "fewer than two tokens")
    is_one_line(type_in("score", lm, "-", stdin=""), "fewer than two tokens")
    is_one_line(type_in("score", lm, "hello", "--step", 1), "kept no weights of step 1")
    is_one_line(type_in("classify", classifier, "-", stdin=""), "no text to classify")
    is_one_line(type_in("classify", classifier, ""), "without a single token")


@pytest.mark.parametrize("given", ["argument", "standard input"])
def test_text_that_is_not_utf_8_is_one_line(given: str, text: Path, type_in: Any) -> None:
    type_in(*LM, "--data", text)
    if given == "argument":
        done = type_in("score", "latest", "caf\udce9 au lait", "--json")
    else:
        done = type_in("score", "latest", "-", stdin=b"caf\xe9 au lait")
    is_one_line(done, "UTF-8")


def test_steps_and_epochs_together_are_refused(text: Path, type_in: Any) -> None:
    is_one_line(type_in(*LM, "--data", text, "--epochs", 1), "epochs")


def test_the_same_command_in_a_process_of_its_own(text: Path) -> None:
    done = h2h(*LM, "--data", text, "--json")
    assert done.code == 0
    assert done.json[0]["status"] == "complete"
    bad = h2h(*LM, "--data", "nowhere.txt")
    is_one_line(bad, "no file nowhere.txt")
