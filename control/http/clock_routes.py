"""The broker's clock over HTTP."""

from __future__ import annotations

from kohort.broker.server import Broker
from kohort.control.clock_verbs import ClockState, ClockVerbs
from kohort.control.http.operations import Nothing, Operation
from kohort.control.http.verb_routes import verb_operations


def operations(broker: Broker) -> list[Operation]:
    """The operations on a broker's clock."""

    async def show_clock() -> ClockState:
        """Shows the broker's time."""
        return ClockVerbs(broker).describe()

    return [
        Operation("GET", "/v1/clock", show_clock),
        *verb_operations(ClockVerbs, Nothing, lambda _: ClockVerbs(broker)),
    ]
