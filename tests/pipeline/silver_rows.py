"""Short notation for rows of silver: columns that a scene omits get default values.

A scene is a set of rows for each table. Times are seconds since the epoch, so hour 0 is
0 to 3600; a column that ends with ``_ns`` may be given as ``_s``.
"""

from __future__ import annotations

import contextlib
import io
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import ArrayType, LongType, StringType, StructField, StructType

from kohort.pipeline import session
from kohort.pipeline.gold import TABLE_FUNCTIONS
from kohort.pipeline.table_functions import EVENTS, Frames, Options
from kohort.pipeline.tables import BY_PATH, TABLES

Row = Mapping[str, Any]
SECOND = 1_000_000_000

EVENT_SCHEMA = StructType(
    [
        StructField("run", StringType()),
        StructField("group", StringType()),
        StructField("kind", StringType()),
        StructField("time_ns", LongType()),
        StructField("node", LongType()),
        StructField("sequence", LongType()),
        StructField("error", StringType()),
        *(
            StructField(name, LongType())
            for name in (
                *("received", "again_certain", "again_possible"),
                *("skipped", "uncommitted"),
            )
        ),
        StructField(
            "rewinds", ArrayType(StructType([StructField("offset", LongType())]))
        ),
        StructField(
            "offsets",
            ArrayType(
                StructType(
                    [
                        StructField("topic", StringType()),
                        StructField("offset", LongType()),
                    ]
                )
            ),
        ),
    ]
)
"""The event columns that gold reads; reading any other column fails."""


def ns(seconds: float | None) -> int | None:
    """Converts seconds to whole nanoseconds."""
    return None if seconds is None else round(seconds * SECOND)


class Scenes:
    """Collects the silver rows of all scenes, so that gold is computed once."""

    def __init__(self) -> None:
        """Starts without rows."""
        self.rows: dict[str, list[dict[str, Any]]] = {}

    def add(self, path: str, **values: Any) -> None:
        """Adds a row to a table; times in ``_s`` become ``_ns``."""
        names = (
            {column.name for column in BY_PATH[path].columns}
            if path != EVENTS
            else {field.name for field in EVENT_SCHEMA}
        )
        row: dict[str, Any] = {}
        for name, value in values.items():
            base = name.removesuffix("_s")
            if name not in names and f"{base}_ns" in names and name.endswith("_s"):
                row[f"{base}_ns"] = ns(value)
            else:
                assert name in names, f"{path} has no {name}"
                row[name] = value
        self.rows.setdefault(path, []).append(row)

    def run(self, run: str, last: float, **labels: str) -> None:
        """Adds a run from 0 s to its last event."""
        self.add(
            "silver/runs",
            run=run,
            labels=labels,
            scenario=labels.get("scenario"),
            seed=labels.get("seed"),
            first_s=0,
            last_s=last,
            events=1,
            groups=1,
            nodes=[0],
        )

    def event(
        self, run: str, group: str | None, at: float, kind: str, **more: Any
    ) -> None:
        """Adds an event; ``offsets`` is the number of its offsets."""
        offsets = more.pop("offsets", None)
        rows = (
            None
            if offsets is None
            else [{"topic": "t", "offset": n} for n in range(offsets)]
        )
        self.add(
            EVENTS, run=run, group=group, time_s=at, kind=kind, offsets=rows, **more
        )

    def rebalance(
        self,
        run: str,
        group: str,
        number: int,
        at: float,
        took: float | None = 1,
        **more: Any,
    ) -> None:
        """Adds a rebalance of two members; with ``took=None`` it did not complete."""
        values: dict[str, Any] = {
            "outcome": "completed" if took is not None else "cut",
            "cause": "member_joined",
            "previous_state": "Stable",
            "members": ["m1", "m2"],
            "culprits": [],
            "protocol": "range",
            "paused_ns": 0,
            "unread_s": 0,
        } | more
        self.add(
            "silver/rebalances",
            run=run,
            group=group,
            number=number,
            started_s=at,
            ended_s=at + (took or 0),
            duration_s=took or 0,
            **values,
        )

    def member(
        self,
        run: str,
        group: str,
        member_id: str,
        at: float,
        until: float | None = None,
        **more: Any,
    ) -> None:
        """Adds a dynamic member with a known start; with ``until``, it left then."""
        instance, client = more.get("instance_id"), more.get("client_id", member_id)
        values: dict[str, Any] = {
            "client_id": client,
            "host": "/10.0.0.1",
            "is_eager": True,
            "session_timeout_ms": 45_000,
            "rebalance_timeout_ms": 300_000,
            "is_start_known": True,
            "how": None if until is None else "left",
            "owner": instance or member_id,
            "name": instance or client,
        } | more
        self.add(
            "silver/memberships",
            run=run,
            group=group,
            member_id=member_id,
            from_s=at,
            until_s=until,
            **values,
        )

    def pause(
        self,
        run: str,
        group: str,
        member_id: str,
        at: float,
        until: float,
        number: int,
    ) -> None:
        """Adds a pause of a member; its rebalance may be added before or after."""
        self.add(
            "silver/pauses",
            run=run,
            group=group,
            member_id=member_id,
            owner=member_id,
            name=member_id,
            from_s=at,
            until_s=until,
            number=number,
            partitions=1,
        )

    def unread(
        self,
        run: str,
        group: str,
        member_id: str,
        at: float,
        until: float,
        *,
        cause: str = "expired",
        partitions: int = 1,
        **more: Any,
    ) -> None:
        """Adds an interval in which partitions of a member are unread."""
        values: dict[str, Any] = {
            "topic": "t",
            "partition_numbers": [*range(partitions)],
        } | more
        self.add(
            "silver/unread",
            run=run,
            group=group,
            member_id=member_id,
            from_s=at,
            until_s=until,
            cause=cause,
            partitions=partitions,
            unread_s=(until - at) * partitions,
            **values,
        )

    def _with_pauses(self) -> None:
        """Sets ``paused_ns`` of each rebalance to the sum of its pauses."""
        key = ("run", "group", "number")
        paused: Counter[tuple[Any, ...]] = Counter()
        for row in self.rows.get("silver/pauses", ()):
            paused[*(row[k] for k in key)] += row["until_ns"] - row["from_ns"]
        for row in self.rows.get("silver/rebalances", ()):
            row["paused_ns"] = paused[*(row[k] for k in key)]

    def frames(self, spark: SparkSession) -> Frames:
        """All tables of silver; those without rows are empty."""
        self._with_pauses()
        schemas = {t.path: t.schema() for t in TABLES if t.layer == "silver"}
        schemas[EVENTS] = EVENT_SCHEMA
        frames = Frames(spark)
        for path, schema in schemas.items():
            frames[path] = frame(spark, self.rows.get(path, []), schema)
        return frames


