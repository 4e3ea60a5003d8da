"""Generation against Hugging Face: the same sizes, one thread, in turns within one process, so that a machine that
slows down slows all of them down."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from headtohead.errors import Unavailable
from headtohead.interpret.generate import Decoding, continued
from headtohead.model.spec import ModelSpec
from headtohead.model.transformer import LanguageModel
from headtohead.parts.feedforwards import Mlp

if TYPE_CHECKING:
    from rich.console import Console

PROMPT = 4  # tokens
MANY = 64  # samples at once
VOCAB = 5755

# name → its sizes, and by how much to be faster than Hugging Face and than reading everything anew
SIZES = {
    "documents' decoder": (ModelSpec(feedforward=Mlp(activation="relu", hidden=100)), 3.0, None),
    "6 layers, width 256, block 512": (ModelSpec(layers=6, width=256, heads=8, block=512), 1.8, 6.0),
}
MANY_TARGET = 8.0  # times the tokens a second of one


@dataclass(frozen=True)
class Row:
    """Milliseconds a token of one sample, or of each of many, round by round."""

    size: str
    way: str
    milliseconds: tuple[float, ...]
    tokens_at_once: int = 1

    @property
    def best(self) -> float:
        return min(self.milliseconds)

    @property
    def middle(self) -> float:
        return statistics.median(self.milliseconds)

    @property
    def tokens_a_second(self) -> float:
        return 1000 * self.tokens_at_once / self.middle


@dataclass(frozen=True)
class Ratio:
    """How much faster we are, by the middle of the rounds and by the best of them."""

    size: str
    of: str
    middle: float
    best: float
    target: float | None

    @property
    def met(self) -> bool | None:
        return None if self.target is None else self.middle >= self.target


@dataclass(frozen=True)
class Result:
    rows: tuple[Row, ...]
    ratios: tuple[Ratio, ...]

    def to_json(self) -> dict[str, Any]:
        rows = [{**vars(r), "median_ms": r.middle, "best_ms": r.best} for r in self.rows]
        return {"task": "generation", "rows": rows, "ratios": [{**vars(r), "met": r.met} for r in self.ratios]}

    def show(self, console: Console) -> None:
        from rich.table import Table

        table = Table("size", "way", "ms a step, median", "best", "tokens a second", title="Generation, one thread")
        for row in self.rows:
            figures = f"{row.middle:.3f}", f"{row.best:.3f}", f"{row.tokens_a_second:,.0f}"
            table.add_row(row.size, row.way, *figures)
        console.print(table)
        for ratio in self.ratios:
            met = "" if ratio.met is None else f", wanted {ratio.target:g}: {'met' if ratio.met else 'missed'}"
            said = f"{ratio.size}: {ratio.middle:.2f} × {ratio.of} by medians, {ratio.best:.2f} × by the best{met}"
            console.print(said, markup=False, soft_wrap=True)


def measure(rounds: int) -> Result:
    torch.set_num_threads(1)
    rows: list[Row] = []
    ratios: list[Ratio] = []
    for name, (spec, target, anew) in SIZES.items():
        ways = _ways(spec)
        times: dict[str, list[float]] = {way: [] for way in ways}
        warm = {way: _seconds(run) for way, (run, _) in ways.items()}
        for n in range(rounds):
            for way, (run, tokens) in ways.items():
                if n % SELDOM == 0 or warm[way] < LONG:
                    times[way].append(1000 * _seconds(run) / tokens)
        found = {way: Row(name, way, tuple(t), MANY if way == WAYS[3] else 1) for way, t in times.items()}
        rows += found.values()
        ours = found[WAYS[0]]
        ratios.append(_ratio(name, WAYS[1], found[WAYS[1]], ours, target))
        ratios.append(_ratio(name, WAYS[2], found[WAYS[2]], ours, anew))
        many = found[WAYS[3]]
        more = (MANY * ours.middle / many.middle, MANY * ours.best / many.best)
        ratios.append(Ratio(name, "the tokens a second of one sample", *more, MANY_TARGET))
    return Result(tuple(rows), tuple(ratios))


LONG, SELDOM = 2.0, 5  # what takes more seconds than the one is measured in one of so many rounds


def _seconds(run: Callable[[], Any]) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


WAYS = ("headtohead", "Hugging Face generate", "reading everything anew", f"headtohead, {MANY} samples")


def _ratio(size: str, of: str, other: Row, ours: Row, target: float | None) -> Ratio:
    return Ratio(size, of, other.middle / ours.middle, other.best / ours.best, target)


def _ways(spec: ModelSpec) -> dict[str, tuple[Callable[[], Any], int]]:
    """What to call, and how many tokens it makes one after the other."""
    tokens = spec.block - PROMPT
    model = LanguageModel(spec, VOCAB).eval()
    prompt = torch.arange(2, 2 + PROMPT)
    greedy = Decoding(greedy=True)
    peer = _peer(spec)

    def ours(count: int, samples: int = 1, cached: bool = True) -> Callable[[], Any]:
        return lambda: list(continued(model, prompt, count, samples, greedy, cached=cached))

    return {
        WAYS[0]: (ours(tokens), tokens),
        WAYS[1]: (lambda: peer(prompt, tokens), tokens),
        WAYS[2]: (ours(tokens, cached=False), tokens),
        WAYS[3]: (ours(tokens, MANY), tokens),
    }


def _peer(spec: ModelSpec) -> Callable[[torch.Tensor, int], Any]:
    try:
        import transformers
    except ImportError:
        raise Unavailable("the peer is Hugging Face's: pip install 'headtohead[bench]'") from None
    transformers.logging.set_verbosity_error()
    config = transformers.GPT2Config(
        n_layer=spec.layers,
        n_embd=spec.width,
        n_head=spec.heads,
        n_positions=spec.block,
        n_inner=getattr(spec.feedforward, "hidden", None),
        activation_function=getattr(spec.feedforward, "activation", "gelu"),
        vocab_size=VOCAB,
        bos_token_id=0,
        eos_token_id=None,
    )
    model = transformers.GPT2LMHeadModel(config).eval()

    def generate(prompt: torch.Tensor, tokens: int) -> Any:
        with torch.inference_mode():
            made = model.generate(
                prompt[None],
                attention_mask=torch.ones(1, len(prompt), dtype=torch.long),
                max_new_tokens=tokens,
                min_new_tokens=tokens,
                do_sample=False,
                pad_token_id=0,
            )
        assert made.shape[1] == len(prompt) + tokens
        return made

    return generate
