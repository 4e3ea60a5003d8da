"""What weights a run starts from: drawn anew, or those of a checkpoint, whole or by way of LoRA."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar, Self

import torch
from torch import nn

from headtohead.data.tokenizers import Pieces, Tokenizer
from headtohead.errors import InputError, Unavailable
from headtohead.model import Classifier
from headtohead.spec import Part, knob

LORA_LAYERS = ("q", "v")  # of each attention, as in the paper
HEAD = "head"  # what every model here calls the layers that end it


class Start(Part, family="start", of="train"):
    """What weights a run starts from."""

    def resolved(self) -> Self:
        """With whatever decides the weights written down."""
        return self

    def refuse_foreign(self, tokenizer: Tokenizer) -> None:
        """A tokenizer whose tokens the weights have never met."""

    def fill(self, model: nn.Module) -> None:
        """A model whose weights were drawn already gets those that the start says, and is told which of them learn."""

    def shape(self, model: nn.Module) -> None:
        """As `fill`, for a model whose weights will be loaded: only what changes the model itself."""


class Fresh(Start):
    """Drawn anew, as model.init says."""

    equation: ClassVar[str] = "w ~ model.init"
    reference: ClassVar[str] = "the absence of a checkpoint"


class Pretrained(Start):
    """The weights of a checkpoint; the layer that names the classes is drawn anew. With `lora`, queries and values
    learn a difference of low rank, the head learns, and the rest stays as it is."""

    equation: ClassVar[str] = "w = w_checkpoint;  with lora: w + (alpha / r) · B A,  B zero at first"
    reference: ClassVar[str] = "Devlin et al. 2019, BERT; Hu et al. 2022, LoRA"

    checkpoint: str = knob(default="minilm", identity=False, help="minilm, a folder, or a name on the Hub")
    lora: int | None = knob(default=None, ge=1, help="rank r; none: everything learns")
    alpha: int = knob(default=16, ge=1, help="of lora: how much the difference counts")
    content: str = knob(default="", help="fingerprint of the checkpoint, filled in when a run begins")

    def resolved(self) -> Self:
        from headtohead.data.checkpoints import find

        content = find(self.checkpoint).fingerprint
        if self.content and self.content != content:
            raise InputError(
                f"the checkpoint {self.checkpoint} has changed since this run was made: bring the old one back, "
                "or begin anew"
            )
        return dataclasses.replace(self, content=content)

    def refuse_foreign(self, tokenizer: Tokenizer) -> None:
        from headtohead.data.checkpoints import find

        if not isinstance(tokenizer, Pieces) or tokenizer.content == self.content:
            return
        if find(tokenizer.checkpoint).tokenizer() != find(self.checkpoint).tokenizer():
            raise InputError(
                f"the weights are those of {self.checkpoint} and the tokenizer that of {tokenizer.checkpoint}: "
                f"set tokenizer.checkpoint={self.checkpoint} too, or take h2h finetune --model {self.checkpoint}"
            )

    def fill(self, model: nn.Module) -> None:
        from headtohead.data.checkpoints import find
        from headtohead.pretrained.architectures import classifier_start, read

        found = find(self.checkpoint)
        weights = classifier_start(found, model.classes)[1] if isinstance(model, Classifier) else read(found).weights
        own = model.state_dict()
        wrong = [n for n, w in weights.items() if n not in own or own[n].shape != w.shape]
        left = [n for n in own if n not in weights and not n.startswith(HEAD)]
        if wrong or left:
            raise InputError(
                f"the model is not made as {self.checkpoint} is ({(wrong or left)[0]} differs): h2h finetune makes it "
                "so; settings of the model that change a weight's shape cannot be set here"
            )
        model.load_state_dict(weights, strict=False)
        self.shape(model)

    def shape(self, model: nn.Module) -> None:
        if self.lora is None:
            return
        try:
            from peft import LoraConfig, inject_adapter_in_model
        except ImportError:
            raise Unavailable("LoRA needs peft: pip install 'headtohead[hf]'") from None
        head = {id(p) for name, child in model.named_children() if name == HEAD for p in child.parameters()}
        config: Any = LoraConfig(
            r=self.lora, lora_alpha=self.alpha, target_modules=list(LORA_LAYERS), init_lora_weights=True
        )
        inject_adapter_in_model(config, model.trunk)  # type: ignore[arg-type]
        for name, p in model.named_parameters():
            p.requires_grad = "lora_" in name or id(p) in head


def merged(weights: dict[str, torch.Tensor], start: Start) -> dict[str, torch.Tensor]:
    """Weights under the names of a model without LoRA: each difference added to what it is a difference to."""
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
