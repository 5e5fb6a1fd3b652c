"""Scenes for the metrics: rows of silver, each in its own run or group."""

from __future__ import annotations

import random
from typing import Any

from tests.pipeline.silver_rows import Scenes

MIDNIGHT = 86_400
ODD = ("", "ein 'Wort' \"und\" %s {x}|\n\\", "группа", "a" * 249)


def intervals(s: Scenes) -> None:
    """Memberships and pauses that touch or cross the boundary of an hour."""
    s.run("midnight", MIDNIGHT + 2000)
    s.member("midnight", "g", "m", MIDNIGHT - 600, MIDNIGHT + 900)
    s.pause("midnight", "g", "m", MIDNIGHT - 10, MIDNIGHT + 30, 1)
    s.rebalance("midnight", "g", 1, MIDNIGHT, 30)
    s.add(
        "silver/refusals",
        run="midnight",
        group="g",
        time_ns=MIDNIGHT * 10**9 - 1,
        cause="full",
        name="x",
    )
    s.run("open", 5000)
    s.member("open", "g", "m", 100)
    s.pause("open", "g", "m", 4990, 5000, 1)
    s.rebalance("open", "g", 1, 4990, None)
    s.run("short", 10)
    s.member("short", "g", "m", 2)
    s.run("thousand", 4_000_000)
    s.member("thousand", "g", "m", 1800, 1800 + 3_600_000)
    s.run("on the hour", 9000)
    s.member("on the hour", "g", "m", 0, 3600, how="expired", silent_s=45)
    s.event("on the hour", "g", 3600, "member_expired")
    s.member("on the hour", "at once", "m", 100, 100)


def nothing(s: Scenes) -> None:
    """A run without groups, events without a group, groups without rebalances."""
    s.run("idle", 100, scenario="quiet", seed="7")
    s.event("idle", None, 5, "node_started")
    s.run("odd", 100)
    for group in ODD:
        s.event("odd", group, 5, "member_id_given")


def percentiles(s: Scenes) -> None:
    """Completed rebalances: 1 and 2 s in hour 0; 3, 4 and 10 s in hour 1."""
    s.run("percentiles", 7200)
    for number, (at, took) in enumerate(
        ((0, 1), (3599, 2), (3600, 3), (3700, 4), (3800, 10)), 1
    ):
        s.rebalance(
            "percentiles",
            "g",
            number,
            at,
            took,
            cause="member_left" if number % 2 else "session_expired",
            members=["m"] * number,
            metadata_bytes=100,
            assignment_bytes=number,
        )
    more = {"metadata_bytes": 9999, "members": ["m"] * 99, "cause": "sync_timeout"}
    s.rebalance("percentiles", "g", 6, 3900, 50, outcome="interrupted", **more)
    s.rebalance("percentiles", "g", 7, 4000, None, **more)
    for at, built, ns_ in ((3599, 10, None), (3600, 30, 4e9), (3700, 0, 1e9)):
        s.add(
            "silver/lags",
            run="percentiles",
            group="g",
            started_s=at,
            lag_built=built,
            catch_up_ns=None if ns_ is None else int(ns_),
        )


def commits(s: Scenes) -> None:
    """Accepted and refused commits in two hours; one commit has no offsets."""
    s.run("commits", 7200)
    tell = ("commits", "g")
    s.event(*tell, 3599.9, "offsets_committed", offsets=3)
    s.event(*tell, 3600, "offsets_committed", offsets=2)
    s.event(*tell, 3600, "offsets_committed", offsets=0)
    s.event(*tell, 10, "commit_refused", error="ILLEGAL_GENERATION", offsets=5)
    s.event(*tell, 11, "commit_refused", error="ILLEGAL_GENERATION", offsets=0)
    s.event(*tell, 3601, "commit_refused", error="ILLEGAL_GENERATION", offsets=1)
    s.event(*tell, 3602, "commit_refused", error="UNKNOWN_MEMBER_ID", offsets=1)
    s.event(*tell, 20, "heartbeat", error="REBALANCE_IN_PROGRESS")


