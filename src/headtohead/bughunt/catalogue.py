"""The bugs that can be planted in `sound_model.py`, and other spellings of its lines that change nothing.

A bug replaces one or two lines by as many others. Bugs that replace the same line are never planted together. New bugs
and spellings change the hunts that are made from then on: raise EDITION with them.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

EDITION = 1
SOUND = Path(__file__).with_name("sound_model.py")


@dataclass(frozen=True)
class Bug:
    """One way to break the model."""

    name: str
    family: str
    old: str  # occurs once in the sound file
    new: str
    wrong: str  # what is wrong, for the answer key
    check: str = ""  # the check of `h2h audit` that it breaks; empty: none
    of: str = "Decoder"  # the class in which it shows
    seen: str = ""  # without a check: how it can be seen


BUGS = (
    Bug(
        "mask-one-too-many", "mask", "self.trunk(ids, j <= i, cache)", "self.trunk(ids, j <= i + 1, cache)",
        "each token sees the next one, the token that it is to predict", "future-gradient",
    ),
    Bug(
        "mask-reversed", "mask", "self.trunk(ids, j <= i, cache)", "self.trunk(ids, j >= i, cache)",
        "each token sees itself and the later tokens instead of the earlier ones", "future-gradient",
    ),
    Bug(
        "mask-by-later-token", "mask", "i = torch.arange(before, before + ids.shape[1])[:, None]",
        "i = torch.arange(before, before + ids.shape[1])[:, None] // 2 * 2 + 1",
        "queries at even positions count as one position later, so they see the next token", "future-gradient",
    ),
    Bug(
        "softmax-over-queries", "softmax", "scores.softmax(dim=-1)", "scores.softmax(dim=-2)",
        "the weights are normalised over queries; they must sum to one over keys", "rows-sum",
    ),
    Bug(
        "mask-as-multiplication", "softmax",
        "scores = scores.masked_fill(~allowed, torch.finfo(scores.dtype).min)", "scores = scores * allowed",
        "a forbidden key gets the score 0 instead of minus infinity, so it keeps a weight", "future-gradient",
    ),
    Bug(
        "scale-by-size", "scale", "scores = scores / math.sqrt(self.size)", "scores = scores / self.size",
        "scores are divided by the size of a head instead of its square root",
        seen="print the factor: scores must be q·k / sqrt(size); the attention maps are too even",
    ),
    Bug(
        "scale-multiplied", "scale", "scores = scores / math.sqrt(self.size)", "scores = scores * math.sqrt(self.size)",
        "scores are multiplied by sqrt(size) instead of divided",
        seen="print the factor: scores must be q·k / sqrt(size); the attention maps are too sharp",
    ),
    Bug(
        "scale-of-width", "scale", "scores = scores / math.sqrt(self.size)",
        "scores = scores / math.sqrt(self.size * self.heads)",
        "scores are divided by the root of the model's width instead of the head's size",
        seen="build models with 1 and 4 heads: only with 1 head are the scores q·k / sqrt(size)",
    ),
    Bug(
        "heads-by-view", "head reshape", "return x.view(B, T, self.heads, self.size).transpose(1, 2)",
        "return x.view(B, self.heads, T, self.size)",
        "the view mixes tokens: positions and heads must be split first and transposed then", "future-gradient",
    ),
    Bug(
        "heads-interleaved", "head reshape", "y = (weights @ v).transpose(1, 2).flatten(2)",
        "y = (weights @ v).permute(0, 2, 3, 1).flatten(2)",
        "the heads are merged feature by feature instead of one head after another",
        seen="with the identity as value weights and equal attention, a token's vector must keep its order",
    ),
    Bug(
        "heads-not-moved-back", "head reshape", "y = (weights @ v).transpose(1, 2).flatten(2)",
        "y = (weights @ v).reshape(x.shape)",
        "heads are merged without moving their axis back, which mixes tokens", "future-gradient",
    ),
    Bug(
        "values-from-keys", "projection", "v = self.split(self.value(x))", "v = self.split(self.key(x))",
        "values are computed with the projection of the keys; `value` never learns", "gradients",
    ),
    Bug(
        "query-as-key", "projection", "k = self.split(self.key(x))", "k = self.split(self.query(x))",
        "keys are computed with the projection of the queries; `key` never learns", "gradients",
    ),
    Bug(
        "residual-around-attention", "residual", "x = x + self.drop(attended)", "x = self.drop(attended)",
        "the residual connection around the attention is missing",
        seen="with the weights of `attention.out` at zero, the block must still pass its input on",
    ),
    Bug(
        "residual-around-feed-forward", "residual", "x = x + self.drop(self.down(hidden))",
        "x = attended + self.drop(self.down(hidden))",
        "the second residual connection starts from the attention's output instead of x",
        seen="with the weights of `attention.out` and `down` at zero, the block must return its input",
    ),
    Bug(
        "wrong-norm", "norm", "hidden = self.up(self.norm2(x))", "hidden = self.up(self.norm1(x))",
        "the feed-forward network uses the first norm; `norm2` never learns", "gradients",
    ),
    Bug(
        "norm-over-tokens", "norm", "x = x - x.mean(dim=-1, keepdim=True)", "x = x - x.mean(dim=1, keepdim=True)",
        "the mean is taken over the tokens of a text, so it contains later tokens", "future-gradient",
    ),
    Bug(
        "norm-without-root", "norm", "torch.rsqrt(variance + 1e-5)", "torch.reciprocal(variance + 1e-5)",
        "vectors are divided by the variance instead of its square root",
        seen="print the variance of a norm's output: it must be 1 for every token",
    ),
    Bug(
        "last-norm-skipped", "norm", "return self.norm(x), presents", "return x, presents",
        "the last norm is not applied; its weights never learn", "gradients",
    ),
    Bug(
        "no-activation", "feed-forward", "hidden = F.gelu(hidden)", "hidden = hidden * 0.5",
        "there is no activation between the two linear layers, so together they are one linear layer",
        seen="a feed-forward network of x and of -x must not be mirror images (with zero biases)",
    ),
    Bug(
        "detached-feed-forward", "gradient flow", "hidden = self.up(self.norm2(x))",
        "hidden = self.up(self.norm2(x.detach()))",
        "no gradient flows through the feed-forward network to the layers before it", "derivative",
    ),
    Bug(
        "padding-on-the-wrong-axis", "padding", "self.trunk(ids, real[:, None, None, :])",
        "self.trunk(ids, real[:, None, :, None])",
        "the mask hides padded queries; it must hide padded keys", "padding-right", "Classifier",
    ),
    Bug(
        "padding-not-masked", "padding", "self.trunk(ids, real[:, None, None, :])",
        "self.trunk(ids, torch.ones_like(real)[:, None, None, :])",
        "attention sees padding, because the mask is true everywhere", "padding-right", "Classifier",
    ),
    Bug(
        "padding-inverted", "padding", "real = ids != PAD", "real = ids == PAD",
        "`real` is true at padding and false at real tokens", "padding-right", "Classifier",
    ),
    Bug(
        "padding-in-the-sum", "pooling", "total = (x * real[:, :, None]).sum(dim=1)", "total = x.sum(dim=1)",
        "the vectors of padding are added to the sum", "padding-right", "Classifier",
    ),
    Bug(
        "padding-in-the-count", "pooling", "count = real.sum(dim=1, keepdim=True).clamp(min=1)",
        "count = torch.full_like(ids[:, :1], ids.shape[1])",
        "the sum is divided by the padded length instead of the number of real tokens", "padding-right", "Classifier",
    ),
    Bug(
        "count-of-the-batch", "pooling", "count = real.sum(dim=1, keepdim=True).clamp(min=1)",
        "count = real.sum(dim=1).max().clamp(min=1)",
        "every sum is divided by the length of the longest text of the batch", "batch-rows", "Classifier",
    ),
    Bug(
        "positions-restart", "positions", "places = torch.arange(start, start + ids.shape[1])",
        "places = torch.arange(ids.shape[1])",
        "with a cache, new tokens get positions from 0 again", "cache",
    ),
    Bug(
        "positions-from-the-end", "positions", "places = torch.arange(start, start + ids.shape[1])",
        "places = torch.arange(start, start + ids.shape[1]).flip(0)",
        "positions are counted from the end, so a longer text moves every token", "future-length",
    ),
    Bug(
        "positions-never-learn", "positions", "x = self.tokens(ids) + self.places(places)",
        "x = self.tokens(ids) + self.places(places).detach()",
        "the embeddings of positions get no gradient", "gradients",
    ),
    Bug(
        "cache-of-keys-twice", "cache", "v = torch.cat([past[1], v], dim=2)", "v = torch.cat([past[0], v], dim=2)",
        "the values of earlier tokens are taken from the cache of keys", "cache",
    ),
    Bug(
        "cache-of-first-layer", "cache", "past = None if cache is None else cache[n]",
        "past = None if cache is None else cache[0]",
        "every layer reads the cache of the first layer", "cache",
    ),
    Bug(
        "cache-forgotten", "cache", "logits, cache = self(new, cache)", "logits, _ = self(new, cache)",
        "generation does not keep the cache: each new token is predicted from the last one alone",
        seen="compare generate(ids, n) with predicting each token from the whole text",
    ),
    Bug(
        "embedding-too-large", "initialisation", "nn.init.normal_(module.weight, std=0.02)",
        "nn.init.normal_(module.weight, std=2)",
        "embeddings start with standard deviation 2 instead of 0.02, so the first logits are far too large",
        "initial-loss",
    ),
    Bug(
        "linear-positive", "initialisation", "nn.init.normal_(module.weight, std=0.05)",
        "nn.init.uniform_(module.weight, 0, 0.05)",
        "linear weights start positive, between 0 and 0.05, instead of around 0",
        seen="print the mean of a linear layer's initial weights: it must be near 0",
    ),
    Bug(
        "gain-zero", "initialisation", "self.gain = nn.Parameter(torch.ones(width))",
        "self.gain = nn.Parameter(torch.zeros(width))",
        "gains start at 0 instead of 1, so the first outputs are all 0",
        seen="print the initial logits: all are 0, and the loss is exactly ln(vocab)",
    ),
    Bug(
        "layers-in-a-list", "registration",
        "self.blocks = nn.ModuleList([Block(width, heads, dropout) for _ in range(layers)])",
        "self.blocks = [Block(width, heads, dropout) for _ in range(layers)]",
        "blocks in a plain list are not in parameters(): they are neither trained nor saved", "registered",
    ),
    Bug(
        "one-layer-many-times", "registration",
        "self.blocks = nn.ModuleList([Block(width, heads, dropout) for _ in range(layers)])",
        "self.blocks = nn.ModuleList([Block(width, heads, dropout)] * layers)",
        "all layers are one block with the same weights",
        seen="count the parameters of models with 1 and 2 layers: they are equal",
    ),
    Bug(
        "tied-by-copy", "tying", "self.head.weight = self.trunk.tokens.weight",
        "self.head.weight = nn.Parameter(self.trunk.tokens.weight.clone())",
        "the head starts as a copy of the embedding and is not the same tensor", "tied",
    ),
    Bug(
        "target-not-shifted", "loss", "targets = ids[:, 1:]", "targets = ids[:, :-1]",
        "the target is the token itself, which the model sees, instead of the next one",
        seen="train for a few steps: the loss falls to nearly 0 on random text",
    ),
    Bug(
        "padding-in-the-loss", "loss", "targets.flatten(), ignore_index=PAD)", "targets.flatten(), ignore_index=-100)",
        "padding is predicted and counted in the loss",
        seen="append padding to a batch: the loss must not change",
    ),
    Bug(
        "dropout-in-evaluation", "dropout", "weights = self.drop(weights)", "weights = F.dropout(weights, self.drop.p)",
        "F.dropout is on in evaluation too, unless it is told otherwise", "dropout",
    ),
    Bug(
        "matrices-not-trained", "optimizer", "matrices = [p for p in model.parameters() if p.ndim >= 2]",
        "matrices = [p for p in model.parameters() if p.ndim > 2]",
        "matrices are in neither group, so the optimizer never changes them",
        seen="compare every parameter before and after train_step: all must change",
    ),
    Bug(
        "decay-of-vectors", "optimizer", '"weight_decay": decay}, {"params": vectors, "weight_decay": 0.0}]',
        '"weight_decay": 0.0}, {"params": vectors, "weight_decay": decay}]',
        "gains, shifts and biases are decayed, and matrices are not",
        seen="print optimizer.param_groups: which group has the decay?",
    ),
    Bug(
        "gradient-erased", "optimizer", "    optimizer.zero_grad()\n    loss.backward()\n",
        "    loss.backward()\n    optimizer.zero_grad()\n",
        "the gradients are erased between backward and step, so nothing is learned from the loss",
        seen="compare a bias before and after train_step: it does not change",
    ),
    Bug(
        "gradient-not-limited", "optimizer", "nn.utils.clip_grad_norm_(model.parameters(), 1.0)",
        "nn.utils.clip_grad_value_(model.parameters(), 1.0)",
        "each entry of the gradient is limited to 1; its norm is not limited",
        seen="print the norm of the gradient after train_step: it can be larger than 1",
    ),
)  # fmt: skip

# Both spellings of a line do the same. Each student's file has its own choice of them.
SPELLINGS = (
    ("x.pow(2).mean(dim=-1, keepdim=True)", "x.square().mean(dim=-1, keepdim=True)"),
    ("torch.rsqrt(variance + 1e-5)", "(variance + 1e-5).rsqrt()"),
    ("B, T, _ = x.shape", "B, T = x.shape[:2]"),
    ("x.view(B, T, self.heads, self.size).transpose(1, 2)", "x.unflatten(-1, (self.heads, self.size)).movedim(2, 1)"),
    ("q @ k.transpose(-2, -1)", "torch.einsum('bhid,bhjd->bhij', q, k)"),
    ("scores / math.sqrt(self.size)", "scores * self.size**-0.5"),
    ("weights = scores.softmax(dim=-1)", "weights = torch.softmax(scores, dim=-1)"),
    ("(weights @ v).transpose(1, 2).flatten(2)", "(weights @ v).movedim(1, 2).reshape(x.shape)"),
    ("k = torch.cat([past[0], k], dim=2)", "k = torch.cat((past[0], k), dim=-2)"),
    ("x = x + self.drop(attended)", "x = self.drop(attended) + x"),
    ("x = x + self.drop(self.down(hidden))", "x = self.drop(self.down(hidden)) + x"),
    ("hidden = F.gelu(hidden)", "hidden = nn.functional.gelu(hidden)"),
    ("self.tokens(ids) + self.places(places)", "self.places(places) + self.tokens(ids)"),
    ("nn.init.zeros_(module.bias)", "nn.init.constant_(module.bias, 0.0)"),
    ("self.trunk(ids, j <= i, cache)", "self.trunk(ids, i >= j, cache)"),
    ("self(ids[:, :-1])", "self(ids[..., :-1])"),
    ("logits.flatten(0, 1), targets.flatten()", "logits.mT, targets"),
    ("real = ids != PAD", "real = ids.ne(PAD)"),
    ("real[:, None, None, :]", "real[:, None, None]"),
    ("(x * real[:, :, None]).sum(dim=1)", "x.masked_fill(~real[:, :, None], 0).sum(dim=1)"),
    ("real.sum(dim=1, keepdim=True).clamp(min=1)", "real.sum(1, keepdim=True).clamp_min(1)"),
    ("if p.ndim >= 2]", "if p.ndim > 1]"),
    ("if p.ndim < 2]", "if p.ndim <= 1]"),
)
