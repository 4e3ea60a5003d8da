"""No file of the package unpickles, evaluates text, or executes code: `run_source` of spec/userfiles.py alone does, for
code that the user has approved."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import headtohead

SOURCE = Path(headtohead.__file__).parent
LOADER = "spec/userfiles.py"  # the one file that executes code of others
MODULES = {"pickle", "cPickle", "dill", "cloudpickle", "joblib", "marshal", "shelve", "yaml", "runpy", "code", "imp"}
FUNCTIONS = {"eval", "exec", "__import__"}  # as plain names: model.eval() is another function
METHODS = {"exec_module", "load_module", "SourceFileLoader", "run_path", "system", "popen"}
OPTIONS = {"allow_pickle": False, "trust_remote_code": False, "weights_only": True, "shell": False}  # the safe values


def unsafe(code: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Import):
            yield from (f"line {node.lineno}: import {a.name}" for a in node.names if a.name.split(".")[0] in MODULES)
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in MODULES and not node.level:
            yield f"line {node.lineno}: from {node.module} import"
        elif isinstance(node, ast.Name) and node.id in FUNCTIONS:
            yield f"line {node.lineno}: {node.id}"
        elif isinstance(node, ast.Attribute) and (node.attr in METHODS or ast.unparse(node) == "torch.load"):
            yield f"line {node.lineno}: {ast.unparse(node)}"
        elif isinstance(node, ast.Call):
            given = {k.arg: k.value for k in node.keywords}
            for option, safe in OPTIONS.items():
                if option in given and ast.unparse(given[option]) != str(safe):
                    yield f"line {node.lineno}: {option}={ast.unparse(given[option])}"
            if ast.unparse(node.func) in ("np.load", "numpy.load") and "allow_pickle" not in given:
                yield f"line {node.lineno}: np.load without allow_pickle=False"
            loads = ast.unparse(node.func).startswith("transformers.Auto")
            if loads and "trust_remote_code" not in given and None not in given:
                yield f"line {node.lineno}: {ast.unparse(node.func)} without trust_remote_code=False"


def files() -> list[Path]:
    return sorted(SOURCE.rglob("*.py"))


@pytest.mark.parametrize("file", files(), ids=lambda f: f.relative_to(SOURCE).as_posix())
def test_no_file_unpickles_or_executes(file: Path) -> None:
    found = list(unsafe(file.read_text(encoding="utf-8")))
    if file.relative_to(SOURCE).as_posix() == LOADER:
        assert [line.rpartition(" ")[2] for line in found] == ["exec"], "one place, in run_source"
    else:
        assert found == []


@pytest.mark.parametrize(
    "planted",
    [
        "import pickle",
        "import yaml",
        "from pickle import loads",
        "from marshal import loads",
        "torch.load(path)",
        "load = torch.load",
        "torch.load(path, weights_only=True)",
        "eval(text)",
        "run = exec",
        "__import__(name)",
        "np.load(path)",
        "np.load(path, allow_pickle=True)",
        "np.load(path, allow_pickle=asked)",
        "loader.exec_module(module)",
        "os.system(command)",
        "subprocess.run(command, shell=True)",
        "AutoModel.from_pretrained(folder, trust_remote_code=True)",
        "transformers.AutoTokenizer.from_pretrained(folder)",
    ],
)
def test_planted_unsafe_code_is_found(planted: str) -> None:
    assert list(unsafe(planted))


@pytest.mark.parametrize(
    "fine",
    [
        "model.eval()",
        "np.load(path, allow_pickle=False)",
        "json.loads(text)",
        "ast.literal_eval(node)",
        "safetensors.torch.load(data)",
        "session.execute(x)",
    ],
)
def test_safe_code_is_not_reported(fine: str) -> None:
    assert list(unsafe(fine)) == []
