"""Time, memory and generation speed of every mixer by the length of the text, with peers in the same rounds.

    python benchmarks/measure/mixers.py                             # lengths 128 … 4,096; about a quarter of an hour
    python benchmarks/measure/mixers.py --longest 1024 --rounds 3   # a few minutes

Every mixer of the registry at its defaults is one contender: a language model of two layers of width 64, one text at a
time, one thread. Peers are measured where they are installed (`pip install mambapy einops flash-linear-attention`):

- The functions without Triton of flash-linear-attention take the place of our recurrence in the same model, after a
  check that their outputs are the same. Its files are loaded alone: the package imports Triton, which needs a GPU.
- mambapy's Mamba, two layers of width 64, between the same embedding and head.

A step is forward and backward. Times are processor time, which depends less on what else runs. Peak memory is what a
process with one contender needs beyond the model. Speed of generation is that of the last 32 tokens of a text, one
after the other with a cache.
"""

from __future__ import annotations

import argparse
import datetime
import importlib.util
import json
import math
import multiprocessing
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch import Tensor, nn

from headtohead import LanguageModel, ModelSpec, NoPosition, families
from headtohead.model.cache import Cache
from headtohead.model.state_bytes import state_bytes
from headtohead.parts.mixers import delta, forgetting, gated_delta, gated_linear, linear, retention
from headtohead.spec import is_builtin

HERE = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(HERE))

from contenders.contender import peak_mb  # noqa: E402

WIDTH, HEADS, LAYERS, VOCAB = 64, 2, 2, 256
LENGTHS = (128, 256, 512, 1024, 2048, 4096)
NEW = 32  # tokens that are generated at the end of a text
SLOW = 20.0  # seconds: a contender whose first step takes longer is not measured at this length and at longer ones
GROWTH = 3  # the exponent is that of so many of the longest lengths

Model = Callable[[Tensor], Tensor]


class Contender:
    """A language model that is built for one length, trained for a step and generates."""

    library = "headtohead"

    def __init__(self, name: str) -> None:
        self.name = name

    def spec(self, length: int) -> ModelSpec:
        mixer = self.name.partition(",")[0]
        sizes = ModelSpec(width=WIDTH, heads=HEADS, layers=LAYERS, block=length, position=NoPosition())
        return sizes.set("mixer", mixer)

    def build(self, length: int) -> nn.Module:
        return LanguageModel(self.spec(length), VOCAB)

    @contextmanager
    def running(self) -> Iterator[None]:
        yield

    def generate(self, model: nn.Module, ids: Tensor) -> tuple[Any, Callable[[Any, Tensor], Any]]:
        """Return the state after the first tokens, and a function that adds one token to it."""
        assert isinstance(model, LanguageModel)
        cache = model.new_cache()
        model(ids[:, :-NEW], cache=cache)

        def one(cache: Cache, token: Tensor) -> Cache:
            model(token, cache=cache)
            return cache

        return cache, one

    @property
    def state(self) -> str:
        found = state_bytes(self.spec(LENGTHS[0]))
        return "" if found is None else str(found)


class Swapped(Contender):
    """Our model with a function of flash-linear-attention in the place of ours. It is only trained: the functions take
    whole texts."""

    library = "flash-linear-attention"

    def __init__(self, mixer: str, op: str, function: str, home: Any, ours: str, adapt: Callable[..., Any]) -> None:
        super().__init__(f"{mixer}, {function}")
        self.home, self.ours = home, ours
        theirs = getattr(_naive(op), function)
        self.replacement = lambda *args, **kwargs: adapt(theirs, *args, **kwargs)
        self._check()

    @contextmanager
    def running(self) -> Iterator[None]:
        before = getattr(self.home, self.ours)
        setattr(self.home, self.ours, self.replacement)
        try:
            yield
        finally:
            setattr(self.home, self.ours, before)

    def generate(self, model: nn.Module, ids: Tensor) -> tuple[Any, Callable[[Any, Tensor], Any]]:
        raise NotImplementedError

    @torch.no_grad()
    def _check(self) -> None:
        model, ids = self.build(128), torch.randint(VOCAB, (1, 128))
        expected = model(ids)
        with self.running():
            gap = float((model(ids) - expected).abs().max())
        if gap > 1e-4:
            raise ValueError(f"{self.name} gives other outputs: {gap:.2g}")


