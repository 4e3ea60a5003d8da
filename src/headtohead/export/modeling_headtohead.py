"""A headtohead model for transformers: AutoModelFor….from_pretrained(folder, trust_remote_code=True).

`h2h export` writes this file beside the weights and inserts the source code of the model's parts. The file needs torch
and transformers, but not headtohead. It has no cache of keys and values: each new token reads the whole text.

Shapes: B texts, T tokens, H heads, d width of a head, D width.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import GenerationMixin, PretrainedConfig, PreTrainedModel
from transformers.modeling_outputs import CausalLMOutput, SequenceClassifierOutput

# -- base classes of parts ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Dims:
    width: int
    heads: int
    head_width: int
    layers: int
    block: int


class InputError(ValueError):
    """The settings contradict each other."""


def knob(*, default: Any, **_options: Any) -> Any:
    return default


class Part:
    """A part of the model: its settings. The subclasses below add the behaviour."""

    def __init_subclass__(cls, **_options: Any) -> None:
        super().__init_subclass__()

    def __init__(self, **knobs: Any) -> None:
        vars(self).update(knobs)


def from_json(data: Any) -> Any:
    """A part or a group of settings, from its JSON."""
    if not isinstance(data, dict):
        return data
    cls = globals().get(data["kind"], SimpleNamespace)
    return cls(**{name: from_json(value) for name, value in data.items() if name != "kind"})


# -- the parts of the model are inserted here --------------------------------------------------------------------------

# -- the model ---------------------------------------------------------------------------------------------------------


class HeadToHeadConfig(PretrainedConfig):
    model_type = "headtohead"

    def __init__(self, model: dict[str, Any] | None = None, **others: Any) -> None:
        self.model = model or {}
        super().__init__(**others)


class Attention(nn.Module):
    """a_ij = softmax_j( scale · <rotate(q_i, i), rotate(k_j, j)> / sqrt(d) + bias(q, k, i, j) ), then the fusion."""

    def __init__(self, spec: Any, dims: Dims, layer: int) -> None:
        super().__init__()
        H, d, Hkv, biases = dims.heads, dims.head_width, spec.kv_heads or spec.heads, spec.biases
        self.q = nn.Linear(dims.width, H * d, bias=biases.q)
        self.k = nn.Linear(dims.width, Hkv * d, bias=biases.k)
        self.v = nn.Linear(dims.width, Hkv * d, bias=biases.v)
        self.q_norm, self.k_norm = spec.qk_norm.build(d), spec.qk_norm.build(d)
        self.fuse = spec.fusion.build(dims, layer)
        self.out = nn.Linear(H * d, dims.width, bias=biases.out)
        self.d, self.group, self.dropout = d, H // Hkv, spec.dropout

    def forward(self, x: Tensor, i: Tensor, allowed: Tensor, keep: Tensor | None, position: Any) -> Tensor:
        q, k, v = (f(x).unflatten(-1, (-1, self.d)).transpose(1, 2) for f in (self.q, self.k, self.v))  # (B, H, T, d)
        rows, columns = i[:, None, :, None], i[:, None, None, :]
        q, k = position.rotate(self.q_norm(q), rows), position.rotate(self.k_norm(k), rows)
        k, v = k.repeat_interleave(self.group, dim=1), v.repeat_interleave(self.group, dim=1)
        scores = position.scale / math.sqrt(self.d) * (q @ k.transpose(-1, -2))
        bias = position.bias(q, k, rows, columns)
        scores = scores if bias is None else scores + bias
        some = allowed.any(dim=-1, keepdim=True)  # the output of a query without allowed keys is zero
        a = scores.masked_fill(~(allowed | ~some), -torch.inf).softmax(dim=-1)
        o = F.dropout(a, self.dropout, self.training) @ v * some
        return self.out(self.fuse(o, keep).transpose(1, 2).flatten(2))


class Block(nn.Module):
    def __init__(self, spec: Any, dims: Dims, layer: int) -> None:
        super().__init__()
        self.attention = Attention(spec, dims, layer)
        self.feedforward = spec.feedforward.build(dims)
        self.residual, this = spec.residual, SimpleNamespace(n=layer, dims=dims)
        self.around_attention = spec.residual.build_in(this, lambda: spec.norm.build(spec.width), True)
        self.around_feedforward = spec.residual.build_in(this, lambda: spec.norm.build(spec.width), False)
        self.dropout = nn.Dropout(spec.dropout)

    def forward(self, x: Tensor, start: Tensor, *reach: Any) -> Tensor:
        f, g = self.around_attention, self.around_feedforward
        x = f.enter(x, start) if hasattr(f, "enter") else x
        mix = lambda h: self.dropout(self.attention(h, *reach))
        return self.residual.run(x, f, mix, g, lambda h: self.dropout(self.feedforward(h)))


class Trunk(nn.Module):
    """Maps token ids (B, T) to (B, T, D). Positions count real tokens, so left padding does not shift them."""

    def __init__(self, spec: Any, vocab: int) -> None:
        super().__init__()
        dims = Dims(spec.width, spec.heads, spec.head_width or spec.width // spec.heads, spec.layers, spec.block)
        self.pattern = spec.pattern
        self.tokens = nn.Embedding(vocab, spec.width)
        self.position = spec.position.build(dims)
        self.embedding_norm = spec.embedding_norm.build(spec.width)
        self.dropout = nn.Dropout(spec.dropout)
        self.blocks = nn.ModuleList(Block(spec, dims, n) for n in range(spec.layers))
        self.residual = spec.residual
        self.last = spec.residual.build_last(lambda: spec.norm.build(spec.width))

    def forward(self, ids: Tensor, keep: Tensor | None) -> Tensor:
        counted = torch.ones_like(ids) if keep is None else keep.long()
        i = (counted.cumsum(dim=1) - 1).clamp(min=0)  # (B, T)
        x = self.dropout(self.embedding_norm(self.position.embed(self.tokens(ids), i)))
        allowed = self.pattern.allowed(i[:, None, :, None], i[:, None, None, :])
        allowed = allowed if keep is None else allowed & keep[:, None, None, :]
        start, x = x, self.residual.open(x)
        for n, block in enumerate(self.blocks):
            x = block(x, start, i, allowed, keep, self.position.layer(n))
        return self.last(self.residual.close(x))


class HeadToHeadModel(PreTrainedModel):
    config_class = HeadToHeadConfig

    def __init__(self, config: Any) -> None:
        super().__init__(config)
        self.spec = from_json(config.model)
        self.trunk = Trunk(self.spec, config.vocab_size)

    def finish(self) -> None:
        """Save computed tables with the weights, because transformers does not compute them when it loads a model."""
        for module in self.modules():
            module._non_persistent_buffers_set.clear()
        self.post_init()

    def get_input_embeddings(self) -> nn.Module:
        return self.trunk.tokens


class TiedHead(nn.Module):
    """Computes logits with the token embedding. Its only parameter is the bias."""

    def __init__(self, vocab: int, bias: bool) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(vocab)) if bias else None

    def forward(self, x: Tensor, tokens: Tensor) -> Tensor:
        return F.linear(x, tokens, self.bias)


class HeadToHeadForCausalLM(HeadToHeadModel, GenerationMixin):
    def __init__(self, config: Any) -> None:
        super().__init__(config)
        spec, vocab = self.spec, config.vocab_size
        self.head: nn.Module = nn.Linear(spec.width, vocab, bias=spec.head_bias)
        if spec.tied:
            self.head = TiedHead(vocab, spec.head_bias)
        self.finish()

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor | None = None, labels: Tensor | None = None, **_others: Any
    ) -> CausalLMOutput:
        x = self.trunk(input_ids, None if attention_mask is None else attention_mask.bool())
        logits = self.head(x, self.trunk.tokens.weight) if self.spec.tied else self.head(x)
        loss: Any = None if labels is None else F.cross_entropy(logits[:, :-1].flatten(0, 1), labels[:, 1:].flatten())
        return CausalLMOutput(loss=loss, logits=logits)

    def prepare_inputs_for_generation(self, input_ids: Any, attention_mask: Any = None, **_others: Any) -> Any:  # type: ignore[override]
        return {"input_ids": input_ids, "attention_mask": attention_mask}


class HeadToHeadForSequenceClassification(HeadToHeadModel):
    def __init__(self, config: Any) -> None:
        super().__init__(config)
        head = self.spec.head
        act = {"relu": nn.ReLU(), "gelu": nn.GELU(), "tanh": nn.Tanh()}[head.activation]
        last = nn.Linear(head.hidden, config.num_labels)
        self.head = nn.Sequential(nn.Linear(self.spec.width, head.hidden), act, last)
        self.pooling = self.spec.pooling.build(SimpleNamespace(width=self.spec.width))
        self.finish()

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor | None = None, labels: Tensor | None = None, **_others: Any
    ) -> SequenceClassifierOutput:
        keep = input_ids != self.config.pad_token_id if attention_mask is None else attention_mask.bool()
        logits = self.head(self.pooling(self.trunk(input_ids, keep), keep))
        loss: Any = None if labels is None else F.cross_entropy(logits, labels)
        return SequenceClassifierOutput(loss=loss, logits=logits)
