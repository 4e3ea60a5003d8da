"""The swappable parts, one file per family (mixers: one per part). A new part is one class there, or in your own file.

Shapes in every family: B texts, T tokens, H heads, d width of a head, D width of the residual stream.
Positions are passed explicitly and ready to broadcast: `i` for queries, `j` for keys. Left padding, the cache and
shifted texts therefore need no extra code in a part.
"""

from headtohead.parts.convolutions import Canon, Convolution, ConvolutionHooks, NoConvolution, TokenShift
from headtohead.parts.embeddings import BigramHash, Embedding, EmbeddingHooks, PlainEmbedding, Smear
from headtohead.parts.feedforwards import Experts, FeedForward, Gated, Mlp
from headtohead.parts.fusions import Concat, Fusion, FusionHooks, Reweight, Shift, Shuffle
from headtohead.parts.gates import Gate, GateHooks, NoGate
from headtohead.parts.inits import FanIn, Init, InitSpec, ZeroProjections
from headtohead.parts.layer import Biases, Layer
from headtohead.parts.mixers import Attend, Attention, Mixer, MixerHooks
from headtohead.parts.norms import DyT, LayerNorm, NoNorm, Norm, RMSNorm
from headtohead.parts.outputs import CappedOutput, Output, OutputHooks, PlainOutput
from headtohead.parts.patterns import And, Causal, Full, Local, Or, Pattern, PerHead, Prefix, Sinks
from headtohead.parts.poolings import AttentionPooling, First, Max, Mean, Pooling
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
from headtohead.parts.residuals import (
    HyperConnections,
    LayerScale,
    LearnedScales,
    Parallel,
    PostNorm,
    PreNorm,
    Residual,
    Sandwich,
)
from headtohead.parts.scores import PlainScores, ScoreHooks, Scores, Softcap
from headtohead.parts.values import PlainValues, ValueHooks, Values
from headtohead.parts.weightings import Softmax, Weighting, WeightingHooks

__all__ = [
    "Alibi",
    "And",
    "Attend",
    "Attention",
    "AttentionPooling",
    "Biases",
    "BigramHash",
    "Canon",
    "CappedOutput",
    "Causal",
    "Concat",
    "Convolution",
    "ConvolutionHooks",
    "Disentangled",
    "DyT",
    "Embedding",
    "EmbeddingHooks",
    "Experts",
    "FanIn",
    "FeedForward",
    "First",
    "Full",
    "Fusion",
    "FusionHooks",
    "Gate",
    "GateHooks",
    "Gated",
    "HyperConnections",
    "Init",
    "InitSpec",
    "Layer",
    "LayerNorm",
    "LayerScale",
    "Learned",
    "LearnedScales",
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
    "Or",
    "Output",
    "OutputHooks",
    "Parallel",
    "Pattern",
    "PerHead",
    "PlainEmbedding",
    "PlainOutput",
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
    "Sinks",
    "Sinusoidal",
    "Smear",
    "Softcap",
    "Softmax",
    "TokenShift",
    "ValueHooks",
    "Values",
    "Weighting",
    "WeightingHooks",
    "ZeroProjections",
]
