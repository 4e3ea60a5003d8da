"""headtohead: does this change to the transformer really help, by how much, and at what cost?

The public names, loaded when first used, so that importing the package does not import torch.
"""

from __future__ import annotations

import importlib
from typing import Any

__version__ = "0.1.0"

_HOMES = {
    "errors": ["InputError"],
    "spec": ["Dims", "Part", "Spec", "families", "knob", "parse"],
    "userfiles": ["load_file"],
    "parts": [
        *[
            "Position",
            "PositionHooks",
            "NoPosition",
            "Learned",
            "Sinusoidal",
            "Alibi",
            "Rope",
            "Disentangled",
            "RelativeBias",
        ],
        *["Pattern", "Full", "Causal", "Local", "Sinks", "Prefix", "And", "Or"],
        *["Fusion", "FusionHooks", "Concat", "Shuffle", "Shift", "Reweight"],
        *["Norm", "LayerNorm", "RMSNorm", "NoNorm"],
        *["Residual", "PreNorm", "PostNorm", "Sandwich"],
        *["FeedForward", "Mlp", "Gated"],
        *["Pooling", "Mean", "First", "Max"],
    ],
    "attention": ["Biases", "Cache"],
    "model": ["Classifier", "HeadSpec", "InitSpec", "LanguageModel", "ModelSpec", "Trunk"],
    "count": ["Breakdown", "breakdown"],
    "taps": ["capture", "explicit"],
    "parts.optimizers": ["Optimizer", "AdamW", "Adam", "SGD", "Adagrad", "Muon"],
    "parts.schedules": ["Schedule", "Constant", "WarmupCosine", "OneCycle"],
    "parts.samplings": ["Sampling", "RandomWindows", "ShuffledWindows"],
    "data.tokenizers": ["Tokenizer", "Vocabulary", "Word", "Bpe", "Character", "Byte", "Pieces"],
    "data.preparations": ["Preparation", "AsIs", "Lowercase", "Plays"],
    "data.corpora": [
        "Corpus",
        "FolderCorpus",
        "Sotu",
        "Speeches",
        "Sst2",
        "Shakespeare",
        "MovieReviews",
        "Files",
        "Held",
    ],
    "data.splits": ["DataSpec"],
    "pretrained.start": ["Start", "Fresh", "Pretrained"],
    "train": ["TrainSpec", "Trainer"],
    "evaluate": ["EvalSpec"],
    "arm": ["Arm", "RunSpec"],
    "runs": ["execute"],
    "trained": ["Trained", "load_trained"],
    "store": ["Record", "find_run"],
    "predict": ["classify", "score"],
    "generate": ["Generated", "Sampling"],
    "inspect.maps": ["Maps"],
    "study": ["Study", "load_study"],
    "stats": ["compare", "compare_all"],
}
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names}

__all__ = ["__version__", *sorted(_HOME_OF)]


def __getattr__(name: str) -> Any:
    if not name[:1].isupper() and name not in _HOME_OF:  # a file of the package, or nothing: parts have capitals
        raise AttributeError(f"module 'headtohead' has no attribute '{name}'")
    if name in _HOME_OF:
        return getattr(importlib.import_module(f"headtohead.{_HOME_OF[name]}"), name)
    # It may be a part that is not listed above: a new one is written in its family's file and nowhere else.
    for members in importlib.import_module("headtohead.spec").families(None).values():
        if name in members:
            return members[name]
    raise AttributeError(f"module 'headtohead' has no attribute '{name}'")


def __dir__() -> list[str]:
    return __all__