def frame(spark: SparkSession, rows: Sequence[Row], schema: StructType) -> DataFrame:
    """A frame whose rows are in Spark's plan; built with Arrow, which is fastest."""
    as_arrow = [
        {
            name: [*value.items()] if isinstance(value, dict) else value
            for name, value in row.items()
        }
        for row in rows
    ]
    table = pa.Table.from_pylist(as_arrow, to_arrow_schema(schema))
    return spark.createDataFrame(table, schema)


def check_plan(path: str, made: DataFrame) -> None:
    """Asserts that a plan has no Python, no cross join and no window up to the end.

    Sail has other plans.
    """
    if session.engine(made.sparkSession).startswith("Sail"):
        return
    with contextlib.redirect_stdout(io.StringIO()) as shown:
        made.explain(extended=True)
    plan = shown.getvalue()
    assert "== Physical Plan ==" in plan
    for word in ("Python", "Pandas", "Arrow", "CartesianProduct", "NestedLoop"):
        assert word not in plan, (path, word)
    for frame_ in plan.split("specifiedwindowframe(")[1:]:
        words = frame_.split(")")[0]
        ends = words.split(",")[-1]
        assert "unboundedfollowing" not in ends or "unboundedpreceding" in words


class Made:
    """Gold tables of many scenes, computed once, with rows found by column values.

    Checks the columns, the key and the plan of each table. Tables stay in memory, as a
    build keeps them in files.
    """

    def __init__(self, spark: SparkSession, scenes: Scenes, options: Options) -> None:
        """Computes no table before `make`."""
        self.spark = spark
        self.frames = scenes.frames(spark)
        self._options = options
        self._rows: dict[str, list[dict[str, Any]]] = {}

    def make(self, *paths: str) -> Made:
        """Computes tables in the given order."""
        for path in paths:
            made = TABLE_FUNCTIONS[path](self.frames, self._options)
            table = BY_PATH[path]
            assert made.schema.simpleString() == table.schema().simpleString()
            check_plan(path, made)
            rows = [row.asDict(recursive=True) for row in made.collect()]
            self.frames[path] = frame(self.spark, rows, table.schema())
            self._rows[path] = rows
            keys = [tuple(row[name] for name in table.key) for row in self._rows[path]]
            assert len(set(keys)) == len(keys), f"{path}: two rows with one key"
        return self

    def rows(self, path: str, **where: Any) -> list[dict[str, Any]]:
        """Rows with these column values, ordered by the table's key."""
        key = BY_PATH[path].key
        found = [
            row
            for row in self._rows[path]
            if all(row[name] == value for name, value in where.items())
        ]
        return sorted(found, key=lambda row: [str(row[name]) for name in key])

    def row(self, path: str, **where: Any) -> dict[str, Any]:
        """The only row with these column values."""
        (row,) = self.rows(path, **where)
        return row