def delivery(s: Scenes) -> None:
    """Accounts in two of three hours, commits that went back, and a second group."""
    s.run("delivery", 7300)
    names = ("received", "again_certain", "again_possible", "skipped", "uncommitted")
    for group, at, *numbers in (
        ("g", 10, 4, 2, 0, 0, 9),
        ("g", 20, 6, 0, 3, 0, 5),
        ("g", 3601, 7, 1, 0, 4, 1),
        ("h", 5, 1, 0, 0, 0, 6),
    ):
        account = dict(zip(names, numbers, strict=True))
        s.event("delivery", group, at, "delivery_account", **account)
    rewinds = [{"offset": 1}, {"offset": 2}]
    s.event("delivery", "g", 3602, "offsets_went_back", rewinds=rewinds)
    s.event("delivery", "g", 7250, "heartbeat")


def partitions(s: Scenes) -> None:
    """Moves and crashes; a second group of the same run."""
    s.run("partitions", 7200)
    for group, at, moved, least in (
        ("g", 3599, 4, 1),
        ("g", 3600, 6, 6),
        ("h", 3600, 1, 0),
    ):
        s.add(
            "silver/moves",
            run="partitions",
            group=group,
            started_s=at,
            moved=moved,
            least_moved=least,
        )
    for group, at, seconds in (("g", 10, 5), ("g", 20, 45.5), ("h", 7, 1)):
        s.unread("partitions", group, f"m{at}", at, at + seconds)
    # One crash is in two accounts; the other departures are not crashes.
    s.unread("partitions", "h", "m7", 8, 9)
    s.unread("partitions", "g", "m", 3590, 3602, cause="paused", partitions=3)
    s.unread("partitions", "g", "m", 3700, 4700, cause="group_empty")
    s.unread("partitions", "g", "m", 3700, 4700, cause="work_ended")


def work(s: Scenes) -> None:
    """Partitions with an owner, with downtime, and with both."""
    s.run("work", 3720)
    for partition, until in ((0, 3700), (1, 100)):
        s.add(
            "silver/ownership",
            run="work",
            group="g",
            topic="t",
            partition=partition,
            member_id="m",
            from_s=0,
            until_s=until,
        )
    s.unread("work", "g", "m", 10, 20, cause="paused", partitions=2)
    s.unread("work", "g", "m", 95, 105, cause="revoked", partition_numbers=[1])
    s.unread("work", "g", "m", 105, 200, cause="group_empty", partition_numbers=[1])
    s.unread("work", "g", "m", 3700, 3720, partition_numbers=[2])


def refusals(s: Scenes) -> None:
    """Refusals of one name in two hours and two groups, and of a missing name."""
    s.run("refusals", 7200)
    for group, at, name, cause in (
        ("g", 10, "x", "full"),
        ("g", 3700, "x", "full"),
        ("g", 3800, "y", "group_over_max_size"),
        ("g", 3900, None, "full"),
        ("g", 3901, "z", "fenced"),
        ("h", 10, "x", "full"),
    ):
        s.add(
            "silver/refusals",
            run="refusals",
            group=group,
            time_s=at,
            name=name,
            cause=cause,
        )


