"""A group of kohort's own client."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.interop import plays
from tests.interop.libraries import KOHORT

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.mark.parametrize(
    "assignor", ["range", "roundrobin", "sticky", "cooperative-sticky"]
)
def test_group_that_changes(play: Callable[..., None], assignor: str) -> None:
    """Members come, leave and die; no record is lost, and commits outlive them all."""
    play(KOHORT, assignor, plays.group_that_changes)


def test_static_members(play: Callable[..., None]) -> None:
    """A static member's restart within its session timeout is no rebalance."""
    play(KOHORT, "range", plays.static_members)
