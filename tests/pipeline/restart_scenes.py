"""Groups with restarting members: static membership and session timeouts.

Each scene is one group. Its decorator lists every expected recommendation.
"""

from __future__ import annotations

from functools import partial

from tests.pipeline.group_scenes import Group, Named, into

SCENES: Named = {}
scene = partial(into, SCENES)


# -- static membership


@scene(
    static_membership={
        "setting": "group.instance.id",
        "where": "client",
        "cases": 4,
        "rebalances_saved": 8,
        "downtime_saved_s": 16,
        "confidence": 0.57,  # 4 / 7
        "evidence": "4 of 4 departures were restarts, of 4 processes (by name and"
        " host): each was back within 20.0 s, as a new member. They caused"
        " 8 rebalances; without these, and with their partitions waiting for them"
        " instead, there would have been 16.0 partition-seconds less of downtime. A"
        " static member takes its old place if it does not leave when it stops and"
        " session.timeout.ms is at least 30000 (it was at most 45000).",
    }
)
def rolling_restart(g: Group) -> None:
    """Four members restart; each rejoins after 20 s."""
    for n in range(4):
        g.restart(n)


@scene(
    static_membership={"cases": 3, "confidence": 0.38},  # 3 / 6 * 3 / 4
    static_session_timeout={
        "setting": "session.timeout.ms",
        "suggested": "30000",  # 20 s * 1.5
        "rebalances_saved": None,
        "confidence": 0.38,
    },
)
def rolling_restart_with_a_short_session(g: Group) -> None:
    """Three members rejoin after 20 s, one never; the session timeout is 10 s."""
    for n in range(3):
        g.restart(n, session_timeout_ms=10_000)
    g.was_there("old9", 9000, client_id="c9")


@scene(static_membership={"cases": 3, "rebalances_saved": 6})
def crashed_and_back_before_the_session_expired(g: Group) -> None:
    """Last seen at 955 + 500 n, rejoined at 970 + 500 n, expired at 1000 + 500 n."""
    for n in range(3):
        at = 1000.0 + 500 * n
        g.expires(n, at)
        g.back(n, at - 30, at - 45, "expired")


@scene()
def two_restarts(g: Group) -> None:
    """One restart fewer than the rule requires."""
    g.restart(1)
    g.restart(2)


@scene()
def scaled_in(g: Group) -> None:
    """Four members leave and do not return."""
    for n in range(4):
        g.was_there(f"old{n}", 1000.0 + n, client_id=f"c{n}")
        g.goes(f"old{n}", 1000.0 + n)


@scene()
def static_members_that_leave(g: Group) -> None:
    """The members already have the setting that the rule suggests."""
    for n in range(4):
        g.restart(n, instance_id=f"i{n}")


@scene()
def restarts_that_cost_nothing(g: Group) -> None:
    """Other members caused rebalances, too."""
    for n in range(4):
        at = 1000.0 + 500 * n
        g.was_there(f"old{n}", at, client_id=f"c{n}")
        g.rebalance(at, cause="member_left", culprits=[f"old{n}", "x"])
        g.back(n, at + 10, at)
        g.s.rows["silver/rebalances"][-1]["culprits"].append("x")


# -- session.timeout.ms


@scene(
    session_timeout_higher={
        "setting": "session.timeout.ms",
        "suggested": "25000",  # (10 s + 5 s) * 1.5 = 22.5 s
        "cases": 3,
        "rebalances_saved": 6,
        "downtime_saved_s": 12,
        "confidence": 0.38,  # 3 / 6 * 3 / 4
    }
)
def expired_and_back_at_once(g: Group) -> None:
    """Three rejoin within 5 s after their sessions expire, one later."""
    for n, after in enumerate((2, 2, 5, 5.1)):
        at = 1000.0 + 500 * n
        g.expires(n, at, silent=10)
        g.back(n, at + after, at - 10, "expired")


@scene(session_timeout_higher={"cases": 3, "suggested": "30000", "confidence": 0.5})
def expired_and_heard_of_again(g: Group) -> None:
    """Old ids send requests up to 8 s after 10 s of silence: 18 s * 1.5 = 27 s."""
    for n in range(3):
        g.expires(n, 1000.0 + 500 * n, silent=10)
    g.refused("unknown", 1008, member_id="old0")
    g.refused("unknown", 1507, member_id="old1")
    g.refused("unknown", 1900, member_id="old1")
    g.s.add(
        "silver/commits",
        run="r",
        group=g.name,
        member_id="old2",
        time_s=2004,
        is_first=True,
        error="UNKNOWN_MEMBER_ID",
    )


