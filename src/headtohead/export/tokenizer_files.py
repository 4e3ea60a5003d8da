"""Writes a vocabulary as files for AutoTokenizer of transformers. The same text gets the same ids."""

from __future__ import annotations

import json
from typing import Any

from headtohead.data.pretrained_checkpoints import TOKENIZER
from headtohead.data.tokenizers import (
    ByteVocabulary,
    CharacterVocabulary,
    HubVocabulary,
    PieceVocabulary,
    Vocabulary,
    byte_of,
)
from headtohead.errors import InputError

ROLES = {  # special token of a checkpoint → its roles in transformers
    "[CLS]": ["cls_token"],
    "[SEP]": ["sep_token"],
    "[MASK]": ["mask_token"],
    "<s>": ["bos_token", "cls_token"],
    "</s>": ["eos_token", "sep_token"],
    "<mask>": ["mask_token"],
    "<|endoftext|>": ["bos_token", "eos_token"],
}


def tokenizer_files(vocabulary: Vocabulary, longest: int) -> dict[str, str]:
    """Return file name → content. `longest` is the length for truncation, in tokens."""
    library = _library_json(vocabulary)
    names = {token["id"]: token["content"] for token in library.get("added_tokens", [])}
    config: dict[str, Any] = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": longest,
        "model_input_names": [
            "input_ids",
            "attention_mask",
        ],  # without token_type_ids, for which GPT-2 would add embeddings
        "clean_up_tokenization_spaces": False,
        # "<pad>" in a text is ordinary text, except for the tokenizer of a checkpoint
        "split_special_tokens": not isinstance(vocabulary, PieceVocabulary),
    }
    for role, token in (("pad_token", vocabulary.pad), ("unk_token", vocabulary.unknown)):
        if token in names and token in vocabulary.silent:
            config[role] = names[token]
    if isinstance(vocabulary, PieceVocabulary):
        config |= {role: name for name in names.values() for role in ROLES.get(name, [])}
    return {TOKENIZER: _text(library), "tokenizer_config.json": _text(config)}


def _library_json(vocabulary: Vocabulary) -> dict[str, Any]:
    """The vocabulary in the JSON format of the tokenizers library."""
    if isinstance(vocabulary, PieceVocabulary):
        return {**vocabulary.state()["tokenizer"], "truncation": None, "padding": None}
    if isinstance(vocabulary, HubVocabulary):
        return vocabulary.state()
    if isinstance(vocabulary, ByteVocabulary | CharacterVocabulary):
        return _one_by_one(vocabulary)
    raise InputError("the tokenizers library has no equivalent of this vocabulary: train with Bpe, Word or Byte")


def _one_by_one(vocabulary: ByteVocabulary | CharacterVocabulary) -> dict[str, Any]:
    """A BPE tokenizer without merges: every character, or the substitute character of every byte, is a token."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

    special = len(vocabulary.silent)
    names = vocabulary.names()
    if isinstance(vocabulary, ByteVocabulary):
        names = [*names[:special], *sorted(byte_of(), key=byte_of().__getitem__)]
    tokenizer = Tokenizer(
        models.BPE({name: n for n, name in enumerate(names)}, [], unk_token=names[vocabulary.unknown])
    )
    if isinstance(vocabulary, ByteVocabulary):
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
        tokenizer.decoder = decoders.ByteLevel()
    else:
        tokenizer.decoder = decoders.Fuse()
    tokenizer.add_special_tokens([AddedToken(name, special=True, normalized=False) for name in names[:special]])
    return json.loads(tokenizer.to_str())


def _text(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"
