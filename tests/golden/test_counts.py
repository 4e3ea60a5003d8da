"""Parameter counts of the documents, to the unit."""

from headtohead import (
    Biases,
    Causal,
    Classifier,
    Full,
    HeadSpec,
    LanguageModel,
    LayerNorm,
    Learned,
    Mean,
    Mlp,
    ModelSpec,
    RMSNorm,
    Sinusoidal,
)

from .comparing import parameters

SPEECHES_VOCAB = 5755
SPEECHES = ModelSpec(
    width=64,
    heads=2,
    layers=4,
    block=32,
    biases=Biases(q=False, k=False, v=False, out=True),
    position=Learned(),
    norm=LayerNorm(),
)


def test_speech_classifier():
    spec = SPEECHES.set("pattern", Full()).set("feedforward", Mlp(hidden=256)).set("pooling", Mean())
    model = Classifier(spec.set("head", HeadSpec(hidden=100, activation="relu")), vocab=SPEECHES_VOCAB, classes=3)
    assert parameters(model) == 576_467


def test_speech_decoder():
    spec = SPEECHES.set("pattern", Causal()).set("feedforward", Mlp(hidden=100)).set("head_bias", True)
    assert parameters(LanguageModel(spec, vocab=SPEECHES_VOCAB)) == 863_243


def test_shakespeare_model():
    spec = ModelSpec(
        width=128,
        heads=1,
        layers=2,
        block=50,
        biases=Biases(q=True, k=True, v=True, out=True),
        position=Sinusoidal(),
        norm=RMSNorm(eps=1e-8),
        feedforward=Mlp(activation="gelu", hidden=128),
    )
    assert parameters(LanguageModel(spec, vocab=500)) == 326_784


def test_weights_without_bias_norm_or_position():
    for hidden, expected in [(256, 564_928), (100, 485_056)]:
        trunk = LanguageModel(SPEECHES.set("feedforward", Mlp(hidden=hidden)), vocab=SPEECHES_VOCAB).trunk
        weights = [p for name, p in trunk.named_parameters() if p.ndim > 1 and not name.startswith("position")]
        assert sum(p.numel() for p in weights) == expected
