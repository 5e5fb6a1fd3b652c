"""The broker's clock: timers in order, and time that is moved ahead."""

from __future__ import annotations

import asyncio
import math
from functools import partial
from typing import Any

import pytest
from tests.broker.test_cluster import until
from tests.broker.test_restart import committed
from tests.wire import requests
from tests.wire.client import WireClient, connected, connections

from kohort.broker.clock import BrokerClock, Mode
from kohort.broker.coordinator.group import Group
from kohort.broker.long_work import LongWork, Work
from kohort.broker.notice import Client
from kohort.broker.server import Broker
from kohort.broker.shards.credit import Credit
from kohort.control.group import Group as Handle
from kohort.control.http.last_heard import LastHeard
from kohort.protocol.errors import ErrorCode
from kohort.protocol.records import Record, build_batch

SESSION_MS = 45_000
REBALANCE_MS = 300_000
WEEK = 7 * 86_400.0

# -- timers


async def new_clock(mode: Mode = "manual", now: float | None = 1000.0) -> BrokerClock:
    """A clock on the running loop; the manual one starts at 1,000 seconds."""
    return BrokerClock(asyncio.get_running_loop(), mode, now=now)


async def test_timers_fire_in_order_each_at_its_time() -> None:
    """Timers of the same time fire in the order in which they were set."""
    clock = await new_clock()
    fired: list[tuple[str, float]] = []
    for name, when in (("c", 1003.0), ("a", 1001.0), ("b", 1001.0), ("d", 1009.0)):
        clock.call_at(when, partial(lambda n: fired.append((n, clock.now())), name))
    assert await clock.advance(5) == 3
    assert fired == [("a", 1001.0), ("b", 1001.0), ("c", 1003.0)]
    assert clock.now() == 1005.0


async def test_a_timer_of_a_timer_fires_too() -> None:
    """A timer that sets itself again fires once a period."""
    clock = await new_clock()
    ticks: list[float] = []

    def tick() -> None:
        ticks.append(clock.now())
        clock.call_at(clock.now() + 2, tick)

    clock.call_at(1002.0, tick)
    assert await clock.advance(7) == 3
    assert ticks == [1002.0, 1004.0, 1006.0]


async def test_manual_time_stands_still() -> None:
    """A timer that is due at once fires in the next turn; no other does."""
    clock = await new_clock()
    fired: list[str] = []
    clock.call_at(1000.0, lambda: fired.append("now"))
    clock.call_at(1000.000001, lambda: fired.append("later"))
    assert not fired
    await asyncio.sleep(0)
    assert fired == ["now"]
    for _ in range(10):
        await asyncio.sleep(0)
    assert fired == ["now"]
    assert clock.now() == 1000.0


async def test_a_late_timer_delays_none_that_is_due_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It fires before everything that the loop is asked for afterwards."""
    passed = 0.0
    monkeypatch.setattr("kohort.broker.clock.monotonic", lambda: passed)
    clock = await new_clock("real")
    fired: list[str] = []
    clock.call_at(clock.now() + 1, lambda: fired.append("late"))
    passed = 2.0
    clock.call_at(clock.now(), lambda: fired.append("now"))
    asyncio.get_running_loop().call_soon(fired.append, "next")
    await asyncio.sleep(0)
    assert fired == ["late", "now", "next"]


async def test_timers_due_at_once_take_turns() -> None:
    """A timer that sets itself again lets the event loop run in between."""
    clock = await new_clock()
    turns: list[str] = []

    def again() -> None:
        turns.append("timer")
        asyncio.get_running_loop().call_soon(turns.append, "other")
        if len(turns) < 6:
            clock.call_at(clock.now(), again)

    clock.call_at(clock.now(), again)
    await until(lambda: len(turns) >= 8)
    assert turns == ["timer", "other"] * 4


async def test_what_a_timer_causes_is_done_before_the_next() -> None:
    """The next turn's calls, and long work, are done before the next timer."""
    done: list[str] = []
    work = LongWork()
    clock = BrokerClock(
        asyncio.get_running_loop(), "manual", now=1000.0, work=lambda: len(work)
    )

    def pieces() -> Work:
        for _ in range(20):
            yield
        done.append("long work")

    def cause() -> None:
        asyncio.get_running_loop().call_soon(done.append, "call")
        work.queue(pieces(), lambda error: done.append(str(error)))

    clock.call_at(1001.0, cause)
    clock.call_at(1001.0, lambda: done.append("next"))
    assert await clock.advance(1) == 2
    assert done == ["call", "long work", "next"]


