"""Scores of texts."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from headtohead import Arm, Bpe, InputError, Mqar, RunSpec, generate, load_trained
from headtohead.interpret import score as predict
from helpers.models import SMALL, as_if_trained
from helpers.runs import trained_record


@pytest.mark.parametrize("length", [2, 11, 12, 13, 14, 18, 19, 20, 100, 101])
@pytest.mark.parametrize("block", [1, 2, 5, 12])
def test_a_long_text_is_scored_window_by_window(length, block, monkeypatch):
    monkeypatch.setattr(predict, "AT_ONCE", 3 * block)
    trained = as_if_trained(SMALL.set("block", block))
    text = "".join(chr(97 + n * n % 26) for n in range(length))
    ids = torch.from_numpy(trained.vocabulary.encode([text])[0].astype(np.int64))
    half, wanted = block // 2, [None]
    with torch.inference_mode():
        for n in range(1, length):  # each token after what its window shows of those before it
            start = 0 if n <= block else -(-(n - block) // (block - half)) * (block - half)
            logits = trained.model(ids[None, start:n])[0, -1]
            wanted.append(float(-logits.log_softmax(dim=-1)[ids[n]]))
    assert predict.score(trained, text).losses == pytest.approx(wanted, abs=1e-5)


def test_bytes_that_are_not_characters_are_named_as_bytes():
    names = Bpe(vocab=300).learn(iter(["any text"])).names()
    assert r"\xf0" in names
    assert not any("ð" in name for name in names)


def test_a_run_that_answers_questions_is_not_scored(home: Path) -> None:
    arm = Arm.of("lm", Mqar(pairs=2, length=8, keys=4, values=4)).settings(["model.width=16", "train.steps=2"])
    record = trained_record(RunSpec(arm=arm).resolved(), home)
    with pytest.raises(InputError, match="use h2h generate with a prompt that ends in a question"):
        predict.score(load_trained(record), "k0 v1 k0")
    (made,) = generate(load_trained(record), "k0 v1 k0", tokens=1)
    assert (made.prompt, made.unknown) == ("k0 v1 k0", 0)
    assert made.tokens[0] in arm.data.corpus.symbols
