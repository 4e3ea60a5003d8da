"""Pasted modules run in a process with limits: each of these ends in one sentence."""

from __future__ import annotations

import threading
import time

import pytest

from headtohead.errors import InputError
from headtohead.web.modules import Limits, module_audit

MODULE = """
import torch
from torch import nn

class Helper(nn.Module):
    pass

class Leaky(nn.Module):
    def __init__(self, vocab=23, width=8):
        super().__init__()
        self.embed, self.head = nn.Embedding(vocab, width), nn.Linear(width, vocab)

    def forward(self, ids):
        HERE
        x = self.embed(ids)
        return self.head(x + x.mean(dim=1, keepdim=True))
"""
LIMITS = Limits(cpu_seconds=2, seconds=300)
CAUSAL = {"causal": True}


def audited(source: str, name: str = "", limits: Limits = LIMITS, **claims):
    told: list[dict] = []
    return module_audit(source, name, CAUSAL | claims, limits).run(told.append), told


def test_a_leak_is_found_with_its_pairs():
    value, told = audited(MODULE.replace("HERE", "print('hello')"))
    broken = {f["check"]: f for f in value["findings"] if f["status"] == "broken"}
    assert [0, 1] in broken["future-gradient"]["pairs"]
    assert broken["future-length"]["among"]
    assert value["name"] == "Leaky"
    assert value["others"] == ["Helper"]
    assert value["grid"]["seen"][0][1] == 1
    assert value["grid"]["allowed"][0][1] == 0
    assert value["printed"].startswith("hello\n")
    assert [state["now"] for state in told][:2] == ["loading torch", "loading the module"]
    assert told[-1]["done"] == told[-1]["total"] - 1


@pytest.mark.parametrize(
    ("source", "sentence"),
    [
        ("while True: pass", "the module used 2 seconds of processor time: look for an endless loop"),
        ("bytearray(100 * 2**30)", "the module needs more than 4 GB of memory"),
        ("import torch\ntorch.ones(25_000_000_000)", "the module needs more than 4 GB of memory"),
        ("for n in range(1_000_000): print('line', n)", "the module printed more than 1 MB"),
        ("import os\nos._exit(7)", "the module ended its process with exit code 7"),
        ("import sys\nsys.exit(3)", "the source cannot be imported: SystemExit: 3"),
        ("import os\nos.kill(os.getpid(), 11)", "the module crashed its process (SIGSEGV)"),
        ("def (", "the source cannot be imported: SyntaxError"),
        ("x = 1", "the source defines no subclass of nn.Module"),
    ],
    ids=["loop", "memory", "tensor", "prints", "exit", "sys-exit", "crash", "syntax", "nothing"],
)
def test_what_a_module_does_ends_in_one_sentence(source, sentence):
    with pytest.raises(InputError) as refused:
        audited(source)
    assert str(refused.value).startswith(sentence)
    assert "\n" not in str(refused.value)


def test_a_module_that_waits_is_ended():
    with pytest.raises(InputError, match="did not end within 1 seconds"):
        audited("import time\ntime.sleep(1000)", limits=Limits(seconds=1))


def test_an_endless_forward_pass_is_ended():
    with pytest.raises(InputError, match="endless loop"):
        audited(MODULE.replace("HERE", "while True: pass"))


def test_a_class_that_is_not_there():
    with pytest.raises(InputError, match=r"the source has no module 'Leeky'.*Leaky"):
        audited(MODULE.replace("HERE", "pass"), name="Leeky")


def test_a_module_can_be_stopped():
    audit = module_audit("import time\ntime.sleep(1000)", "", CAUSAL)
    started = time.monotonic()
    threading.Timer(0.5, audit.stop).start()
    with pytest.raises(InputError, match="the audit was stopped"):
        audit.run(print)
    assert time.monotonic() - started < 60


def test_an_audit_that_is_stopped_before_its_process_starts_ends():
    audit = module_audit("import time\ntime.sleep(1000)", "", CAUSAL, LIMITS)
    audit.stop()
    with pytest.raises(InputError, match="the audit was stopped"):
        audit.run(lambda _: None)


def test_the_environment_holds_no_password(monkeypatch):
    monkeypatch.setenv("HEADTOHEAD_PASSWORD", "a-very-secret-word")
    with pytest.raises(InputError) as refused:
        audited("import os\nraise ValueError(sorted(os.environ.items()))")
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (("  ", "", {}), "there is no source"),
        (("x" * 300_000, "", {}), "longer than 200,000 characters"),
        (("x = 1", "os.system('ls')", {}), "no name of Python"),
        (("x = 1", "../../etc", {}), "no name of Python"),
        (("x = 1", "", {"vocab": 1}), "vocab must be a whole number from 3"),
        (("x = 1", "", {"block": 10**9}), "block must be a whole number from 1"),
    ],
)
def test_wrong_fields_are_refused(given, sentence):
    with pytest.raises(InputError, match=sentence):
        module_audit(*given)
