"""The same store, cache and small texts as for runs."""

from runs.conftest import home, text  # noqa: F401
