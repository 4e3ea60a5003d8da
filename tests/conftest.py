"""What all tests share: one thread per process, the option --slow, and the fixtures of helpers/."""

import os
import signal
import tempfile

import pytest
import torch

PLUGINS = ("browser", "corpora", "counting", "hostile", "hub", "inside", "stores", "terminal", "verdicts")
pytest_plugins = [f"helpers.{name}" for name in PLUGINS]

signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell in the background ignores it, and so would children
torch.set_num_threads(1)  # the tests run side by side, one process per core

# transformers copies code that it is told to trust into this folder, and reads the variable when it is imported
_MODULES = tempfile.TemporaryDirectory()
os.environ["HF_MODULES_CACHE"] = _MODULES.name

# code that tests run is approved in a list of this process, not in that of the user
_TRUST = tempfile.TemporaryDirectory()
os.environ["HEADTOHEAD_TRUST"] = os.path.join(_TRUST.name, "trusted.json")


def pytest_addoption(parser):
    parser.addoption("--slow", action="store_true", help="also run tests that take minutes")


def pytest_collection_modifyitems(config, items):
    if not config.getoption("--slow"):
        for item in items:
            if "slow" in item.keywords:
                item.add_marker(pytest.mark.skip(reason="takes minutes: ./run test --slow"))