async def test_real_time_flows_and_can_be_moved() -> None:
    """A jump of a week fires the timers due in it; later ones fire by themselves."""
    clock = await new_clock("real", None)
    before = clock.now()
    fired = asyncio.Event()
    clock.call_at(before + WEEK + 0.02, fired.set)
    await clock.advance(WEEK)
    assert before + WEEK <= clock.now() < before + WEEK + 5
    await fired.wait()
    assert clock.now() >= before + WEEK + 0.02


async def test_cancelled_timers_do_not_fire_and_do_not_pile_up() -> None:
    """Cancelled timers, one per Arm of a coordinator, neither fire nor pile up."""
    clock = await new_clock()
    fired: list[str] = []
    clock.call_at(1001.0, lambda: fired.append("kept"))
    for _ in range(1000):
        clock.call_at(1001.0, lambda: fired.append("cancelled")).cancel()
    assert clock.timer_count < 200
    assert await clock.advance(2) == 1
    assert fired == ["kept"]
    assert clock.timer_count == 0


async def test_a_timer_that_fails_is_reported_and_the_others_fire() -> None:
    """A failing timer is reported as by the event loop; the others fire."""
    reports: list[dict[str, Any]] = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: reports.append(context))
    clock = await new_clock()
    fired: list[str] = []
    clock.call_at(1001.0, lambda: 1 / 0)
    clock.call_at(1002.0, lambda: fired.append("next"))
    assert await clock.advance(2) == 2
    assert fired == ["next"]
    assert isinstance(reports[0]["exception"], ZeroDivisionError)


async def test_advances_at_once_add_up() -> None:
    """Each advance begins where the previous one has ended."""
    clock = await new_clock()
    clock.call_at(1015.0, lambda: None)
    first, second = await asyncio.gather(clock.advance(10), clock.advance(10))
    assert (first, second) == (0, 1)
    assert clock.now() == 1020.0


@pytest.mark.parametrize("seconds", [-1, math.inf, math.nan])
async def test_time_moves_ahead_only(seconds: float) -> None:
    """A clock cannot be moved back, or to infinity."""
    with pytest.raises(ValueError, match="cannot be moved ahead"):
        await (await new_clock()).advance(seconds)


def test_a_clock_is_real_or_manual() -> None:
    """Another mode raises ValueError, which names both."""
    with pytest.raises(ValueError, match="'real' or 'manual'"):
        Broker(clock="virtual")  # type: ignore[arg-type]


# -- groups


async def join(
    client: WireClient, member_id: str = "", *, expect: ErrorCode = ErrorCode.NONE
) -> Any:
    """JoinGroup with clients' default timeouts."""
    request = requests.join_group(
        "g", member_id, session_ms=SESSION_MS, rebalance_ms=REBALANCE_MS
    )
    answer = await client.call("JoinGroup", 9, request)
    if answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:
        return await join(client, answer.member_id, expect=expect)
    assert answer.error_code == expect
    return answer


async def stable(broker: Broker, client: WireClient) -> str:
    """A Stable group of one member; returns the member's id."""
    joining = asyncio.create_task(join(client))
    await in_state(broker, "PreparingRebalance")
    await broker.clock.advance(3)
    member_id: str = (await joining).member_id
    request = requests.sync_group(member_id, assignments={member_id: b"all"})
    assert (await client.call("SyncGroup", 5, request)).error_code == 0
    return member_id


async def in_state(broker: Broker, state: str, members: int = 1) -> Group:
    """Waits for the only group to reach a state with this many members."""

    def found() -> list[Group]:
        groups = broker.cluster.shards.groups()
        return [g for g in groups if g.state == state and len(g.members) == members]

    await until(lambda: bool(found()))
    return found()[0]


async def test_an_initial_delay_is_over_at_once() -> None:
    """The first join waits for exactly three seconds."""
    async with Broker(clock="manual") as broker, connected(broker) as client:
        joining = asyncio.create_task(join(client))
        group = await in_state(broker, "PreparingRebalance")
        await broker.clock.advance(2.999)
        assert group.state == "PreparingRebalance"
        assert await broker.clock.advance(0.001) == 1
        assert group.state == "CompletingRebalance"
        assert (await joining).generation_id == 1


@pytest.mark.parametrize("mode", ["real", "manual"])
async def test_a_session_ends_without_waiting(mode: Mode) -> None:
    """With credit_heartbeats=False members are silent for the whole time."""
    async with Broker(clock=mode) as broker, connected(broker) as client:
        await stable(broker, client)
        await broker.clock.advance(30, credit_heartbeats=False)
        group = await in_state(broker, "Stable")
        await broker.clock.advance(15, credit_heartbeats=False)
        assert not group.members
        expired = broker.events.recent("g")
        silent = [e["silent_ns"] for e in expired if e["kind"] == "member_expired"]
        (silent_ns,) = silent
        assert silent_ns is not None
        assert silent_ns / 1e9 == pytest.approx(45, abs=5 if mode == "real" else 0)


