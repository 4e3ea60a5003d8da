"""A gated short convolution as a mixer: each token is mixed with the few tokens just before it."""

from __future__ import annotations

from typing import Any, ClassVar

from torch import Tensor, nn

from headtohead.parts.layer import Layer
from headtohead.parts.mixers.mixer import MixerHooks
from headtohead.parts.mixers.recurrent import INPUTS, Recurrent, RecurrentMixer
from headtohead.parts.patterns import Pattern
from headtohead.parts.sequence.shifts import ShortConvolution
from headtohead.parts.sequence.state import LayerCache
from headtohead.spec import knob


class ConvolutionMixer(RecurrentMixer):
    """A convolution over the last few tokens, one filter per channel, between two gates that depend on the token.

    Where a layer's pattern shows later tokens, the text is read in both directions, and a token sees `kernel` − 1
    tokens on each side.
    """

    equation: ClassVar[str] = "W_out ( c_t ⊙ Σ_r w_r ⊙ (b ⊙ h)_(t−r) ),  r = 0 … kernel − 1;  [b c h]_t = W_in x_t"
    reference: ClassVar[str] = (
        "Liquid AI 2025, LFM2 Technical Report (gated short convolution); Poli et al. 2023, Hyena Hierarchy, section 3"
    )
    uses: ClassVar[tuple[str, ...]] = ("biases",)

    kernel: int = knob(default=3, ge=2, le=4096, help="tokens that a token sees, including itself")

    def allowed(self, pattern: Pattern, i: Any, j: Any) -> Any:
        return super().allowed(pattern, i, j) & (i - j < self.kernel) & (j - i < self.kernel)

    def build(self, layer: Layer) -> MixerHooks:
        return GatedConvolution(layer, self)


class GatedConvolution(Recurrent):
    def __init__(self, layer: Layer, spec: ConvolutionMixer) -> None:
        super().__init__(layer)
        D = layer.dims.width
        self.into = nn.Linear(D, 3 * D, bias=False)
        self.convolve = ShortConvolution(D, spec.kernel)
        self.out = nn.Linear(D, D, bias=layer.biases.out)
        self.out.into_residual = True  # type: ignore[assignment]

    def read(self, x: Tensor, keep: Tensor | None, cache: LayerCache | None) -> Tensor:
        b, c, h = self.into(x).chunk(3, dim=-1)
        y, inputs = self.convolve(b * h, None if cache is None else cache.states.get(INPUTS), keep)
        if cache is not None:
            cache.states[INPUTS] = inputs
        return self.out(c * y)
