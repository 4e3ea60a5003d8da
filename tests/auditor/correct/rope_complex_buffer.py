"""Llama's complex rotation with a complex buffer, mask argument."""

import torch
from torch import nn
from torch.nn import functional as F

CLASS = "LM"
FLAGS = ["--causal", "--relative"]


class LM(nn.Module):
    def __init__(self, vocab=40, d=32, n_heads=4, theta=10000.0, max_seq_len=128):
        super().__init__()
        self.emb, self.qkv, self.out, self.h = (
            nn.Embedding(vocab, d),
            nn.Linear(d, 3 * d, bias=False),
            nn.Linear(d, vocab),
            n_heads,
        )
        f = theta ** (-torch.arange(0, d // n_heads, 2).float() / (d // n_heads))
        a = torch.outer(torch.arange(max_seq_len).float(), f)
        self.register_buffer("cis", torch.polar(torch.ones_like(a), a), persistent=False)

    def rot(self, x):
        c = torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2))
        return torch.view_as_real(c * self.cis[: x.shape[2]].to(torch.complex64)).flatten(-2).type_as(x)

    def forward(self, ids, attention_mask=None):
        B, T = ids.shape
        x = self.emb(ids)
        q, k, v = self.qkv(x).view(B, T, 3, self.h, -1).permute(2, 0, 3, 1, 4)
        m = torch.ones(T, T, dtype=torch.bool).tril()
        if attention_mask is not None:
            m = (m & attention_mask[:, None, None, :].bool()) | torch.eye(T, dtype=torch.bool)
        y = F.scaled_dot_product_attention(self.rot(q), self.rot(k), v, attn_mask=m)
        return self.out(x + y.transpose(1, 2).flatten(2))