async def test_connected_members_count_as_heard_from() -> None:
    """A connected member survives an hour without a heartbeat, others expire."""
    async with Broker(clock="manual") as broker:
        async with connected(broker) as client:
            await stable(broker, client)
            group = await in_state(broker, "Stable")
            await broker.clock.advance(3600)
            assert len(group.members) == 1
            await broker.clock.advance(44, credit_heartbeats=False)
            assert len(group.members) == 1
        await until(lambda: not broker.connections)
        await broker.clock.advance(1)
        assert not group.members


@pytest.mark.parametrize("waits_for", [None, "Fetch"])
async def test_a_client_that_was_just_killed_is_not_credited(
    waits_for: str | None,
) -> None:
    """The broker has not read the end of its connection yet, or a response waits."""
    async with Broker(clock="manual") as broker, connected(broker) as client:
        await stable(broker, client)
        group = await in_state(broker, "Stable")
        if waits_for is not None:
            broker.cluster.create_topic("t", 1)
            await client.send("Fetch", 12, requests.fetch(0, wait_ms=60_000))
        client.writer.write_eof()
        await broker.clock.advance(45)
        assert not group.members


async def test_no_sign_of_life_is_in_the_future() -> None:
    """In the middle of an advance a member was last heard just then."""
    async with Broker(clock="manual") as broker, connected(broker) as client:
        member_id = await stable(broker, client)
        samples: list[dict[str, Any]] = []
        heard = LastHeard(broker.cluster)
        middle = broker.clock.now() + 30
        broker.clock.call_at(middle, lambda: samples.append(heard.sample()))
        await broker.clock.advance(60)
        (sample,) = samples
        assert sample["members"] == [("g", member_id, sample["time_ns"])]


async def test_who_joins_during_an_advance_counts_as_heard_from() -> None:
    """Its join is answered after three seconds, and its session ends 45 s later."""
    async with Broker(clock="manual") as broker, connected(broker) as client:
        joining = asyncio.create_task(join(client))
        await in_state(broker, "PreparingRebalance")
        await broker.clock.advance(120)
        await in_state(broker, "CompletingRebalance")
        assert (await joining).generation_id == 1


async def test_a_member_without_a_known_connection_is_found_by_its_client() -> None:
    """After a coordinator's move the connection of a member is unknown."""
    async with Broker(nodes=2, clock="manual") as broker:
        node = broker.coordinator_of("g")
        async with connected(broker, node) as client:
            await stable(broker, client)
            broker.move_coordinator("g", 3 - node)
            await broker.clock.advance(60)
            await in_state(broker, "Stable")
        await until(lambda: not broker.connections)
        await broker.clock.advance(60)
        await in_state(broker, "Empty", members=0)


async def test_many_loaded_members_cost_one_look_at_the_connections() -> None:
    """An advance looks once at the connections, however many members there are."""
    looks = []

    class Sender:
        is_heard = True
        is_waiting = False
        software_name = ""

        def __init__(self, client: Client) -> None:
            self.client = client

        def forget_repeated(self) -> None:
            """Nothing: it sends no requests."""

    class Connections(dict[int, Sender]):
        def values(self) -> Any:
            looks.append(len(self))
            return super().values()

    senders = Connections({1: Sender(Client("a", "/h", 1))})
    credit = Credit(senders)
    assert [credit.is_live(Client(name, "/h")) for name in "aba"] == [True, False, True]
    assert looks == [1]
    senders.clear()
    credit.look()
    assert not credit.is_live(Client("a", "/h"))


async def test_a_given_member_id_stays_while_its_client_is_connected() -> None:
    """A pending id stays: its second JoinGroup would have come long ago (KIP-394)."""
    async with Broker(clock="manual") as broker, connected(broker) as client:
        request = requests.join_group("g", "", session_ms=SESSION_MS)
        answer = await client.call("JoinGroup", 9, request)
        assert answer.error_code == ErrorCode.MEMBER_ID_REQUIRED
        await broker.clock.advance(60)
        joining = asyncio.create_task(join(client, answer.member_id))
        await in_state(broker, "PreparingRebalance")
        await broker.clock.advance(3)
        assert (await joining).generation_id == 1


