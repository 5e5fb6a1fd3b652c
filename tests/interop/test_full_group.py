"""What clients do when they are refused by a full group (KIP-389), by either number."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from tests.interop.libraries import AIOKAFKA, JAVA, KAFKA_PYTHON, KOHORT, OLD_JAVA
from tests.interop.scene import Scene

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.interop.libraries import Library

FULL = pytest.mark.parametrize(
    "bootstrap",
    [
        {"group.max.size": 1, "wire.error.numbering": numbering}
        for numbering in ("kip-389", "apache")
    ],
    ids=["77", "81"],
    indirect=True,
)
pytestmark = pytest.mark.skipif(
    "KOHORT_INTEROP_BOOTSTRAP" in os.environ, reason="has to be configured"
)


def refused(library: Library, error: str) -> Callable[[Scene], None]:
    """A member is alone and stays so: the second one fails with this error, at once."""

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
@pytest.mark.parametrize(
    ("library", "error"),
    [
        (KOHORT, "GroupMaxSizeReachedError"),
        (AIOKAFKA, "KafkaError"),
        (KAFKA_PYTHON, "kafka.errors."),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_refused(play: Callable[..., None], library: Library, error: str) -> None:
    """Either number ends the consumer; it asks once."""
    play(KOHORT, "range", refused(library, error))


@pytest.mark.interop
@FULL
def test_java(play: Callable[..., None], request: pytest.FixtureRequest) -> None:
    """kafka-clients knows 81; by 77 it takes the broker to be another one."""
    number = request.node.callspec.id
    error = {"77": "KafkaException: Unexpected error", "81": "GroupMaxSizeReached"}
    play(KOHORT, "range", refused(JAVA, error[number]))


@pytest.mark.interop
@FULL
def test_a_release_that_knows_neither_number(play: Callable[..., None]) -> None:
    """kafka-clients 2.1, from before KIP-389: an error that is not tried again."""
    error = "KafkaException: Unexpected error in join group response"
    play(KOHORT, "range", refused(OLD_JAVA, error))


@pytest.mark.interop
def test_the_old_release_where_there_is_room(play: Callable[..., None]) -> None:
    """It is the number that ended it: it can be a member of a group."""

    def told(scene: Scene) -> None:
        scene.start("member")
        scene.until_settled()
        second = scene.start("second", OLD_JAVA)
        scene.until_settled()
        scene.close(second)
        scene.until_settled()

    play(KOHORT, "range", told)
