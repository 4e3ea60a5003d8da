"""The load of experts, measured over several forward passes."""

import pytest
import torch

from headtohead import Experts, LanguageModel, ModelSpec
from headtohead.model.load import expert_load
from helpers.models import SMALL, VOCAB, text


def test_load_is_summed_over_passes_and_layers():
    model = LanguageModel(SMALL.set("feedforward", Experts(count=4)), VOCAB).eval()
    counts = torch.zeros(2, 4)
    with expert_load(model) as load, torch.no_grad():
        for seed in range(3):
            model(text(2, seed=seed))
            counts += torch.stack([block.feedforward.tokens for block in model.trunk.blocks])
    shares = counts / counts.sum(dim=1, keepdim=True)
    assert load.values["experts"] == [pytest.approx(layer.tolist()) for layer in shares]
    assert load.values["busiest_expert"] == pytest.approx(4 * float(shares.max()))
    with torch.no_grad():
        model(text(2))
    assert load.values["experts"] == [pytest.approx(layer.tolist()) for layer in shares], "it ends with the context"


def test_models_without_experts_have_no_load():
    model = LanguageModel(ModelSpec(width=16, layers=1, block=12), VOCAB)
    with expert_load(model) as load:
        model(text(1))
    assert load.values == {}
