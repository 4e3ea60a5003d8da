"""The initial weights of a run: random, or from a checkpoint, with all weights or LoRA trained."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar, Self

import torch
from torch import nn

from headtohead.data.tokenizers import Pieces, Tokenizer
from headtohead.errors import InputError, needs_extra
from headtohead.model.transformer import Classifier
from headtohead.spec import Part, knob

LORA_LAYERS = ("q", "v")  # layers of each attention that get LoRA, as in the paper
HEAD = "head"  # name of the output layers in every model


class Start(Part, family="start", of="train"):
    """The initial weights of a run."""

    pretrained: ClassVar[bool] = False  # the weights were trained before: model.init does not decide them

    def resolved(self) -> Self:
        """Return this start with the fingerprint of everything that determines the weights."""
        return self

    def refuse_foreign(self, tokenizer: Tokenizer) -> None:
        """Refuse a tokenizer whose token ids do not belong to the weights."""

    def weight_seed(self, seed: int) -> int:
        """Return the seed of the random initial weights in a run with this seed."""
        return seed

    def fill(self, model: nn.Module) -> None:
        """Load the weights into a model with random weights, and mark which of them are trained."""

    def shape(self, model: nn.Module) -> None:
        """Make only the changes of `fill` to the model itself, for a model whose weights are loaded later."""


class Fresh(Start):
    """Random weights, as `model.init` defines."""

    equation: ClassVar[str] = "w ~ model.init"
    reference: ClassVar[str] = "no checkpoint"


class Perturbed(Start):
    """Random weights, as `model.init` defines, each changed by a tiny share of itself.

    Two runs that differ in nothing else show how far rounding errors alone can drive training apart.
    """

    equation: ClassVar[str] = "w · (1 + scale · z),  w ~ model.init,  z ~ N(0, 1)"
    reference: ClassVar[str] = "Summers and Dinneen 2021, Nondeterminism and Instability in Neural Network Optimization"

    scale: float = knob(default=1e-6, gt=0, lt=1, help="size of the change, relative to each weight")

    @torch.no_grad()
    def fill(self, model: nn.Module) -> None:
        for weight in model.parameters():
            weight.mul_(1 + self.scale * torch.randn_like(weight))


class FreshFrom(Start):
    """Random weights of another seed than the run's, which keeps its batches and dropout."""

    equation: ClassVar[str] = "w ~ model.init, drawn with `seed`"
    reference: ClassVar[str] = "no checkpoint; separates initial weights from batch order"

    seed: int = knob(default=0, ge=0, help="seed of the initial weights")

    def weight_seed(self, seed: int) -> int:
        return self.seed


class Pretrained(Start):
    """The weights of a checkpoint; the last layer of a classifier is random.

    With `lora`, training changes only low-rank differences to queries and values, and the head.
    """

    equation: ClassVar[str] = "w = w_checkpoint;  with lora: w + (alpha / r) · B A,  B zero at first"
    reference: ClassVar[str] = "Devlin et al. 2019, BERT; Hu et al. 2022, LoRA"
    pretrained: ClassVar[bool] = True

    checkpoint: str = knob(default="minilm", identity=False, help="minilm, a folder, or a name on the Hub")
    lora: int | None = knob(default=None, ge=1, help="rank r; none: train all weights")
    alpha: int = knob(default=16, ge=1, help="scale of the LoRA difference")
    content: str = knob(default="", help="fingerprint of the checkpoint, set when a run starts")

    def resolved(self) -> Self:
        from headtohead.data.pretrained_checkpoints import find

        content = find(self.checkpoint).fingerprint
        if self.content and self.content != content:
            raise InputError(
                f"the checkpoint {self.checkpoint} has changed since this run was made: restore the old one, or "
                "start a new run"
            )
        return dataclasses.replace(self, content=content)

    def refuse_foreign(self, tokenizer: Tokenizer) -> None:
        from headtohead.data.pretrained_checkpoints import find

        if not isinstance(tokenizer, Pieces) or tokenizer.content == self.content:
            return
        if find(tokenizer.checkpoint).tokenizer() != find(self.checkpoint).tokenizer():
            raise InputError(
                f"the weights come from {self.checkpoint}, but the tokenizer from {tokenizer.checkpoint}: "
                f"set tokenizer.checkpoint={self.checkpoint} too, or use h2h finetune --model {self.checkpoint}"
            )

    def fill(self, model: nn.Module) -> None:
        from headtohead.data.pretrained_checkpoints import find
        from headtohead.pretrained.architectures import classifier_start, read

        checkpoint = find(self.checkpoint)
        if isinstance(model, Classifier):
            weights = classifier_start(checkpoint, model.classes)[1]
        else:
            weights = read(checkpoint).weights
        own = model.state_dict()
        wrong = [n for n, w in weights.items() if n not in own or own[n].shape != w.shape]
        missing = [n for n in own if n not in weights and not n.startswith(HEAD)]
        if wrong or missing:
            raise InputError(
                f"the model has other weights than {self.checkpoint} ({(wrong or missing)[0]} differs): use h2h "
                "finetune, and do not change settings that change the shape of a weight"
            )
        model.load_state_dict(weights, strict=False)
        self.shape(model)

    def shape(self, model: nn.Module) -> None:
        if self.lora is None:
            return
        try:
            from peft import LoraConfig, inject_adapter_in_model
        except ImportError:
            raise needs_extra("LoRA", "hf") from None
        head = {id(p) for name, child in model.named_children() if name == HEAD for p in child.parameters()}
        config: Any = LoraConfig(
            r=self.lora, lora_alpha=self.alpha, target_modules=list(LORA_LAYERS), init_lora_weights=True
        )
        inject_adapter_in_model(config, model.trunk)  # type: ignore[arg-type]
        for name, p in model.named_parameters():
            p.requires_grad = "lora_" in name or id(p) in head


def merged(weights: dict[str, torch.Tensor], start: Start) -> dict[str, torch.Tensor]:
    """The weights of a model without LoRA: each low-rank difference is added to its layer."""
    if not isinstance(start, Pretrained) or start.lora is None:
        return weights
    plain: dict[str, torch.Tensor] = {}
    for name, w in weights.items():
        if ".base_layer." in name:
            layer, _, kind = name.partition(".base_layer.")
            if kind == "weight":
                down, up = (weights[f"{layer}.lora_{part}.default.weight"] for part in "AB")
                w = w + start.alpha / start.lora * (up @ down)
            plain[f"{layer}.{kind}"] = w
        elif ".lora_" not in name:
            plain[name] = w
    return plain
