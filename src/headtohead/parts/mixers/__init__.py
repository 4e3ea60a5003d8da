"""Token mixers: how a layer passes information from token to token. Softmax attention is the default.

Every file of this folder is imported, so a new mixer is one file and nothing else.
"""

import importlib
import pkgutil

from headtohead.parts.mixers.attend import Attend
from headtohead.parts.mixers.attention import Attention
from headtohead.parts.mixers.mixer import Mixer, MixerHooks

for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")

__all__ = ["Attend", "Attention", "Mixer", "MixerHooks"]
