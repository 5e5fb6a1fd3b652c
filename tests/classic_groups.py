"""Groups of the classic protocol, for scenes that look at their members."""

from __future__ import annotations

from collections.abc import Iterable

from kohort.broker.coordinator.classic.group import ClassicGroup
from kohort.broker.coordinator.group import Group


def classic(groups: Iterable[Group]) -> dict[str, ClassicGroup]:
    """Returns groups by id, all of which are of the classic protocol."""
    found = {}
    for group in groups:
        assert isinstance(group, ClassicGroup)
        found[group.group_id] = group
    return found
