"""Access of the accounts to a cluster: offsets, records, fetches."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from kohort.broker.cluster.cluster import Cluster
from kohort.broker.events.sources import Sources

if TYPE_CHECKING:
    from kohort.broker.events.delivery.notes import Note
    from kohort.broker.fetch_watch import FetchWatch


def sources_of(cluster: Cluster) -> Sources:
    """Returns what the accounts of a cluster's events need besides the events."""
    return Sources(
        partial(_committed, cluster),
        partial(_count, cluster),
        cluster.log_end,
        partial(_note_fetches, cluster),
    )


def _note_fetches(
    cluster: Cluster, tell: Callable[[Note], None] | None
) -> FetchWatch | None:
    """Notes fetches from now on, or no longer."""
    from kohort.broker.fetch_watch import FetchWatch

    watch = None if tell is None else FetchWatch(tell, cluster.events.wall_ns)
    cluster.fetch_watch = watch
    return watch


def _committed(cluster: Cluster, group_id: str) -> dict[tuple[str, int], int]:
    """The offsets of a group, for the account of delivery."""
    from kohort.broker.coordinator.appends import committed_offsets

    driver = cluster.shards.for_id(group_id).driver
    if driver is None:
        return {}
    coordinator = driver.coordinator
    found = committed_offsets(coordinator.appends, coordinator.groups, group_id)
    return {partition: entry[0] for partition, entry in found.items()}


def _count(
    cluster: Cluster, topic: str, index: int, first: int, end: int, committed: bool
) -> int:
    """Counts the records of a partition between two offsets."""
    from kohort.broker.log.counting import count_records

    found = cluster.topics.by_name.get(topic)
    if found is None or index >= len(found.partitions):
        return 0
    return count_records(found.partitions[index], first, end, committed=committed)
