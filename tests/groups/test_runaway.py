"""1,000 processes join a group of at most 100 members: the state that they leave.

`python -m bench.runaway` measures memory and time, for docs/explanation/runaway.md.
These tests count the state in the coordinator.
"""

from __future__ import annotations

import pytest
from tests.coordinator.context import Context
from tests.coordinator.member import Member

from kohort.protocol.errors import ErrorCode

PROCESSES = 1_000
LIMIT = 100
SESSION_MS = 6_000
FULL = ErrorCode.GROUP_MAX_SIZE_REACHED


@pytest.fixture
def context() -> Context:
    """Kafka's default delay, and the limit; no listeners."""
    context = Context(initial_rebalance_delay_ms=3_000, max_size=LIMIT)
    context.coordinator.listening = False
    return context


def processes(context: Context, count: int, **options: bool) -> list[Member]:
    """Processes that have not joined yet."""
    return [
        context.member(f"p{i}", session_ms=SESSION_MS, **options) for i in range(count)
    ]


def held(context: Context) -> tuple[int, int, int]:
    """The number of members, pending ids, and timers: everything that could pile up."""
    group = context.groups["g"]
    assert len(group.members) <= LIMIT
    assert group.awaiting_join <= LIMIT
    assert not group.static_members
    return len(group.members), len(group.pending_members), len(context.timers)


def test_without_ids_the_limit_bounds_everything(context: Context) -> None:
    """JoinGroup v3: 100 wait and 900 are refused, however often they retry."""
    joins = [m.join() for m in processes(context, PROCESSES, requires_id=False)]
    refused = [join for join in joins if join.answered]
    assert len(refused) == PROCESSES - LIMIT
    assert {join.result.error_code for join in refused} == {FULL}
    # The members' sessions, the join phase, and the check for expired offsets.
    assert held(context) == (LIMIT, 0, LIMIT + 2)
    records = len(context.records)
    for late in processes(context, PROCESSES - LIMIT, requires_id=False):
        assert late.join().result.error_code == FULL
    assert held(context) == (LIMIT, 0, LIMIT + 2)
    assert len(context.records) == records, "refusals leave nothing in the log"
    context.sleep(6_000)
    assert [join.result.generation_id for join in joins if join not in refused] == (
        [1] * LIMIT
    )


def test_ids_are_forgotten_after_the_session_timeout(context: Context) -> None:
    """JoinGroup v4 and later: each process gets an id, and unused ids expire.

    Ids use no room in the group; only time bounds their number.
    """
    asked = processes(context, PROCESSES)
    for i, member in enumerate(asked, start=1):
        assert member.join().result.error_code == 79
        if i % 100 == 0:
            context.sleep(10)
    context.sleep(SESSION_MS - 105)
    assert held(context) == (0, PROCESSES, PROCESSES + 1)
    context.sleep(10)
    assert held(context) == (0, PROCESSES - 100, PROCESSES - 100 + 1)
    context.sleep(90)
    assert held(context) == (0, 0, 1)
    assert asked[0].join().result.error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_ids_of_a_group_that_fills_up_are_dropped(context: Context) -> None:
    """100 are admitted with their ids; all others are refused and removed at once."""
    asked = processes(context, PROCESSES)
    for member in asked:
        member.join()
    joins = [member.join() for member in asked]
    refused = [join for join in joins if join.answered]
    assert {join.result.error_code for join in refused} == {FULL}
    assert len(refused) == PROCESSES - LIMIT
    assert held(context) == (LIMIT, 0, LIMIT + 2)


@pytest.mark.parametrize("requires_id", [False, True])
def test_a_full_group_gives_out_no_ids(context: Context, *, requires_id: bool) -> None:
    """A Stable group of 100 refuses newcomers before they get an id."""
    members = processes(context, LIMIT, requires_id=False)
    for member in members:
        member.join()
    context.sleep(6_000)
    context.sync_all(members)
    assert context.state() == "Stable"
    before = held(context)
    for member in processes(context, PROCESSES - LIMIT, requires_id=requires_id):
        assert member.join().result.error_code == FULL
    assert held(context) == before == (LIMIT, 0, LIMIT + 1)
    assert {member.heartbeat() for member in members} == {0}


def test_a_crash_loop_holds_the_ids_of_one_session_timeout(context: Context) -> None:
    """Processes that crash with their id leave at most rate times session timeout.

    100 a second for 20 s, sessions of 6 s: at most 600 ids.
    """
    most = 0
    for _ in range(20):
        for member in processes(context, 100):
            assert member.join().result.error_code == 79
        most = max(most, held(context)[1])
        context.sleep(1_000)
    assert most == 600
    context.sleep(SESSION_MS)
    assert held(context) == (0, 0, 1)
