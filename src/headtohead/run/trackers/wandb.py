"""Weights & Biases: one offline directory per start of a run, which `wandb sync` can upload."""

import os
from pathlib import Path
from typing import Any

from headtohead.run.trackers import PROJECT

DISABLED = ("disable_code", "disable_git", "x_disable_machine_info", "x_disable_meta", "x_disable_stats")
QUIET = {"silent": True, "console": "off", "symlink": False, "x_save_requirements": False}


class Wandb:
    """Works offline and without an account, whatever WANDB_MODE says."""

    def __init__(self, folder: Path, run: str, config: dict[str, Any]) -> None:
        os.environ["WANDB_ERROR_REPORTING"] = "false"  # has no setting, and is read when wandb is imported
        os.environ["WANDB_CACHE_DIR"] = str(folder / "cache")
        import wandb

        self._run = wandb.init(
            project=PROJECT,
            id=run,
            name=run,
            dir=str(folder),
            config=config,
            mode="offline",
            resume="allow",
            reinit="create_new",  # a run that the user has open stays open
            settings=QUIET | dict.fromkeys(DISABLED, True),
        )

    def log(self, step: int, values: dict[str, float]) -> None:
        self._run.log(values, step=step)

    def close(self) -> None:
        self._run.finish()
