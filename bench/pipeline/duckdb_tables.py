"""Tables of a report in DuckDB's SQL, to compare their cost with the pipeline's.

They are `TABLES`: those that cost the pipeline the most, of its 24, in short. DuckDB
does less than an ingest and a build: it takes each event as it is (no quarantine, no
copies of events), has no checks but missing numbers, no findings, no other
numbers of hours and groups, no intervals cut at hours, no lineage, and no report.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final

import duckdb

TABLES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "runs": """
            SELECT run, min(time_ns) AS first_ns, max(time_ns) AS last_ns,
                count(*) AS events, count(DISTINCT "group") AS groups,
                any_value(labels) AS labels
            FROM events GROUP BY run""",
        "rebalances": """
            SELECT *, row_number() OVER (
                PARTITION BY run, "group" ORDER BY started_ns, node, started_sequence
            ) AS number
            FROM (
                SELECT run, "group", node, started_sequence, started_ns, ended_ns,
                    duration_ns, cause, outcome, unread_ns, paused_ns, unread, pauses,
                    coalesce(instance_id, client_id, member_id) AS culprit,
                    moved_count, least_moved_count, len(members) AS members
                FROM events WHERE kind = 'rebalance_account'
            )""",
        "memberships": """
            SELECT run, "group", member_id, min(time_ns) AS from_ns,
                max(time_ns) FILTER (
                    kind IN ('member_left', 'member_expired', 'member_kicked')
                ) AS until_ns,
                max_by(kind, time_ns) AS how,
                coalesce(
                    min(instance_id), min(client_id), min(member_id)
                ) AS name
            FROM events
            WHERE "group" IS NOT NULL AND member_id IS NOT NULL AND kind IN (
                'member_joined', 'member_replaced', 'member_synced',
                'partitions_changed', 'member_left', 'member_expired', 'member_kicked'
            )
            GROUP BY run, "group", member_id""",
        "ownership": """
            WITH steps AS (
                SELECT run, "group", member_id, time_ns, node, sequence, step,
                    part.topic AS topic, unnest(part.partitions) AS "partition"
                FROM (
                    SELECT *, true AS step, unnest(partitions_gained) AS part
                    FROM events WHERE kind = 'partitions_changed'
                    UNION ALL
                    SELECT *, false AS step, unnest(partitions_lost) AS part
                    FROM events WHERE kind = 'partitions_changed'
                )
            ), ends AS (
                SELECT *, lead(time_ns) OVER (
                    PARTITION BY run, "group", topic, "partition", member_id
                    ORDER BY time_ns, node, sequence
                ) AS until_ns
                FROM steps
            )
            SELECT * EXCLUDE (step) FROM ends WHERE step""",
        "unread": """
            SELECT run, "group", number, u.member_id AS member_id, u.cause AS cause,
                u.since_ns AS from_ns, u.until_ns AS until_ns,
                (u.until_ns - u.since_ns) * u.count AS unread_ns
            FROM (
                SELECT run, "group", number, unnest(unread) AS u FROM rebalances
                UNION ALL BY NAME
                SELECT run, "group", unnest(unread) AS u FROM events
                WHERE kind = 'unread_account'
            )""",
        "pauses": """
            SELECT run, "group", number, p.member_id AS member_id,
                p.since_ns AS from_ns, p.until_ns AS until_ns, p.count AS partitions
            FROM (SELECT run, "group", number, unnest(pauses) AS p FROM rebalances)""",
        "commits": """
            SELECT run, "group", time_ns, node, sequence, member_id, generation, error,
                o.topic AS topic, o."partition" AS "partition", o."offset" AS "offset",
                o.end_offset AS end_offset
            FROM (
                SELECT *, unnest(offsets) AS o FROM events
                WHERE kind IN ('offsets_committed', 'commit_refused')
            )""",
        "lags": """
            WITH changes AS (
                SELECT run, "group", time_ns, node, sequence,
                    lag - lag(lag, 1, 0) OVER (
                    PARTITION BY run, "group", topic, "partition"
                    ORDER BY time_ns, node, sequence
                ) AS change
                FROM (
                    SELECT *, greatest(end_offset - "offset", 0) AS lag FROM commits
                    WHERE error IS NULL AND end_offset IS NOT NULL
                )
            ), totals AS (
                SELECT run, "group", time_ns, sum(sum(change)) OVER (
                    PARTITION BY run, "group" ORDER BY time_ns, node, sequence
                ) AS total
                FROM changes GROUP BY run, "group", time_ns, node, sequence
            )
            SELECT r.run, r."group", r.number,
                max(t.total) - arg_min(t.total, t.time_ns) AS lag_built
            FROM rebalances AS r JOIN totals AS t
                ON t.run = r.run AND t."group" = r."group"
                AND t.time_ns BETWEEN r.started_ns AND r.ended_ns + 30000000000
            GROUP BY ALL""",
        "hours": """
            SELECT run, "group", time_ns // 3600000000000 AS hour,
                count(*) FILTER (kind = 'rebalance_account') AS rebalances,
                count(*) FILTER (kind = 'offsets_committed') AS commits,
                sum(len(offsets)) FILTER (kind = 'offsets_committed') AS offsets,
                count(*) FILTER (kind = 'member_expired') AS expired,
                sum(unread_ns) FILTER (
                    kind IN ('rebalance_account', 'unread_account')
                ) AS downtime_ns
            FROM events WHERE "group" IS NOT NULL GROUP BY ALL""",
        "groups": """
            SELECT run, "group", count(*) AS rebalances,
                sum(unread_ns) / 1e9 AS downtime_s, sum(paused_ns) / 1e9 AS paused_s,
                quantile_cont(duration_ns, [0.5, 0.95, 0.99]) AS durations,
                sum(moved_count) AS moved, sum(least_moved_count) AS least_moved,
                histogram(cause) AS by_cause
            FROM rebalances GROUP BY run, "group\"""",
        "quality": """
            SELECT run, node, max(sequence) - count(DISTINCT sequence) AS missing
            FROM events GROUP BY run, node""",
    }
)
"""Queries by the names of their tables, in order: each may read those before it."""

