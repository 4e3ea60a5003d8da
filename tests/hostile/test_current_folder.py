"""Files of the current folder that have the names of modules are not executed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

NAMES = ("torch", "numpy", "json", "random", "multiprocessing", "signal", "headtohead")
PROGRAM = str(Path(sys.executable).with_name("h2h"))


@pytest.mark.usefixtures("home")
@pytest.mark.skipif(not Path(PROGRAM).is_file(), reason="h2h is not installed as a program")
def test_workers_import_nothing_from_the_current_folder(tmp_path: Path):
    """A worker is started by `python -c`, which looks for modules in the current folder first."""
    here, ran = tmp_path / "here", tmp_path / "ran"
    here.mkdir()
    for name in NAMES:
        (here / f"{name}.py").write_text(f"open({str(ran)!r}, 'a').write('{name} ')\n")
    (here / "text.txt").write_text("the king and the queen went to town\n" * 200)
    settings = ["model.width=16", "model.layers=1", "model.block=16", "tokenizer=Byte", "train.steps=2"]
    command = [PROGRAM, "train", "lm", "--data", "text.txt", "--seeds", "2", "--jobs", "2"]
    for setting in settings:
        command += ["--set", setting]
    done = subprocess.run(command, cwd=here, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert not ran.exists(), ran.read_text()
