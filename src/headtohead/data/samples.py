"""Sample sentences to try a model on. All but `long` come from the course documents, whose long one quotes a novel."""

from __future__ import annotations

from headtohead.errors import InputError, nearest

SAMPLES = {
    # document 000: one fits into a block of 32, the other does not
    "short": "This is a test sentence for sanity check, it has almost thirty words in it to fill the majority of the "
    "attention map graph.",
    "beyond": "This is a really long sentence that is meant to for the sanity test check, it has more than thirty two "
    "words in it so that we can see how the attention map looks when the sentence length exceeds the given block size.",
    # document 003: an ordinary sentence and an unusual one
    "normal": "Thank you so much Liwei and Taylor for all your help with this !",
    "weird": "After learning language models model natural language",
    "long": "When the ferry, which on any other morning would have left before the fog came in, was still lying at the "
    "pier an hour later, the passengers, who had at first been patient, then amused, and at last, as the tide "
    "began to turn and nobody came to tell them anything, a little afraid, agreed among themselves, without a "
    "vote and without a word that anyone could afterwards remember, that the captain, whose light could be seen "
    "moving up and down behind the glass, knew no more about the weather than they did, and that they would "
    "wait for him all the same.",
}


def sample(name: str) -> str:
    """Return a sample by name."""
    if name not in SAMPLES:
        raise InputError(f"there is no sample '{name}': {nearest(name, SAMPLES)}")
    return SAMPLES[name]
