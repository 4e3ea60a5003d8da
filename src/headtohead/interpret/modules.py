"""Attention maps of a module in memory, with its tokenizer: a model of headtohead or of Hugging Face."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from torch import nn

from headtohead.data.tokenizers import Vocabulary
from headtohead.errors import InputError
from headtohead.interpret.hugging_face import HubModel, hub_attention
from headtohead.interpret.maps import Maps, attention
from headtohead.model.transformer import Classifier, LanguageModel
from headtohead.run.load import Trained
from headtohead.run.store import Record
from headtohead.training.arm import Arm, RunSpec


def module_attention(model: nn.Module, text: str, tokenizer: Any) -> Maps:
    """Return the attention maps of `model` on a text."""
    name = type(model).__name__
    if tokenizer is None:
        raise InputError(f"a module needs its tokenizer: attention({name.lower()}, text, tokenizer=…)")
    if isinstance(model, LanguageModel | Classifier):
        return attention(_trained(model, tokenizer, name), text)
    if hasattr(model, "config") and callable(tokenizer):
        module: Any = model
        if hasattr(module, "set_attn_implementation"):
            module.set_attn_implementation("eager")  # fused attention returns no weights
        task = "classifier" if "SequenceClassification" in name else "masked" if "MaskedLM" in name else "lm"
        labels = tuple(module.config.id2label.values()) if task == "classifier" else ()
        return hub_attention(HubModel(name, module.eval(), tokenizer, task, labels), text)
    raise InputError(
        f"{name} has no attention weights that can be read: give a run, or a model of headtohead or transformers"
    )


def _trained(model: LanguageModel | Classifier, tokenizer: Any, name: str) -> Trained:
    if not isinstance(tokenizer, Vocabulary):
        raise InputError(f"the tokenizer of {name} must be a Vocabulary, such as run.tokenizer, not {tokenizer!r}")
    labels = tuple(map(str, range(model.classes))) if isinstance(model, Classifier) else ()
    arm = Arm(task="lm" if isinstance(model, LanguageModel) else "classifier", model=model.spec)
    return Trained(Record(Path(name)), RunSpec(arm=arm), model.eval(), tokenizer, labels, None, checkpoint=name)
