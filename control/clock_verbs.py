"""The verbs on a broker's clock, declared once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, TypedDict

from kohort.control.power import PowerError
from kohort.control.verbs import Later, Verbs, verb

if TYPE_CHECKING:
    from kohort.broker import clock
    from kohort.broker.server import Broker
else:
    clock = Later("kohort.broker.clock")

MOST_SECONDS: Final = 31 * 24 * 60 * 60
"""The longest advance, a month: each day of it takes up to 0.1 s."""
LATEST_NS: Final = 2**63 - 1
"""The latest time that events can have: in 2262."""

Seconds = Annotated[float, range(MOST_SECONDS + 1)]


class ClockState(TypedDict):
    """The broker's clock.

    Attributes:
        now_ns: nanoseconds since the epoch.
        mode: time flows, or stands still until a request moves it.
    """

    now_ns: int
    mode: Literal["real", "manual"]


class Advanced(ClockState):
    """The broker's clock after it was moved.

    Attributes:
        now_ns: nanoseconds since the epoch.
        mode: time flows, or stands still until a request moves it.
        fired: number of timers that fired.
    """

    fired: int


def _advanced(known: Mapping[str, Any]) -> str:
    fired = known["fired"]
    timers = f"{fired} timer{'' if fired == 1 else 's'} fired"
    return f"moved the clock ahead by {known['seconds']:.15g} s; {timers}"


class ClockVerbs(Verbs):
    """Verbs on the clock."""

    what = "clock"
    path = "clock"

    def __init__(self, broker: Broker) -> None:
        self._clock = broker.clock

    def describe(self) -> ClockState:
        """Its time and its mode."""
        return {"now_ns": clock.ns(self._clock.now()), "mode": self._clock.mode}

    @verb(_advanced)
    async def advance(
        self, seconds: Seconds, *, credit_heartbeats: bool = True
    ) -> Advanced:
        """Moves the clock ahead, and fires all timers that become due.

        Answers when they have had their effects; clients are not waited for.

        Args:
            seconds: seconds to move the clock ahead.
            credit_heartbeats: members with a live connection count as heard from; if
                false, their sessions expire.

        Raises:
            PowerError: the clock ends in 2262.
        """
        if clock.ns(self._clock.now() + seconds) > LATEST_NS:
            raise PowerError("the clock ends in 2262")
        fired = await self._clock.advance(seconds, credit_heartbeats)
        return {**self.describe(), "fired": fired}
