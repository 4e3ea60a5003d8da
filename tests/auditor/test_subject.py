"""Large modules: few builds, every planted bug is still found, and the evidence says what is reduced."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

import headtohead as h2h
from auditor.test_auditor import audit, broken, modules
from headtohead.auditor import audit_module, audit_spec, subject
from headtohead.auditor.module import Claims, from_module
from headtohead.spec.userfiles import load_file

LARGE = Path(__file__).parent / "large/gpt2.py"
gpt2 = load_file(LARGE)
SIZES = {"vocab": 24_000, "width": 256, "heads": 4, "layers": 5}  # 10.4 million weights


def sized(name: str):
    """The module of that name, small enough for a test of seconds and large enough for reduced checks."""
    made = getattr(gpt2, name)
    return type(name, (made,), {"__init__": lambda self, dropout=0.1: made.__init__(self, dropout=dropout, **SIZES)})


@pytest.fixture
def all_are_large(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(subject, "LARGE", 0)


def test_a_large_module_is_built_a_few_times():
    built = []

    class Counted(sized("GPT2")):
        def __init__(self, dropout: float = 0.1) -> None:
            built.append(dropout)
            super().__init__(dropout)

    report = audit_module(Counted, "Counted", causal=True)
    assert report.ok
    assert report.count("proved") >= 18
    assert built.count(0.1) <= 4  # as it is, perturbed, trained, from another seed
    assert len(built) <= 6  # without dropout, and with other dropout
    assert all("large module" in f.evidence for f in report.findings if f.check in ("dropout", "rows", "seed"))


def test_a_module_below_the_limit_is_audited_in_full():
    report = audit_module(load_file(LARGE.parents[1] / "planted/gpt_base.py").GPT, "GPT", causal=True)
    assert not any("large module" in f.evidence for f in report.findings)


def test_weights_that_are_not_registered_count():
    assert from_module(sized("LayersInList"), "it", Claims(causal=True)).large


def test_threads_and_the_modules_mode_are_as_before():
    threads = torch.get_num_threads()
    s = from_module(sized("Masked"), "it", Claims(causal=True))
    before = [p.clone() for p in s.eval_model.parameters()]
    report = h2h.auditor.examine(s)
    assert report.ok
    assert not s.eval_model.training
    assert all(
        p.requires_grad and torch.equal(p, old) for p, old in zip(s.eval_model.parameters(), before, strict=True)
    )
    assert torch.get_num_threads() == threads


@pytest.mark.parametrize("name", gpt2.BUGS)
def test_a_bug_of_a_large_module_is_found(name: str):
    made = sized(name) if name != "RareTokensShareARow" else _rare_tokens()
    report = audit_module(made, name, causal=True, only=(gpt2.BUGS[name],))
    assert [f.check for f in report.broken] == [gpt2.BUGS[name]], report


def _rare_tokens():
    class Shared(sized("GPT2")):
        def embed(self, ids, before=0):
            return super().embed(ids.clamp(max=23_900), before)

    return Shared


@pytest.mark.parametrize("name", [name for name in gpt2.CORRECT if name not in ("GPT2", "HuggingFace")])
def test_a_correct_large_module_is_not_accused(name: str):
    assert audit_module(sized(name), name, causal=True).broken == ()


def test_a_large_model_of_parts_is_proved():
    spec = h2h.ModelSpec(layers=4, width=480, heads=8, position=h2h.Rope(), pattern=h2h.Causal())
    report = audit_spec(spec)
    assert report.ok
    assert report.count("proved") >= 20
    assert "large module" in str(report)


@pytest.mark.usefixtures("all_are_large")
@pytest.mark.parametrize("file", modules("planted"), ids=lambda f: f.stem)
def test_reduced_checks_find_every_planted_bug(file: Path):
    module = load_file(file)
    _code, findings = audit(file, module, *(word for check in sorted(module.CAUGHT_BY) for word in ("--only", check)))
    status = getattr(module, "STATUS", "broken")
    assert any(f["status"] == status for f in findings.values()), f"{module.__doc__}\nfound: {findings}"


@pytest.mark.usefixtures("all_are_large")
@pytest.mark.parametrize("file", modules("correct"), ids=lambda f: f.stem)
def test_reduced_checks_accuse_no_correct_module(file: Path):
    _code, findings = audit(file, load_file(file))
    assert broken(findings) == {}


@pytest.mark.slow
@pytest.mark.parametrize("name", [*gpt2.CORRECT, *gpt2.BUGS])
def test_the_real_size_takes_seconds(name: str):
    program = Path(sys.executable).with_name("h2h")
    command = [str(program), "audit", f"{LARGE}:{name}", "--causal", "--json"]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    (report,) = json.loads(done.stdout)
    found = {f["check"] for f in report["findings"] if f["status"] == "broken"}
    assert (gpt2.BUGS[name] in found) if name in gpt2.BUGS else not found, report
    # Seconds of processor time: 13 to 18 on an idle machine, up to half more beside other programs.
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 30
