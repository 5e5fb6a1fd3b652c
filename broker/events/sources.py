"""Access of the accounts to the broker, besides events."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from kohort.broker.events.delivery.notes import Note

Count = Callable[[str, int, int, int, bool], int]
"""(topic, partition, first offset, end, read_committed) to the records between them;
deleted ones count by their offsets."""


LogEnd = Callable[[str, int, int], int | None]
"""The end of a partition's log at a time, in ns since the epoch: see
`Cluster.log_end`."""


class Watch(Protocol):
    """Notes fetches: `kohort.broker.fetch_watch`.

    Attributes:
        round: counts assignments: from each on, positions are news again.
    """

    round: int

    def heard(self, connection: int) -> None:
        """Notes that a connection has read its last response, if it has."""


class Sources(NamedTuple):
    """Access of the accounts to the broker, besides events.

    Attributes:
        committed: the committed offsets of a group that was loaded.
        count_records: counts records between offsets.
        log_end: the end of a log at a time; None: unknown.
        watch: begins to note fetches, with the function that takes each note; None
            ends it.
    """

    committed: Callable[[str], Mapping[tuple[str, int], int]]
    count_records: Count
    log_end: LogEnd
    watch: Callable[[Callable[[Note], None] | None], Watch | None]
