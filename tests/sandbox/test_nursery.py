"""Foreign code in a child answers, or it is ended and the caller is told why."""

from __future__ import annotations

import io
import os
import platform
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from headtohead.sandbox import Ended, Limits, Nursery, Work, protections
from headtohead.sandbox.channel import HEAD, Channel, Closed

TARGET = "helpers.foreign:tries"
LIMITS = Limits(seconds=20, memory=2**29)
linux = pytest.mark.skipif(platform.system() != "Linux", reason="only Linux can keep code from files and calls")


@pytest.fixture(scope="module")
def nursery() -> Iterator[Nursery]:
    with Nursery(["helpers.foreign"]) as made:
        yield made


@pytest.fixture
def work(nursery: Nursery, tmp_path: Path) -> Iterator[Work]:
    with nursery.work(TARGET, tmp_path, LIMITS) as one:
        yield one


def test_arrays_go_there_and_back(work: Work) -> None:
    answer, arrays = work.ask("sum", {"x": np.arange(6).reshape(2, 3)})
    assert answer == {"shape": [2, 3]}
    assert arrays["total"].tolist() == [3, 5, 7]
    assert work.ask("torch")[0] == "9.0"


@linux
@pytest.mark.parametrize("question", ["passwd", "tmp", "parent", "connect", "fork", "run", "limit", "signal", "all"])
def test_what_is_out_of_reach_is_refused(question: str, work: Work) -> None:
    if not all(protections().values()):
        pytest.skip(f"this kernel offers {protections()}")
    assert str(work.ask(question)[0]).startswith("refused")
    assert work.ask("own")[0] == "written"
    assert not Path("/tmp/h2h-outside").exists()


@linux
def test_its_own_folder_is_its_own(work: Work, tmp_path: Path) -> None:
    assert work.ask("own")[0] == "written"
    assert (tmp_path / "own.txt").read_bytes() == b"x"
    assert str(work.ask("chmod")[0]).startswith("refused")
    assert work.ask("thread")[0] == "1 thread"
    assert str(work.ask("grow")[0]).startswith("refused")


def test_the_environment_holds_nothing_of_the_user(work: Work) -> None:
    names = str(work.ask("environ")[0]).split(",")
    assert "HOME" in names
    assert not [name for name in names if "KEY" in name or "SECRET" in name or name == "HEADTOHEAD_DATA"]


@pytest.mark.parametrize(
    ("question", "why", "says"),
    [
        ("exit", "error", "SystemExit"),
        ("interrupt", "error", "KeyboardInterrupt: no"),
        ("_exit", "exit", "exit code 3"),
        ("abort", "crash", "crashed"),
        ("hog", "memory", "0.5 GB"),
    ],
)
def test_an_end_is_told_in_one_sentence(question: str, why: str, says: str, work: Work) -> None:
    with pytest.raises(Ended, match=says) as ended:
        work.ask(question)
    assert ended.value.why == why
    assert "\n" not in str(ended.value)


@pytest.mark.parametrize("question", ["loop", "wait", "close"])
def test_work_that_does_not_end_is_ended(question: str, nursery: Nursery, tmp_path: Path) -> None:
    start = time.monotonic()
    with nursery.work(TARGET, tmp_path, Limits(seconds=1)) as work, pytest.raises(Ended) as ended:
        work.ask(question)
    assert ended.value.why in ("time", "crash")
    assert time.monotonic() - start < 30
    with nursery.work(TARGET, tmp_path, LIMITS) as work:
        assert work.ask("torch")[0] == "9.0"


def test_endless_printing_is_kept_short(work: Work) -> None:
    assert work.ask("print")[0] == "printed"
    assert work.printed().startswith("line\nline\n")
    assert len(work.printed()) <= 4_000


def test_a_nursery_that_was_killed_is_started_again(nursery: Nursery, tmp_path: Path) -> None:
    assert nursery._process is not None
    nursery._process.kill()
    nursery._process.wait()
    with nursery.work(TARGET, tmp_path, LIMITS) as work:
        assert work.ask("torch")[0] == "9.0"


def test_compressed_arrays_are_refused() -> None:
    """A few bytes from foreign code must not become gigabytes in the process that reads them."""
    reads, writes = os.pipe()
    held = io.BytesIO()
    np.savez_compressed(held, x=np.zeros(5_000_000))
    block = held.getvalue()
    assert len(block) < 60_000
    os.write(writes, HEAD.pack(2, len(block)) + b"{}" + block)
    with pytest.raises(Closed):
        Channel(reads, writes).receive(time.monotonic() + 5)
    os.close(reads)
    os.close(writes)
