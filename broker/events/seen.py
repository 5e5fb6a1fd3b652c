"""An event of the stream: a raw notice until it is first read."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, cast

from kohort.broker.notice import Notice

if TYPE_CHECKING:
    from kohort.broker.events.types import Event


class Source(Protocol):
    """One node's part of the stream: `kohort.broker.events.bus.NodeEvents`."""

    @property
    def header(self) -> Mapping[str, Any]:
        """The fields that all its events share."""

    def lost(self, first: int, last: int, time: float, wall_ns: int) -> Event:
        """Makes the `events_lost` in place of the events `first` to `last`."""


class _Seen(NamedTuple):
    source: Source
    sequence: int
    time: float
    wall_ns: int
    notice: Notice


class Seen(_Seen):
    """One event: its raw notice and, from the first read on, its rendered form.

    A tuple for the same reason as `Notice`.

    Attributes:
        source: the node's part of the stream.
        sequence: its number there.
        time: the broker's clock, seconds since the epoch.
        wall_ns: the machine's clock.
        notice: the raw event.
    """

    @cached_property
    def event(self) -> Event:
        """The event, as in `kohort.broker.events.schema`; rendered once for all."""
        # Loaded when an event is first read, so that brokers start sooner.
        from kohort.broker.events.render import render

        source, sequence, time, wall_ns, notice = self
        begin = {**source.header, "sequence": sequence, "wall_ns": wall_ns}
        return cast("Event", render(notice, time, begin))
