"""The command line, one file for each command: arguments, one call, and what to print."""

from importlib import import_module

from headtohead.cli.entry import app, main

__all__ = ["app", "main"]

# The order in `h2h --help`. Importing a command's file adds the command to `app`.
COMMANDS = (
    *("demo", "run", "plan", "compare", "check-claim", "report", "search", "reproduce"),
    *("train", "finetune", "score", "classify", "generate", "curves", "table", "export"),
    *("attend", "heads", "audit", "puzzles"),
    *("grade", "course", "bughunt"),
    *("verify", "trust", "list", "doctor", "serve"),
)
for command in COMMANDS:
    import_module(f"headtohead.cli.{command.replace('-', '_')}")
