"""Tiny random Hugging Face models with tokenizers of their own, as `save_pretrained` writes them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from helpers.comparing import randomised

transformers: Any = pytest.importorskip("transformers", reason="checkpoints need pip install 'headtohead[hf]'")

BERT_SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]
ROBERTA_SPECIAL = ["<s>", "<pad>", "</s>", "<unk>"]
SENTENCE = "the people of our union are at peace and will not tire we have come to talk about a good war in this hall"
WORDS = SENTENCE.split()
VOCAB = 4 + len(WORDS)
TEXT = "we have come to talk about peace and the good zebra of our union"
SIZES = {"hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 4, "intermediate_size": 48}


def tokenizer(special: list[str] = BERT_SPECIAL, ends: bool = True) -> Any:
    """Words; with `ends` a token before and one behind each text."""
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from tokenizers.pre_tokenizers import Whitespace
    from tokenizers.processors import TemplateProcessing

    by_id = {word: n for n, word in enumerate([*special, *WORDS])}
    unknown = next(word for word in special if "unk" in word.lower())
    made = Tokenizer(WordLevel(by_id, unk_token=unknown))
    made.pre_tokenizer = Whitespace()
    first, last = ("[CLS]", "[SEP]") if "[CLS]" in special else ("<s>", "</s>")
    if ends:
        both = [(first, by_id[first]), (last, by_id[last])]
        made.post_processor = TemplateProcessing(single=f"{first} $A {last}", special_tokens=both)
    pad = next(word for word in special if "pad" in word.lower())
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=made, pad_token=pad, unk_token=unknown, bos_token=first, eos_token=last
    )


def model(kind: str, **settings: Any) -> Any:
    """`bert`, `bert-classifier`, `roberta-masked` …: every weight random and large."""
    family, _, head = kind.partition("-")
    t = transformers
    if family == "gpt2":
        config = t.GPT2Config(
            vocab_size=VOCAB, n_positions=24, n_embd=32, n_layer=3, n_head=4, bos_token_id=2, eos_token_id=3, **settings
        )
        return randomised(t.GPT2LMHeadModel(config))
    if family == "llama":
        options = {"num_key_value_heads": 2, "max_position_embeddings": 40, **SIZES, **settings}
        return randomised(t.LlamaForCausalLM(t.LlamaConfig(vocab_size=VOCAB, **options)))
    if family == "distilbert":
        sizes = {"dim": 32, "n_layers": 3, "n_heads": 4, "hidden_dim": 48, "max_position_embeddings": 24}
        config = t.DistilBertConfig(vocab_size=VOCAB, num_labels=3, **sizes, **settings)
    else:
        names = {"bert": "Bert", "roberta": "Roberta", "xlmroberta": "XLMRoberta", "camembert": "Camembert"}
        kind_of_config = getattr(t, f"{names.get(family, family.title())}Config")
        options = {"max_position_embeddings": 24, "num_labels": 3, **SIZES, **settings}
        options |= {"embedding_size": 32} if family == "electra" else {}
        config = kind_of_config(vocab_size=VOCAB, **options)
    prefix = type(config).__name__.removesuffix("Config")
    cls = {"": "Model", "classifier": "ForSequenceClassification", "masked": "ForMaskedLM"}[head]
    return randomised(getattr(t, prefix + cls)(config))


def saved(folder: Path, kind: str, **settings: Any) -> Path:
    """The model and its tokenizer in a folder named after it."""
    made, where = model(kind, **settings), folder / kind
    made.save_pretrained(where)
    roberta = kind.split("-")[0] in ("roberta", "xlmroberta", "camembert")
    ends = not kind.startswith("gpt2")
    tokenizer(ROBERTA_SPECIAL if roberta else BERT_SPECIAL, ends).save_pretrained(where)
    return where
