"""The parts of a broker that its coordinators run on."""

from __future__ import annotations

from kohort.broker.clock import Clock
from kohort.broker.events.bus import Events
from kohort.broker.runtime.loader import Loader
from kohort.protocol.slotted import slotted


@slotted
class Runtime:
    """Shared by the shards of a broker."""

    clock: Clock
    """The source of time and timers."""
    loader: Loader
    """Reads logs."""
    load_delay_ms: int
    """``coordinator.load.delay.ms``: loading takes at least this long."""
    events: Events
    """The stream of events."""
