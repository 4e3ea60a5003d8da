"""A vocabulary as the files that transformers' AutoTokenizer reads, with the same ids for the same text."""

from __future__ import annotations

import json
from typing import Any

from headtohead.data.checkpoints import TOKENIZER
from headtohead.data.tokenizers import (
    ByteVocabulary,
    CharacterVocabulary,
    HubVocabulary,
    PieceVocabulary,
    Vocabulary,
    byte_of,
)
from headtohead.errors import InputError

NAMED = {  # what checkpoints call their special tokens, and what transformers calls these
    "[CLS]": ["cls_token"],
    "[SEP]": ["sep_token"],
    "[MASK]": ["mask_token"],
    "<s>": ["bos_token", "cls_token"],
    "</s>": ["eos_token", "sep_token"],
    "<mask>": ["mask_token"],
    "<|endoftext|>": ["bos_token", "eos_token"],
}


def tokenizer_files(vocabulary: Vocabulary, longest: int) -> dict[str, str]:
    """File name → content; a text is cut to `longest` tokens where its reader asks for that."""
    library = _library_json(vocabulary)
    names = {token["id"]: token["content"] for token in library.get("added_tokens", [])}
    says: dict[str, Any] = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": longest,
        "model_input_names": ["input_ids", "attention_mask"],  # GPT-2 would add embeddings by token_type_ids
        "clean_up_tokenization_spaces": False,
        # a text that says <pad> is text, but for a checkpoint's tokenizer, which has ways of its own
        "split_special_tokens": not isinstance(vocabulary, PieceVocabulary),
    }
    for role, token in (("pad_token", vocabulary.pad), ("unk_token", vocabulary.unknown)):
        if token in names and token in vocabulary.silent:
            says[role] = names[token]
    if isinstance(vocabulary, PieceVocabulary):
        says |= {role: name for name in names.values() for role in NAMED.get(name, [])}
    return {TOKENIZER: _text(library), "tokenizer_config.json": _text(says)}


def _library_json(vocabulary: Vocabulary) -> dict[str, Any]:
    """As the tokenizers library writes it."""
    if isinstance(vocabulary, PieceVocabulary):
        return {**vocabulary.state()["tokenizer"], "truncation": None, "padding": None}
    if isinstance(vocabulary, HubVocabulary):
        return vocabulary.state()
    if isinstance(vocabulary, ByteVocabulary | CharacterVocabulary):
        return _one_by_one(vocabulary)
    raise InputError("this vocabulary cannot be said in the tokenizers library's words: train with Bpe, Word or Byte")


def _one_by_one(vocabulary: ByteVocabulary | CharacterVocabulary) -> dict[str, Any]:
    """Byte pairs without a single pair: every character, or the stand-in of every byte, is a token."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

    special = len(vocabulary.silent)
    names = vocabulary.names()
    if isinstance(vocabulary, ByteVocabulary):
        names = [*names[:special], *sorted(byte_of(), key=byte_of().__getitem__)]
    made = Tokenizer(models.BPE({name: n for n, name in enumerate(names)}, [], unk_token=names[vocabulary.unknown]))
    if isinstance(vocabulary, ByteVocabulary):
        made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
        made.decoder = decoders.ByteLevel()
    else:
        made.decoder = decoders.Fuse()
    made.add_special_tokens([AddedToken(name, special=True, normalized=False) for name in names[:special]])
    return json.loads(made.to_str())


def _text(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"
