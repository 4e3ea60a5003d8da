"""Classes and arguments under other names are understood, and the student is told what to rename."""

from __future__ import annotations

from types import ModuleType

import pytest
from torch import nn

from headtohead.errors import InputError
from headtohead.grading.finding import arguments_for, find_object


def module(**classes: type) -> ModuleType:
    made = ModuleType("students")
    for name, value in classes.items():
        value.__module__ = "students"
        setattr(made, name, value)
    return made


class Gpt(nn.Module):
    def __init__(self, vocab_size, block_size, n_embd=8, dropout=0.1):
        super().__init__()


class Needs(nn.Module):
    def __init__(self, vocab, dropout, device, config):
        super().__init__()


def test_the_class_is_found_by_name_or_by_what_it_is() -> None:
    assert find_object(module(LanguageModel=Gpt), "LanguageModel", ()) == (Gpt, "")
    assert find_object(module(GPT=Gpt), "LanguageModel", ()) == (Gpt, "GPT was used: rename it to LanguageModel")
    assert find_object(module(Net=Gpt), "LanguageModel", ("Net",))[0] is Gpt
    with pytest.raises(InputError, match="there is no 'Classifier': it has Net"):
        find_object(module(Net=Gpt), "Classifier", ())


def test_arguments_are_mapped_to_what_they_are_called() -> None:
    given, notes = arguments_for(Gpt, {"vocab": 9, "block": 5, "width": 4}, "GPT")
    assert given == {"vocab_size": 9, "block_size": 5, "n_embd": 4}
    assert notes[0] == "rename the argument 'vocab_size' of GPT to 'vocab'"
    with pytest.raises(InputError, match="GPT has no argument 'classes'"):
        arguments_for(Gpt, {"vocab": 9, "block": 5, "classes": 3}, "GPT")
    with pytest.raises(InputError, match="Needs needs 'config': give it a default value"):
        arguments_for(Needs, {"vocab": 9}, "Needs")
