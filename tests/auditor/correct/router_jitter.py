"""MoE with router jitter in training and an aux loss attribute."""

import torch
from torch import nn

CLASS = "LM"
FLAGS = ["--causal"]


class LM(nn.Module):
    def __init__(self, vocab=40, d=16, n_experts=4, jitter=0.01):
        super().__init__()
        self.emb, self.rnn, self.out, self.router, self.jitter = (
            nn.Embedding(vocab, d),
            nn.GRU(d, d, batch_first=True),
            nn.Linear(d, vocab),
            nn.Linear(d, n_experts),
            jitter,
        )
        self.up = nn.Parameter(torch.randn(n_experts, d, 2 * d) * 0.2)
        self.down = nn.Parameter(torch.randn(n_experts, 2 * d, d) * 0.2)
        self.aux = None

    def forward(self, ids):
        x = self.rnn(self.emb(ids))[0]
        r = x * torch.empty_like(x).uniform_(1 - self.jitter, 1 + self.jitter) if self.training else x
        p = self.router(r).softmax(-1)
        g, e = p.max(-1)
        self.aux = p.mean((0, 1)).pow(2).sum()
        y = torch.einsum("btd,edf->btef", x, self.up).relu()
        y = torch.einsum("btef,efd->bted", y, self.down)
        y = y.gather(2, e[..., None, None].expand(*e.shape, 1, x.shape[-1])).squeeze(2)
        return self.out(x + g[..., None] * y)
