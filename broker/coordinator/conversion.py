"""Groups that change their protocol (KIP-848).

The first member of another protocol makes a new group in place of an empty one: it
keeps the offsets, and nothing else. `kohort.broker.coordinator.migration` also takes
over the members.
"""

from __future__ import annotations

from collections.abc import Sequence

from kohort.broker.coordinator.appends import GroupChange
from kohort.broker.coordinator.effects import Written
from kohort.broker.coordinator.group import Group
from kohort.broker.coordinator.turn import Turn


def replace(
    turn: Turn, old: Group, new: Group
) -> tuple[Sequence[Written], GroupChange]:
    """Gives the offsets of a group to the one that replaces it.

    Returns:
        The records that delete the old group, which keep its offsets, and its change:
        they have to be written before the first record of the new one.
    """
    for timer in old.stop_timers():
        turn.disarm(timer)
    new.committed, new.expire_ms, new.pending = (
        old.committed,
        old.expire_ms,
        old.pending,
    )
    return [*old.tombstones()], GroupChange(old, was_deleted=True, was_replaced=True)
