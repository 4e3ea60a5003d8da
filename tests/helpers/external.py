"""Runs as other programs leave them: written by the real libraries, on data of a known effect."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from pathlib import Path

import pytest

ARMS = {"baseline": 0.0, "rope": -0.3}
SEEDS = range(6)


def final(arm: str, seed: int) -> float:
    """The last value of a run's curve."""
    make = random.Random(f"{arm}{seed}")
    shared = random.Random(seed).gauss(3, 0.1)
    return shared + ARMS[arm] + make.gauss(0, 0.02)


def curve(arm: str, seed: int) -> list[tuple[int, float]]:
    """Steps and values; the third of four values is the lowest."""
    last = final(arm, seed)
    return [(0, last + 2), (10, last + 0.5), (20, last - 0.1), (30, last)]


def table_lines(arms: Sequence[str] = tuple(ARMS), seeds: Sequence[int] = SEEDS) -> list[str]:
    return ["arm,seed,loss", *(f"{arm},{seed},{final(arm, seed):.9f}" for arm in arms for seed in seeds)]


def write_tensorboard(folder: Path) -> Path:
    """Folders rope-seed3/ by SummaryWriter, with hyperparameters as add_hparams writes them."""
    pytest.importorskip("tensorboard")
    from torch.utils.tensorboard import SummaryWriter

    for arm in ARMS:
        for seed in SEEDS:
            with SummaryWriter(str(folder / f"{arm}-seed{seed}")) as writer:
                for step, value in curve(arm, seed):
                    writer.add_scalar("eval/loss", value, step)
                    writer.add_scalar("train/loss", value + 1, step)
                writer.add_hparams({"position": arm, "seed": seed}, {"final": final(arm, seed)})
    return folder


def write_wandb(folder: Path) -> Path:
    """Offline runs with W&B's own names, whose group is the arm and whose config has the seed."""
    wandb = pytest.importorskip("wandb")
    for arm in ARMS:
        for seed in SEEDS:
            run = wandb.init(
                project="p",
                dir=str(folder),
                name=f"sunny-wave-{len(arm) * 100 + seed}",
                group=arm,
                config={"seed": seed, "model": {"position": arm}},
                mode="offline",
                reinit="create_new",
                settings={"silent": True, "console": "off", "disable_git": True, "x_disable_stats": True},
            )
            for step, value in curve(arm, seed):
                run.log({"val/loss": value, "text": "x"}, step=step)
            run.finish()
    wandb.teardown()
    return folder / "wandb"


def write_wandb_export(path: Path) -> Path:
    """The CSV that the web page writes for a line chart."""
    names = [(arm, seed) for arm in ARMS for seed in SEEDS]
    head = ['"Step"']
    for arm, seed in names:
        head += [f'"{arm}-seed{seed} - {column}"' for column in ("_step", "val/loss", "val/loss__MIN", "val/loss__MAX")]
    lines = [",".join(head)]
    for n, (step, _) in enumerate(curve("rope", 0)):
        cells = [f'"{step}"']
        for arm, seed in names:
            value = curve(arm, seed)[n][1]
            cells += ['""'] * 4 if n == 1 and seed == 0 else [f'"{step}"', f'"{value}"', f'"{value}"', f'"{value}"']
        lines.append(",".join(cells))
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def write_trainer(folder: Path, seeds: Sequence[int] = SEEDS) -> Path:
    """Folders with checkpoints of transformers.Trainer, on a model with one weight."""
    pytest.importorskip("accelerate")
    transformers = pytest.importorskip("transformers")
    import torch
    from torch import nn

    class OneWeight(nn.Module):
        def __init__(self, effect: float) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.randn(()))
            self.effect = effect

        def forward(self, x: torch.Tensor, labels: torch.Tensor) -> dict[str, torch.Tensor]:
            predicted = self.weight * x
            return {"loss": ((predicted - labels) ** 2).mean() + self.effect, "logits": predicted}

    data = [{"x": torch.tensor(float(n % 3)), "labels": torch.tensor(float(n % 2))} for n in range(8)]
    for arm, effect in ARMS.items():
        for seed in seeds:
            torch.manual_seed(seed)
            arguments = transformers.TrainingArguments(
                str(folder / f"{arm}-seed{seed}"),
                max_steps=12,
                eval_strategy="steps",
                eval_steps=4,
                save_steps=4,
                logging_steps=4,
                seed=seed,
                report_to=[],
                use_cpu=True,
                disable_tqdm=True,
                logging_strategy="steps",
                dataloader_pin_memory=False,
            )
            transformers.Trainer(OneWeight(effect), arguments, train_dataset=data, eval_dataset=data).train()
    return folder


def write_samples(path: Path, share: float, items: int = 300, **fields: object) -> Path:
    """A file as lm_eval --log_samples writes it."""
    make = random.Random(f"{path.name}{share}")
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8") as file:
        for item in range(items):
            row = {"doc_id": item, "doc": {"question": "?"}, "target": "0", "arguments": {}, "resps": [[["0"]]]}
            row |= {"filtered_resps": ["0"], "filter": "none", "metrics": ["acc"], "doc_hash": f"h{item}"}
            print(json.dumps({**row, "acc": float(make.random() < share), **fields}), file=file)
    return path
