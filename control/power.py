"""The refusal of a verb on a group or transaction, and the node for a move."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from kohort.broker.server import Broker

_MORE_NODES: Final = (
    "; the broker has only one: start it with --nodes 2, Broker(nodes=2), or"
    " @pytest.mark.kohort(nodes=2)"
)


class PowerError(RuntimeError):
    """A command is impossible in the current state; the message says why."""


class UnknownGroupError(LookupError):
    """The group is unknown; lists the groups that exist."""


def next_node(broker: Broker, current: int) -> int:
    """Returns the next running node after a coordinator's node.

    Raises:
        PowerError: no other node is running.
    """
    others = [node for node in broker.cluster.running if node != current]
    if not others:
        more = "" if len(broker.cluster.nodes) > 1 else _MORE_NODES
        raise PowerError(f"no other node is running{more}")
    return next((node for node in others if node > current), others[0])
