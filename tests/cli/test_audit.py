"""h2h audit: what is broken, exit codes, and one line for bad input."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from headtohead.cli import app
from helpers.docs import ROOT
from helpers.recipes import GATE
from helpers.terminal import Type, h2h, is_one_line

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


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("files")
    (path / "modules.py").write_text(MODULES)
    (path / "gate.py").write_text(GATE)
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
        ("audit Local(-3)", "Local.window must be a whole number, 1 or more, not -3"),
        ("audit Rope(thta=3)", "did you mean theta?"),
        ("audit Alibi(slope=nan)", "must be a finite number"),
        ("audit ModelSpec(width=65)", "width 65 is not divisible by 2 heads"),
        ("audit Causal&Lcal", "did you mean Local?"),
        ("audit Rope&Causal", "Rope() is not a pattern"),
        ("audit 5", "is not a part"),
        ("audit (", "cannot read '('"),
        ("audit --all Rope", "a name or --all, not both"),
        ("audit Rope --window 0", "--window"),
        ("audit nowhere.py:X", "no file nowhere.py"),
        (
            "audit absent.py:X",
            "absent.py cannot be imported: ModuleNotFoundError: No module named 'no_such_module' (line 1)",
        ),
        ("audit syntax.py:X", "syntax.py cannot be imported: SyntaxError"),
        ("audit leaves.py:X", "leaves.py cannot be imported: SystemExit"),
        ("audit binary.py:X", "binary.py cannot be imported"),
        ("audit nothing.py", "there is nothing to audit"),
        ("audit modules.py:Plan", "modules.py has no class 'Plan': did you mean Plain? it has Plain, NotANumber,"),
        ("audit gate.py:Nope", "gate.py has no class 'Nope': it has Gate, Other"),
        ("audit gate.py:Nope(rate=2)", "gate.py has no part 'Nope': it has Gate, Other"),
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
    ],
)
def test_bad_input_of_audit_is_one_line(
    command: str, says: str, folder: Path, monkeypatch: pytest.MonkeyPatch, type_in: Type
) -> None:
    monkeypatch.chdir(folder)
    is_one_line(type_in(*command.split()), says)


def test_audit_finds_the_leak_of_a_sequence_norm() -> None:
    leaky = h2h("audit", "Reweight(over=sequence)", "--json")
    findings = {f["check"]: f for f in leaky.json[0]["findings"]}
    assert leaky.code == 1
    assert findings["future-tokens"]["status"] == "broken"
    assert "in a language model: in evaluation, position 0 saw position 1" in findings["future-tokens"]["evidence"]
    in_training = h2h("audit", "Reweight(over=sequence, at=training)", "--json")
    assert in_training.code == 1
    assert "in training, position 0 saw position 1" in in_training.out
    assert h2h("audit", "Reweight(over=token)").code == 0


def test_a_pattern_is_audited_for_causality_when_asked() -> None:
    assert h2h("audit", "Causal | Prefix(4)").code == 0
    done = h2h("audit", "Causal | Prefix(4)", "--causal")
    assert done.code == 1
    assert "position 0 saw position 1" in done.out


def test_a_recipe_is_audited_model_by_model() -> None:
    done = h2h("audit", "published/documents", "--json")
    broken = [r["subject"] for r in done.json if not r["ok"]]
    assert broken == ["reweighted, language model"]
    assert done.code == 1


def test_auditing_a_preparation_is_refused() -> None:
    done = h2h("audit", "published/padding:Filled")
    assert done.code == 2
    assert "is a preparation, not a part of a model" in done.err


@pytest.mark.slow
def test_audit_of_all_parts_breaks_nothing() -> None:
    done = h2h("audit", "--all", "--models", "2", "--jobs", "2", "--json")
    result = done.json
    assert done.code == 0, [r for r in result["reports"] if not r["ok"]]
    assert result["audited"] >= 29 + 2


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["Rope", "--only", "cach"], "no check is called 'cach': did you mean cache?"),
        (
            [f"{ROOT}/tests/auditor/correct/bag_of_words.py:BagOfWords", "--only", "rotation"],
            "--only rotation does not apply to",
        ),
        (["--all", "--only", "cache"], "--only needs a name"),
    ],
)
def test_an_unknown_or_inapplicable_check_is_refused(words: list[str], says: str) -> None:
    result = CliRunner().invoke(app, ["audit", *words])
    assert says in f"{result.exception} {result.output}"


@pytest.mark.usefixtures("offline")
@pytest.mark.parametrize("kind", ["gpt2", "llama", "roberta-classifier", "bert"])
def test_audit_of_a_checkpoint_by_name_breaks_no_check(checkpoint, kind):
    done = h2h("audit", checkpoint(kind), "--json")
    assert done.code == 0, done.err
    (report,) = done.json
    status = {f["check"]: f["status"] for f in report["findings"]}
    assert status["seed"] == status["initial-loss"] == "does not apply"
    assert sum(s == "proved" for s in status.values()) >= 12
    assert status["future-tokens"] == ("proved" if kind in ("gpt2", "llama") else "does not apply")
