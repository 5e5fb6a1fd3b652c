"""A group of a broker in this process, with the history of its rebalances.

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
"""Most groups that an error lists."""


def no_group(group_id: str, there_are: Iterable[str], what: str = "group") -> str:
    """Returns a sentence about an unknown group; it lists the existing ones."""
    from difflib import get_close_matches

    names = sorted(there_are)
    sentence = f"there is no {what} {group_id!r}"
    if not names:
        return f"{sentence}; there are no groups yet"
    near = get_close_matches(group_id, names, 3)
    if near:
        return f"{sentence}; did you mean {' or '.join(map(repr, near))}?"
    rest = len(names) - MOST_NAMES
    listed = ", ".join(map(repr, names[:MOST_NAMES]))
    return f"{sentence}; there are: {listed}" + (
        f" and {rest} more" if rest > 0 else ""
    )


class UnknownGroupError(LookupError):
    """The group is unknown; lists the groups that exist."""


class Group:
    """A handle of a group; it can be made before the group exists.

    Args:
        broker: the broker; must be started before methods are called.
        group_id: the id of the group.
    """

    def __init__(self, broker: Broker, group_id: str) -> None:
        self.broker = broker
        self.group_id = group_id

    def __repr__(self) -> str:
        """As it is made."""
        return f"Group({self.broker!r}, {self.group_id!r})"

    def history(self) -> History:
        """Each rebalance of the group, in plain words, and findings with advice.

        It covers the remembered events (`kohort.broker.events.bus.REMEMBERED`); a
        rebalance that is under way lasts until now.

        Raises:
            UnknownGroupError: the broker neither has the group nor events of it.
        """
        # Slow to load, and rarely used.
        from kohort.control.why.history import history

        events = self.broker.events.recent(self.group_id)
        if not events:
            known = {group.group_id for group in self.broker.cluster.shards.groups()}
            if self.group_id not in known:
                raise UnknownGroupError(no_group(self.group_id, known))
        now_ns = ns(self.broker.cluster.clock.now())
        return history(events, self.group_id, now_ns)
