"""Gated DeltaNet: the delta rule with a decay that depends on the token."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from headtohead.errors import InputError
from headtohead.parts.layer import Layer
from headtohead.parts.mixers.decay import Decay
from headtohead.parts.mixers.delta import delta_scan, unit, write_strength
from headtohead.parts.mixers.mixer import MixerHooks
from headtohead.parts.mixers.recurrent import INPUTS, STATE, Recurrent, RecurrentMixer, heads, joined, kept, repeated
from headtohead.parts.positions import LayerHooks
from headtohead.parts.sequence.mask import Mask
from headtohead.parts.sequence.shifts import ShortConvolution
from headtohead.parts.sequence.state import LayerCache
from headtohead.spec import knob


class GatedDelta(RecurrentMixer):
    """DeltaNet whose state also decays, with a short convolution before it and a gate after it."""

    equation: ClassVar[str] = (
        "S_t = exp(g_t) · (1 − β_t k_tᵀ k_t) · S_(t−1) + β_t k_tᵀ v_t,  |k_t| = 1;  "
        "o_t = norm(q_t · S_t / sqrt(dk)) ⊙ silu(z_t);  g_t = −exp(a) · softplus(W_g x_t + b)"
    )
    reference: ClassVar[str] = (
        "Yang et al. 2024, Gated Delta Networks: Improving Mamba2 with Delta Rule; Qwen3-Next has this layer"
    )
    uses: ClassVar[tuple[str, ...]] = ("fusion", "biases")

    sharing: int = knob(default=1, ge=1, help="heads of values that share one head of queries and keys")
    expand: int = knob(default=1, ge=1, help="width of the values of a head, as a multiple of head_width")
    kernel: int = knob(default=4, ge=1, help="tokens that the short convolution of q, k and v reads, itself included")
    negative: bool = knob(
        default=False, help="β is in (0, 2) instead of (0, 1), which makes negative eigenvalues of the update possible"
    )
    eps: float = knob(default=1e-6, gt=0, help="avoids division by zero in the norm of the output")

    def build(self, layer: Layer) -> MixerHooks:
        return GatedDeltaHeads(layer, self)


class GatedDeltaHeads(Recurrent):
    def __init__(self, layer: Layer, spec: GatedDelta) -> None:
        super().__init__(layer)
        D, H, d, biases = layer.dims.width, layer.dims.heads, layer.dims.head_width, layer.biases
        if H % spec.sharing:
            raise InputError(f"{H} heads are not groups of {spec.sharing}: sharing must divide heads")
        key_heads, dk, dv = H // spec.sharing, d, d * spec.expand
        self.q = nn.Linear(D, key_heads * dk, bias=biases.q)
        self.k = nn.Linear(D, key_heads * dk, bias=biases.k)
        self.v = nn.Linear(D, H * dv, bias=biases.v)
        self.z = nn.Linear(D, H * dv, bias=False)
        self.beta = nn.Linear(D, H, bias=False)
        self.g = nn.Linear(D, H, bias=False)
        self.decay = Decay(H)
        self.convolve = ShortConvolution(2 * key_heads * dk + H * dv, spec.kernel)
        self.norm = nn.RMSNorm(dv, eps=spec.eps)
        with layer.seeded("fuse"):
            self.fuse = layer.fusion.build(layer.dims, layer.n)
        self.out = nn.Linear(H * dv, D, bias=biases.out)
        self.out.into_residual = True  # type: ignore[assignment]
        self.heads, self.key_heads, self.spec = H, key_heads, spec
        self.widths = [key_heads * dk, key_heads * dk, H * dv]  # of q, k and v
        self.scale = dk**-0.5

    def project(self, x: Tensor, mask: Mask, position: LayerHooks, cache: LayerCache | None) -> Tensor:
        layers = self.q, self.k, self.v, self.z, self.beta, self.g
        return mask.texts(torch.cat([layer(x) for layer in layers], dim=-1))

    def read(self, x: Tensor, keep: Tensor | None, cache: LayerCache | None) -> Tensor:
        states = {} if cache is None else cache.states
        qkv, z, beta, g = x.split([sum(self.widths), self.widths[-1], self.heads, self.heads], dim=-1)
        qkv, states[INPUTS] = self.convolve(qkv, states.get(INPUTS), keep)
        q, k, v = F.silu(qkv).split(self.widths, dim=-1)
        q, k = (repeated(unit(heads(y, self.key_heads)), self.spec.sharing) for y in (q, k))
        beta = kept(write_strength(beta, self.spec.negative), keep)
        g = kept(self.decay(g)[1].transpose(1, 2), keep)
        o, states[STATE] = delta_scan(q * self.scale, k, heads(v, self.heads), beta, g, states.get(STATE))
        o = self.norm(o) * F.silu(heads(z, self.heads))
        return self.out(joined(self.fuse(o, keep)))
