"""h2h list parameters and settings: of a run, a study's arm, a checkpoint."""

from __future__ import annotations

from pathlib import Path

import pytest

from headtohead import Arm
from helpers.checkpoints import model, saved
from helpers.corpora import written
from helpers.recipes import GATE, RECIPE
from helpers.runs import CLASSIFIER, LM
from helpers.stores import Shelf
from helpers.terminal import Type, h2h, is_one_line


@pytest.mark.parametrize("name", ["lm", "rope", "classifier"])
def test_a_run_counts_what_it_trained(name: str, shelf: Shelf, typed: Type) -> None:
    record = getattr(shelf, name)
    assert record.result is not None
    said = typed("list", "parameters", record.id[:8], "--json").json
    assert said["total"] == said["learning"] == record.result.parameters
    assert said["vocabulary"] == record.result.data["vocabulary"]
    assert said["classes"] == (2 if name == "classifier" else None)


def test_a_run_is_named_above_its_components(shelf: Shelf, typed: Type) -> None:
    done = typed("list", "parameters", shelf.classifier.id)
    first, second, *rows = done.out.splitlines()
    assert first == f"run {shelf.classifier.id[:8]}: classifier on mine.csv, seed 0"
    assert second == "1 layers of 2 heads, width 16, block 16, vocabulary 258, 2 classes"
    assert [row.split("  ")[0] for row in rows[1:]] == [
        *("token embedding", "position", "attention", "feed-forward", "norms", "head", "total")
    ]


def test_a_study_arm_has_its_own_parameters(typed: Type) -> None:
    learned, rope = (typed("list", "parameters", f"tiny/{arm}", "--json").json for arm in ("Learned", "Rope"))
    assert learned["total"] - rope["total"] == 16 * 16  # block × width of learned positions


def test_a_checkpoint_folder_is_counted(typed: Type, tmp_path: Path) -> None:
    folder = saved(tmp_path, "gpt2")
    said = typed("list", "parameters", folder, "--json").json
    assert said["total"] == sum(p.numel() for p in model("gpt2").parameters())
    assert said["learning"] is None
    shown = " ".join(typed("list", "parameters", folder).out.split())
    assert shown.startswith(f"{folder} 3 layers of 4 heads, width 32, block 24, vocabulary ")


def test_settings_of_a_run_are_its_values(shelf: Shelf, typed: Type) -> None:
    values = typed("list", "settings", shelf.rope.id, "--json").json["settings"]
    assert values["model.position"] == "Rope"
    assert values["model.width"] == "16"
    assert values["train.steps"] == "40"
    assert values["evaluate.watch_test"] == "True"
    assert set(values) == {setting["name"] for setting in typed("list", "settings", "--json").json}
    shown = typed("list", "settings", shelf.rope.id)
    assert max(map(len, shown.out.splitlines())) <= 80
    assert "| model.width | 16 |" in typed("list", "settings", "tiny/Rope", "--markdown").out
    assert typed("list", "settings", "nope").code == 2


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ("nope", "no run 'nope'"),
        (".", "has no config.json"),
        ("latest --vocab 3", "a run has its own model: leave out --vocab"),
        ("latest --set model.width=8", "a run has its own model: leave out --set"),
    ],
)
def test_bad_input_is_one_line(arguments: str, says: str, typed: Type) -> None:
    done = typed("list", "parameters", *arguments.split())
    assert done.code == 2
    assert says in done.err
    assert done.err.count("\n") == 1


def test_list_runs_and_corpora_as_json(text: Path, type_in: Type) -> None:
    assert "the store has no runs yet" in type_in("list", "runs").out
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


@pytest.mark.usefixtures("text")
def test_list_recipes_shows_each_command():
    Path("recipes").mkdir()
    (Path("recipes") / "mine.py").write_text(RECIPE)
    rows = {row["recipe"]: row for row in h2h("list", "recipes", "--json").json}
    assert rows["mine"]["command"] == "h2h run mine.py"
    assert rows["demo"]["command"] == "h2h demo"
    assert h2h("run", "mine", "--seeds", 2, "--jobs", 1).code == 0


@pytest.mark.parametrize(
    ("command", "says"),
    [
        ("list parameters --set model.fusion=gate.py:Nope", "gate.py has no part 'Nope': it has Gate, Other"),
        ("list parameters --set model.width=65", "not divisible"),
        ("list parameters --set model.widht=64", "did you mean width?"),
        ("list parameters --set model.position=Rop", "no position is called 'Rop': did you mean Rope?"),
        ("list parameters --set model.position=Local", "must be a Position, not Local()"),
        ("list parameters --set width=64", "--set takes model.FIELD=VALUE"),
        ("list parameters --set model.heads=two", "ModelSpec.heads must be a whole number"),
        ("list parts nowhere.py", "no file nowhere.py"),
    ],
)
def test_bad_input_of_list_is_one_line(command: str, says: str, tmp_path: Path, type_in: Type) -> None:
    (tmp_path / "gate.py").write_text(GATE)
    is_one_line(type_in(*command.split()), says)


def test_list_parts_and_parameters_print_knobs_and_counts() -> None:
    rows = h2h("list", "parts", "--json").json
    assert {"family", "name", "equation", "reference", "knobs"} <= rows[0].keys()
    assert h2h("list", "parts").out.count("knobs: theta = 10000.0, fraction = 1.0") == 1
    assert "  ShuffledWindows  Windows that start at" in h2h("list", "parts").out
    counted = h2h("list", "parameters", "--set", "model.feedforward=Mlp(relu, 100)", "--set", "model.head_bias=true")
    assert "863,243" in counted.out


def test_every_listed_setting_can_be_set() -> None:
    rows = h2h("list", "settings", "--json").json
    assert {"model.position", "model.init.embedding_std", "train.optimizer", "data.limit"} <= {r["name"] for r in rows}
    for row in rows:
        assert Arm().set(row["name"], row["default"]) == Arm(), row["name"]


def test_every_recipe_is_listed_with_its_command() -> None:
    rows = h2h("list", "recipes", "--json").json
    assert {"demo", "pretrained", "published/window"} <= {row["recipe"] for row in rows}
    assert all(row["command"] for row in rows), "one that does not import has none"


def test_list_corpora_states_what_tasks_separate(type_in: Type) -> None:
    rows = {row["name"]: row for row in type_in("list", "corpora", "--json").json}
    assert rows["mqar"]["optimum"] == {"accuracy": 1.0, "loss": 0.0}
    assert rows["mqar"]["guess"]["accuracy"] == 1 / 64
    assert 0 < rows["bigrams"]["optimum"]["loss"] < rows["bigrams"]["guess"]["loss"]
    assert "optimum" not in rows["sotu"]
    said = " ".join(type_in("list", "corpora").out.split())
    assert "separates one layer of attention from two" in said
    assert "best possible 100% and 0.00 nats per answer; guessing 1.6% and 4.16" in said
