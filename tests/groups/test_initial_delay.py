"""KIP-134's test plan: members start with gaps, and rebalances are counted.

All on virtual time, with members that behave like Kafka's consumer. The rows marked in
docs/explanation/initial-delay.md were also played with Apache Kafka, with the same
counts and times.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from bench.initial_delay import Deployment, play, table
from tests.coordinator.context import Context

DOCUMENT = Path(__file__).parents[2] / "docs" / "explanation" / "initial-delay.md"

PLAN = [
    # members, gap, delay, rebalance timeout, session timeout -> rebalances, when each
    # member's first join is answered (all in ms)
    #
    # One window for a member that stays alone.
    ((1, 0, 1_000, 300_000, 45_000), (1, [1_000])),
    ((1, 0, 3_000, 300_000, 45_000), (1, [3_000])),
    # A window with any arrivals is followed by one more, whatever their number.
    ((2, 10, 3_000, 300_000, 45_000), (1, [6_000] * 2)),
    ((2, 2_990, 3_000, 300_000, 45_000), (1, [6_000] * 2)),
    ((3, 300, 1_000, 300_000, 45_000), (1, [2_000] * 3)),
    ((50, 10, 3_000, 300_000, 45_000), (1, [6_000] * 50)),
    # Arrivals in window after window: at 2 and 4 s; up to 1.9 s; up to 12 s.
    ((3, 2_000, 3_000, 300_000, 45_000), (1, [9_000] * 3)),
    ((5, 470, 1_000, 300_000, 45_000), (1, [3_000] * 5)),
    ((5, 2_999, 3_000, 300_000, 45_000), (1, [15_000] * 5)),
    # Gaps longer than the delay: the first member starts alone. Members learn of
    # newcomers by their next heartbeat, 3 s after the last rebalance.
    ((2, 3_010, 3_000, 300_000, 45_000), (2, [3_000, 6_000])),
    ((3, 3_010, 3_000, 300_000, 45_000), (3, [3_000, 6_000, 9_000])),
    ((3, 1_200, 1_000, 300_000, 45_000), (2, [1_000, 4_000, 4_000])),
    (
        (5, 1_930, 1_000, 300_000, 45_000),
        (4, [1_000, 4_000, 4_000, 7_000, 10_000]),
    ),
    # 0 is off: the first member starts at once.
    ((1, 0, 0, 300_000, 45_000), (1, [0])),
    ((4, 10, 0, 300_000, 45_000), (2, [0, 3_000, 3_000, 3_000])),
    ((3, 1_400, 0, 300_000, 45_000), (2, [0, 3_000, 3_000])),
    ((3, 2_000, 0, 300_000, 45_000), (3, [0, 3_000, 6_000])),
    # The rebalance timeout ends all windows but the first.
    ((1, 0, 3_000, 1_000, 45_000), (1, [3_000])),
    ((2, 500, 3_000, 1_000, 45_000), (1, [3_000] * 2)),
    ((2, 300, 1_000, 400, 45_000), (1, [1_000] * 2)),
    ((2, 500, 3_000, 3_000, 45_000), (1, [3_000] * 2)),
    ((3, 1_000, 3_000, 4_000, 45_000), (1, [4_000] * 3)),
    ((4, 300, 1_000, 1_500, 45_000), (1, [1_500] * 4)),
    ((10, 1_000, 3_000, 10_000, 45_000), (1, [10_000] * 10)),
    # Members that come after that cause the next rebalance.
    ((12, 950, 3_000, 10_000, 45_000), (2, [10_000] * 11 + [13_000])),
    ((8, 600, 1_000, 3_500, 45_000), (2, [3_500] * 6 + [6_500] * 2)),
    # Sessions do not end while joins wait, however short they are.
    ((2, 1_000, 10_000, 300_000, 6_000), (1, [20_000] * 2)),
    ((3, 300, 1_000, 300_000, 6_000), (1, [2_000] * 3)),
    ((4, 9_000, 10_000, 60_000, 6_000), (1, [40_000] * 4)),
]


@pytest.mark.parametrize("requires_id", [False, True], ids=["v3", "v4 and later"])
@pytest.mark.parametrize(("started", "expected"), PLAN)
def test_rebalances_of_a_deployment(
    started: tuple[int, float, int, int, int],
    expected: tuple[int, list[int]],
    *,
    requires_id: bool,
) -> None:
    """The number of rebalances, and the time of each member's answer, are as listed."""
    members, gap_ms, delay_ms, rebalance_ms, session_ms = started
    outcome = play(
        Deployment(
            members,
            gap_ms,
            delay_ms,
            rebalance_ms,
            session_ms,
            # As consumers' documentation recommends: at most a third.
            min(3_000, session_ms // 3),
            requires_id,
        )
    )
    assert outcome.generations == expected[0]
    assert outcome.answers_ms == pytest.approx(expected[1], abs=1)


@pytest.mark.parametrize(
    ("first_ms", "second_ms", "answered_ms"),
    [(4_000, 300_000, 4_000), (300_000, 1_000, 6_000), (1_000, 300_000, 3_000)],
)
def test_whose_rebalance_timeout_counts(
    first_ms: int, second_ms: int, answered_ms: int
) -> None:
    """The first member's rebalance timeout at its join limits all windows."""
    context = Context(initial_rebalance_delay_ms=3_000)
    joining = context.member("A", requires_id=False, rebalance_ms=first_ms).join()
    context.sleep(500)
    context.member("B", requires_id=False, rebalance_ms=second_ms).join()
    context.sleep(answered_ms - 501)
    assert not joining.answered
    context.sleep(1)
    assert len(joining.result.members) == 2


@pytest.mark.parametrize(
    ("session_ms", "noticed_s"), [(6_000, [12, 30]), (20_000, [44]), (45_000, [69])]
)
def test_members_that_crash_after_the_windows(
    session_ms: int, noticed_s: list[int]
) -> None:
    """With short sessions two crashes are two rebalances, with long ones one.

    One member falls silent when the windows end, at 6 s, another one at 24 s. The
    rebalance that starts when the first one's session ends waits for the second.
    """
    context = Context(initial_rebalance_delay_ms=3_000)
    members = [
        context.member(name, requires_id=False, session_ms=session_ms)
        for name in ("stays", "crashes first", "crashes second")
    ]
    for member in members:
        member.join()
    context.sleep(6_000)
    context.sync_all(members)
    stays, _, second = members
    alive = [stays, second]
    started = [stays.generation_id]
    completed_s = []
    for now_s in range(6, 100):
        if now_s == 25:
            alive.remove(second)
        for member in alive:
            if member.heartbeat() == 27:
                member.join()
        if stays.generation_id > started[-1]:
            started.append(stays.generation_id)
            completed_s.append(now_s)
            context.sync_all(alive)
        context.sleep(1_000)
    assert completed_s == noticed_s
    assert started == list(range(1, 2 + len(noticed_s)))


@pytest.mark.parametrize("session_ms", [6_000, 30_000])
@pytest.mark.parametrize("requires_id", [False, True])
def test_members_that_crash_within_a_window(
    session_ms: int, *, requires_id: bool
) -> None:
    """A waiting join keeps its member in the group; the next generation finds it dead.

    The broker cannot know that a waiting member is gone: its session begins when the
    window is over and its join is answered.
    """
    context = Context(initial_rebalance_delay_ms=3_000)
    a, b = (
        context.member(name, requires_id=requires_id, session_ms=session_ms)
        for name in "AB"
    )
    joins = [a.enter(), b.enter()]  # and B is silent from now on
    context.sleep(6_000)
    assert [join.result.generation_id for join in joins] == [1, 1]
    a.sync()
    a.keep_alive(session_ms - 250)
    assert context.state() == "Stable"
    context.sleep(250)
    assert (context.state(), a.heartbeat()) == ("PreparingRebalance", 27)
    assert [m[0] for m in a.join().result.members] == [a.member_id]


@pytest.mark.long
def test_the_table_in_the_documentation() -> None:
    """The document has the table as `python -m bench.initial_delay` prints it."""
    assert table() in DOCUMENT.read_text()


def test_the_how_to_page_has_rows_of_that_table() -> None:
    """Those of 20 members."""
    page = (DOCUMENT.parents[1] / "how-to" / "choose-an-initial-delay.md").read_text()
    rows = re.findall(r"^\| (\d+) ms \|(.*)$", page, re.MULTILINE)
    assert len(rows) == 4
    for gap_ms, counts in rows:
        assert f"| 20 | {gap_ms} |{counts}\n" in DOCUMENT.read_text()


def test_the_delay_makes_one_rebalance_of_a_deployment() -> None:
    """Ten members a second apart: one rebalance with the delay, several without it."""
    counts = {
        delay_ms: play(Deployment(10, 1_010, delay_ms)).generations
        for delay_ms in (0, 1_000, 3_000)
    }
    assert counts == {0: 5, 1_000: 4, 3_000: 1}
