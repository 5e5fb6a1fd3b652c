"""Groups of one client library each: the same plays with all of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.interop import plays
from tests.workers.libraries import (
    AIOKAFKA,
    CONFLUENT,
    FRANZ_GO,
    JAVA,
    KAFKA_GO,
    KAFKA_PYTHON,
    KAFKAJS,
    KOHORT,
    Library,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from _pytest.mark import ParameterSet

PYTHON = {
    KOHORT: ("cooperative-sticky", "range", "roundrobin", "sticky"),
    CONFLUENT: ("cooperative-sticky", "range", "roundrobin"),
    KAFKA_PYTHON: ("cooperative-sticky", "range", "roundrobin", "sticky"),
    AIOKAFKA: ("sticky", "range", "roundrobin"),
}
"""Assignors of libraries that need no toolchain. Each run has kohort's first one: what
the others do in each run stands in tests/scenes and tests/events/causes."""
OTHERS = {
    JAVA: ("range", "roundrobin", "sticky", "cooperative-sticky"),
    FRANZ_GO: ("range", "roundrobin", "sticky", "cooperative-sticky"),
    KAFKA_GO: ("range", "roundrobin"),  # it uses JoinGroup v2 and the like
    KAFKAJS: ("roundrobin",),
}


def _rows() -> Iterator[ParameterSet]:
    for library, assignors in {**PYTHON, **OTHERS}.items():
        for assignor in assignors:
            is_short = library is KOHORT and assignor == assignors[0]
            long = () if is_short else (pytest.mark.long,)
            marks = (pytest.mark.interop,) if library in OTHERS else long
            name = f"{library.name}-{assignor}"
            nodes = 3 if assignor == assignors[0] else 1
            yield pytest.param(library, assignor, nodes, marks=marks, id=name)


@pytest.mark.parametrize(("library", "assignor", "nodes"), [*_rows()])
def test_group_that_changes(
    play: Callable[..., None], library: Library, assignor: str, nodes: int
) -> None:
    """Members join, leave and die; no record is lost, and commits outlive them all.

    Each library finds its coordinator and the leaders among three nodes with its first
    assignor; with the others there is one.
    """
    play(library, assignor, plays.group_that_changes)


@pytest.mark.long
@pytest.mark.parametrize(
    "here", [{"group.initial.rebalance.delay.ms": 3_000}], indirect=True
)
def test_default_delay(play: Callable[..., None]) -> None:
    """The same play passes with Kafka's default initial delay of 3 s (KIP-134)."""
    play(AIOKAFKA, "range", plays.group_that_changes)


@pytest.mark.parametrize(
    "library",
    [
        *(pytest.param(each, marks=pytest.mark.long) for each in PYTHON),
        *(pytest.param(each, marks=pytest.mark.interop) for each in (JAVA, FRANZ_GO)),
    ],
    ids=lambda each: each.name,
)
def test_static_members(play: Callable[..., None], library: Library) -> None:
    """A static member that restarts within its session timeout causes no rebalance."""
    play(library, "range", plays.static_members)
