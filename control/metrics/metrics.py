"""A broker's numbers, collected: counters since it was opened, and how things stand."""

from __future__ import annotations

import asyncio
import os
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

from kohort.broker.api_counts import ApiCounters, Histogram, name_of
from kohort.broker.clock import ns
from kohort.broker.coordinator.group import Group
from kohort.broker.coordinator.state import GroupState
from kohort.broker.server import Broker
from kohort.control.metrics.groups import OTHERS, UNCOUNTED, GroupCounts, GroupFold
from kohort.control.metrics.loop_lag import LoopLag
from kohort.control.metrics.transactions import UNHEARD, TransactionCounts

MOST_TOPICS: Final = 20
"""Topics of a group that are listed with their lag; the rest are summed up."""
OFFSETS_PER_TURN: Final = 5_000
"""Committed offsets that are looked at before others get their turn, some ms; a group
by itself is as much work as ten."""

Snapshot = dict[str, Any]
"""JSON's types; see docs/reference/metrics.md, which describes ``/metrics.json``."""


class Metrics:
    """Counters of a broker, and snapshots of its state.

    Args:
        broker: a broker, started.
    """

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._groups = GroupFold()
        self._transactions = TransactionCounts()
        self._apis = ApiCounters()
        self._lag = LoopLag()
        self._since = 0.0
        self._has_accounts = False

    def start(self) -> None:
        """Counts from now on, on the running loop."""
        cluster = self._broker.cluster
        self._since = cluster.clock.now()
        for node in cluster.nodes.values():
            node.counters = self._apis
        self._groups.since_ns = ns(self._since)
        for _, group in self._live():
            self._groups.of(group.group_id)
        self._broker.events.listen(self._groups.take, UNCOUNTED)
        self._broker.events.listen(self._transactions.take, UNHEARD)
        self._lag.start()

    def stop(self) -> None:
        """Stops counting."""
        self._lag.stop()
        if self._has_accounts:
            self._has_accounts = False
            self._broker.events.release_accounts()
        self._broker.events.unlisten(self._groups.take)
        self._broker.events.unlisten(self._transactions.take)
        for node in self._broker.cluster.nodes.values():
            node.counters = None

    async def snapshot(self) -> Snapshot:
        """All numbers; others have their turns meanwhile."""
        broker = self._broker
        cluster = broker.cluster
        if not self._has_accounts:
            # An account costs more than its rebalance, so a broker makes none before
            # the first scrape, which makes those of remembered events.
            self._has_accounts = True
            broker.events.hold_accounts()
            await broker.events.accounts_made()
        # That reads a file, the first time.
        version = await asyncio.to_thread(_version)
        groups, states = await self._of_groups()
        led = self._led_by_node()
        connections = Counter(each.node.id for each in broker.connections)
        return {
            "version": version,
            "run": broker.events.run,
            "labels": dict(broker.events.labels),
            "bootstrap_servers": broker.bootstrap_servers,
            "since_ns": round(self._since * 1e9),
            "time_ns": round(cluster.clock.now() * 1e9),
            "nodes": [
                {
                    "node": node.id,
                    "running": node.is_running,
                    "connections": connections[node.id],
                    "groups": led.get(node.id, 0),
                    "events": broker.events.of(node.id).sequence,
                }
                for node in cluster.nodes.values()
            ],
            "memory_bytes": _memory_bytes(),
            "cpu_seconds": time.process_time(),
            "loop_lag_seconds": _histogram(self._lag.seconds),
            "loop_lag_worst_seconds": self._lag.worst,
            "states": states,
            "groups": groups,
            "transactions": await self._of_transactions(),
            "apis": [
                {
                    "api": api.name,
                    "latency_seconds": _histogram(counts.seconds),
                    "slow": counts.slow,
                    "errors": {name_of(c): n for c, n in sorted(counts.errors.items())},
                }
                for api, counts in sorted(
                    self._apis.by_api.items(), key=lambda row: row[0].key
                )
            ],
        }

    def _led_by_node(self) -> dict[int, int]:
        led: dict[int, int] = {}
        for shard in self._broker.cluster.shards:
            led[shard.node_id] = led.get(shard.node_id, 0) + shard.group_count
        return led

    def _live(self) -> Iterator[tuple[int, Group]]:
        """(node, group) of all groups."""
        for shard in self._broker.cluster.shards:
            for group in [*shard.groups.values()]:
                yield shard.node_id, group

    async def _of_groups(self) -> tuple[list[Snapshot], dict[str, int]]:
        """Rows of groups, the others' the last one; and how many are in each state."""
        fold = self._groups
        states = {s.value: 0 for s in GroupState if s is not GroupState.DEAD}
        rows: dict[str, Snapshot] = {}
        members, count, behind = 0, 0, 0
        looked_at = 0
        for node_id, group in [*self._live()]:
            looked_at += 10 + len(group.offsets)
            if looked_at > OFFSETS_PER_TURN:
                looked_at = 0
                await asyncio.sleep(0)
            lag = await self._lag_of(group)
            if group.state == GroupState.DEAD:
                continue  # it went while others had their turns
            states[group.state] += 1
            if fold.of(group.group_id) is not fold.others:
                rows[group.group_id] = {
                    "type": group.type,
                    "state": str(group.state),
                    "node": node_id,
                    "members": len(group.members),
                    "generation": group.generation_id,
                    "protocol": group.protocol_name,
                    "lag": lag,
                }
            else:
                members += len(group.members)
                count += 1
                behind += sum(lag.values())
        if all(shard.driver for shard in self._broker.cluster.shards):
            fold.keep(group.group_id for _, group in self._live())
        found = [
            {"group": name, **rows.get(name, _GONE), **_counts(counts)}
            for name, counts in sorted(fold.by_group.items())
        ]
        counted = _counts(fold.others)
        if count or any(counted.values()):
            others = {"members": members, "lag": {OTHERS: behind}}
            found.append({"group": OTHERS, **_GONE, **others, **counted})
        return found, states

    async def _of_transactions(self) -> Snapshot:
        for found in self._transactions.snapshot(self._broker):
            if found is not None:
                return found
            await asyncio.sleep(0)
        raise AssertionError("a snapshot ends with its counts")

    async def _lag_of(self, group: Group) -> dict[str, int]:
        """Records between the committed offsets and the ends, by topic."""
        topics = self._broker.cluster.topics.by_name
        lag: dict[str, int] = {}
        offsets = [*group.offsets.items()]
        for first in range(0, len(offsets), OFFSETS_PER_TURN):
            if first:
                await asyncio.sleep(0)
            for (name, index), entry in offsets[first : first + OFFSETS_PER_TURN]:
                topic = topics.get(name)
                if topic is not None and index < len(topic.partitions):
                    behind = topic.partitions[index].log_end_offset - entry[0]
                    lag[name] = lag.get(name, 0) + max(0, behind)
        if len(lag) > MOST_TOPICS:
            # A topic of that name is one of the others.
            named = sorted(lag.keys() - {OTHERS}, key=lambda name: (-lag[name], name))
            largest = named[: MOST_TOPICS - 1]
            rest = sum(lag.values()) - sum(lag[name] for name in largest)
            lag = {name: lag[name] for name in largest} | {OTHERS: rest}
        return lag


