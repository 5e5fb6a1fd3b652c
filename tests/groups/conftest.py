"""The programs of bench/ are found, and the asserts of what they share tell all."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

# They are run from the repository's root: `python -m bench.initial_delay`.
sys.path.append(str(Path(__file__).parents[2]))

pytest.register_assert_rewrite("tests.coordinator.context")

from tests.coordinator.context import Context  # noqa: E402 - see above


@pytest.fixture
def context() -> Context:
    """A coordinator without initial delay."""
    return Context()
