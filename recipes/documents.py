"""The models of the five student reports this project grew from, as specs.

Command:   h2h audit recipes/documents.py
Run time:  about ten seconds
Expected:  every model proved, except `reweighted`, which reads the future as published and comes out broken (exit 1)

Parameters, equal to the reports' to the unit: classifier 576,467 (vocabulary 5,755, three classes), decoder 863,243
(vocabulary 5,755), shakespeare 326,784 (vocabulary 500).
"""

from headtohead import (
    Biases,
    Causal,
    Disentangled,
    Full,
    HeadSpec,
    InitSpec,
    Local,
    Mlp,
    ModelSpec,
    Reweight,
    RMSNorm,
    Rope,
    Sinusoidal,
)

# 000, 001 and 004: an encoder with a two-layer classifier, and a decoder, both as plain torch modules start
classifier = ModelSpec(
    pattern=Full(), feedforward=Mlp(activation="relu", hidden=256), head=HeadSpec(hidden=100), init=InitSpec.torch()
)
decoder = ModelSpec(feedforward=Mlp(activation="relu", hidden=100), head_bias=True, init=InitSpec.torch())
windowed = decoder.set("pattern", Causal() & Local(8))  # 000
rotary_classifier = classifier.set("position", Rope())  # 004
disentangled_classifier = classifier.set("position", Disentangled(span=32))  # 004

# 002: two blocks of one head on Tiny Shakespeare
shakespeare = ModelSpec(
    width=128,
    heads=1,
    layers=2,
    block=50,
    biases=Biases(q=True, k=True, v=True, out=True),
    position=Sinusoidal(),
    norm=RMSNorm(eps=1e-8),
    feedforward=Mlp(activation="gelu", hidden=128),
    init=InitSpec.torch(),
)

# 003: gpt-nano, and its heads re-weighted by their norm over the whole sequence
nano = ModelSpec(
    width=48,
    heads=3,
    layers=3,
    block=1024,
    biases=Biases(q=True, k=True, v=True, out=True),
    feedforward=Mlp(activation="gelu_tanh"),
)
reweighted = nano.set("fusion", Reweight(over="sequence"))
