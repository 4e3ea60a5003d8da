"""One run: its events, its looks, what it keeps, how it diverges, what it warns of, and what names it."""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import signal
from pathlib import Path

import numpy as np
import pytest
import torch

from headtohead import Arm, Files, InputError, Record, RunSpec, load_trained
from headtohead.runs import Finished, Looked, NotBegun, Options, Progress, Started, execute
from headtohead.workers import _Worker, execute_many

from .small import SMALL, SMALL_OPTIONS, h2h, results, run_on, train


def record(spec: RunSpec, home: Path) -> Record:
    ended = train(spec, home)[-1]
    assert isinstance(ended, Finished)
    return ended.record


# -- events and looks --------------------------------------------------------------------------------------------------


def test_events_come_in_order(text: Path, home: Path) -> None:
    spec = run_on(text, "train.steps=20", "evaluate.every=8")
    events = train(spec, home)
    assert isinstance(events[0], Started)
    assert (events[0].done, events[0].steps, events[0].id) == (0, 20, spec.id)
    assert [e.done for e in events if isinstance(e, Looked)] == [0, 8, 16, 20]
    assert isinstance(events[-1], Finished)
    assert not events[-1].already
    steps = [e.done for e in events if isinstance(e, Looked | Progress)]
    assert steps == sorted(steps)
    assert [e.done for e in events if isinstance(e, Progress)][-1] == 20
    again = train(spec, home)
    assert again == [Finished(spec.id, str(home / "runs" / spec.id), already=True)]


