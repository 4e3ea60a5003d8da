"""The commands. A few lines each: they read arguments, call the library and print."""

from headtohead.cli import audits, lists, look, puzzles, studies, texts, training
from headtohead.cli.base import app, main

__all__ = ["app", "audits", "lists", "look", "main", "puzzles", "studies", "texts", "training"]
