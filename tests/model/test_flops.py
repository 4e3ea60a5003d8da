"""Operations are counted as torch's own counter counts them, for every mixer, forwards and backwards."""

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from headtohead import LanguageModel, explicit, families
from headtohead.model.flops import count_flops
from headtohead.spec import is_builtin
from helpers.models import SMALL, VOCAB, text

MIXERS = [c() for c in families()["mixer"].values() if is_builtin(c)]


@pytest.mark.parametrize("mixer", MIXERS, ids=str)
def test_every_product_of_a_mixer_is_counted(mixer):
    model, ids = LanguageModel(SMALL.set("mixer", mixer).set("block", 150), VOCAB), text(2, 150)

    def step() -> None:
        model.zero_grad()
        with explicit(model):  # torch's counter does not know its fused kernel of the CPU
            model(ids).square().mean().backward()

    with FlopCounterMode(display=False) as theirs:
        step()
    solved = 0  # torch does not count triangular systems
    if any("delta" in type(m).__name__.lower() for m in model.modules()):
        solved = count_flops(step) - theirs.get_total_flops()
        assert solved > 0
    assert count_flops(step) == theirs.get_total_flops() + solved


def test_the_count_of_a_recurrent_mixer_grows_linearly():
    """Chunks of 64 tokens: twice the text, twice the operations; attention needs more than twice."""

    def counted(mixer: str, length: int) -> int:
        model = LanguageModel(SMALL.set("mixer", mixer).set("block", 512), VOCAB).requires_grad_(False)
        return count_flops(lambda: model(text(1, length)))

    for mixer in ("LinearAttention", "Retention", "GatedLinear", "ConvolutionMixer"):
        assert counted(mixer, 512) == 2 * counted(mixer, 256)
    assert counted("Attention", 512) > 2.5 * counted("Attention", 256)


@pytest.mark.parametrize("groups", [1, 4])
def test_convolutions_are_counted(groups):
    layer, x = torch.nn.Conv1d(8, 8, 3, groups=groups), torch.randn(2, 8, 20, requires_grad=True)
    one = 2 * (2 * 8 * 18) * (8 // groups * 3)  # outputs, and the weights that each one reads
    assert count_flops(lambda: layer(x)) == one
    assert count_flops(lambda: layer(x).sum().backward()) == 3 * one


def test_triangular_systems_are_counted():
    a, b = torch.eye(6).expand(3, 6, 6), torch.ones(3, 6, 5)
    solve = lambda: torch.linalg.solve_triangular(a, b, upper=False)
    assert count_flops(solve) == 3 * 5 * 6 * 6
