"""One thread a process: the tests run side by side, one process a core. What takes minutes runs with --slow."""

import shutil

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


@pytest.fixture(scope="session")
def chromium():
    """Where it is; whoever needs it and finds none is skipped."""
    found = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if found is None:
        pytest.skip("THE PAGE IS NOT TESTED: Chromium is absent, get it with apt-get install chromium")
    return found


@pytest.fixture(scope="session")
def browser(chromium):
    sync_api = pytest.importorskip(
        "playwright.sync_api", reason="THE PAGE IS NOT TESTED: playwright is absent, get it with pip install playwright"
    )
    with sync_api.sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        yield launched
        launched.close()
