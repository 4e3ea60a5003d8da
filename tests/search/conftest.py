"""The same store, cache and small texts as for runs."""

from runs.conftest import home, table, text  # noqa: F401
