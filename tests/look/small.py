"""Models as if they had been trained: weights that matter, a vocabulary of bytes, and no store."""

from __future__ import annotations

from pathlib import Path

import torch

from headtohead import Arm, Byte, Classifier, LanguageModel, ModelSpec, RunSpec, Trained
from headtohead.store import Record

SMALL = ModelSpec(width=16, heads=4, layers=2, block=12)


def made(spec: ModelSpec = SMALL, *, classes: int = 0, stir: float = 0.3) -> Trained:
    arm = Arm.of("classifier" if classes else "lm").set("model", spec)
    vocabulary = Byte().learn(iter(["any text"]))
    model = (Classifier(spec, vocabulary.size, classes) if classes else LanguageModel(spec, vocabulary.size)).eval()
    draw = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for p in model.parameters():
            p.add_(stir * torch.randn(p.shape, generator=draw))
    labels = tuple(f"class {n}" for n in range(classes))
    return Trained(Record(Path("runs/0123456789abcdef")), RunSpec(arm=arm), model, vocabulary, labels, 7)
