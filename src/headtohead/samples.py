"""Sentences to try a model on. The documents' own, but for their long sample, which quotes a novel: ours is as long."""

from __future__ import annotations

from headtohead.errors import InputError, nearest

SAMPLES = {
    # document 000: one that fits into a block of 32, one that does not
    "short": "This is a test sentence for sanity check, it has almost thirty words in it to fill the majority of the "
    "attention map graph.",
    "beyond": "This is a really long sentence that is meant to for the sanity test check, it has more than thirty two "
    "words in it so that we can see how the attention map looks when the sentence length exceeds the given block size.",
    # document 003: what a model should find ordinary, and what it should not
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
    if name not in SAMPLES:
        raise InputError(f"there is no sample '{name}': {nearest(name, SAMPLES)}")
    return SAMPLES[name]
