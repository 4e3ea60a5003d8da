"""A small project of a user in a git repository: a model, and a training script that prints a loss."""

from __future__ import annotations

import subprocess
from pathlib import Path

SETTINGS = """
[tool.headtohead.audit]
"PACKAGE/gpt.py:GPT" = { causal = true }
"experiments/*" = false
"""

LAYERS = """
import torch
from torch import nn


class Attention(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(width, width) for _ in range(3))

    def forward(self, x):
        T = x.shape[1]
        seen = torch.ones(T, T, dtype=torch.bool).tril()
        scores = self.q(x) @ self.k(x).mT / x.shape[-1] ** 0.5
        return scores.masked_fill(~seen, float("-inf")).softmax(dim=-1) @ self.v(x)
"""

GPT = """
import torch
from torch import nn

from .layers import Attention


class GPT(nn.Module):
    def __init__(self, vocab=30, block=16, width=16):
        super().__init__()
        self.tokens, self.places = nn.Embedding(vocab, width), nn.Embedding(block, width)
        self.attention, self.out = Attention(width), nn.Linear(width, vocab)

    def forward(self, ids):
        x = self.tokens(ids) + self.places(torch.arange(ids.shape[1]))
        return self.out(x + self.attention(x))


class Embedded(nn.Module):
    def __init__(self, vocab=30, width=16):
        super().__init__()
        self.tokens = nn.Embedding(vocab, width)

    def forward(self, ids):
        return self.tokens(ids)
"""

TRAIN = """
import random, sys
from effects import EFFECT

draw = random.Random(int(sys.argv[1]))
print("loss=9.0")
print(f"loss={3 + EFFECT + draw.gauss(0, 0.05) + 0.01 * EFFECT * draw.random():.6f}")
"""


def git(folder: Path, *words: str) -> str:
    author = ["-c", "user.name=A", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false"]
    done = subprocess.run(["git", *author, *words], cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def make_project(folder: Path, package: str) -> Path:
    """A repository with one commit on the branch main; a second branch, change, is checked out."""
    files = {
        "pyproject.toml": SETTINGS.replace("PACKAGE", package),
        f"{package}/__init__.py": "",
        f"{package}/layers.py": LAYERS,
        f"{package}/gpt.py": GPT,
        "train.py": TRAIN,
        "effects.py": "EFFECT = 0.0\n",
        "experiments/stops.py": "from torch.nn import Module\nclass X(Module): pass\nraise SystemExit(9)\n",
    }
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    git(folder, "init", "-q", "-b", "main", ".")
    commit(folder, "A model")
    git(folder, "checkout", "-q", "-b", "change")
    return folder


def commit(folder: Path, message: str, **changes: tuple[str, str]) -> str:
    """Commit everything after replacing text; `effects="…"` stands for the file effects.py."""
    for name, (old, new) in changes.items():
        file = next(folder.rglob(f"{name}.py"))
        text = file.read_text()
        assert old in text
        file.write_text(text.replace(old, new))
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", message)
    return git(folder, "rev-parse", "HEAD")
