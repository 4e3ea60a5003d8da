"""Generated text on the terminal as it comes."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest

from headtohead import Bpe, Byte, Character, InitSpec, LanguageModel, Word
from headtohead.display.generation import write_along
from headtohead.interpret.generate import (
    Decoding,
    generate,
)
from helpers.models import SMALL, as_if_trained

TEXT = "Café 🙂 naïve, don't! שלום e\u0301 " * 3


@pytest.mark.parametrize("tokenizer", [Byte(), Character(), Word(), Bpe(vocab=300)], ids=str)
@pytest.mark.parametrize("prompt", ["", "Café 🙂", "never seen"])
def test_streamed_text_equals_the_final_text(tokenizer, prompt):
    vocabulary = tokenizer.learn(iter([TEXT]))
    model = LanguageModel(SMALL.set("init", InitSpec.torch()), vocabulary.size).eval()
    trained = replace(as_if_trained(), vocabulary=vocabulary, model=model)
    asked = {"tokens": 60, "decoding": Decoding(seed=2)}
    screen = io.StringIO()
    write_along(trained, prompt, screen, **asked)
    assert screen.getvalue() == prompt + generate(trained, prompt, **asked)[0].text + "\n"
