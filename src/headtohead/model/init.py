"""Initial weights, each a function of the seed and its name, so that two models start equal in all shared weights."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn

from headtohead.model.spec import ModelSpec
from headtohead.parts.inits import Weight
from headtohead.spec.streams import stream


class Seeded:
    """Draws each weight from a random stream keyed by (seed, name): tensors with the same name and shape in two models
    start bit-identical, even if the rest of the models differs."""

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def stream(self, name: str) -> int:
        return stream(self.seed, "init", name)

    @contextmanager
    def __call__(self, name: str) -> Iterator[None]:
        """Inside this context, random draws of a part's constructor depend on the seed and the name alone."""
        before = torch.get_rng_state()
        torch.default_generator.manual_seed(self.stream(name))  # torch.manual_seed also seeds other devices, in 1 ms
        try:
            yield
        finally:
            torch.set_rng_state(before)

    def initialise(self, model: nn.Module, spec: ModelSpec) -> None:
        """Initialise linear layers and embeddings by the spec's rule, and other modules by their `reset_parameters`.
        Modules without that method stay as they were built."""
        if any(p.is_meta for p in model.parameters()):
            return
        for name, module in model.named_modules():
            if isinstance(module, nn.Linear | nn.Embedding):
                with torch.no_grad():
                    for kind, parameter in module.named_parameters(recurse=False):
                        draw = torch.Generator().manual_seed(self.stream(f"{name}.{kind}"))
                        spec.init.draw(Weight(parameter, module, kind, spec.depth), draw)
            elif hasattr(module, "reset_parameters"):
                with self(name):
                    module.reset_parameters()
