"""Parameter counts of the documents, to the unit, of the specs that the recipe holds."""

from pathlib import Path

from headtohead import Classifier, Full, HeadSpec, LanguageModel, breakdown, load_file

from .comparing import parameters

DOCUMENTS = load_file(Path(__file__).parents[2] / "recipes" / "published" / "documents.py")


def test_speech_classifier():
    assert parameters(Classifier(DOCUMENTS.classifier, vocab=5755, classes=3)) == 576_467


def test_speech_decoder():
    assert parameters(LanguageModel(DOCUMENTS.decoder, vocab=5755)) == 863_243


def test_attention_that_is_no_part_of_the_model():
    """001's counts hold no query, key or value; its encoder has no last norm either."""
    decoder = LanguageModel(DOCUMENTS.listed, vocab=5755)
    encoder = Classifier(DOCUMENTS.listed.set("pattern", Full()).set("head", HeadSpec(hidden=100)), 5755, classes=3)
    for model in (decoder, encoder):
        DOCUMENTS.Untrained().shape(model)
    assert sum(p.numel() for p in decoder.parameters() if p.requires_grad) == 801_803
    assert sum(p.numel() for p in encoder.parameters() if p.requires_grad) - 2 * 64 == 434_403


def test_shakespeare_model():
    assert parameters(LanguageModel(DOCUMENTS.shakespeare, vocab=500)) == 326_784


def test_weights_without_bias_norm_position_or_head():
    assert breakdown(DOCUMENTS.classifier, vocab=5755, classes=3).weights == 564_928
    assert breakdown(DOCUMENTS.decoder, vocab=5755).weights == 485_056