_NEEDED: Final[Mapping[str, str]] = MappingProxyType(
    {
        **dict.fromkeys(
            ("run", "kind", "group", "member_id", "instance_id", "client_id"), "VARCHAR"
        ),
        **dict.fromkeys(("cause", "outcome", "error"), "VARCHAR"),
        **dict.fromkeys(
            ("sequence", "time_ns", "started_sequence", "started_ns", "ended_ns"),
            "BIGINT",
        ),
        **dict.fromkeys(("duration_ns", "unread_ns", "paused_ns"), "BIGINT"),
        **dict.fromkeys(
            ("node", "generation", "moved_count", "least_moved_count"), "INTEGER"
        ),
        "labels": "MAP(VARCHAR, VARCHAR)",
        "members": "VARCHAR[]",
        "offsets": 'STRUCT(topic VARCHAR, "partition" INTEGER, "offset" BIGINT,'
        " end_offset BIGINT)[]",
        "partitions_gained": "STRUCT(topic VARCHAR, partitions INTEGER[])[]",
        "partitions_lost": "STRUCT(topic VARCHAR, partitions INTEGER[])[]",
        "unread": "STRUCT(member_id VARCHAR, cause VARCHAR, since_ns BIGINT,"
        " until_ns BIGINT, count INTEGER)[]",
        "pauses": "STRUCT(member_id VARCHAR, since_ns BIGINT, until_ns BIGINT,"
        " count INTEGER)[]",
    }
)
"""The fields that the queries read, with their types: others are not parsed."""


def make(events: Path, out: Path, memory: str) -> None:
    """Makes the tables, as Parquet.

    Args:
        events: a folder with Parquet, or with JSON lines.
        out: the folder for the tables.
        memory: the limit of DuckDB's memory, as ``3GB``.
    """
    out.mkdir(parents=True, exist_ok=True)
    with duckdb.connect() as db:
        db.execute(f"SET memory_limit = '{memory}'")
        db.execute(f"SET temp_directory = '{out / 'scratch'}'")
        db.execute("SET threads = 2")
        db.execute("SET enable_progress_bar = false")
        # Read once: a query for each table would parse all lines for each.
        columns = ", ".join(f'"{name}"' for name in _NEEDED)
        db.execute(f"CREATE TABLE events AS SELECT {columns} FROM {_files(events)}")
        for name, query in TABLES.items():
            db.execute(f"CREATE TABLE {name} AS {query}")
            file = out / f"{name}.parquet"
            db.execute(f"COPY {name} TO '{file}' (FORMAT parquet, COMPRESSION zstd)")


def _files(events: Path) -> str:
    if any(events.glob("*.parquet")):
        return f"read_parquet('{events}/*.parquet')"
    columns = ", ".join(f"'{name}': '{type_}'" for name, type_ in _NEEDED.items())
    return (
        f"read_json('{events}/*.jsonl', format = 'newline_delimited',"
        f" columns = {{{columns}}})"
    )


def lines(events: Path, out: Path) -> None:
    """Writes Parquet of events as JSON lines, as a broker does: without nulls.

    Args:
        events: a folder with Parquet of `bench.pipeline.synthetic`.
        out: the folder for the files.
    """
    out.mkdir(parents=True, exist_ok=True)
    with duckdb.connect() as db:
        db.execute("SET enable_progress_bar = false")
        for file in sorted(events.glob("*.parquet")):
            db.execute(
                f"""COPY (
                    SELECT json_merge_patch('{{}}', to_json(e)) FROM (
                        SELECT * EXCLUDE (source, arrived) FROM read_parquet('{file}')
                    ) AS e
                ) TO '{out / file.stem}.jsonl' (
                    FORMAT csv, HEADER false, QUOTE '', ESCAPE '', DELIMITER '\x01'
                )"""
            )
