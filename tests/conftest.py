"""One thread a process: the tests run side by side, one process a core. What takes minutes runs with --slow."""

import pytest
import torch

torch.set_num_threads(1)


def pytest_addoption(parser):
    parser.addoption("--slow", action="store_true", help="also what takes minutes")


def pytest_collection_modifyitems(config, items):
    if not config.getoption("--slow"):
        for item in items:
            if "slow" in item.keywords:
                item.add_marker(pytest.mark.skip(reason="takes minutes: ./run test --slow"))