def test_looks_are_where_they_were_planned(text: Path, home: Path) -> None:
    ten = [m["step"] for m in record(run_on(text, "train.steps=30"), home).metrics if "validation/loss" in m]
    assert ten == [0, *range(3, 31, 3)]
    spec = run_on(text, "train.epochs=2", "train.batch=100", "train.sampling=ShuffledWindows")
    made = record(spec, home)
    looked = [m["step"] for m in made.metrics if "validation/loss" in m]
    assert made.result is not None
    assert looked == [0, made.result["steps"] // 2, made.result["steps"]]


def test_an_epoch_is_every_sentence_once(table: Path, home: Path) -> None:
    arm = Arm.of("classifier", Files(path=str(table))).settings([*SMALL, "train.epochs=3", "train.batch=7"])
    made = record(RunSpec(arm=arm).resolved(), home)
    assert made.result is not None
    assert made.result["steps"] == 3 * -(-made.result["data"]["sets"]["train"]["texts"] // 7)


def test_the_last_look_and_the_result_say_the_same(text: Path, home: Path) -> None:
    made = record(run_on(text, "train.steps=12", "evaluate.along=none"), home)
    last, result = made.metrics[-1], made.result
    assert result is not None
    assert last["step"] == 12
    for name in ("train", "validation"):
        assert last[f"{name}/loss"] == result["values"][f"{name}/loss"]
    values = [(m["validation/loss"], m["step"]) for m in made.metrics if m["step"] and "validation/loss" in m]
    assert (result["best"]["value"], result["best"]["step"]) == min(values)
    items = made.items("test")
    assert float((items["loss"] * items["tokens"]).sum() / items["tokens"].sum()) == pytest.approx(
        result["values"]["test/loss"]
    )
    with pytest.raises(InputError, match="measured no set 'tset'"):
        made.items("tset")


def test_looks_on_the_way_may_be_short_and_the_end_is_whole(text: Path, home: Path) -> None:
    short, whole = (run_on(text, "train.steps=4", f"evaluate.along={n}") for n in ("2", "none"))
    train(short, home)
    train(whole, home)
    a, b = (Record(home / "runs" / spec.id) for spec in (short, whole))
    assert a.result == b.result | {"best": a.result["best"]}
    assert a.metrics[-1]["validation/loss"] != b.metrics[-1]["validation/loss"]
    assert b.metrics[-1]["validation/loss"] == b.result["values"]["validation/loss"]
    assert a.metrics[-1]["train/loss"] == b.metrics[-1]["train/loss"]


def test_the_batch_losses_in_metrics_are_means_over_all_batches(text: Path, home: Path) -> None:
    settings = ["train.optimizer=SGD(lr=1e-30)", "evaluate.every=51", "model.init.embedding_std=1.0"]
    every = record(run_on(text, *settings, "train.steps=99"), home).metrics
    second = record(run_on(text, *settings, "train.steps=204"), home).metrics
    one_by_one = {m["step"]: m["train/batch_loss"] for m in every if m["step"]}
    read = [m for m in second if 0 < m["step"] <= 50]
    assert [m["step"] for m in read] == list(range(2, 51, 2))
    for m in read:
        mean = (one_by_one[m["step"] - 1] + one_by_one[m["step"]]) / 2
        assert m["train/batch_loss"] == pytest.approx(mean)


def test_no_batch_comes_twice(text: Path, home: Path) -> None:
    """With weights that stand still a batch is known by its loss."""
    spec = run_on(text, "train.optimizer=SGD(lr=1e-30)", "train.steps=99", "model.init.embedding_std=1.0")
    losses = [m["train/batch_loss"] for m in record(spec, home).metrics if m["step"]]
    assert len(set(losses)) == 99


def test_the_test_set_is_not_looked_at_on_the_way_unless_told(text: Path, home: Path) -> None:
    secret = record(run_on(text, "train.steps=6"), home)
    assert not [k for m in secret.metrics for k in m if k.startswith("test")]
    assert secret.result is not None
    assert "test/loss" in secret.result["values"]
    assert secret.result["best"]["figure"] == "validation/loss"
    watched = record(run_on(text, "train.steps=6", "evaluate.watch_test=true"), home)
    assert all("test/loss" in m for m in watched.metrics if "validation/loss" in m)
    assert watched.result is not None
    assert watched.result["best"]["figure"] == "validation/loss"


def test_the_text_of_the_test_set_changes_nothing_before_the_end(text: Path, home: Path, tmp_path: Path) -> None:
    made = []
    for n, held in enumerate(("we the people of the union\n" * 9, "zzzz qqqq xxxx\n" * 9)):
        (tmp_path / f"{n}.txt").write_text(held)
        spec = run_on(text, "train.steps=8", f"data.corpus.test=Held(path='{tmp_path}/{n}.txt')")
        made.append(results(record(spec, home).folder))
    a, b = made
    assert a["metrics.jsonl"] == b["metrics.jsonl"]
    assert a["model.safetensors"][1] == b["model.safetensors"][1]
    assert a["result.json"] != b["result.json"]


# -- snapshots ---------------------------------------------------------------------------------------------------------


def test_snapshots_are_the_weights_of_their_step(text: Path, home: Path) -> None:
    made = record(run_on(text, "train.steps=9", "evaluate.snapshots=(0, 4, 9)"), home)
    end = load_trained(made).model.state_dict()
    by_step = {step: load_trained(made, step=step).model.state_dict() for step in (0, 4, 9)}
    assert all(torch.equal(by_step[9][k], end[k]) for k in end)
    assert not torch.equal(by_step[0]["head.weight"], by_step[4]["head.weight"])
    # a run of four steps ends where the snapshot of step 4 was taken: the schedule is constant
    short = load_trained(record(run_on(text, "train.steps=4"), home)).model.state_dict()
    assert all(torch.equal(by_step[4][k], short[k]) for k in end)
    fresh = type(load_trained(made).model)(made_spec(made).arm.model, 258, 0).state_dict()
    assert all(torch.equal(by_step[0][k], fresh[k]) for k in end)
    with pytest.raises(InputError, match=r"kept no weights of step 5: it has \[0, 4, 9\]"):
        load_trained(made, step=5)


def made_spec(made: Record) -> RunSpec:
    return load_trained(made).spec


def test_a_trained_model_needs_no_corpus(text: Path, home: Path, tmp_path: Path) -> None:
    made = record(run_on(text, "train.steps=3"), home)
    text.unlink()
    shutil.rmtree(tmp_path / "cache")
    moved = tmp_path / "moved"
    shutil.copytree(made.folder, moved)
    assert load_trained(Record(moved)).vocabulary.size == 258


def test_torn_weights_are_one_line(text: Path, home: Path) -> None:
    made = record(run_on(text, "train.steps=2"), home)
    os.truncate(made.folder / "model.safetensors", 999)
    with pytest.raises(InputError, match=r"model\.safetensors cannot be read"):
        load_trained(made)


# -- diverged ----------------------------------------------------------------------------------------------------------

BURSTS = "train.optimizer=SGD(lr=1e30)"


def test_a_diverged_run_is_kept_and_says_so(text: Path, home: Path) -> None:
    done = h2h("train", "lm", "--data", text, *SMALL_OPTIONS, "--set", BURSTS, "--steps", 30)
    assert done.code == 1
    spec = run_on(text, BURSTS, "train.steps=30")
    assert f"run {spec.id} diverged at step 2" in done.out
    assert h2h("list", "runs", "--json").json[0]["state"] == "diverged"
    made = Record(home / "runs" / spec.id)
    assert made.result is not None
    assert made.result["status"] == "diverged"
    assert made.metrics[-1] == {"step": 2, "status": "diverged"}
    scored = h2h("score", "latest", "we the people")
    assert scored.code == 2
    assert "diverged at step 2: its weights are not numbers" in scored.err
    again = h2h("train", "lm", "--data", text, *SMALL_OPTIONS, "--set", BURSTS, "--steps", 30)
    assert again.code == 1
    assert "in the store already" in again.out


def test_a_diverged_run_is_the_same_bits_whenever_it_was_noticed(text: Path, home: Path, tmp_path: Path) -> None:
    spec = run_on(text, BURSTS, "train.steps=400", "evaluate.every=100")
    train(spec, home, save_every=0)  # looks at every loss
    train(spec, tmp_path / "elsewhere")
    assert results(home / "runs" / spec.id) == results(tmp_path / "elsewhere" / "runs" / spec.id)


def test_a_run_that_diverges_in_its_last_step_is_not_complete(text: Path, home: Path) -> None:
    result = record(run_on(text, BURSTS, "train.steps=1"), home).result
    assert result is not None
    assert result["status"] == "diverged"


def test_the_best_step_is_never_one_that_is_not_a_number(text: Path, home: Path) -> None:
    result = record(run_on(text, BURSTS, "train.steps=3", "evaluate.every=1"), home).result
    assert result is not None
    assert result["best"] is None or np.isfinite(result["best"]["value"])


def test_what_is_written_is_json_even_where_it_is_not_a_number(text: Path, home: Path) -> None:
    made = record(run_on(text, BURSTS, "train.steps=3", "evaluate.every=1"), home)

    def refuse(name: str) -> None:
        raise AssertionError(name)

    for line in (made.folder / "metrics.jsonl").read_text().splitlines():
        json.loads(line, parse_constant=refuse)


# -- warnings ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("part", ["model.pattern=Full", "model.fusion=Reweight(over=sequence)"])
def test_a_language_model_that_sees_the_future_is_warned_of(part: str, text: Path, home: Path) -> None:
    started = train(run_on(text, "train.steps=1", part), home)[0]
    assert isinstance(started, Started)
    assert any("its figures mean nothing" in w for w in started.warnings)


def test_test_data_seen_in_training_is_warned_of(text: Path, home: Path) -> None:
    spec = run_on(text, "train.steps=1", f"data.corpus.test=Held(path='{text}')", "data.validation=0")
    made = record(spec, home)
    assert made.result is not None
    assert any("of the test set's runs of 12 tokens are in the training data too" in w for w in made.result["warnings"])


@pytest.mark.parametrize(("strange", "warned"), [(30, True), (2, False)])
def test_held_out_words_that_training_never_shows_are_warned_of(
    strange: int, warned: bool, table: Path, home: Path, tmp_path: Path
) -> None:
    rows = [f"word{n} good times,up" if n < strange else "good 3 times,up" for n in range(40)]
    (tmp_path / "test.csv").write_text("\n".join(["text,label", *rows]) + "\n")
    arm = Arm.of("classifier", Files(path=str(table))).settings([*SMALL, "tokenizer=Word", "train.steps=1"])
    arm = arm.set("data.corpus.test", f"Held(path='{tmp_path}/test.csv')")
    started = train(RunSpec(arm=arm).resolved(), home)[0]
    assert isinstance(started, Started)
    assert warned is any("% of the test set's tokens are unknown" in w for w in started.warnings)


def test_nothing_is_warned_of_where_nothing_is_wrong(tmp_path: Path, home: Path) -> None:
    draw = np.random.default_rng(0)
    (tmp_path / "random.txt").write_text("".join(map(chr, draw.integers(97, 123, 4000))))
    started = train(run_on(tmp_path / "random.txt", "train.steps=1"), home)[0]
    assert isinstance(started, Started)
    assert started.warnings == []


# -- what names a run --------------------------------------------------------------------------------------------------


def test_a_run_is_named_by_its_content_not_by_its_place(text: Path, tmp_path: Path) -> None:
    there = tmp_path / "there" / "other.txt"
    there.parent.mkdir()
    shutil.copy(text, there)
    assert run_on(there).id == run_on(text).id
    there.write_text(there.read_text() + "x")
    assert run_on(there).id != run_on(text).id


def test_every_setting_names_another_run(text: Path) -> None:
    changes = ["model.width=18", "model.dropout=0.1", "train.batch=5", "train.steps=7", "train.optimizer.lr=0.002"]
    changes += [
        "tokenizer=Character",
        "evaluate.every=3",
        "evaluate.snapshots=1",
        "data.validation=0.2",
        "train.clip=1",
    ]
    changes += ["evaluate.train=1", "train.schedule=OneCycle", "model.position=Rope", "data.prepare=Lowercase"]
    specs = [run_on(text), *(run_on(text, change) for change in changes), run_on(text, seed=1)]
    specs += [specs[0].set("threads", 2), specs[0].set("device", "cuda")]
    assert len({s.id for s in specs}) == len(specs)


def test_a_file_for_validation_and_one_for_testing_are_two_runs(text: Path, tmp_path: Path) -> None:
    held = tmp_path / "held.txt"
    held.write_text("we the people\n" * 20)
    a, b = (run_on(text, f"data.corpus.{use}=Held(path='{held}')") for use in ("validation", "test"))
    assert a.id != b.id


def test_a_table_and_a_text_of_the_same_bytes_are_two_runs(table: Path, tmp_path: Path) -> None:
    shutil.copy(table, tmp_path / "same.txt")
    assert run_on(table).id != run_on(tmp_path / "same.txt").id


# -- disks -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("largest", [60_000, 30_000])
def test_a_full_disk_is_one_line_and_the_run_goes_on_later(
    largest: int, text: Path, home: Path, tmp_path: Path
) -> None:
    """The checkpoint has some 150,000 bytes, the weights 48,000."""
    command = ["train", "lm", "--data", text, *SMALL_OPTIONS, "--steps", 60, "--save-every"]
    h2h("train", "lm", "--data", text, *SMALL_OPTIONS, "--steps", 1)  # the tokens are kept from here on
    full = h2h(*command, 0 if largest == 60_000 else 100, largest=largest)
    assert full.code == 3
    assert full.err.splitlines()[-1].startswith("h2h: the disk is full, ")
    assert "Traceback" not in full.err
    assert h2h(*command, 100).code == 0
    spec = run_on(text, "train.steps=60")
    train(spec, tmp_path / "elsewhere")
    assert results(home / "runs" / spec.id) == results(tmp_path / "elsewhere" / "runs" / spec.id)


def test_a_disk_too_full_for_metrics_is_one_line(text: Path) -> None:
    h2h("train", "lm", "--data", text, *SMALL_OPTIONS, "--steps", 1)
    full = h2h("train", "lm", "--data", text, *SMALL_OPTIONS, "--steps", 99, largest=4000)
    assert full.err.splitlines()[-1].startswith("h2h: the disk is full, ")
    assert full.code == 3


def test_a_disk_too_full_for_tokens_is_one_line_with_a_reason(text: Path) -> None:
    full = h2h("train", "lm", "--data", text, *SMALL_OPTIONS, "--steps", 1, largest=4000)
    assert full.code == 3
    assert full.err.count("\n") == 1
    assert "None" not in full.err


def _without_roots_rights() -> None:
    """Root writes anywhere; with no capabilities it is a user like any other."""
    libc = ctypes.CDLL(None, use_errno=True)
    header, none = (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)()
    assert libc.capset(header, none) == 0


def test_a_store_that_may_not_be_written_is_one_line(text: Path, home: Path) -> None:
    home.mkdir()
    home.chmod(0o555)
    done = h2h("train", "lm", "--data", text, *SMALL_OPTIONS, "--steps", 1, before=_without_roots_rights)
    home.chmod(0o755)
    assert done.code == 3
    assert done.err.count("\n") == 1
    assert "Permission denied; set HEADTOHEAD_HOME to a folder of yours" in done.err


def test_a_store_that_is_a_file_is_one_line(text: Path, home: Path) -> None:
    home.write_text("mine")
    done = h2h("train", "lm", "--data", text, *SMALL_OPTIONS, "--steps", 1)
    assert done.code == 3
    assert done.err.count("\n") == 1
    assert home.read_text() == "mine"


def test_a_store_that_nobody_could_make_is_one_line(text: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADTOHEAD_HOME", "/proc/x")
    done = h2h("train", "lm", "--data", text, *SMALL_OPTIONS, "--steps", 1)
    assert done.code == 3
    assert done.err.count("\n") == 1
    assert "cannot write /proc/x" in done.err
    assert "set HEADTOHEAD_HOME to a folder of yours" in done.err


def test_a_worker_that_is_starting_takes_no_notice_of_ctrl_c(home: Path, capfd: pytest.CaptureFixture[str]) -> None:
    before = signal.getsignal(signal.SIGINT)
    worker = _Worker.start(home, Options())
    assert signal.getsignal(signal.SIGINT) is before
    try:
        for _ in range(10):
            os.kill(worker.process.pid, signal.SIGINT)
            assert worker.process.join(0.03) is None
            assert worker.process.is_alive()
    finally:
        worker.process.kill()
        worker.end()
    assert capfd.readouterr().err == ""


def test_a_run_in_a_thread_is_a_run(text: Path, home: Path) -> None:
    import threading

    ended: list[object] = []
    spec = run_on(text, "train.steps=2")
    thread = threading.Thread(target=lambda: ended.extend(execute(spec, home, Options())))
    thread.start()
    thread.join()
    assert isinstance(ended[-1], Finished)


def test_ctrl_c_while_the_last_run_ends_is_not_lost(text, home):
    """Whoever has more to do, a study after its tuning for one, must not go on."""
    events = execute_many([run_on(text, "train.steps=2")], home, jobs=1)
    heard = []
    for event in events:
        heard.append(event)
        if isinstance(event, Finished):
            os.kill(os.getpid(), signal.SIGINT)
    assert heard[-1] == NotBegun(0)
