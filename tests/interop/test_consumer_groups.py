"""Consumer groups (KIP-848) of real clients."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.interop import plays
from tests.workers.libraries import CONFLUENT, FRANZ_GO, JAVA, KOHORT, Library

if TYPE_CHECKING:
    from collections.abc import Callable

    from _pytest.mark import ParameterSet

SESSION_MS = 30_000
"""A killed member stays for so long; on a busy machine a JVM starts within it."""
QUICK = {
    "group.consumer.min.heartbeat.interval.ms": 100,
    "group.consumer.heartbeat.interval.ms": 300,
    "group.consumer.min.session.timeout.ms": 1_000,
    "group.consumer.session.timeout.ms": SESSION_MS,
    "group.consumer.assignment.interval.ms": 100,
}
"""The broker sets the interval of heartbeats, which bring the assignments, and the
session timeout."""

pytestmark = pytest.mark.parametrize("here", [QUICK], indirect=True)
LIBRARIES = [
    *(pytest.param(each, marks=pytest.mark.long) for each in (KOHORT, CONFLUENT)),
    pytest.param(JAVA, marks=pytest.mark.interop),
]
FRANZ = pytest.param(FRANZ_GO, marks=pytest.mark.interop)


def _each(*libraries: ParameterSet) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("library", libraries, ids=lambda each: each.name)


@_each(*LIBRARIES, FRANZ)
@pytest.mark.parametrize("assignor", ["uniform", "range"])
def test_group_that_changes(
    play: Callable[..., None], library: Library, assignor: str
) -> None:
    """Members join, leave and die; no record is lost, and commits outlive them all."""
    play(library, assignor, plays.group_that_changes, protocol="consumer")


@_each(*LIBRARIES)
def test_static_members(play: Callable[..., None], library: Library) -> None:
    """A static member that restarts in time gets the partitions that it had.

    franz-go 1.22.2 leaves with epoch -2 but without its instance id, which is
    INVALID_REQUEST, in Apache Kafka, too: then it stays until its session ends.
    """
    play(library, "uniform", plays.static_consumers, protocol="consumer")


@_each(*LIBRARIES, FRANZ)
def test_group_that_migrates(play: Callable[..., None], library: Library) -> None:
    """Classic members are replaced by consumers, and these by classic ones."""
    play(library, "range", plays.group_that_migrates, protocol="consumer")


@pytest.mark.interop
@pytest.mark.parametrize("nodes", [1, 3], ids=["1 node", "3 nodes"])
def test_four_libraries_migrate(play: Callable[..., None]) -> None:
    """The same, with a member of each library: each of them hands over to others."""
    play(
        KOHORT,
        "range",
        lambda scene: plays.group_that_migrates(
            scene, KOHORT, CONFLUENT, JAVA, FRANZ_GO
        ),
        protocol="consumer",
    )
