"""A study that is run again after something changed: every figure belongs to the arm that it stands beside. And stores
with files that are damaged: what can be said is said, and the rest named."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from headtohead import Arm, InputError, Study
from headtohead.carry import folder_of
from headtohead.outcome import find_study, load_outcome
from headtohead.report.page import page
from headtohead.study_commands import study_for
from headtohead.userfiles import load_file
from headtohead.wording import lines_under
from runs.small import h2h

from .small import carried, control, study


def verdicts(made, home):
    carried(made, home)
    return load_outcome(folder_of(made, home)).verdicts()


def value(home: Path, made: Study, arm: str, seed: int) -> float:
    """As the store has it, by the run that the arm's own spec names."""
    from headtohead.arm import run_specs
    from headtohead.metrics import value_of
    from headtohead.store import Record

    chosen = next(v.arm for v in made.variants if v.name == arm)
    spec = run_specs(chosen, [seed], "cpu", 1)[seed]
    return value_of(Record(home / "runs" / spec.id).result or {}, made.measured)


def named(text, lr, **given):
    base = control(text)
    arms = {"mine": base.set("train.optimizer.lr", lr)}
    return study(text, vary=["train.optimizer.lr"], arms=arms, **{"seeds": 3} | given)


def test_an_arm_edited_under_its_own_name(text: Path, home: Path):
    first, then = named(text, 0.05), named(text, 1e-5)
    before = verdicts(first, home)["mine"].mean
    after = verdicts(then, home)
    assert [(row.arm, row.dropped) for row in after] == [("mine", False), ("mine (before)", True)]
    assert after["mine"].mean == pytest.approx(np.mean([value(home, then, "mine", s) for s in range(3)]))
    assert after["mine (before)"].mean == pytest.approx(before)
    assert after["mine"].mean != pytest.approx(before)
    frame = load_outcome(folder_of(then, home)).frame()
    assert sorted(frame["arm"].unique()) == ["lr=0.001", "mine", "mine (before)"]
    third = verdicts(first, home)  # and back again
    assert third["mine"].mean == pytest.approx(before)


def test_other_text_under_the_same_name(text: Path, home: Path):
    made = study(text, seeds=2, again=True)
    verdicts(made, home)
    text.write_text(text.read_text()[:6000])
    found = verdicts(made, home)
    assert [row.arm for row in found] == ["Rope", "NoPosition"]
    assert found.control_mean == pytest.approx(np.mean([value(home, made, "Learned", s) for s in range(2)]))
    assert found["Rope"].mean == pytest.approx(np.mean([value(home, made, "Rope", s) for s in range(2)]))


def test_other_threads_and_back(text: Path, home: Path):
    made = study(text, "evaluate.windows=4", seeds=2, vary={"model.position": ["Rope"]})
    once = verdicts(made, home)
    carried(made, home, threads=2)
    assert [row.arm for row in load_outcome(folder_of(made, home)).verdicts()] == ["Rope"]
    assert verdicts(made, home).to_json() == once.to_json()


def test_other_seeds(text: Path, home: Path):
    verdicts(study(text, seeds=[0, 1]), home)
    found = verdicts(study(text, seeds=[10, 11, 12]), home)
    assert [(row.arm, row.verdict.pairs) for row in found] == [("Rope", 3), ("NoPosition", 3)]
    again = verdicts(study(text, seeds=[1, 10, 13]), home)
    assert [row.verdict.pairs for row in again] == [3, 3]


def test_an_arm_that_is_dropped_stays_in_the_family(text: Path, home: Path):
    verdicts(study(text, seeds=2), home)
    found = verdicts(study(text, seeds=3, vary={"model.position": ["Rope"]}), home)
    assert [(row.arm, row.dropped, row.verdict.pairs) for row in found] == [("Rope", False, 3), ("NoPosition", True, 2)]


def test_arms_with_odd_names(text: Path, home: Path):
    base = control(text)
    arms = {"again": base.set("train.optimizer.lr", 0.05), "a/b": base.set("train.optimizer.lr", 0.02)}
    made = study(text, vary=["train.optimizer.lr"], arms=arms, seeds=2, again=True)
    found = verdicts(made, home)
    assert found["again"].mean == pytest.approx(np.mean([value(home, made, "again", s) for s in range(2)]))
    assert found.noise is not None
    assert "tuned" not in load_outcome(folder_of(made, home)).frame().columns


def test_the_noise_floor_has_another_order_than_the_control(text: Path, home: Path):
    found = verdicts(study(text, "train.order=1", seeds=2, again=True), home)
    assert found.noise.verdict.difference != 0


def test_other_tokens_have_no_items_in_common(text: Path, home: Path):
    made = study(text, "evaluate.windows=5", vary={"tokenizer": ["Byte", "Character"]}, seeds=2)
    found = verdicts(made, home)
    assert found.arms[0].items is None
    assert any("evaluate.windows=5 is other text" in note for note in found.notes)


def test_a_perplexity_too_large_to_write_is_left_out_by_name(text: Path, home: Path):
    made = study(
        text, vary={"train.optimizer.lr": [0.001, 3000.0]}, seeds=2, metric="validation/perplexity", name="huge"
    )
    found = verdicts(made, home)
    row = found.arms[0]
    said = "\n".join(lines_under(found))
    assert row.verdict.pairs + len(row.excluded) == 2
    if row.excluded:
        assert "pairs left out" in said


