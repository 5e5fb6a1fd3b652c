"""A full group refuses clients with either error code (KIP-389).

`tests.scenes` has those of Python.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from tests.interop.scene import Scene
from tests.workers.libraries import JAVA, KOHORT, OLD_JAVA

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.workers.libraries import Library

FULL = pytest.mark.parametrize(
    "here",
    [
        {"group.max.size": 1, "wire.error.numbering": numbering}
        for numbering in ("kip-389", "apache")
    ],
    ids=["77", "81"],
    indirect=True,
)
pytestmark = [
    pytest.mark.interop,
    pytest.mark.skipif(
        "KOHORT_INTEROP_BOOTSTRAP" in os.environ, reason="has to be configured"
    ),
]


def refused(library: Library, error: str) -> Callable[[Scene], None]:
    """The second member fails with this error immediately; the first one remains."""

    def told(scene: Scene) -> None:
        scene.start("member")
        scene.until_settled()
        second = scene.start("second", library)
        assert error in scene.failure(second)
        assert scene.refusals() == 1
        scene.produce(100)
        scene.until_consumed()
        scene.until_committed()

    return told


@FULL
def test_java(play: Callable[..., None], request: pytest.FixtureRequest) -> None:
    """kafka-clients knows 81; to it, 77 is STALE_BROKER_EPOCH."""
    number = request.node.callspec.id
    error = {"77": "KafkaException: Unexpected error", "81": "GroupMaxSizeReached"}
    play(KOHORT, "range", refused(JAVA, error[number]))


@FULL
def test_a_release_that_knows_neither_number(play: Callable[..., None]) -> None:
    """kafka-clients 2.1, from before KIP-389, fails without a retry."""
    error = "KafkaException: Unexpected error in join group response"
    play(KOHORT, "range", refused(OLD_JAVA, error))


def test_the_old_release_where_there_is_room(play: Callable[..., None]) -> None:
    """The error code made it fail: in a group with room, it is a member."""

    def told(scene: Scene) -> None:
        scene.start("member")
        scene.until_settled()
        second = scene.start("second", OLD_JAVA)
        scene.until_settled()
        scene.close(second)
        scene.until_settled()

    play(KOHORT, "range", told)
