"""Train a small language model with x-transformers, one run per seed, as a script of its users would.

    python benchmarks/measure/peer_runs.py DATA.npz '{"rope": true}' 0,1,2 THREADS

Prints one line of JSON for each run: seed, test loss, seconds, CPU seconds. SDPA attention, torch's fused AdamW, the
same data, sizes, batch, rate, schedule and clipping as headtohead's runs.
"""

from __future__ import annotations

import json
import math
import resource
import sys
import time
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F
from x_transformers import Decoder, TransformerWrapper


def build(arm: dict[str, Any], sizes: dict[str, int]) -> nn.Module:
    rope = arm.get("rope", True)
    layers = Decoder(
        dim=sizes["width"],
        depth=sizes["layers"],
        heads=sizes["heads"],
        attn_dim_head=sizes["width"] // sizes["heads"],
        attn_flash=True,
        attn_kv_heads=arm.get("kv_heads"),
        rotary_pos_emb=rope,
        ff_mult=4,
        ff_custom_activation=nn.ReLU() if arm.get("relu") else nn.GELU(),
    )
    return TransformerWrapper(
        num_tokens=sizes["vocab"], max_seq_len=sizes["block"], attn_layers=layers, use_abs_pos_emb=not rope
    )


def rate(step: int, steps: int, warmup: float) -> float:
    """The factor of the peak rate: a linear warm-up, then a cosine to zero."""
    rising = max(1, round(warmup * steps))
    if step < rising:
        return (step + 1) / rising
    return 0.5 * (1 + math.cos(math.pi * (step - rising) / max(1, steps - rising)))


def train(arm: dict[str, Any], seed: int, train: torch.Tensor, test: torch.Tensor, sizes: dict[str, Any]) -> float:
    torch.manual_seed(seed)
    model = build(arm, sizes)
    optimizer = torch.optim.AdamW(model.parameters(), lr=sizes["lr"], weight_decay=sizes["decay"], fused=True)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda n: rate(n, sizes["steps"], sizes["warmup"]))
    block, places = sizes["block"], torch.arange(sizes["block"] + 1)
    for _ in range(sizes["steps"]):
        starts = torch.randint(len(train) - block - 1, (sizes["batch"], 1))
        text = train[starts + places]
        loss = F.cross_entropy(model(text[:, :-1]).flatten(0, 1), text[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), sizes["clip"])
        optimizer.step()
        schedule.step()
    model.eval()
    with torch.inference_mode():
        losses = [
            F.cross_entropy(model(text[:, :-1]).flatten(0, 1), text[:, 1:].flatten(), reduction="sum")
            for text in test.split(64)
        ]
    return float(torch.stack(losses).sum() / test[:, 1:].numel())


def main(data: str, arm: str, seeds: str, threads: str) -> None:
    torch.set_num_threads(int(threads))
    read = np.load(data)
    tokens, test = (torch.from_numpy(read[name].astype(np.int64)) for name in ("train", "test"))
    sizes = json.loads(str(read["sizes"]))
    for seed in map(int, seeds.split(",")):
        started, used = time.monotonic(), resource.getrusage(resource.RUSAGE_SELF)
        loss = train(json.loads(arm), seed, tokens, test, sizes)
        now = resource.getrusage(resource.RUSAGE_SELF)
        cpu = now.ru_utime + now.ru_stime - used.ru_utime - used.ru_stime
        print(json.dumps({"seed": seed, "loss": loss, "seconds": time.monotonic() - started, "cpu": cpu}), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