class MambaPy(Contender):
    library = "mambapy"

    def build(self, length: int) -> nn.Module:
        from mambapy.mamba import Mamba, MambaConfig

        return nn.Sequential(
            nn.Embedding(VOCAB, WIDTH), Mamba(MambaConfig(d_model=WIDTH, n_layers=LAYERS)), nn.Linear(WIDTH, VOCAB)
        )

    def generate(self, model: nn.Module, ids: Tensor) -> tuple[Any, Callable[[Any, Tensor], Any]]:
        embed, mamba, head = model  # type: ignore[misc]
        config = mamba.config
        caches = [(None, torch.zeros(1, config.d_inner, config.d_conv - 1)) for _ in range(LAYERS)]

        def one(caches: Any, token: Tensor) -> Any:
            x, caches = mamba.step(embed(token[:, 0]), caches)
            head(x)
            return caches

        return caches, one  # its state has the same size at every length, so the text before is left out

    @property
    def state(self) -> str:
        return f"{LAYERS * 2 * WIDTH * (16 + 3) * 4:,} bytes for each text, however long"


def _naive(op: str) -> ModuleType:
    """One file of flash-linear-attention, without the package."""
    package = importlib.util.find_spec("fla")
    if package is None or not package.submodule_search_locations:
        raise ImportError("flash-linear-attention is not installed")
    file = Path(package.submodule_search_locations[0]) / "ops" / op / "naive.py"
    found = importlib.util.spec_from_file_location(f"naive_{op}", file)
    assert found is not None
    assert found.loader is not None
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


def _turned(x: Tensor | None) -> Tensor | None:
    return None if x is None else x.transpose(1, 2)


def _recurrence(theirs: Any, q: Tensor, k: Tensor, v: Tensor, g: Tensor, state: Any = None) -> tuple[Tensor, Any]:
    """Their q, k, v and g are (B, T, H, …), and they scale q."""
    o, last = theirs(_turned(q * q.shape[-1] ** 0.5), _turned(k), _turned(v), _turned(g), state)
    return o.transpose(1, 2), last


def _no_decay(theirs: Any, q: Tensor, k: Tensor, v: Tensor, state: None) -> tuple[Tensor, Any]:
    assert state is None
    return theirs(_turned(q), _turned(k), _turned(v), scale=1.0).transpose(1, 2), None


def _delta(theirs: Any, q: Tensor, k: Tensor, v: Tensor, beta: Tensor, state: None) -> tuple[Tensor, Any]:
    assert state is None
    return theirs(q * q.shape[-1] ** 0.5, k, v, beta)


def _gated_delta(
    theirs: Any, q: Tensor, k: Tensor, v: Tensor, beta: Tensor, g: Tensor, state: None
) -> tuple[Tensor, Any]:
    assert state is None
    o, last = theirs(*map(_turned, (q * q.shape[-1] ** 0.5, k, v, g, beta)))
    return o.transpose(1, 2), last


def _forgetting_attend(theirs: Any, _layer: Any, q: Tensor, k: Tensor, v: Tensor, _mask: Any, position: Any) -> Tensor:
    sums = position.sums
    g = sums.diff(dim=-1, prepend=sums.new_zeros(*sums.shape[:2], 1))
    return theirs(_turned(q), _turned(k), _turned(v), _turned(g)).transpose(1, 2)


def contenders() -> tuple[list[Contender], list[str]]:
    """All contenders that run here, and why others do not."""
    found: list[Contender] = [Contender(name) for name, part in sorted(families()["mixer"].items()) if is_builtin(part)]
    peers: list[Callable[[], Contender]] = [
        lambda: Swapped("LinearAttention", "linear_attn", "naive_chunk_linear_attn", linear, "scan", _no_decay),
        lambda: Swapped("Retention", "simple_gla", "naive_chunk_simple_gla", retention, "scan", _recurrence),
        lambda: Swapped("GatedLinear", "gla", "naive_recurrent_gla", gated_linear, "scan", _recurrence),
        lambda: Swapped("DeltaNet", "delta_rule", "delta_rule_chunkwise", delta, "delta_scan", _delta),
        lambda: Swapped(
            *("GatedDelta", "gated_delta_rule", "naive_chunk_gated_delta_rule"),
            *(gated_delta, "delta_scan", _gated_delta),
        ),
        lambda: Swapped(
            *("Forgetting", "forgetting_attn", "naive_forgetting_attn"),
            *(forgetting.ForgettingHeads, "attend", _forgetting_attend),
        ),
        lambda: _stepped(MambaPy("Mamba")),
    ]
    missing = []
    for make in peers:
        try:
            found.append(make())
        except (ImportError, ValueError) as error:
            missing.append(str(error))
    return found, sorted(set(missing))


def _stepped(contender: Contender) -> Contender:
    _step(contender, contender.build(16), torch.randint(VOCAB, (1, 16)))
    return contender


