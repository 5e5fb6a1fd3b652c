"""A group of real clients: aiokafka."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.interop import plays
from tests.interop.libraries import AIOKAFKA

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.mark.parametrize("assignor", ["range", "roundrobin", "sticky"])
def test_group_that_changes(play: Callable[..., None], assignor: str) -> None:
    """Members come, leave and die; no record is lost, and commits outlive them all."""
    play(AIOKAFKA, assignor, plays.group_that_changes)


@pytest.mark.parametrize(
    "bootstrap", [{"group.initial.rebalance.delay.ms": 3_000}], indirect=True
)
def test_default_delay(play: Callable[..., None]) -> None:
    """The same with Kafka's default delay of 3 s before a first rebalance (KIP-134)."""
    play(AIOKAFKA, "range", plays.group_that_changes)


def test_static_members(play: Callable[..., None]) -> None:
    """A static member's restart within its session timeout is no rebalance."""
    play(AIOKAFKA, "range", plays.static_members)
