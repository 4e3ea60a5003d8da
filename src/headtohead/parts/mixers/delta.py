"""The delta rule: the state first forgets the value that it has for a key, then stores a new one.

    S_t = exp(g_t) · (1 − β_t k_tᵀ k_t) · S_(t−1) + β_t k_tᵀ v_t,    o_t = q_t · S_t        (g = 0 in DeltaNet)

Shapes: B texts, T tokens, H heads, dk width of keys, dv width of values, N chunks of C tokens.
"""

from __future__ import annotations

from typing import ClassVar, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from headtohead.parts.layer import Layer
from headtohead.parts.mixers.decay import decays_within
from headtohead.parts.mixers.mixer import MixerHooks
from headtohead.parts.mixers.recurrent import CHUNK, STATE, RecurrentHeads, RecurrentMixer, in_chunks, joined, kept
from headtohead.parts.positions import LayerHooks
from headtohead.parts.sequence.mask import Mask
from headtohead.parts.sequence.state import LayerCache
from headtohead.spec import knob


class DeltaNet(RecurrentMixer):
    """A matrix of values that is corrected at each token: it forgets its value for the key, then stores the new one."""

    equation: ClassVar[str] = "S_t = (1 − β_t k_tᵀ k_t) · S_(t−1) + β_t k_tᵀ v_t,  |k_t| = 1;  o_t = norm(q_t · S_t)"
    reference: ClassVar[str] = (
        "Schlag et al. 2021, Linear Transformers Are Secretly Fast Weight Programmers; "
        "Yang et al. 2024, Parallelizing Linear Transformers with the Delta Rule over Sequence Length"
    )
    uses: ClassVar[tuple[str, ...]] = ("kv_heads", "qk_norm", "fusion", "convolution", "biases")

    activation: Literal["silu", "relu", "elu", "identity"] = knob(
        default="silu", help="activation of queries, keys and values; elu is elu(x) + 1"
    )
    negative: bool = knob(
        default=False, help="β is in (0, 2) instead of (0, 1), which makes negative eigenvalues of the update possible"
    )
    eps: float = knob(default=1e-6, gt=0, help="avoids division by zero in the norm of the output")

    @property
    def dense(self) -> bool:
        return self.activation != "relu"

    def build(self, layer: Layer) -> MixerHooks:
        return DeltaHeads(layer, self)


class DeltaHeads(RecurrentHeads):
    def __init__(self, layer: Layer, spec: DeltaNet) -> None:
        super().__init__(layer)
        self.beta = nn.Linear(layer.dims.width, self.heads, bias=False)
        self.norm = nn.RMSNorm(layer.dims.head_width, eps=spec.eps)
        self.spec = spec

    def project(self, x: Tensor, mask: Mask, position: LayerHooks, cache: LayerCache | None) -> Tensor:
        return torch.cat([super().project(x, mask, position, cache), mask.texts(self.beta(x))], dim=-1)

    def read(self, x: Tensor, keep: Tensor | None, cache: LayerCache | None) -> Tensor:
        qkv, beta = x.split([sum(self.widths), self.heads], dim=-1)
        q, k, v = map(self._activate, self.split(qkv))
        k, v, beta = self.grouped(unit(k)), self.grouped(v), kept(write_strength(beta, self.spec.negative), keep)
        o, state = delta_scan(unit(q), k, v, beta, state=None if cache is None else cache.states.get(STATE))
        if cache is not None:
            cache.states[STATE] = state
        return self.out(joined(self.fuse(self.norm(o), keep)))

    def _activate(self, x: Tensor) -> Tensor:
        if self.spec.activation == "elu":
            return F.elu(x) + 1
        return {"silu": F.silu, "relu": F.relu, "identity": lambda y: y}[self.spec.activation](x)


def unit(x: Tensor) -> Tensor:
    """Scale vectors to length one; zeros stay zeros."""
    return x * (x.square().sum(dim=-1, keepdim=True) + 1e-6).rsqrt()


def write_strength(x: Tensor, negative: bool) -> Tensor:
    """Return β (B, H, T) in (0, 1), or in (0, 2), for x (B, T, H)."""
    beta = x.sigmoid().transpose(1, 2)
    return 2 * beta if negative else beta


def delta_scan(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    beta: Tensor,
    g: Tensor | None = None,
    state: Tensor | None = None,
    chunk: int = CHUNK,
) -> tuple[Tensor, Tensor]:
    """Return o_t = q_t · S_t for S_t = exp(g_t) · (1 − β_t k_tᵀ k_t) · S_(t−1) + β_t k_tᵀ v_t, and the last state.

    q and k (B, H, T, dk), v (B, H, T, dv), beta (B, H, T), g (B, H, T) at most 0, or None for no decay; state
    (B, H, dk, dv) or None for zeros. Time and memory grow linearly with T. The result does not depend on `chunk`, up to
    rounding.

    With u_t = β_t (v_t − exp(g_t) · k_t · S_(t−1)), the update is S_t = exp(g_t) · S_(t−1) + k_tᵀ u_t. In a chunk that
    starts with the state S, and with γ_t the sum of g since its start, the rows u_t solve a triangular system:

        u_t + β_t Σ_s<t exp(γ_t − γ_s) (k_t · k_s) u_s = β_t v_t − β_t exp(γ_t) k_t · S
    """
    B, H, T, dk = k.shape
    dv = v.shape[-1]
    state = k.new_zeros(B, H, dk, dv) if state is None else state
    if T == 1:
        state = state if g is None else state * g.exp()[..., None]
        state = state + k.transpose(-1, -2) * (beta[..., None] * (v - k @ state))
        return q @ state, state
    g = torch.zeros_like(beta) if g is None else g
    q, k, v, beta, g = (in_chunks(x, chunk) for x in (q, k, v, beta[..., None], g))  # (B, H, N, C, …)
    between, since, until = decays_within(g)
    system = (beta * (k @ k.transpose(-1, -2)) * between).tril(-1)  # the ones on its diagonal are implied
    right = torch.cat([v, k * since], dim=-1) * beta
    solved = torch.linalg.solve_triangular(system, right, upper=False, unitriangular=True)
    u, w = solved.split([dv, dk], dim=-1)  # u_t = u − w · S
    ends = (k * until).transpose(-1, -2)
    decay = torch.eye(dk, dtype=k.dtype, device=k.device) * since[..., -1:, :]
    states, state = _states_before(state, ends @ u, decay - ends @ w)

    u = u - w @ states
    o = (q * since) @ states + (q @ k.transpose(-1, -2) * between) @ u
    return o.flatten(2, 3)[:, :, :T], state


def _states_before(state: Tensor, news: Tensor, moves: Tensor) -> tuple[Tensor, Tensor]:
    """Return the states before each chunk (B, H, N, dk, dv) and the last. Chunk n turns S into moves_n · S + news_n."""
    before = []
    for new, move in zip(news.unbind(dim=2), moves.unbind(dim=2), strict=True):
        before.append(state)
        state = new + move @ state
    return torch.stack(before, dim=2), state
