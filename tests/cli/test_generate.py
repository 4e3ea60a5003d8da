"""h2h generate."""

from __future__ import annotations

import pytest

from headtohead.display.visible import visible
from helpers.terminal import h2h


def test_generate_repeats_with_its_seed_and_without_the_cache(ids):
    once, again = (h2h("generate", ids[0], "the people", "--tokens", 30, "--seed", 3) for _ in range(2))
    assert once.code == 0, once.err
    assert once.out == again.out
    assert once.out.startswith("the people")
    said = h2h("generate", ids[0], "the people", "--tokens", 30, "--seed", 3, "--json").json[0]
    assert visible("the people" + said["text"] + "\n") == once.out, "streamed or not, it is the same text"
    uncached = h2h("generate", ids[0], "the people", "--tokens", 30, "--seed", 3, "--json", "--uncached").json[0]
    assert uncached["tokens"] == said["tokens"]
    many = h2h("generate", ids[0], "the", "--samples", 3, "--tokens", 5, "--probabilities")
    assert "sample 2" in many.out


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--temperature", "0"], "--greedy"),
        (["--top-k", "0"], "top-k"),
        (["--top-p", "2"], "top-p"),
        (["--tokens", "0"], "--tokens"),
        (["--step", "3"], "has no weights"),
    ],
)
def test_generate_refuses_in_one_line(ids, arguments, says):
    done = h2h("generate", ids[0], "the", *arguments)
    assert done.code == 2
    assert says in done.err
    assert len(done.err.strip().splitlines()) == 1