STORMS: dict[str, tuple[float, ...]] = {
    # Five rebalances in exactly 60 s are a storm; 1 ns more is too long.
    "exactly": (0, 15, 30, 45, 60),
    "just missed": (0, 15, 30, 45, 60.000000001),
    "four": (0, 1, 2, 3),
    # 1-5 and 5-9 fit in 60 s; 2-6, 3-7 and 4-8 take 90, 90 and 85 s.
    "share one": (0, 10, 20, 30, 60, 100, 110, 115, 120),
    # 1-5 and 6-10 fit in 60 s; no window contains both 5 and 6.
    "touch": (0, 1, 2, 3, 4, 100, 101, 102, 103, 104),
    "apart": (0, 1, 2, 3, 4, 1000, 2000, 2001, 2002, 2003, 2004),
    "long": (0, 10, 20, 30, 40, 50, 60, 70),
    "same time": (5, 5, 5, 5, 5),
    "over the hour": (3590, 3595, 3600, 3605, 3610),
}
STORMS_FOUND: dict[str, list[tuple[int, int]]] = {
    "exactly": [(1, 5)],
    "share one": [(1, 9)],
    "touch": [(1, 5), (6, 10)],
    "apart": [(1, 5), (7, 11)],
    "long": [(1, 8)],
    "same time": [(1, 5)],
    "over the hour": [(1, 5)],
}
NAMES = ("b", None, "a", "b", "c", "a", None, "d", "b", "a", "e")


def storms(s: Scenes) -> None:
    """Rebalances in and out of storms."""
    s.run("storms", 7200)
    for group, times in STORMS.items():
        for number, at in enumerate(times, 1):
            s.rebalance(
                "storms",
                group,
                number,
                at,
                cause="member_left" if number % 3 else "session_expired",
                culprit_name=NAMES[number - 1],
            )


def people(s: Scenes) -> None:
    """Culprits, pauses, and members that delayed a join phase."""
    s.run("people", 3700)
    s.member("people", "g", "m1", 0, name="slow one")
    s.member("people", "g", "m2", 0, name="slow one")
    who: dict[str, Any] = {"culprit_name": "x", "cause": "member_left"}
    wait: dict[str, Any] = {"waited_for": "m1", "waited_s": 3}
    s.rebalance("people", "g", 1, 10, 4, **who, **wait, unread_s=2)
    more = {"waited_for": "m2", "waited_s": 5, "unread_s": 5}
    s.rebalance("people", "g", 2, 3595, 6, **who, **more)
    s.rebalance("people", "g", 3, 3600, None, **who, waited_for="m9", waited_s=1)
    who = {"culprit_name": None, "cause": "sync_timeout", "unread_s": 1}
    s.rebalance("people", "g", 4, 3650, 2, **who)
    s.pause("people", "g", "m1", 10, 14, 1)
    s.pause("people", "g", "m2", 11, 14, 1)
    s.pause("people", "g", "m2", 3590, 3610, 2)
    s.pause("people", "g", "m1", 3680, 3700, 3)


def by_chance(s: Scenes) -> None:
    """Random rebalances of three groups in two runs, over six hours."""
    chance = random.Random(8)
    for run in ("chance 1", "chance 2"):
        s.run(run, 6 * 3600)
        for group in ("a", "b", "c"):
            starts = sorted(chance.randrange(6 * 3600 * 1000) / 1000 for _ in range(40))
            for number, at in enumerate(starts, 1):
                took = chance.choice((None, chance.randrange(90_000) / 1000))
                s.rebalance(
                    run,
                    group,
                    number,
                    at,
                    took,
                    cause=chance.choice(("member_left", "member_joined")),
                    members=["m"] * chance.randrange(9),
                    metadata_bytes=chance.randrange(1000),
                    assignment_bytes=chance.randrange(1000),
                )
                until = chance.choice((None, at + chance.randrange(20_000_000) / 1e4))
                s.pause(run, group, "m", at, min(until or 1e9, 6 * 3600), number)
                if chance.random() < 0.2:
                    s.member(run, group, f"m{number}", at, until, how="expired")
                s.event(run, group, at, "offsets_committed", offsets=number)
                s.event(run, group, at, "commit_refused", error=f"E{number % 3}")


def scenes() -> Scenes:
    """Rows of all these scenes."""
    found = Scenes()
    for part in (
        intervals,
        nothing,
        percentiles,
        commits,
        delivery,
        partitions,
        work,
        refusals,
        storms,
        people,
        by_chance,
    ):
        part(found)
    return found
