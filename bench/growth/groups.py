"""Growth of members in a group, of groups, of idle members."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator
from functools import partial

from bench.group_load import BUSY, DEPTH, GroupLoad
from bench.growth.scene import Broker, Measure, Row, fresh

HEARTBEATS = 5_000
"""Requests of a measurement: some 30 ms of CPU time."""
REJOINS = 5_000
MEMBERS = 5
"""Members of each of many groups."""
CROWD = 100
"""Members of a group that is idle."""


def _measure(broker: Broker, work: Callable[[], int]) -> float:
    before_us = broker.cpu_us()
    done = work()
    return (broker.cpu_us() - before_us) / done


def _times(wanted: int, each: int) -> int:
    return max(1, wanted // each)


@contextlib.contextmanager
def _groups(broker: Broker, count: int, members: int) -> Iterator[list[GroupLoad]]:
    loads = []
    try:
        for number in range(count):
            load = GroupLoad(broker.address, members, f"group-{number}")
            loads.append(load)
        yield loads
    finally:
        for load in loads:
            load.close()


@contextlib.contextmanager
def heartbeat(members: int) -> Iterator[Measure]:
    """Heartbeats of up to 64 members of one group."""
    times = _times(HEARTBEATS, min(members, BUSY) * DEPTH)
    with fresh() as broker, _groups(broker, 1, members) as (load,):
        yield lambda: _measure(broker, lambda: load.heartbeat(times))


@contextlib.contextmanager
def rebalance(members: int) -> Iterator[Measure]:
    """All members of one group join and sync."""
    times = _times(REJOINS, members)
    with fresh() as broker, _groups(broker, 1, members) as (load,):
        yield lambda: _measure(broker, lambda: load.churn(times))


@contextlib.contextmanager
def join_empty(members: int) -> Iterator[Measure]:
    """Members connect, get their ids, and are the first generation of a group."""
    with fresh() as broker:
        numbers = itertools.count()

        def form() -> int:
            GroupLoad(broker.address, members, f"group-{next(numbers)}").close()
            return members

        yield lambda: _measure(broker, form)


@contextlib.contextmanager
def of_groups(
    act: Callable[[GroupLoad, int], int], requests: int, each: int, groups: int
) -> Iterator[Measure]:
    """Acts in one group after the other.

    Args:
        act: of `GroupLoad`; returns how many requests it has sent.
        requests: of a measurement.
        each: of them, those of one act.
        groups: how many.
    """
    times = _times(requests, groups * each)
    with fresh() as broker, _groups(broker, groups, MEMBERS) as loads:

        def act_in_all() -> int:
            return sum(act(load, 1) for _ in range(times) for load in loads)

        yield lambda: _measure(broker, act_in_all)


@contextlib.contextmanager
def heartbeat_beside(idle: int) -> Iterator[Measure]:
    """Heartbeats of one group, while members of other groups are connected."""
    with (
        fresh() as broker,
        _groups(broker, idle // CROWD, CROWD),
        contextlib.closing(GroupLoad(broker.address, 10, "busy")) as load,
    ):
        times = _times(HEARTBEATS, 10 * DEPTH)
        yield lambda: _measure(broker, lambda: load.heartbeat(times))


@contextlib.contextmanager
def heartbeat_each(members: int) -> Iterator[Measure]:
    """One heartbeat of each member in turn, as they arrive from idle members."""
    with fresh() as broker, _groups(broker, members // CROWD, CROWD) as loads:
        yield lambda: _measure(broker, lambda: sum(each.in_turn() for each in loads))


@contextlib.contextmanager
def memory(members: int) -> Iterator[Measure]:
    """Memory of members with a connection, in kB; that of the broker before is not."""
    with (
        fresh() as broker,
        contextlib.closing(GroupLoad(broker.address, CROWD, "first")) as first,
    ):
        first.in_turn()
        before_kb = broker.memory_kb()
        with _groups(broker, members // CROWD, CROWD) as loads:
            for load in loads:
                load.in_turn()
            yield lambda: (broker.memory_kb() - before_kb) / members


ROWS = [
    Row(
        "heartbeat, members of the group",
        "heartbeat",
        (10, 200, 1_000, 5_000),
        (10, 1_000),
        1.5,
        "a heartbeat finds its member by id, in a dict",
        heartbeat,
    ),
    Row(
        "join an empty group, members that do",
        "member",
        (200, 1_000, 5_000),
        (100, 1_000),
        1.5,
        "each member connects, joins twice and syncs once",
        join_empty,
    ),
    Row(
        "rebalance, members of the group",
        "member",
        (10, 200, 1_000, 5_000),
        (10, 1_000),
        2.0,
        "each member joins and syncs once; more members fit no longer into the cache",
        rebalance,
    ),
    Row(
        "heartbeat, groups of 5 members",
        "heartbeat",
        (10, 100, 1_000),
        (10, 200),
        1.5,
        "a group is found by its id, in a dict",
        partial(of_groups, GroupLoad.heartbeat, HEARTBEATS, MEMBERS * DEPTH),
    ),
    Row(
        "commit of 10 partitions, groups of 5 members",
        "commit",
        (10, 100, 1_000),
        (10, 200),
        1.5,
        "as above; record keys are cached for each group",
        partial(of_groups, GroupLoad.commit, HEARTBEATS, MEMBERS * DEPTH),
    ),
    Row(
        "rebalance, groups of 5 members",
        "member",
        (10, 100, 1_000),
        (10, 200),
        1.5,
        "as above",
        partial(of_groups, GroupLoad.churn, REJOINS, MEMBERS),
    ),
    Row(
        "heartbeat, idle members of other groups",
        "heartbeat",
        (100, 1_000, 10_000),
        (100, 1_000),
        1.5,
        "an idle member costs a timer and a connection that nothing looks at",
        heartbeat_beside,
    ),
    Row(
        "heartbeat of each member in turn, members",
        "heartbeat",
        (100, 1_000, 10_000),
        (100, 1_000),
        2.0,
        "each is a turn of the event loop; the members do not fit into the cache",
        heartbeat_each,
    ),
    Row(
        "memory of idle members",
        "member, in kB",
        (1_000, 10_000),
        (500, 1_000),
        1.5,
        "an object for each member, its connection and its timer",
        memory,
    ),
]
