"""Scores of texts."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from headtohead import Bpe
from headtohead.interpret import score as predict
from helpers.models import SMALL, as_if_trained


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
