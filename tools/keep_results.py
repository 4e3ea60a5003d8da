"""Store the results of `h2h reproduce` with the recipes, without weights: python tools/keep_results.py"""

from __future__ import annotations

from headtohead.claims.run import STORED
from headtohead.claims.stored import read
from headtohead.errors import InputError
from headtohead.run.store import home, write_whole
from headtohead.spec.userfiles import published_recipes
from stored_results import exit_with


def main() -> None:
    files = sorted((home() / "published").glob("*.json"))
    if not files:
        raise InputError(f"{home()} has no complete results: run h2h reproduce first")
    for file in files:
        read(file)  # refuses a damaged file
        write_whole(published_recipes() / STORED / file.name, file.read_bytes())
        print(f"kept {published_recipes() / STORED / file.name}")


if __name__ == "__main__":
    exit_with(main)