# -- damage ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("items.npz", b"PK torn", "no test over texts"),
        ("items.npz", None, "no test over texts"),
        ("result.json", b'{"status":"complete"}', "not whole"),
        ("result.json", b'{"sta', "cannot be read"),
        ("times.json", b"{", ""),
        ("metrics.jsonl", b"{torn\n", ""),
    ],
)
def test_a_damaged_run_is_named_and_the_others_counted(text: Path, home: Path, name, content, says):
    made = study(text, seeds=3)
    carried(made, home)
    folder = folder_of(made, home)
    run = load_outcome(folder).said["tables"][0]["arms"][1]["runs"]["1"]
    path = home / "runs" / run / name
    path.unlink() if content is None else path.write_bytes(content)
    found = load_outcome(folder).verdicts()
    said = "\n".join(lines_under(found))
    assert says in said
    assert found["Rope"].verdict.pairs == (2 if name == "result.json" else 3)
    assert found["NoPosition"].verdict.pairs == 3
    assert "NoPosition" in page(load_outcome(folder))


def test_a_study_that_is_not_whole_is_one_line(text: Path, home: Path):
    made = study(text, seeds=2)
    carried(made, home)
    (folder_of(made, home) / "study.json").write_text('{"format": 1}')
    for command in (["report", "tiny"], ["list", "studies"]):
        done = h2h(*command)
        assert "Traceback" not in done.err + done.out
        assert "cannot be read" in done.err + done.out


# -- what is typed -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"seeds": 6.0}, "whole numbers"),
        ({"seeds": "6"}, "whole numbers"),
        ({"seeds": ["a", "b"]}, "whole numbers"),
        ({"seeds": 0}, "no seed"),
        ({"vary": None}, "vary names fields"),
        ({"vary": "model.heads"}, "vary names fields"),
        ({"arms": [3]}, "arms are named"),
        ({"arms": {"a": 3}}, "arms are named"),
        ({"arms": {3: Arm()}}, "line of text"),
        ({"arms": {" ": Arm()}}, "line of text"),
        ({"arms": {"a\nb": Arm()}}, "line of text"),
        ({"metric": 3}, "metric is a text"),
        ({"name": 3}, "name is a text"),
        ({"name": "\x00"}, "will not do"),
        ({"name": "x" * 400}, "will not do"),
        ({"tune": {"train.optimizer.lr": 1e-3}}, "tune names fields"),
        ({"tune": ["train.optimizer.lr"]}, "tune names fields"),
        ({"tune": {"train.optimizer.lr": []}}, "tune names fields"),
        ({"tune": {"train.optimizer.lr": [1e-3]}, "tuning_seeds": 0}, "tuning_seeds"),
        ({"tune": {"train.optimizer.lr": [1e-3]}, "seeds": [1_000_000, 5]}, "for tuning"),
    ],
)
def test_recipes_typed_wrong_say_what_is_meant(given, says):
    with pytest.raises(InputError, match=says):
        Study(**{"question": "?", "control": Arm(), "vary": {"model.heads": [1, 2]}} | given)


def asked(name="lm", **given):
    return study_for(
        name, **{"vary": None, "data": None, "settings": [], "seeds": None, "metric": None, "margin": None} | given
    )


def test_the_command_in_a_report_asks_for_the_same_study(text: Path):
    made = asked(
        vary=["model.position=Learned,Rope(theta=500)"],
        data=str(text),
        settings=["model.width=16"],
        seeds=7,
        margin="1%",
    )
    expected = f"h2h run lm --vary 'model.position=Learned,Rope(theta=500)' --data {text}"
    assert made.command == f"{expected} --set model.width=16 --seeds 7 --margin 1%"
    assert made.name == "lm-mine-position"
    with pytest.raises(InputError, match="given twice"):
        asked(vary=["model.norm=RMSNorm", "model.norm=NoNorm"])


def test_names_of_numbers_are_short():
    made = Study(question="?", control=Arm(), vary={"train.optimizer.lr": [1e9, 0.0013, 1.0 / 3]})
    assert [v.name for v in made.variants][1:] == ["lr=1e+09", "lr=0.0013", "lr=0.3333333333333333"]


def test_what_a_recipe_prints_spoils_no_json(tmp_path, capsys):
    file = tmp_path / "loud.py"
    file.write_text("print('hello')\n")
    load_file(file)
    out = capsys.readouterr()
    assert (out.out, out.err) == ("", "hello\n")


def test_the_latest_study_is_the_one_last_asked_for(text: Path, home: Path):
    for name in ("one", "other"):
        recipe = Path(f"{name}.py")
        recipe.write_text(
            "from headtohead import Arm, Files, Study\n"
            f"base = Arm.of('lm', Files(path={str(text)!r})).settings({SETTINGS!r})\n"
            f"study = Study(question='?', control=base, vary={{'model.heads': [1, 2]}}, seeds=2, again=False)\n"
        )
        assert h2h("run", recipe, "--jobs", 1).code == 0
    assert find_study("latest", home).name == "other"
    done = h2h("run", "one.py", "--jobs", 1, "--json")
    assert find_study("latest", home).name == "one"
    assert json.loads(done.out)["tables"][0]["arms"][0]["arm"] == "heads=1"
    done = h2h("run", "one.py", "--effect", "50%", "--seeds", "9")
    assert done.code == 2
    assert "leave out --seeds" in done.err


SETTINGS = ["model.width=16", "model.layers=1", "model.block=16", "tokenizer=Byte", "train.batch=4", "train.steps=3"]
