"""The swappable parts, one file per family (mixers: one per part). A new part is one class there, or in your own file.

Shapes in every family: B texts, T tokens, H heads, d width of a head, D width of the residual stream.
Positions are passed explicitly and ready to broadcast: `i` for queries, `j` for keys. Left padding, the cache and
shifted texts therefore need no extra code in a part.
"""

from headtohead.parts.convolutions import Convolution, ConvolutionHooks, NoConvolution
from headtohead.parts.feedforwards import FeedForward, Gated, Mlp
from headtohead.parts.fusions import Concat, Fusion, FusionHooks, Reweight, Shift, Shuffle
from headtohead.parts.gates import Gate, GateHooks, NoGate, OutputGate
from headtohead.parts.layer import Biases, Layer
from headtohead.parts.mixers import Attend, Attention, Mixer, MixerHooks
from headtohead.parts.mixers.differential import Differential
from headtohead.parts.mixers.latent import Latent
from headtohead.parts.norms import LayerNorm, NoNorm, Norm, RMSNorm
from headtohead.parts.patterns import And, Causal, Full, Local, Or, Pattern, PerHead, Prefix, Sinks
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
from headtohead.parts.scores import PlainScores, ScoreHooks, Scores, Softcap, TalkingHeads
from headtohead.parts.values import PlainValues, ValueEmbeddings, ValueHooks, ValueResidual, Values
from headtohead.parts.weightings import (
    Entmax15,
    LearnedSinks,
    OffByOne,
    Sigmoid,
    Softmax,
    Sparsemax,
    Weighting,
    WeightingHooks,
)

__all__ = [
    "Alibi",
    "And",
    "Attend",
    "Attention",
    "Biases",
    "Causal",
    "Concat",
    "Convolution",
    "ConvolutionHooks",
    "Differential",
    "Disentangled",
    "Entmax15",
    "FeedForward",
    "First",
    "Full",
    "Fusion",
    "FusionHooks",
    "Gate",
    "GateHooks",
    "Gated",
    "Latent",
    "Layer",
    "LayerNorm",
    "Learned",
    "LearnedSinks",
    "Local",
    "Max",
    "Mean",
    "Mixer",
    "MixerHooks",
    "Mlp",
    "NoConvolution",
    "NoGate",
    "NoNorm",
    "NoPosition",
    "Norm",
    "OffByOne",
    "Or",
    "OutputGate",
    "Pattern",
    "PerHead",
    "PlainScores",
    "PlainValues",
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
    "ScoreHooks",
    "Scores",
    "Shift",
    "Shuffle",
    "Sigmoid",
    "Sinks",
    "Sinusoidal",
    "Softcap",
    "Softmax",
    "Sparsemax",
    "TalkingHeads",
    "ValueEmbeddings",
    "ValueHooks",
    "ValueResidual",
    "Values",
    "Weighting",
    "WeightingHooks",
]
