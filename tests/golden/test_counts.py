"""Parameter counts of the documents, to the unit, of the specs that the recipe holds."""

from pathlib import Path

from headtohead import Classifier, LanguageModel, breakdown, load_file

from .comparing import parameters

DOCUMENTS = load_file(Path(__file__).parents[2] / "recipes" / "published" / "documents.py")


def test_speech_classifier():
    assert parameters(Classifier(DOCUMENTS.classifier, vocab=5755, classes=3)) == 576_467


def test_speech_decoder():
    assert parameters(LanguageModel(DOCUMENTS.decoder, vocab=5755)) == 863_243


def test_shakespeare_model():
    assert parameters(LanguageModel(DOCUMENTS.shakespeare, vocab=500)) == 326_784


def test_weights_without_bias_norm_position_or_head():
    assert breakdown(DOCUMENTS.classifier, vocab=5755, classes=3).weights == 564_928
    assert breakdown(DOCUMENTS.decoder, vocab=5755).weights == 485_056
