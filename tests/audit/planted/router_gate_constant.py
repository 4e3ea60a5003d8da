"""Topk=1 renormalised: the gate is always one, the router gets none."""

import torch
from torch import nn

CLASS = "LM"
FLAGS = ["--causal"]
CAUGHT_BY = {"gradients"}


class MoE(nn.Module):
    def __init__(self, d, n, k):
        super().__init__()
        self.k, self.router = k, nn.Linear(d, n, bias=False)
        self.experts = nn.ModuleList(nn.Sequential(nn.Linear(d, d), nn.GELU(), nn.Linear(d, d)) for _ in range(n))

    def forward(self, x):
        flat = x.reshape(-1, x.shape[-1])
        gate, pick = self.router(flat).softmax(-1).topk(self.k, dim=-1)
        gate = gate / gate.sum(-1, keepdim=True)
        y = torch.zeros_like(flat)
        for e, expert in enumerate(self.experts):
            row, slot = (pick == e).nonzero(as_tuple=True)
            y = y.index_add(0, row, gate[row, slot, None] * expert(flat[row]))
        return y.view_as(x)


class LM(nn.Module):
    def __init__(self, vocab=40, d=32, experts=4, top_k=1):
        super().__init__()
        self.emb, self.rnn, self.norm = nn.Embedding(vocab, d), nn.GRU(d, d, batch_first=True), nn.LayerNorm(d)
        self.moe, self.out = MoE(d, experts, top_k), nn.Linear(d, vocab)

    def forward(self, ids):
        x = self.rnn(self.emb(ids))[0]
        return self.out(self.norm(x + self.moe(x)))
