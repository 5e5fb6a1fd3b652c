"""The broker's clock over HTTP."""

from __future__ import annotations

from typing import Annotated, Final, TypedDict

from aiohttp import web
from msgspec import Meta

from kohort.broker.clock import Mode, ns
from kohort.broker.server import Broker
from kohort.control.http.operations import Fields, Operation

MOST_SECONDS: Final = 31 * 24 * 60 * 60
"""The longest advance, a month: each day of it takes up to 0.1 s."""
LATEST_NS: Final = 2**63 - 1
"""The latest time that events can have: in 2262."""


class Advance(Fields):
    """An advance of the clock."""

    seconds: Annotated[
        float,
        Meta(ge=0, le=MOST_SECONDS, description="Seconds to move the clock ahead."),
    ]
    credit_heartbeats: Annotated[
        bool,
        Meta(
            description="Members with a live connection count as heard from; if false, "
            "their sessions expire."
        ),
    ] = True


class ClockState(TypedDict):
    """The broker's clock."""

    now_ns: Annotated[int, Meta(description="Nanoseconds since the epoch.")]
    mode: Annotated[
        Mode,
        Meta(description="Time flows, or stands still until a request moves it."),
    ]


class Advanced(ClockState):
    """The broker's clock after it was moved."""

    fired: Annotated[int, Meta(description="Number of timers that fired.")]


def operations(broker: Broker) -> list[Operation]:
    """The operations on a broker's clock."""

    def state() -> ClockState:
        return {"now_ns": ns(broker.clock.now()), "mode": broker.clock.mode}

    async def show_clock() -> ClockState:
        """Shows the broker's time."""
        return state()

    async def advance_clock(body: Advance) -> Advanced:
        """Moves the broker's time ahead, and fires all timers that become due.

        Answers when they have had their effects; clients are not waited for.
        """
        if ns(broker.clock.now() + body.seconds) > LATEST_NS:
            raise web.HTTPConflict(text="the clock ends in 2262")
        fired = await broker.clock.advance(body.seconds, body.credit_heartbeats)
        return {**state(), "fired": fired}

    return [
        Operation("GET", "/v1/clock", show_clock),
        Operation("POST", "/v1/clock/advance", advance_clock, (409,)),
    ]
