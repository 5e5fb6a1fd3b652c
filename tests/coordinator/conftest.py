"""A fresh coordinator for every scene."""

from __future__ import annotations

import pytest

# Before it is imported: its asserts are to say as much as those of a test.
pytest.register_assert_rewrite("tests.coordinator.context")

from tests.coordinator.context import Context  # noqa: E402 - see above


@pytest.fixture
def context() -> Context:
    """A coordinator without initial delay."""
    return Context()
