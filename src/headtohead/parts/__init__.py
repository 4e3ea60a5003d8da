"""The swappable parts, one file per family. A new part is one class in one of these files, or in your own file.

Shapes in every family: B texts, T tokens, H heads, d width of a head, D width of the residual stream.
Positions are passed explicitly and ready to broadcast: `i` for queries, `j` for keys. Left padding, the cache and
shifted texts therefore need no extra code in a part.
"""

from headtohead.parts.feedforwards import FeedForward, Gated, Mlp
from headtohead.parts.fusions import Concat, Fusion, FusionHooks, Reweight, Shift, Shuffle
from headtohead.parts.norms import LayerNorm, NoNorm, Norm, RMSNorm
from headtohead.parts.patterns import And, Causal, Full, Local, Or, Pattern, Prefix, Sinks
from headtohead.parts.poolings import First, Max, Mean, Pooling
from headtohead.parts.positions import (
    Alibi,
    Disentangled,
    Learned,
    NoPosition,
    Position,
    PositionHooks,
    RelativeBias,
    Rope,
    Sinusoidal,
)
from headtohead.parts.residuals import PostNorm, PreNorm, Residual, Sandwich

__all__ = [
    "Alibi",
    "And",
    "Causal",
    "Concat",
    "Disentangled",
    "FeedForward",
    "First",
    "Full",
    "Fusion",
    "FusionHooks",
    "Gated",
    "LayerNorm",
    "Learned",
    "Local",
    "Max",
    "Mean",
    "Mlp",
    "NoNorm",
    "NoPosition",
    "Norm",
    "Or",
    "Pattern",
    "Pooling",
    "Position",
    "PositionHooks",
    "PostNorm",
    "PreNorm",
    "Prefix",
    "RMSNorm",
    "RelativeBias",
    "Residual",
    "Reweight",
    "Rope",
    "Sandwich",
    "Shift",
    "Shuffle",
    "Sinks",
    "Sinusoidal",
]