async def test_a_slow_member_is_thrown_out_after_five_minutes() -> None:
    """A member that heartbeats but does not rejoin is removed."""
    async with Broker(clock="manual") as broker, connections(broker, 2) as clients:
        slow, newcomer = clients
        await stable(broker, slow)
        joining = asyncio.create_task(join(newcomer))
        group = await in_state(broker, "PreparingRebalance", members=2)
        await broker.clock.advance(299)
        assert len(group.members) == 2
        await broker.clock.advance(1)
        answer = await joining
        assert (answer.generation_id, len(answer.members)) == (2, 1)
        kicked = [e for e in broker.events.recent("g") if e["kind"] == "member_kicked"]
        assert [(e["cause"], e["silent_ns"]) for e in kicked] == [
            ("did_not_join_in_time", 0)
        ]


async def test_a_hundred_members_live_through_a_week() -> None:
    """Their sessions end 13,440 times in a week; each is checked once per advance."""
    async with Broker(clock="manual") as broker, connections(broker, 100) as clients:
        joining = [asyncio.create_task(join(client)) for client in clients]
        group = await in_state(broker, "PreparingRebalance", members=100)
        await broker.clock.advance(6)
        await asyncio.gather(*joining)
        assert await broker.clock.advance(299) < 1000
        assert len(group.members) == 100


async def test_a_muted_member_is_not_credited() -> None:
    """A muted member gets no credit, although its connection is open."""
    async with Broker(clock="manual") as broker, connected(broker) as client:
        member_id = await stable(broker, client)
        Handle(broker, "g").mute(member_id)
        await broker.clock.advance(44)
        group = await in_state(broker, "Stable")
        await broker.clock.advance(1)
        assert not group.members


async def test_a_new_member_is_not_credited() -> None:
    """A new member gets no credit: its first join waits for at most 5 minutes."""
    config = {"group.initial.rebalance.delay.ms": 1_000_000}
    async with Broker(config, clock="manual") as broker, connected(broker) as client:
        joining = asyncio.create_task(join(client))
        group = await in_state(broker, "PreparingRebalance")
        await broker.clock.advance(299)
        assert group.members
        await broker.clock.advance(1)
        assert not group.members
        joining.cancel()


# -- the rest of the broker


async def test_time_goes_on_where_a_broker_was_stopped() -> None:
    """A restarted broker does not go back by the week that it was moved."""
    broker = Broker(clock="manual")
    async with broker:
        await broker.clock.advance(WEEK)
        stopped_at = broker.clock.now()
    async with broker:
        assert broker.clock.now() == stopped_at
    broker = Broker()
    async with broker:
        await broker.clock.advance(WEEK)
        stopped_at = broker.clock.now()
    async with broker:
        assert broker.clock.now() >= stopped_at


async def test_offsets_expire_after_a_week() -> None:
    """A simple consumer's offsets expire a week after the commit."""
    async with Broker(clock="manual") as broker, connected(broker) as client:
        broker.cluster.create_topic("t", 1)
        commit = requests.commit_offsets("t", (0, 7), group="simple")
        await client.call("OffsetCommit", 8, commit)
        await broker.clock.advance(WEEK - 1)
        assert await committed(client, "simple") == {"t": 7}
        await broker.clock.advance(600)
        assert await committed(client, "simple") == {}


async def test_records_expire_after_a_week() -> None:
    """Within one advance only the last round of housekeeping runs."""
    async with Broker(clock="manual") as broker, connected(broker) as client:
        log = broker.cluster.create_topic("t", 1).partitions[0]
        now_ms = broker.cluster.now_ms()
        batch = build_batch([Record(value=b"v", timestamp_ms=now_ms)])
        await client.call("Produce", 9, requests.produce((0, batch)))
        assert await broker.clock.advance(WEEK - 1) < 200
        assert (log.log_start_offset, log.log_end_offset) == (0, 1)
        await broker.clock.advance(600)
        assert log.log_start_offset == 1


async def test_a_fetch_ends_while_time_stands_still() -> None:
    """A Fetch ends, as a client measures max_wait on its own clock."""
    async with Broker(clock="manual") as broker, connected(broker) as client:
        broker.cluster.create_topic("t", 1)
        before = broker.clock.now()
        fetch = requests.fetch(0, wait_ms=1)
        answer = await client.call("Fetch", 12, fetch)
        assert answer.error_code == 0
        assert broker.clock.now() == before


async def test_a_week_closes_no_connection() -> None:
    """Idle connections are measured in real time, so a jump closes none."""
    async with Broker(clock="manual") as broker, connected(broker) as client:
        await broker.clock.advance(WEEK)
        await client.is_served()
