"""What every test shares."""

from __future__ import annotations

import os

import pytest
from hypothesis import settings

# Before anything of kohort is imported: values that nobody may change are
# enforced in tests, and cost nothing when served.
os.environ["KOHORT_FROZEN"] = "1"

# HYPOTHESIS_PROFILE=ci looks longer. Deadlines would measure the machine.
settings.register_profile("kohort", deadline=None, max_examples=15)
settings.register_profile("ci", deadline=None, max_examples=75, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "kohort"))

# Before they are imported, by tests of several folders: their asserts are to say as
# much as those of a test.
pytest.register_assert_rewrite(
    "tests.coordinator.context", "tests.interop.plays", "tests.interop.scene"
)

from tests.coordinator.context import Context  # noqa: E402 - see above


def pytest_xdist_auto_num_workers() -> int:
    """How many workers `-n auto` is: two for a core, up to two more than cores.

    Half of the time goes to scenes of real clients, who wait for one another.
    """
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None
    cores = cores or os.cpu_count() or 1
    return min(2 * cores, cores + 2)


@pytest.fixture
def context() -> Context:
    """A fresh coordinator without initial delay, on virtual time."""
    return Context()
