"""The commands as a stranger types them: what they print, and one line with exit code 2 for whatever is wrong."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from headtohead import Arm
from headtohead.cli import app, main
from headtohead.errors import describe
from runs.small import start

H2H = str(Path(sys.executable).parent / "h2h")
ROOT = Path(__file__).parents[1]

MODULES = """
import torch
from torch import nn

class Plain(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens, self.places, self.out = nn.Embedding(10, 8), nn.Embedding(8, 8), nn.Linear(8, 10)
    def forward(self, ids):
        return self.out(self.tokens(ids) + self.places(torch.arange(ids.shape[1])))

class NotANumber(Plain):
    def __init__(self):
        super().__init__()
        nn.init.constant_(self.out.weight, float("nan"))

class NeedsConfig(nn.Module):
    def __init__(self, config):
        super().__init__()

class NeedsTargets(Plain):
    def forward(self, ids, targets):
        return super().forward(ids)

class Scalar(Plain):
    def forward(self, ids):
        return super().forward(ids).sum()

class Refuses(nn.Module):
    def __init__(self):
        raise RuntimeError("no\\nway")

class NoModule:
    pass

instance = Plain()
"""


def h2h(*arguments: str, folder: Path | None = None) -> subprocess.CompletedProcess[str]:
    done = start(*arguments, folder=folder).wait(300)
    return subprocess.CompletedProcess(arguments, done.code, done.out, done.err)


def test_the_installed_program() -> None:
    done = subprocess.run([H2H, "--help"], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0
    assert "audit" in done.stdout


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("files")
    (path / "modules.py").write_text(MODULES)
    (path / "absent.py").write_text("import no_such_module")
    (path / "syntax.py").write_text("def (")
    (path / "leaves.py").write_text("raise SystemExit(3)")
    (path / "nothing.py").write_text("x = 1")
    (path / "binary.py").write_bytes(bytes(range(256)))
    return path


@pytest.mark.parametrize(
    ("command", "says"),
    [
        ("audit Rop", "did you mean Rope?"),
        ("audit Local(-3)", "Local.window must be greater than or equal to 1, not -3"),
        ("audit Rope(thta=3)", "did you mean theta?"),
        ("audit Alibi(slope=nan)", "must be a finite number"),
        ("audit ModelSpec(width=65)", "width 65 does not divide into 2 heads"),
        ("audit Causal&Lcal", "did you mean Local?"),
        ("audit Rope&Causal", "Rope() is no pattern"),
        ("audit 5", "is not a part"),
        ("audit (", "cannot read '('"),
        ("audit --all Rope", "a name or --all, not both"),
        ("audit Rope --window 0", "--window"),
        ("audit nowhere.py:X", "no file nowhere.py"),
        (
            "audit absent.py:X",
            "absent.py does not import: ModuleNotFoundError: No module named 'no_such_module' (line 1)",
        ),
        ("audit syntax.py:X", "syntax.py does not import: SyntaxError"),
        ("audit leaves.py:X", "leaves.py does not import: SystemExit"),
        ("audit binary.py:X", "binary.py does not import"),
        ("audit nothing.py", "there is nothing to audit"),
        ("audit modules.py:Plan", "did you mean Plain?"),
        ("audit modules.py:instance", "name the class"),
        ("audit modules.py:NoModule", "not a torch module"),
        ("audit modules.py:NotANumber", "out.weight holds NaN or infinity"),
        ("audit modules.py:NeedsConfig", "cannot be built without 'config'"),
        ("audit modules.py:NeedsTargets", "forward needs 'targets' besides the ids"),
        ("audit modules.py:Scalar", "it must give (B, T, V) or (B, classes)"),
        ("audit modules.py:Refuses", "cannot be built: RuntimeError: no way"),
        ("audit modules.py:Plain --block 32", "does not take 32 tokens"),
        ("audit modules.py:Plain --vocab 40", "does not take ids up to 39"),
        ("audit modules.py:Plain --pad 99", "--pad 99 is outside the vocabulary of 10"),
        ("list parameters --set model.width=65", "does not divide"),
        ("list parameters --set model.widht=64", "did you mean width?"),
        ("list parameters --set model.position=Rop", "no position is called 'Rop': did you mean Rope?"),
        ("list parameters --set model.position=Local", "must be a Position, not Local()"),
        ("list parameters --set width=64", "--set takes model.FIELD=VALUE"),
        ("list parameters --set model.heads=two", "ModelSpec.heads must be a valid integer"),
        ("list parts nowhere.py", "no file nowhere.py"),
        ("frobnicate", "No such command 'frobnicate'"),
    ],
)
def test_bad_input_is_one_line(
    command: str, says: str, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "argv", ["h2h", *command.split()])
    with pytest.raises(SystemExit) as exit:
        main()
    error = capsys.readouterr().err
    assert exit.value.code == 2
    assert error.startswith("h2h: ")
    assert error.count("\n") == 1, error
    assert says in error


def test_the_leak_of_a_sequence_norm_is_named_and_its_token_form_passes() -> None:
    leaky = h2h("audit", "Reweight(over=sequence)", "--json")
    findings = {f["check"]: f for f in json.loads(leaky.stdout)[0]["findings"]}
    assert leaky.returncode == 1
    assert findings["future-tokens"]["status"] == "broken"
    assert "in a language model: in evaluation, position 0 saw position 1" in findings["future-tokens"]["evidence"]
    in_training = h2h("audit", "Reweight(over=sequence, at=training)", "--json")
    assert in_training.returncode == 1
    assert "in training, position 0 saw position 1" in in_training.stdout
    assert h2h("audit", "Reweight(over=token)").returncode == 0


def test_a_pattern_is_held_to_causality_on_demand() -> None:
    assert h2h("audit", "Causal | Prefix(4)").returncode == 0
    done = h2h("audit", "Causal | Prefix(4)", "--causal")
    assert done.returncode == 1
    assert "position 0 saw position 1" in done.stdout


def test_a_recipe_is_audited_model_by_model() -> None:
    done = h2h("audit", "recipes/published/documents.py", "--json", folder=ROOT)
    broken = [r["subject"] for r in json.loads(done.stdout) if not r["ok"]]
    assert broken == ["reweighted, language model"]
    assert done.returncode == 1


def test_what_is_no_part_of_a_model_is_not_audited() -> None:
    done = h2h("audit", "recipes/published/padding.py:Filled", folder=ROOT)
    assert done.returncode == 2
    assert "is a preparation, no part of a model" in done.stderr


@pytest.mark.slow
def test_everything_in_small() -> None:
    done = h2h("audit", "--all", "--models", "2", "--jobs", "2", "--json")
    result = json.loads(done.stdout)
    assert done.returncode == 0, [r for r in result["reports"] if not r["ok"]]
    assert result["audited"] >= 29 + 2


def test_lists() -> None:
    rows = json.loads(h2h("list", "parts", "--json").stdout)
    assert {"family", "name", "equation", "reference", "knobs"} <= rows[0].keys()
    assert h2h("list", "parts").stdout.count("knobs: theta = 10000.0, fraction = 1.0") == 1
    assert "  ShuffledWindows  Windows at" in h2h("list", "parts").stdout
    counted = h2h("list", "parameters", "--set", "model.feedforward=Mlp(relu, 100)", "--set", "model.head_bias=true")
    assert "863,243" in counted.stdout


@pytest.mark.parametrize("what", ["parts", "settings"])
def test_the_reference_page_is_current(what: str) -> None:
    page = ROOT / "docs" / "reference" / f"{what}.md"
    assert h2h("list", what, "--markdown").stdout == page.read_text(encoding="utf-8")


def test_every_setting_that_is_listed_can_be_set() -> None:
    rows = json.loads(h2h("list", "settings", "--json").stdout)
    assert {"model.position", "model.init.embedding_std", "train.optimizer", "data.limit"} <= {r["name"] for r in rows}
    for row in rows:
        assert Arm().set(row["name"], row["default"]) == Arm(), row["name"]


def test_every_command_is_on_its_page() -> None:
    page = (ROOT / "docs" / "reference" / "commands.md").read_text(encoding="utf-8")
    names = {c.name or c.callback.__name__ for c in app.registered_commands if c.callback}
    names |= {group.name for group in app.registered_groups if group.name}
    assert {name for name in names if f"`h2h {name}`" not in page} == set()


def test_every_recipe_is_listed_with_its_command() -> None:
    rows = json.loads(h2h("list", "recipes", "--json").stdout)
    assert {"demo", "pretrained", "published/window"} <= {row["recipe"] for row in rows}
    assert all(row["command"] for row in rows), "one that does not import has none"


def test_doctor() -> None:
    assert {f["what"] for f in json.loads(h2h("doctor", "--json").stdout)} >= {"Python", "cores", "torch"}
    assert h2h("doctor").returncode == 0


def test_doctor_asks_for_a_folder_only_for_the_corpora_that_need_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HEADTOHEAD_DATA", raising=False)
    (said,) = [f["remedy"] for f in json.loads(h2h("doctor", "--json").stdout) if f["what"] == "HEADTOHEAD_DATA"]
    assert said.startswith("for speeches and sst2:")


OUT_OF_MEMORY = [
    MemoryError(),
    RuntimeError("[enforce fail at alloc_cpu.cpp:127] DefaultCPUAllocator: can't allocate memory: you tried to\nallo"),
    RuntimeError("Storage size calculation overflowed with sizes=[1, 2]"),
]


@pytest.mark.parametrize("error", OUT_OF_MEMORY, ids=str)
def test_too_little_memory_is_one_line(
    error: Exception, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail() -> None:
        raise error

    monkeypatch.setattr("headtohead.doctor.examine", fail)
    monkeypatch.setattr(sys, "argv", ["h2h", "doctor"])
    with pytest.raises(SystemExit) as exit:
        main()
    said = capsys.readouterr().err
    assert exit.value.code == 3
    assert said == f"h2h: {describe(error)}\n"
    assert "make model.width or train.batch smaller" in said


def test_another_error_of_torch_is_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise RuntimeError("mat1 and mat2 shapes cannot be multiplied")

    monkeypatch.setattr("headtohead.doctor.examine", fail)
    monkeypatch.setattr(sys, "argv", ["h2h", "doctor"])
    with pytest.raises(RuntimeError, match="mat1"):
        main()
