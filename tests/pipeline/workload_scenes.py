"""Groups with findings about partitions, applications or limits.

Each scene is one group. Its decorator lists every expected recommendation.
"""

from __future__ import annotations

from functools import partial

from tests.pipeline.group_scenes import POLL, Group, Named, into

SCENES: Named = {}
scene = partial(into, SCENES)


# -- assignments


@scene(
    cooperative_rebalancing={
        "setting": "partition.assignment.strategy",
        "suggested": "cooperative-sticky",
        "cases": 3,
        "rebalances_saved": None,
        "downtime_saved_s": 27,  # 3 * 10 s * 0.9
        "confidence": 0.45,  # 3 / 6 * 0.9
        "evidence": "In 3 rebalances members revoked all partitions, which had no"
        " reader for 30.0 partition-seconds; of 30 partitions (summed over the"
        " rebalances) 3 had to move. Cooperative members revoke only partitions that"
        " move; if some do, a second, short rebalance follows.",
    }
)
def eager_for_little(g: Group) -> None:
    """Only 1 of 10 partitions has to move each time; one rebalance has no pause."""
    for _ in range(3):
        g.moves(10, owned=10, moved=1, least=1)
    g.moves(0, owned=10, moved=5, least=5)


@scene()
def eager_for_much(g: Group) -> None:
    """Most partitions, 6 of 10, have to move."""
    for _ in range(4):
        g.moves(10, owned=10, moved=6, least=6)


@scene()
def eager_and_quick(g: Group) -> None:
    """Each rebalance pauses for only half a second."""
    for _ in range(4):
        g.moves(0.5, owned=10, moved=1, least=1)


@scene()
def eager_twice(g: Group) -> None:
    """One rebalance fewer than the rule requires."""
    for _ in range(2):
        g.moves(10, owned=10, moved=1, least=1)


@scene(
    sticky_assignor={
        "setting": "partition.assignment.strategy",
        "suggested": "cooperative-sticky",
        "cases": 3,
        "downtime_saved_s": None,
        "confidence": 0.38,  # 3 / 6 * 3 / 4
        "evidence": "In 3 of 4 rebalances range moved more partitions than necessary"
        " for the same shares: 18 moved in total, 8 had to.",
    }
)
def moved_too_far(g: Group) -> None:
    """Ten more partitions than necessary move in three of four rebalances."""
    for moved in (6, 6, 4, 2):
        g.moves(0, owned=20, moved=moved, least=2)


@scene()
def moved_too_far_by_a_sticky_one(g: Group) -> None:
    """The group already uses the assignor that the rule recommends."""
    for _ in range(3):
        g.moves(0, owned=20, moved=8, least=2, protocol="cooperative-sticky")


@scene()
def moved_a_little_too_far(g: Group) -> None:
    """Three rebalances move only 9 partitions more than necessary."""
    for moved in (5, 5, 5):
        g.moves(0, owned=20, moved=moved, least=2)


@scene()
def moved_less_than_twice_too_far(g: Group) -> None:
    """57 partitions move, 30 would suffice."""
    for _ in range(3):
        g.moves(0, owned=40, moved=19, least=10)


# -- polling


@scene(
    max_poll_interval={
        "setting": "max.poll.interval.ms",
        "suggested": "480000",  # (300 s + 20 s) * 1.5
        "cases": 3,
        "rebalances_saved": 5,
        "downtime_saved_s": 10,
        "confidence": 0.42,  # 3 / 6 * (1 + 2 / 3) / 2
    }
)
def slow_to_poll(g: Group) -> None:
    """Three exceed max.poll.interval.ms; two rejoin, after 10 and 20 s."""
    for n in range(3):
        at = 1000.0 + 500 * n
        g.was_there(f"old{n}", at, client_id=f"c{n}", reason=POLL)
        g.goes(f"old{n}", at)
        if n:
            g.back(n, at + 10 * n, at)


@scene(max_poll_interval={"suggested": "480000", "cases": 3, "confidence": 0.5})
def rejoined_on_the_same_connection(g: Group) -> None:
    """Three leave without a reason and rejoin after 20 s without a restart."""
    for n in range(3):
        g.restart(n, is_restart=False)


