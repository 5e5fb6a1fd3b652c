"""A group of real clients: kafka-go, which speaks JoinGroup v2 and its like."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.interop import plays
from tests.interop.libraries import KAFKA_GO

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.interop


@pytest.mark.parametrize("assignor", ["range", "roundrobin"])
def test_group_that_changes(play: Callable[..., None], assignor: str) -> None:
    """Members come, leave and die; no record is lost, and commits outlive them all."""
    play(KAFKA_GO, assignor, plays.group_that_changes)
