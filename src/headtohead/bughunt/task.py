"""The texts that a student gets."""

TASK = """# Find the bugs

For: {student}. `model.py` holds a small language model and a small classifier. It runs without an error, but it has
**{bugs} bug{s}**. Find and repair them.

1. Read this page, then `model.py`. Leave `model.py` as it is.
2. Repair `repaired.py`, which is a copy of it.
3. Write each bug into `answers.toml`: its line in `model.py`, and one sentence on the repair.
4. Hand in the whole folder.

You need not repair style: some lines are written in an unusual way and are right. Other correct changes cost nothing.
Keep the names of classes, functions, arguments and attributes. Your file is judged by what it computes.

## What the model should be

- **Norm**: over the vector of each token: subtract the mean, divide by the standard deviation, multiply by `gain`
  (starts at 1), add `shift` (starts at 0).
- **Attention**: queries, keys and values have a linear layer each. A vector of `width` numbers is cut into `heads`
  pieces of `size` numbers, one after another, and the outputs are joined in the same order. The weights are
  softmax(q·k / sqrt(size)) over the keys that are allowed; then dropout, in training only. `allowed` is true where
  query i may see key j, and broadcasts to (B, heads, queries, keys). `past` holds keys and values of earlier tokens.
- **Block**: x + attention(norm1(x)), then x + down(gelu(up(norm2(x)))). Dropout before each addition.
- **Trunk**: the sum of the embeddings of tokens and positions; positions count from 0 at the first token of the text,
  also with a cache. Then dropout, all blocks, each with weights and a cache of its own, and a last norm. Embeddings
  start with mean 0 and standard deviation 0.02, linear weights with mean 0 and 0.05, biases at 0.
- **Decoder**: token i sees the tokens 0 … i. The head and the embedding of tokens are one tensor. `loss` is the mean
  cross-entropy of the next token; targets that are padding (id 0) do not count. `generate` uses the cache, and gives
  what the model without a cache would give.
- **Classifier**: every token sees all real tokens and no padding. The mean over the real tokens is classified.
- **make_optimizer**: AdamW over all parameters; weight decay for matrices (two axes or more), none for vectors.
- **train_step**: one update with the gradient of this loss alone, its norm limited to 1.

All parameters are registered, trained by every loss that uses them, and saved.

## How to look for bugs

    h2h audit repaired.py:Decoder --causal
    h2h audit repaired.py:Classifier
    h2h audit repaired.py:Decoder --causal --only cache

The audit shows a counterexample for each check that is broken. Several bugs can break one check, and some bugs break
none: for those, build the parts with small numbers and compare them with the list above. For example:

    import torch
    from repaired import Norm

    print(Norm(8)(torch.randn(2, 3, 8)).var(dim=-1, unbiased=False))    # must be 1
"""

ANSWERS_TEXT = """# One table for each bug.
# line: its line in model.py, as you were given it. fix: the repair, in one sentence.
"""