@scene(max_poll_interval={"suggested": "600000", "confidence": 0.25})
def stuck(g: Group) -> None:
    """None rejoins: the rule suggests twice the value, with half the confidence."""
    said = "no poll within max.poll.interval.ms (300000 ms)"
    for n in range(3):
        g.was_there(f"old{n}", 1000.0 + n, client_id=f"c{n}", reason=said)


@scene()
def slow_to_poll_twice(g: Group) -> None:
    """Two members stop polling; a third one closes normally."""
    for n, reason in enumerate((POLL, POLL, "the consumer is being closed")):
        g.was_there(f"old{n}", 1000.0 + n, client_id=f"c{n}", reason=reason)


def waited(g: Group, who: str, seconds: float) -> None:
    """Adds a rebalance of 25 s that waits for members, with 10 s of pauses."""
    at = 1000.0 * (g.number + 1)
    g.rebalance(at, 10, took=25, waited_for=who, waited_s=seconds)


@scene(
    slow_to_rejoin={
        "setting": "max.poll.records",
        "suggested": "125",  # 500 * 5 / 20
        "cases": 4,
        "rebalances_saved": None,
        "downtime_saved_s": 20,  # 4 * (10 s - 5 s)
        "confidence": 0.46,  # 4 / 7 * 4 / 5
    }
)
def one_is_waited_for(g: Group) -> None:
    """Rebalances wait for m1 four times, for m2 once; short waits do not count."""
    g.s.member(*g.at, "m1", 0, name="orders")
    for _ in range(4):
        waited(g, "m1", 20)
    waited(g, "m2", 6)
    waited(g, "m3", 4.9)


@scene(slow_to_rejoin={"suggested": "1"})
def one_is_waited_for_an_hour(g: Group) -> None:
    """500 * 5 / 3600 would round to zero."""
    for _ in range(3):
        waited(g, "m1", 3600)


@scene()
def all_are_waited_for(g: Group) -> None:
    """Rebalances wait three times for each of three members."""
    for who in ("m1", "m2", "m3") * 3:
        waited(g, who, 20)


@scene()
def one_is_waited_for_a_heartbeat(g: Group) -> None:
    """A wait of 4.9 s is a heartbeat and the time to revoke."""
    for _ in range(9):
        waited(g, "m1", 4.9)


# -- the broker


@scene(
    initial_delay={
        "setting": "group.initial.rebalance.delay.ms",
        "where": "broker",
        "suggested": "3000",  # above 2.5 s
        "cases": 3,
        "rebalances_saved": 3,
        "downtime_saved_s": 6,
        "confidence": 0.5,  # 3 / 6
    }
)
def a_start_of_many_rebalances(g: Group) -> None:
    """Three members join 2, 2.5 and 1.5 s after one another; a fourth much later."""
    starts(g, 2, 4.5, 6, 60)


def starts(g: Group, *later: float) -> None:
    """A member joins an empty group at 100 s; others join ``later`` seconds after."""
    g.s.member(*g.at, "first", 100)
    g.rebalance(100, previous_state="Empty", culprits=["first"])
    for after in later:
        g.comes(f"after {after}", 100 + after)


@scene()
def a_start_of_two_more_rebalances(g: Group) -> None:
    """One rebalance fewer than the rule requires."""
    starts(g, 2, 4)


@scene()
def members_that_are_added(g: Group) -> None:
    """Members join 11 s apart, too far for one start."""
    starts(g, 11, 22, 33, 44)


@scene()
def members_that_come_after_one_went(g: Group) -> None:
    """A departure ends the start: the later joins may be a rolling restart."""
    g.s.member(*g.at, "first", 100, 103, how="left")
    g.rebalance(100, previous_state="Empty", culprits=["first"])
    g.goes("first", 103)
    for n in range(4):
        g.comes(f"m{n}", 104 + n)


