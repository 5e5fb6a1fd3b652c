"""A group of real clients: kafkajs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.interop import plays
from tests.interop.libraries import KAFKAJS

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.interop


@pytest.mark.parametrize("assignor", ["roundrobin"])
def test_group_that_changes(play: Callable[..., None], assignor: str) -> None:
    """Members come, leave and die; no record is lost, and commits outlive them all."""
    play(KAFKAJS, assignor, plays.group_that_changes)