_GONE: Mapping[str, Any] = {
    "type": None,
    "state": None,
    "node": None,
    "members": 0,
    "generation": None,
    "protocol": None,
    "lag": {},
}
"""A group that does not exist, or the sum of several."""


@cache
def _version() -> str:
    """The version of kohort; "unknown" where it is not installed."""
    from importlib import metadata

    try:
        return metadata.version("kohort")
    except metadata.PackageNotFoundError:
        return "unknown"


def _memory_bytes() -> int | None:
    """Resident memory of the process, in bytes; None where /proc is missing."""
    try:
        pages = Path("/proc/self/statm").read_bytes().split()[1]
    except (OSError, IndexError):
        return None
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


def _counts(counts: GroupCounts) -> Snapshot:
    """Counters of a group; a copy, as a thread serializes it while they grow."""
    return {
        "rebalances": dict(counts.rebalances),
        "rebalance_seconds": _histogram(counts.rebalance_seconds),
        "pause_seconds": _histogram(counts.pause_seconds),
        "unread_seconds": dict(counts.unread_seconds),
        "departures": dict(counts.departures),
        "refusals": dict(counts.refusals),
        "commits": counts.commits,
        "offsets": counts.offsets,
        "commit_refusals": dict(counts.commit_refusals),
        "findings": dict(Counter(counts.findings.values())),
        "delivery": dict(counts.delivery),
        "went_back": dict(counts.went_back),
        "last_cause": counts.last_cause,
        "last_time_ns": round(counts.last_time * 1e9) or None,
    }


def _histogram(found: Histogram) -> Snapshot | None:
    """A histogram as JSON; None where nothing was observed."""
    if not any(found.buckets):
        return None
    return {
        "bounds": [*found.bounds],
        "buckets": [*found.buckets],
        "sum": found.total,
    }
