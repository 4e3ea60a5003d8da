"""Mamba-2: a state space model with one decay per head and token, as a matrix of keys and values."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from headtohead.errors import InputError
from headtohead.parts.layer import Layer
from headtohead.parts.mixers.decay import Decay
from headtohead.parts.mixers.mixer import MixerHooks
from headtohead.parts.mixers.recurrent import (
    INPUTS,
    STATE,
    Recurrent,
    RecurrentMixer,
    heads,
    joined,
    kept,
    repeated,
    scan,
)
from headtohead.parts.positions import LayerHooks
from headtohead.parts.sequence.mask import Mask
from headtohead.parts.sequence.shifts import ShortConvolution
from headtohead.parts.sequence.state import LayerCache
from headtohead.spec import knob


class Mamba2(RecurrentMixer):
    """A state space model: tokens are added to a decaying state in steps whose size depends on the token.

    In the paper q, k and v are C, B and x. A short convolution is applied to them, and the output is gated.
    """

    equation: ClassVar[str] = (
        "S_t = exp(−exp(a) · dt_t) · S_(t−1) + dt_t k_tᵀ v_t,  dt_t = softplus(W_dt x_t + b);  "
        "o_t = norm((q_t · S_t + skip ⊙ v_t) ⊙ silu(z_t))"
    )
    reference: ClassVar[str] = "Dao and Gu 2024, Transformers are SSMs (state space duality, SSD)"
    uses: ClassVar[tuple[str, ...]] = ("biases",)

    state: int = knob(default=64, ge=1, help="width of queries and keys: numbers of the state for each value")
    expand: int = knob(default=2, ge=1, help="width of the values of a head, as a multiple of head_width")
    groups: int = knob(default=1, ge=1, help="heads of queries and keys, each for several heads of values")
    kernel: int = knob(default=4, ge=1, help="tokens that the short convolution of q, k and v reads, itself included")
    skip: bool = knob(default=True, help="add each head's values, times a learned number, to its output")
    least_step: float = knob(default=1e-3, gt=0, help="smallest initial step size")
    largest_step: float = knob(default=1e-1, gt=0, help="largest initial step size")
    eps: float = knob(default=1e-5, gt=0, help="avoids division by zero in the norm of the output")

    def check(self) -> None:
        if self.least_step > self.largest_step:
            raise InputError(f"least_step {self.least_step} is above largest_step {self.largest_step}: exchange them")

    def build(self, layer: Layer) -> MixerHooks:
        return Mamba2Heads(layer, self)


class Mamba2Heads(Recurrent):
    def __init__(self, layer: Layer, spec: Mamba2) -> None:
        super().__init__(layer)
        D, H, biases = layer.dims.width, layer.dims.heads, layer.biases
        keys, values = spec.groups * spec.state, H * layer.dims.head_width * spec.expand
        if H % spec.groups:
            raise InputError(f"{H} heads cannot share {spec.groups} groups: groups must divide heads")
        self.q = nn.Linear(D, keys, bias=biases.q)
        self.k = nn.Linear(D, keys, bias=biases.k)
        self.v = nn.Linear(D, values, bias=biases.v)
        self.z = nn.Linear(D, values, bias=False)
        self.dt = nn.Linear(D, H, bias=False)
        self.decay = Decay(H, (spec.least_step, spec.largest_step))
        self.convolve = ShortConvolution(2 * keys + values, spec.kernel, bias=True)
        self.skip = nn.Parameter(torch.ones(H)) if spec.skip else None
        self.norm = nn.RMSNorm(values, eps=spec.eps)
        self.out = nn.Linear(values, D, bias=biases.out)
        self.out.into_residual = True  # type: ignore[assignment]
        self.heads, self.groups, self.widths = H, spec.groups, [keys, keys, values]

    def project(self, x: Tensor, mask: Mask, position: LayerHooks, cache: LayerCache | None) -> Tensor:
        layers = self.q, self.k, self.v, self.z, self.dt
        return mask.texts(torch.cat([layer(x) for layer in layers], dim=-1))

    def read(self, x: Tensor, keep: Tensor | None, cache: LayerCache | None) -> Tensor:
        states = {} if cache is None else cache.states
        qkv, z, dt = x.split([sum(self.widths), self.widths[-1], self.heads], dim=-1)
        qkv, states[INPUTS] = self.convolve(qkv, states.get(INPUTS), keep)
        q, k, v = F.silu(qkv).split(self.widths, dim=-1)
        q, k = (repeated(heads(y, self.groups), self.heads // self.groups) for y in (q, k))
        v = heads(v, self.heads)
        dt, g = (kept(y.transpose(1, 2), keep) for y in self.decay(dt))  # (B, H, T)
        o, states[STATE] = scan(q, k, dt[..., None] * v, g, states.get(STATE))
        o = o if self.skip is None else o + self.skip[:, None, None] * v
        return self.out(self.norm(joined(o) * F.silu(z)))