@scene(session_timeout_higher={"cases": 3, "suggested": "45000"})
def expired_and_back_on_the_same_connection(g: Group) -> None:
    """Silent for 10 + 20 s without a restart: 30 s * 1.5."""
    for n in range(3):
        at = 1000.0 + 500 * n
        g.expires(n, at, silent=10)
        g.back(n, at + 20, at - 10, "expired", is_restart=False)


@scene(session_timeout_higher={"cases": 3, "suggested": "165000"})
def static_members_that_restart_slowly(g: Group) -> None:
    """Rejoined 100 s after a session of 10 s expired: 110 s * 1.5."""
    for n in range(3):
        at = 1000.0 + 500 * n
        g.expires(n, at, silent=10, instance_id=f"i{n}")
        g.back(n, at + 100, at - 10, "expired", instance_id=f"i{n}")


@scene()
def two_expired_alive(g: Group) -> None:
    """One expiry fewer than the rule requires; a request before it proves nothing."""
    for n in range(3):
        g.expires(n, 1000.0 + 500 * n, silent=10)
    g.refused("unknown", 1008, member_id="old0")
    g.refused("unknown", 1507, member_id="old1")
    g.refused("unknown", 1999, member_id="old2")
    g.refused("fenced", 2008, member_id="old2")


@scene(
    session_timeout_lower={
        "setting": "session.timeout.ms",
        "suggested": "15000",
        "cases": 4,
        "confidence": 0.43,  # 4 / 7 * 45 / 48 * 0.8
        "evidence": "After 4 crashes partitions had no reader for 384.0"
        " partition-seconds, 94 % of them because the session of 45000 ms had to expire"
        " first; the change would have saved 240.0. The price: the group removes a"
        " member that pauses for longer. Set heartbeat.interval.ms to at most a third"
        " of it.",
    }
)
def crashes_that_waited_for_the_session(g: Group) -> None:
    """Four crashes leave two partitions unread for 48 s; 45 s are the session."""
    for n in range(4):
        g.expires(n, 1000.0 + 500 * n, unread=48)


@scene()
def crashes_with_a_short_session(g: Group) -> None:
    """A session timeout of 20 s is not much longer than 15 s."""
    for n in range(4):
        g.expires(n, 1000.0 + 500 * n, silent=20, unread=21)


@scene()
def crashes_that_waited_for_the_rebalance(g: Group) -> None:
    """Partitions are unread for 100 s, of which only 45 s are the session."""
    for n in range(4):
        g.expires(n, 1000.0 + 500 * n, unread=100)


@scene()
def two_crashes(g: Group) -> None:
    """One crash fewer than the rule requires, with four partitions."""
    g.expires(1, 1000, unread=48)
    g.expires(2, 2000, unread=48)


@scene()
def crashes_and_one_that_was_alive(g: Group) -> None:
    """A shorter session would have expired more members that were alive."""
    for n in range(4):
        g.expires(n, 1000.0 + 500 * n, unread=48)
    g.refused("unknown", 1001, member_id="old0")


@scene(static_membership={"cases": 4})
def crashes_of_members_that_come_back(g: Group) -> None:
    """Static membership would help these members, and needs the long session."""
    for n in range(4):
        at = 1000.0 + 500 * n
        g.expires(n, at, unread=48)
        g.back(n, at - 25, at - 45, "expired")


def want_it_longer(g: Group, silence: float) -> None:
    """Restarts need 20 s * 1.5; members that were alive need their silence * 1.5."""
    for n in range(3):
        g.restart(n, session_timeout_ms=10_000)
        g.expires(n + 10, 6000.0 + 500 * n, silent=10)
        g.refused("unknown", 5990 + silence + 500 * n, member_id=f"old{n + 10}")


@scene(static_membership={"cases": 3}, static_session_timeout={"suggested": "30000"})
def two_want_it_longer(g: Group) -> None:
    """The longer timeout serves both: that of the restarts."""
    want_it_longer(g, 12)


@scene(static_membership={"cases": 3}, session_timeout_higher={"suggested": "45000"})
def two_want_it_longer_the_other_way(g: Group) -> None:
    """The longer timeout serves both: that of the silent members."""
    want_it_longer(g, 30)
