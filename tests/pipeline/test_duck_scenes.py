"""The independent calculation itself, on scenes that are worked out by hand.

Each scene is a group (or a run) of its own; all are calculated at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb
import pytest
from tests.pipeline.duck.calculate import calculate, rows
from tests.pipeline.duck.compare import compare
from tests.pipeline.duck.parquet import write
from tests.pipeline.duck.told import BEGIN, SCENES, Row, S, Scene

from kohort.pipeline.tables import BY_PATH

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def calculated(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """All scenes, calculated."""
    Scene.numbers.clear()
    Scene.events.clear()
    for scene in SCENES:
        scene()
    path = write(Scene.events, tmp_path_factory.mktemp("duck") / "events.parquet")
    with calculate(str(path)) as connection:
        yield connection


def of(connection: duckdb.DuckDBPyConnection, path: str, group: str) -> list[Row]:
    """The rows of a group."""
    return [row for row in rows(connection, path) if row["group"] == group]


def since(ns: Any) -> float | None:
    """Seconds since the beginning."""
    return None if ns is None else (ns - BEGIN) / S


def seen(found: Sequence[Row], *names: str) -> list[tuple[Any, ...]]:
    """Some columns; times as seconds since the beginning."""
    return [
        tuple(
            since(row[n])
            if n in {"from_ns", "until_ns", "started_ns", "ended_ns"}
            else row[n]
            for n in names
        )
        for row in found
    ]


# -- silver


def test_runs(calculated: duckdb.DuckDBPyConnection) -> None:
    """What a run is called, and what is in it."""
    by_run = {row["run"]: row for row in rows(calculated, "silver/runs")}
    assert by_run.keys() == {"r", "with", "without", "other"}
    run = by_run["r"]
    assert (run["first_ns"], since(run["last_ns"])) == (BEGIN, 20_000)
    assert (run["scenario"], run["labels"], run["nodes"]) == (None, {}, [1, 2])
    assert run["groups"] == len(SCENES) - 1
    assert run["events"] == sum(e["run"] == "r" for e in Scene.events)
    assert by_run["with"]["seed"] == "1"


def test_rebalances(calculated: duckdb.DuckDBPyConnection) -> None:
    """How each ends, when, and who was waited for."""
    found = of(calculated, "silver/rebalances", "outcomes")
    assert seen(found, "number", "outcome", "started_ns", "ended_ns", "generation") == [
        (1, "completed", 0, 3, 1),
        (2, "interrupted", 4, 6, 2),
        (3, "moved", 6, 7, None),
        (4, "emptied", 8, 9, 3),
        (5, "open", 10, None, None),
    ]
    assert seen(found, "culprit_name", "node")[:2] == [("i", 1), ("ben", 1)]
    assert seen(found, "culprit_name", "node")[3:] == [("b", 2), (None, 2)]
    assert seen(found, "waited_for", "waited_ns")[0] == ("b", 5)
    assert seen(found, "members", "join_ended", "duration_ns")[3] == (
        [],
        "nobody_left",
        S,
    )


def test_memberships(calculated: duckdb.DuckDBPyConnection) -> None:
    """From when to when, and how it ended; ids that were only given out have none.

    c was brought back by one coordinator; the next one knew nothing of c and new.
    """
    found = of(calculated, "silver/memberships", "lives")
    assert seen(found, "member_id", "from_ns", "until_ns", "how", "is_eager") == [
        ("c", 1, 8, "forgotten", False),
        ("new", 5, 8, "forgotten", True),
        ("old", 3, 5, "replaced", True),
        ("x", 6, 9, "expired", True),
    ]
    assert seen(found, "owner", "name", "is_start_known", "silent_ns") == [
        ("c", "cleo", True, None),
        ("i", "i", True, None),
        ("old", "old", False, None),
        ("x", "x", True, 2 * S),
    ]


def test_ownership(calculated: duckdb.DuckDBPyConnection) -> None:
    """Who had it before, and how long nobody did."""
    found = of(calculated, "silver/ownership", "owned")
    found.sort(key=lambda row: (row["partition"], row["from_ns"]))
    columns = ("partition", "member_id", "from_ns", "until_ns", "began", "number")
    assert seen(found, *columns) == [
        (0, "a", 1, 10, "assigned", 1),
        (0, "b", 12, None, "assigned", 3),
        (1, "a", 1, 3, "assigned", 1),
        (1, "b", 3, None, "assigned", 2),
        (2, "b", 13, None, "loaded", 3),
    ]
    assert seen(found, "previous_owner", "moved", "idle_ns", "crash_idle_ns") == [
        (None, False, None, None),
        ("a", True, 2 * S, 6 * S),
        (None, False, None, None),
        ("a", True, 0, None),
        (None, False, None, None),
    ]


def test_stand_stills(calculated: duckdb.DuckDBPyConnection) -> None:
    """Joins in between are part of it; s2 came back in peace, s3 and s4 did not."""
    found = of(calculated, "silver/stand_stills", "still")
    found.sort(key=lambda row: row["from_ns"])
    assert seen(found, "member_id", "from_ns", "until_ns", "ended", "number") == [
        ("a", 10, 14, "synced", 2),
        ("a", 20, 23, "gone", 2),
        ("s3", 33, 35, "gone", 3),
        ("s4", 35, None, None, 3),
    ]


def test_commits_and_records_processed_twice(
    calculated: duckdb.DuckDBPyConnection,
) -> None:
    """Only what somebody else had processed counts as refused."""
    commits = of(calculated, "silver/commits", "twice")
    assert len(commits) == 10
    assert [row["is_first"] for row in commits].count(False) == 2
    assert {row["error"] for row in commits} == {
        None,
        "ILLEGAL_GENERATION",
        "UNKNOWN_MEMBER_ID",
        "REBALANCE_IN_PROGRESS",
    }
    found = of(calculated, "silver/reprocessed", "twice")
    assert seen(found, "partition", "member_id", "why", "records") == [
        (0, "b", "refused", 50),
        (0, "b", "rewound", 80),
    ]
    (group,) = of(calculated, "gold/groups", "twice")
    wanted = ("commits", "offsets", "commit_failures", "records_reprocessed")
    assert seen([group], *wanted) == [(5, 7, 4, 50)]
    assert group["commit_failures_by_error"]["UNKNOWN_MEMBER_ID"] == 2


def test_refusals(calculated: duckdb.DuckDBPyConnection) -> None:
    """For want of room, by how many; the fenced one is another matter."""
    found = of(calculated, "silver/refusals", "refused")
    assert seen(found, "kind", "name", "cause") == [
        ("member_refused", "x", "full"),
        ("member_refused", "x", "full"),
        ("member_kicked", "k", "group_over_max_size"),
        ("member_refused", "f", "fenced"),
    ]
    (group,) = of(calculated, "gold/groups", "refused")
    assert seen([group], "refused_full", "refused_full_names") == [(3, 2)]


def test_moves(calculated: duckdb.DuckDBPyConnection) -> None:
    """Ranges move five; 5 and 4 becoming 3, 3 and 3 had to move three."""
    found = of(calculated, "silver/moves", "moving")
    assert seen(found, "number", "owned", "moved", "least_moved", "first_owned") == [
        (1, 9, 0, 0, 9),
        (2, 9, 5, 3, 0),
        (3, 9, 0, 0, 0),
    ]


def test_lags(calculated: duckdb.DuckDBPyConnection) -> None:
    """No commit in the second one: no row. The third one's is never worked off."""
    found = of(calculated, "silver/lags", "lagging")
    columns = ("number", "lag_before", "lag_peak", "lag_built", "catch_up_ns")
    assert seen(found, *columns) == [
        (1, 30, 100, 70, 2 * S),
        (3, 0, 10, 10, None),
    ]
    assert [since(row["worked_off_ns"]) for row in found] == [6, None]