@scene()
def a_start_that_was_gathered(g: Group) -> None:
    """Four members join after the first and cause only one more rebalance."""
    g.s.member(*g.at, "first", 100)
    g.rebalance(100, previous_state="Empty", culprits=["first"])
    others = [f"m{n}" for n in range(4)]
    for n, who in enumerate(others):
        g.s.member(*g.at, who, 101 + n)
    g.rebalance(101, culprits=others)


@scene()
def newcomers_of_a_group_that_was_there(g: Group) -> None:
    """Members join a group that was never empty."""
    for n in range(5):
        g.comes(f"m{n}", 100 + n)


def has(g: Group, members: int, partitions: int) -> None:
    """Gives the group this number of members and partitions."""
    g.rebalance(1, members=[f"m{n}" for n in range(members)])
    for partition in range(partitions):
        g.s.add(
            "silver/ownership",
            run="r",
            group=g.name,
            topic="t",
            partition=partition,
            from_s=2,
        )


@scene(
    group_max_size={
        "setting": "group.max.size",
        "where": "broker",
        "suggested": "8",  # (4 + 2) * 1.25 = 7.5
        "cases": 3,
        "confidence": 0.4,  # 2 / 5
    }
)
def full(g: Group) -> None:
    """4 members, 12 partitions; 2 more processes try to join, three times."""
    has(g, 4, 12)
    for host in ("/1", "/2", "/2"):
        g.refused("full", 10, name="app", host=host)


@scene(
    runaway_deployment={
        "setting": "group.max.size",
        "suggested": "2",
        "cases": 6,
        "confidence": 0.67,  # 6 / 9
        "evidence": "6 joins of 5 processes (by name and host) were refused because"
        " the group was full; it had at most 2 members, and 12 partitions. Keep the"
        " limit and find the deployment: app on host /1 was refused most, 2 times.",
    }
)
def run_away(g: Group) -> None:
    """2 members; 5 more processes try to join, one of them twice."""
    has(g, 2, 12)
    for host in "112345":
        g.refused("full", 10, name="app", host=f"/{host}")


@scene(runaway_deployment={"suggested": "4"})
def full_without_work(g: Group) -> None:
    """4 members, 5 partitions; of 2 more processes one would have no partition."""
    has(g, 4, 5)
    for host in "112":
        g.refused("group_over_max_size", 10, name="app", host=f"/{host}")


@scene()
def full_for_two(g: Group) -> None:
    """One refusal fewer than the rule requires; three others were fenced."""
    has(g, 4, 12)
    for cause in ("full", "full", "fenced", "fenced", "fenced"):
        g.refused(cause, 10, name="app", host="/1")


# -- commits


@scene(
    commit_on_revocation={
        "setting": "enable.auto.commit",
        "suggested": "false, and commitSync in onPartitionsRevoked",
        "cases": 3,
        "confidence": 0.38,  # 3 / 6 * 3 / 4
        "evidence": "40 records were processed twice, in 3 cases, after commits were"
        " refused: 3 of 4 refused commits came during a rebalance or after it. Commit"
        " in onPartitionsRevoked with commitSync.",
    }
)
def processed_twice(g: Group) -> None:
    """Three commits reprocess records; one of four refusals has another reason."""
    for sequence in (1, 2, 3, 3):
        g.twice(sequence)
    refused(g, "ILLEGAL_GENERATION", "REBALANCE_IN_PROGRESS", "UNKNOWN_MEMBER_ID", "X")


def refused(g: Group, *errors: str) -> None:
    """Adds refused commits."""
    for error in errors:
        g.s.event(*g.at, 1, "commit_refused", error=error)


@scene()
def processed_twice_in_two_commits(g: Group) -> None:
    """One commit fewer than the rule requires, with three partitions."""
    for sequence in (1, 2, 2):
        g.twice(sequence)
    refused(g, "ILLEGAL_GENERATION")


@scene()
def rewound(g: Group) -> None:
    """An admin set the offsets back on purpose."""
    for sequence in range(5):
        g.twice(sequence, "admin")
    refused(g, "ILLEGAL_GENERATION")


@scene()
def refused_for_another_reason(g: Group) -> None:
    """Commits are refused because the coordinator moved."""
    for sequence in range(5):
        g.twice(sequence)
    refused(g, "NOT_COORDINATOR")