# -- measuring ---------------------------------------------------------------------------------------------------------


def _step(contender: Contender, model: nn.Module, ids: Tensor) -> float:
    model.zero_grad()
    start = time.process_time()
    with contender.running():
        logits = model(ids)
        nn.functional.cross_entropy(logits.flatten(0, 1), ids.flatten()).backward()
    return time.process_time() - start


@torch.no_grad()
def _generated(contender: Contender, model: nn.Module, ids: Tensor) -> float:
    """Tokens a second at the end of the text."""
    state, one = contender.generate(model.eval(), ids)
    state = one(state, ids[:, -NEW : -NEW + 1])
    start = time.process_time()
    for token in ids[:, 1 - NEW :].split(1, dim=1):
        state = one(state, token)
    return (NEW - 1) / (time.process_time() - start)


def _in_own_process(name: str, lengths: list[int], connection: Any) -> None:
    """In a process of its own: MB beyond the model for a step at each length, shortest first."""
    torch.set_num_threads(1)
    contender = next(c for c in contenders()[0] if c.name == name)
    _step(contender, contender.build(64), torch.randint(VOCAB, (1, 64)))
    before = peak_mb()
    for length in lengths:
        model = contender.build(length)
        for _ in range(2):
            _step(contender, model, torch.randint(VOCAB, (1, length)))
        connection.send(peak_mb() - before)


def _peaks(name: str, lengths: list[int]) -> list[float]:
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=_in_own_process, args=(name, lengths, theirs))
    process.start()
    try:
        return [ours.recv() for _ in lengths] if lengths else []
    finally:
        process.join()


def measure(lengths: list[int], rounds: int) -> dict[str, Any]:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    found, missing = contenders()
    steps: dict[str, dict[int, list[float]]] = {c.name: {} for c in found}
    speeds: dict[str, dict[int, list[float]]] = {c.name: {} for c in found}
    for length in lengths:
        ids = torch.randint(VOCAB, (1, length))
        models = {}
        for c in found:
            shorter = lengths[lengths.index(length) - 1]
            if length == lengths[0] or shorter in steps[c.name]:
                model = c.build(length)
                if _step(c, model, ids) < SLOW:
                    models[c.name] = model
        for turn in range(rounds):
            order = found[turn % len(found) :] + found[: turn % len(found)]
            for c in (c for c in order if c.name in models):
                steps[c.name].setdefault(length, []).append(_step(c, models[c.name].train(), ids))
                if not isinstance(c, Swapped):
                    speeds[c.name].setdefault(length, []).append(_generated(c, models[c.name], ids))
        print(f"{length} tokens: {len(models)} contenders", file=sys.stderr, flush=True)
    rows = []
    for c in found:
        own = sorted(steps[c.name])
        milliseconds = {n: [1000 * t for t in steps[c.name][n]] for n in own}
        rows.append(
            {
                "name": c.name,
                "library": c.library,
                "parameters": sum(p.numel() for p in c.build(lengths[0]).parameters()),
                "state": c.state,
                "step_ms": {n: [min(t), statistics.median(t)] for n, t in milliseconds.items()},
                "peak_mb": dict(zip(own, _peaks(c.name, own), strict=True)),
                "tokens_per_second": {n: statistics.median(s) for n, s in speeds[c.name].items()},
                "exponent": growth({n: min(t) for n, t in milliseconds.items()}),
            }
        )
    return {"lengths": lengths, "rounds": rounds, "rows": rows, "missing": missing}


def growth(milliseconds: dict[int, float]) -> float | None:
    """The slope of log time over log length at the longest lengths: 1 is linear, 2 quadratic."""
    points = [(math.log(n), math.log(t)) for n, t in sorted(milliseconds.items())[-GROWTH:]]
    if len(points) < GROWTH:
        return None
    x, y = (statistics.fmean(values) for values in zip(*points, strict=True))
    return sum((a - x) * (b - y) for a, b in points) / sum((a - x) ** 2 for a, _ in points)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])  # type: ignore[union-attr]
    parser.add_argument("--longest", type=int, default=LENGTHS[-1], help="longest text, in tokens")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--out", type=Path, default=HERE / "measured" / "mixers.json")
    given = parser.parse_args()
    found = {
        "command": " ".join(["python benchmarks/measure/mixers.py", *sys.argv[1:]]),
        "machine": f"{os.cpu_count()} cores, {platform.machine()}, one thread",
        "date": datetime.date.today().isoformat(),
        "load": round(os.getloadavg()[0]),
        **measure([n for n in LENGTHS if n <= given.longest], given.rounds),
    }
    given.out.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