# -- gold


def test_hours(calculated: duckdb.DuckDBPyConnection) -> None:
    """What lasts over the full hour counts in both; nobody was there in the third."""
    found = of(calculated, "gold/hours", "days")
    columns = ("rebalances", "stand_still_s", "member_s", "duration_max_s")
    assert seen(found, *columns) == [
        (4, 1 + 3 + 10, 1800, 30),
        (0, 20, 3600, None),
        (0, 0, 0, None),
        (0, 0, 0, None),
    ]
    hours = [datetime.fromtimestamp(BEGIN // S + 3600 * n, UTC) for n in range(4)]
    assert [row["hour"] for row in found] == hours
    # 1, 2, 3 and 30 s.
    assert found[0]["duration_p50_s"] == pytest.approx(2.5)
    assert found[0]["duration_p95_s"] == pytest.approx(3 + 27 * 0.85)
    assert found[0]["bytes_per_rebalance"] == pytest.approx((200 + 3 * 100) / 4)
    assert found[1]["capacity_lost"] == pytest.approx(20 / 3600)
    assert found[2]["capacity_lost"] is None
    assert found[1]["by_cause"] is None
    assert found[0]["by_cause"] == {"member_joined": 1, "leader_rejoined": 3}


def test_groups_and_runs(calculated: duckdb.DuckDBPyConnection) -> None:
    """All hours together, and all groups together."""
    (group,) = of(calculated, "gold/groups", "days")
    assert group["stand_still_s"] == pytest.approx(34)
    assert group["member_s"] == pytest.approx(5400)
    runs = {row["run"]: row for row in rows(calculated, "gold/runs")}
    groups = [row for row in rows(calculated, "gold/groups") if row["run"] == "r"]
    for name in ("rebalances", "stand_still_s", "commits", "storms", "lag_built"):
        assert runs["r"][name] == pytest.approx(sum(row[name] for row in groups))
    assert runs["r"]["members_most"] == 3


def test_causes_culprits_and_whom_all_waited_for(
    calculated: duckdb.DuckDBPyConnection,
) -> None:
    """Stand-stills count for the rebalance that they began in, whole."""
    causes = of(calculated, "gold/causes", "days")
    assert seen(causes, "cause", "rebalances", "completed", "stand_still_s") == [
        ("leader_rejoined", 3, 3, 34),
        ("member_joined", 1, 1, 0),
    ]
    culprits = of(calculated, "gold/culprits", "outcomes")
    assert seen(culprits, "cause", "name", "rebalances", "duration_s") == [
        ("member_joined", "ben", 1, 2),
        ("member_joined", "i", 1, 3),
        ("member_left", "b", 1, 1),
        ("session_expired", "b", 1, 1),
        ("sync_timeout", None, 1, 0),
    ]
    waited = of(calculated, "gold/waited_for", "days")
    assert seen(waited, "name", "rebalances", "waited_s") == [("a", 3, 21e-9)]


def test_storms(calculated: duckdb.DuckDBPyConnection) -> None:
    """Bursts that only follow each other are two; stretches that overlap are one."""
    found = of(calculated, "gold/storms", "stormy")
    assert seen(found, "from_ns", "until_ns", "first_number", "last_number") == [
        (0, 4, 1, 5),
        (1000, 1004, 6, 10),
        (2000, 2071, 11, 17),
    ]
    assert seen(found, "rebalances", "names")[0] == (5, ["x", "y", "m2"])
    assert found[0]["by_cause"] == {"member_left": 3, "member_joined": 2}


def test_what_the_initial_delay_saved(calculated: duckdb.DuckDBPyConnection) -> None:
    """Only groups in both runs of a pair."""
    (row,) = rows(calculated, "gold/initial_delay")
    assert (row["group"], row["run_with"], row["run_without"]) == (
        "d",
        "with",
        "without",
    )
    assert (row["delay_ms"], row["rebalances_saved"], row["later_s"]) == (3000, 2, 4)


# -- the comparison


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ("rebalances + 1 AS rebalances", "rebalances is"),
        ("stand_still_s * (1 + 1e-8) AS stand_still_s", "stand_still_s is"),
        ("NULL::DOUBLE AS member_s", "member_s is True"),
        ("map() AS by_cause", "by_cause is"),
        ('"group" || 1 AS "group"', "only written"),
    ],
)
def test_differences_are_found(
    calculated: duckdb.DuckDBPyConnection, tmp_path: Path, change: str, says: str
) -> None:
    """In numbers, doubles, maps, nulls and keys; and none where there is none."""
    table = BY_PATH["gold/hours"]

    def differences(of_: str) -> list[str]:
        to = tmp_path / "hours.parquet"
        calculated.execute(f"COPY ({of_}) TO '{to}' (FORMAT parquet)").fetchall()
        return compare(tmp_path, "gold.hours", table, calculated)

    assert not differences("FROM gold.hours ORDER BY hour DESC")
    told = differences(f"SELECT * REPLACE ({change}) FROM gold.hours")
    assert any(says in line for line in told), told


def test_a_row_that_is_there_twice_is_found(
    calculated: duckdb.DuckDBPyConnection, tmp_path: Path
) -> None:
    """Rows are counted, not only looked for."""
    to = tmp_path / "culprits.parquet"
    both = "FROM gold.culprits UNION ALL FROM gold.culprits LIMIT"
    size = len(rows(calculated, "gold/culprits")) + 1
    calculated.execute(f"COPY ({both} {size}) TO '{to}' (FORMAT parquet)").fetchall()
    table = BY_PATH["gold/culprits"]
    assert compare(tmp_path, "gold.culprits", table, calculated)
