"""A trained study for tests of the programs in tools/."""

from claims.conftest import outcome, trained  # noqa: F401
