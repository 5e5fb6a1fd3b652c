"""One group of a broker in this process: what happened to it, and why.

    async with Broker({"group.max.size": 3}) as broker:
        billing = Group(broker, "billing")
        ...
        print(billing.history().text())

`kohort.control.why.history` does the same with events from anywhere.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from kohort.broker.events.render import ns

if TYPE_CHECKING:
    from kohort.broker.server import Broker
    from kohort.control.why import History

MOST_NAMES = 10
"""Groups that an error lists: more are no help."""


def no_group(group_id: str, there_are: Iterable[str], what: str = "group") -> str:
    """That there is no such group, and which there are: the likeliest first."""
    from difflib import get_close_matches  # noqa: PLC0415 - for errors only

    names = sorted(there_are)
    sentence = f"there is no {what} {group_id!r}"
    if not names:
        return f"{sentence}, and none of any other"
    near = get_close_matches(group_id, names, 3)
    if near:
        return f"{sentence}; did you mean {' or '.join(map(repr, near))}?"
    rest = len(names) - MOST_NAMES
    listed = ", ".join(map(repr, names[:MOST_NAMES]))
    return f"{sentence}; there are: {listed}" + (
        f" and {rest} more" if rest > 0 else ""
    )


class UnknownGroupError(LookupError):
    """There is no such group, and no event of one; says which groups there are."""


class Group:
    """A handle of a group; nothing is asked until one of its methods is called.

    So it may be made before the group is there.

    Args:
        broker: the broker; it has to be started before anything is asked.
        group_id: the group's id.
    """

    def __init__(self, broker: Broker, group_id: str) -> None:
        self.broker = broker
        self.group_id = group_id

    def __repr__(self) -> str:
        """As it is made."""
        return f"Group({self.broker!r}, {self.group_id!r})"

    def history(self) -> History:
        """Each rebalance of the group, in plain words, and findings with advice.

        Of what the broker remembers (`kohort.broker.events.bus.REMEMBERED`); a
        rebalance that is under way goes on to this moment.

        Raises:
            UnknownGroupError: there is no such group, and no event of one.
        """
        # What it is made with takes long to load, and few ask for it.
        from kohort.control.why.history import history  # noqa: PLC0415

        events = self.broker.events.recent(self.group_id)
        if not events and self.group_id not in self._groups():
            raise UnknownGroupError(no_group(self.group_id, self._groups()))
        now_ns = ns(self.broker.cluster.clock.now())
        return history(events, self.group_id, now_ns)

    def _groups(self) -> set[str]:
        """The ids of all groups that the broker has."""
        return {
            group_id
            for shard in self.broker.cluster.shards
            if shard.driver is not None
            for group_id in shard.driver.coordinator.groups
        }
