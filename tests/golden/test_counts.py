"""Parameter counts of the documents, to the unit, of the specs that the recipe holds."""

from headtohead import Classifier, Full, HeadSpec, LanguageModel, breakdown, load_file
from headtohead.spec.userfiles import RECIPES
from helpers.comparing import parameters

DOCUMENTS = load_file(RECIPES / "published" / "documents.py")


def test_speech_classifier_has_the_published_count():
    assert parameters(Classifier(DOCUMENTS.classifier, vocab=5755, classes=3)) == 576_467


def test_speech_decoder_has_the_published_count():
    assert parameters(LanguageModel(DOCUMENTS.decoder, vocab=5755)) == 863_243


def test_untrained_attention_is_left_out_of_the_count():
    """001's counts hold no query, key or value; its encoder has no last norm either."""
    decoder = LanguageModel(DOCUMENTS.listed, vocab=5755)
    encoder = Classifier(DOCUMENTS.listed.set("pattern", Full()).set("head", HeadSpec(hidden=100)), 5755, classes=3)
    for model in (decoder, encoder):
        DOCUMENTS.Untrained().shape(model)
    assert sum(p.numel() for p in decoder.parameters() if p.requires_grad) == 801_803
    assert sum(p.numel() for p in encoder.parameters() if p.requires_grad) - 2 * 64 == 434_403


def test_shakespeare_model_has_the_published_count():
    assert parameters(LanguageModel(DOCUMENTS.shakespeare, vocab=500)) == 326_784


def test_counts_without_bias_norm_position_or_head_match():
    assert breakdown(DOCUMENTS.classifier, vocab=5755, classes=3).weights == 564_928
    assert breakdown(DOCUMENTS.decoder, vocab=5755).weights == 485_056
