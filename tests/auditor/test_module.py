"""The audit of modules: imported models, and classes and functions of a file."""

from __future__ import annotations

import pytest

from headtohead.auditor import Claims, audit_module, audit_named
from headtohead.run.named import load
from helpers.terminal import h2h

pytestmark = pytest.mark.usefixtures("offline")
LEARNED = {"seed", "initial-loss"}  # what is asked of weights that were drawn, and not of those that were learned
MODULES = """
def lm():
    import transformers
    return transformers.GPT2LMHeadModel.from_pretrained("{lm}")

def classifier():
    import transformers
    return transformers.BertForSequenceClassification.from_pretrained("{classifier}")

def imported():
    from headtohead.run.named import load
    return load("{lm}").model

def looks_ahead():
    made = imported()
    import dataclasses
    from headtohead import Full
    made.trunk.spec = dataclasses.replace(made.trunk.spec, pattern=Full())
    return made
"""


@pytest.mark.parametrize(
    ("kind", "claims"),
    [("gpt2", {"causal": True}), ("llama", {"causal": True, "relative": True}), ("roberta-classifier", {"pad": 1})],
)
def test_audit_of_an_imported_model_breaks_no_check(checkpoint, kind, claims):
    report = audit_module(lambda: load(str(checkpoint(kind))).model, kind, **claims)
    broken = {f.check for f in report.findings if f.status == "broken"}
    assert broken <= LEARNED
    assert sum(f.status == "proved" for f in report.findings) >= 12


def test_audit_of_modules_in_a_file_finds_the_leak(checkpoint, tmp_path):
    places = {"lm": checkpoint("gpt2"), "classifier": checkpoint("bert-classifier")}
    (tmp_path / "mine.py").write_text(MODULES.format(**places))
    for name, claims in (("lm", Claims(causal=True)), ("classifier", Claims()), ("imported", Claims(causal=True))):
        (report,) = audit_named(f"mine.py:{name}", claims)
        assert {f.check for f in report.findings if f.status == "broken"} <= LEARNED, name
        assert sum(f.status == "proved" for f in report.findings) >= 12
    (report,) = h2h("audit", "mine.py:looks_ahead", "--causal", "--json").json
    assert {"future-gradient", "future-tokens"} <= {f["check"] for f in report["findings"] if f["status"] == "broken"}
