"""Builds for reports: a bad afternoon, ten groups that were played, a large build."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.pipeline.events import frame, made, with_findings
from tests.pipeline.played_scenes import played
from tests.pipeline.sql_tables import BASE_NS, Made

from kohort.pipeline.report.queries import Answers

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

IMAGE = "<img src=x onerror='window.hit=1'>"
SCRIPT = "</script><script>window.hit=1</script><!--"
LINK = "<a href='javascript:window.hit=1'>b</a> %{x} &lt;i&gt; $\\alpha$ @PLOTLY@"
UNSEEN = "ana\u202egnp\u200b\n\u0000.exe"
NAMES = (IMAGE, SCRIPT, LINK, UNSEEN, "orders", "__proto__", "")

ABOUT: dict[str, Any] = {
    "build": "20261121T180000.000000Z-abcdef",
    "kohort": "0.1.0",
}

TEN = {
    "orders-eager": "a rolling restart, eager",
    "orders-cooperative": "a rolling restart, cooperative",
    "orders-static": "static restarts",
    "orders-consumer": "a rolling restart, consumer",
    "billing": "a deploy with a slow start, eager",
    "shipping": "a crash loop, cooperative",
    "audit": "crashes, long session",
    "search": "a slow poller, eager",
    "mail": "members that hang",
    "stock": "a coordinator that moves",
}
"""Ten groups of one run, by the scenes that they play."""


def _run(run: str, **more: Any) -> dict[str, Any]:
    return {
        "run": run,
        "first_ns": BASE_NS,
        "last_ns": BASE_NS + 1_800_000_000_000,
        **more,
    }


def bad(spark: SparkSession) -> Made:
    """A run in which everything goes wrong, with groups of every kind of name."""
    made = Made(spark)
    run = {"run": "r1"}
    groups = [{**run, "group": name} for name in NAMES]
    _metrics(made, groups)
    _causes(made, groups)
    _advice(made, groups)
    _silver(made, groups)
    _transactions(made)
    return made


def _metrics(made: Made, groups: list[dict[str, Any]]) -> None:
    made.rows(
        "gold/runs",
        _run(
            "r1",
            labels={"scenario": IMAGE, SCRIPT: LINK},
            scenario=IMAGE,
            events=4321,
            groups=len(NAMES),
            rebalances=36,
            completed=29,
            interrupted=7,
            paused_s=123.5,
            downtime_s=50.0,
            partition_s=10000.0,
            downtime_share=0.005,
        ),
    )
    made.rows(
        "gold/groups",
        *(
            {
                **group,
                "rebalances": 6 - place if place < 6 else 0,
                "completed": 5 - place if place < 5 else 0,
                "interrupted": 1 if place < 6 else 0,
                "paused_s": [60.5, 40.0, 20.0, 3.0, 0.0, 0.0, 0.0][place],
                "partition_s": 2500.0,
                "downtime_share": 0.02 if place == 1 else 0.0,
                "storms": 1 if place == 0 else 0,
                "expired": 4 if place == 1 else 0,
                "downtime_s": 50.0 if place == 1 else 0.0,
                "expired_unread_s": 88.25 if place == 1 else 0.0,
                "expired_unread_max_s": 12.5 if place == 1 else None,
                "refused_full": 17 if place == 2 else 0,
                "commits": 100,
                "commit_failures": 3 if place == 1 else 0,
                "commit_failures_by_error": {IMAGE: 3} if place == 1 else None,
                "received": 900 if place == 1 else 0,
                "again_certain": 41 if place == 1 else 0,
                "uncommitted": 7 if place == 1 else None,
            }
            for place, group in enumerate(groups)
        ),
    )


def _causes(made: Made, groups: list[dict[str, Any]]) -> None:
    made.rows(
        "gold/culprits",
        *(
            {**groups[0], "cause": cause, "name": name, "rebalances": 1}
            for cause in ("member_left", SCRIPT)
            for name in (*NAMES, None)
        ),
    )


def _advice(made: Made, groups: list[dict[str, Any]]) -> None:
    made.rows(
        "gold/findings",
        {
            **groups[0],
            "code": "rolling-restart",
            "findings": 1,
            "sure": 0,
            "title": f"7 members, among them {IMAGE}, restarted",
            "advice": SCRIPT,
            "setting": "group.instance.id",
            "suggested": SCRIPT,
            "cases": 11,
            "downtime_s": 60.0,
            "downtime_saved_s": 55.5,
        },
        {
            **groups[0],
            "code": "many-initial-rebalances",
            "findings": 1,
            "sure": 1,
            "title": "2 of 3 members came too late",
            "setting": "group.initial.rebalance.delay.ms",
            "current": "3000",
            "suggested": "6000",
            "cases": 2,
            "downtime_s": 20.0,
            "downtime_saved_s": 14.5,
        },
        {
            **groups[2],
            "code": "group-full",
            "findings": 1,
            "sure": 1,
            "title": "17 joins were refused",
            "setting": "group.max.size",
            "suggested": "7",
            "cases": 17,
            "downtime_s": 0.0,
        },
        {
            **groups[1],
            "code": "crashed",
            "findings": 1,
            "sure": 1,
            "title": "Members crashed",
            "cases": 1,
            "downtime_s": 45.0,
        },
    )
    made.rows(
        "gold/initial_delay",
        {
            "scenario": IMAGE,
            "seed": "1",
            "group": SCRIPT,
            "delay_ms": 3000,
            "rebalances_saved": 9,
            "downtime_saved_s": 12.5,
            "later_s": 2.5,
        },
    )
    quality = {"run": "r1", "found": 0, "of": 4321, "share": 0.0, "threshold": 0.0}
    made.rows(
        "gold/quality",
        {**quality, "check": "negative_durations", "outcome": "passed", "says": "x"},
        {
            **quality,
            "check": "missing_events",
            "outcome": "marked",
            "found": 5,
            "share": 0.00115,
            "says": f"gaps {IMAGE}",
        },
        {**quality, "check": "double_events", "outcome": "failed", "found": 2},
    )


def _transactions(made: Made) -> None:
    """Two aborts of three transactions, and a cause that this version does not know."""
    numbers = {"transactions": 3, "transactional_ids": 1, "committed": 1, "aborted": 2}
    times = {"open_p50_s": 2.0, "open_p99_s": 61.5, "open_max_s": 62.5}
    whole = {"run": "r1", "hour": None, **numbers, "undecided": 0, **times}
    causes = {"timeout": 2, SCRIPT: 1}
    made.rows(
        "gold/transactions", {**whole, "held_back": 1234, "aborts_by_cause": causes}
    )


def _silver(made: Made, groups: list[dict[str, Any]]) -> None:
    second = 1_000_000_000
    rebalances = [
        {
            **group,
            "number": number,
            "started_ns": BASE_NS + (100 * place + 10 * number) * second,
            "duration_ns": number * second,
            "outcome": "cut" if number == 4 else "completed",
            "cause": ("member_left", "session_expired", SCRIPT)[number % 3],
            "culprit_name": NAMES[number],
            "members": ["a", "b"],
            "unread_ns": number * second,
            "join_ns": second // 2,
            "sync_ns": second // 4,
        }
        for place, group in enumerate(groups)
        for number in range(1, 5)
    ]
    made.rows("silver/rebalances", *rebalances)
    made.rows(
        "silver/lags",
        *(
            {
                **groups[0],
                "number": number,
                "started_ns": BASE_NS,
                "ended_ns": BASE_NS,
                "peak_ns": BASE_NS + 5 * second,
                "lag_before": 12,
                "lag_peak": 12 + number % 4 * 300,
                "lag_built": number % 4 * 300,
                "worked_off_ns": BASE_NS if number < 3 else None,
                "catch_up_ns": number * second if number < 3 else None,
            }
            for number in (1, 2, 3, 4)
        ),
    )
    member = {"member_id": "m1", "name": UNSEEN, "session_timeout_ms": 8000}
    made.rows(
        "silver/memberships",
        *(
            {
                **groups[1],
                **member,
                "member_id": f"m{number}",
                "from_ns": BASE_NS + number * 60 * second,
                "until_ns": BASE_NS + (number * 60 + 50) * second,
                "how": "expired" if number < 4 else "left",
                "silent_ns": 20 * second if number < 4 else None,
            }
            for number in range(6)
        ),
    )
    made.rows(
        "silver/returns",
        *(
            {
                **groups[1],
                "number": number,
                "member_id": f"m{number}",
                "name": UNSEEN,
                "previous_id": f"m{number - 1}",
                "how": "expired" if number < 5 else "left",
                "from_ns": BASE_NS + (number * 60 - 10) * second,
                "until_ns": BASE_NS + number * 60 * second,
                "away_ns": 10 * second,
                "is_restart": True,
            }
            for number in range(1, 6)
        ),
    )
    made.rows(
        "silver/unread",
        *(
            {
                **groups[1],
                "number": 1,
                "position": place,
                "member_id": "m1",
                "name": UNSEEN,
                "reader": reader,
                "cause": cause,
                "from_ns": BASE_NS,
                "until_ns": BASE_NS + 12_500_000_000,
                "partitions": partitions,
                "unread_ns": partitions * 12_500_000_000,
            }
            for place, (cause, reader, partitions) in enumerate(
                (("expired", "m2", 1), ("paused", None, 3), ("group_empty", None, 2))
            )
        ),
    )
    made.rows(
        "silver/delivery",
        *(
            {
                **groups[1],
                "topic": "t",
                "partition": 0,
                "time_ns": BASE_NS,
                "what": what,
                "reason": reason,
                "records": records,
            }
            for what, reason, records in (
                ("again_certain", "commit_refused", 41),
                ("skipped", "deleted", 1),
                ("went_back", SCRIPT, None),
            )
        ),
    )
    made.rows(
        "silver/refusals",
        *(
            {
                **groups[2],
                "time_ns": BASE_NS,
                "kind": "member_refused",
                "name": NAMES[number % 5],
                "cause": "full" if number < 17 else "fenced",
            }
            for number in range(18)
        ),
    )


def ten(spark: SparkSession, folder: Path) -> Made:
    """The tables of ten groups, from the events of one broker."""
    from kohort.pipeline import gold, silver

    events = [
        event
        for group, scene in TEN.items()
        for event in played(scene).events("r1", group)
    ]
    ordered = enumerate(sorted(events, key=lambda each: each["time_ns"]), 1)
    events = [{**each, "node": 0, "sequence": place} for place, each in ordered]
    build = Made(spark)
    build.rows("gold/quality", {"check": "missing_events", "outcome": "passed"})
    functions = {**silver.TABLE_FUNCTIONS, **gold.TABLE_FUNCTIONS}
    tables = made(functions, frame(spark, folder, with_findings(events)), folder)
    for path, table in tables.items():
        table.createOrReplaceTempView(path.replace("/", "_"))
    return build


def large(spark: SparkSession) -> Made:
    """200 runs of two scenarios with 300 groups each."""
    made = Made(spark)
    of_run = "concat('run-', lpad(cast(id % 200 AS string), 3, '0'))"
    of_group = "concat('group-', lpad(cast(id % 300 AS string), 3, '0'))"
    both = "concat('run-', lpad(cast(floor(id / 300) AS string), 3, '0'))"
    scenario = "if(id % 2 = 0, 'rolling', 'crash')"
    made.many(
        "gold/runs",
        200,
        run=of_run,
        labels=f"map('scenario', {scenario}, 'seed', cast(id AS string))",
        scenario=scenario,
        seed="cast(id AS string)",
        first_ns=str(BASE_NS),
        last_ns=str(BASE_NS + 10**12),
        events="100000",
        groups="300",
        rebalances="1000 + id",
        completed="900",
        paused_s="id * 10.0",
        downtime_s="id * 10.0",
        partition_s="100000.0",
        downtime_share="id * 10 / 100000e0",
    )
    made.many(
        "gold/groups",
        60_000,
        run=both,
        group=of_group,
        rebalances="5",
        completed="5",
        paused_s="(id % 300) / 10.0",
        downtime_s="(id % 300) / 10.0",
        partition_s="300.0",
        downtime_share="(id % 300) / 3000e0",
        expired="if(id % 300 < 3, 1, 0)",
    )
    made.many(
        "silver/memberships",
        30_000,
        run="'run-000'",
        group=of_group,
        member_id="concat('m-', cast(id AS string))",
        name="concat('pod-', cast(id % 45 AS string))",
        from_ns=f"{BASE_NS} + id * 1000000",
        until_ns=f"{BASE_NS} + id * 1000000 + 5000000000",
        how="if(id % 3 = 0, 'expired', 'left')",
    )
    made.many(
        "gold/culprits",
        3_000,
        run="'run-001'",
        group=of_group,
        cause="'member_left'",
        name="concat('pod-', cast(id AS string))",
        rebalances="1",
    )
    made.many(
        "silver/rebalances",
        30_000,
        run="if(id < 15000, 'run-199', 'run-001')",
        group=of_group,
        number="floor(id / 300)",
        started_ns=f"{BASE_NS} + id * 10000000",
        duration_ns="id * 1000000",
        outcome="'completed'",
        cause="'member_left'",
        culprit_name="concat('pod-', cast(id AS string))",
    )
    made.many(
        "gold/quality",
        2_000,
        check="concat('check-', cast(id % 10 AS string))",
        run="concat('run-', cast(floor(id / 10) AS string))",
        outcome="'passed'",
        found="0",
        of="100",
        share="0.0",
    )
    return made


@functools.cache
def answers(made: Callable[[SparkSession], Made], spark: SparkSession) -> Answers:
    """Results of all report queries on one of these builds, cached."""
    return made(spark).answers()
