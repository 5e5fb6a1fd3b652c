"""Commands on groups and transactions: their refusals, and the node for a move."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kohort.broker.coordinator.effects import CommandResult
from kohort.broker.handlers.result_slot import ResultSlot

if TYPE_CHECKING:
    from kohort.broker.server import Broker

_MORE_NODES: Final = (
    "; the broker has only one: start it with --nodes 2, Broker(nodes=2), or"
    " @pytest.mark.kohort(nodes=2)"
)


class PowerError(RuntimeError):
    """A command is impossible in the current state; the message says why."""


def refusal_of(token: object) -> str | None:
    """Returns why a command was refused, by its token; None if it was performed."""
    assert isinstance(token, ResultSlot)
    result = token.result
    assert isinstance(result, CommandResult)
    return result.refusal


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
