"""The commands. A few lines each: they read arguments, call the library and print."""

from headtohead.cli import (
    audits,
    finetune,
    lists,
    look,
    pretrained,
    puzzles,
    reports,
    reproduce,
    search,
    studies,
    texts,
    training,
)
from headtohead.cli.base import app, main

__all__ = [
    "app",
    "audits",
    "finetune",
    "lists",
    "look",
    "main",
    "pretrained",
    "puzzles",
    "reports",
    "reproduce",
    "search",
    "studies",
    "texts",
    "training",
]
