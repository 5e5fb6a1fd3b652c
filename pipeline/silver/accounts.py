"""Tables that are read off the accounts of rebalances.

The broker computes the account of each rebalance once and publishes it as an event,
``rebalance_account``; time without a reader outside of rebalances is an
``unread_account``. Nothing of it is computed here again: these tables are its
fields and rows, with the names of members beside their ids.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as f

from kohort.pipeline.silver.order import along, of_kinds
from kohort.pipeline.table_functions import GROUP, Frames, Options, by, shaped


def _accounts(frames: Frames) -> DataFrame:
    """Accounts with ``number``; time and sequence are those of the rebalance's start.

    A broker that has forgotten that it published an account publishes it again: of
    several the whole one counts, else the first.
    """
    copies = Window.partitionBy(*GROUP, "node", "started_sequence").orderBy(
        f.col("is_whole").desc(), "sequence"
    )
    found = (
        of_kinds(frames, "rebalance_account")
        .withColumn("copy", f.row_number().over(copies))
        .where("copy = 1")
        .withColumns(
            {"time_ns": f.col("started_ns"), "sequence": f.col("started_sequence")}
        )
    )
    return found.withColumn("number", f.row_number().over(along(*GROUP)).cast("bigint"))


def rebalances(frames: Frames, _options: Options) -> DataFrame:
    """One row per account."""
    waited_ns = f.array_max(f.transform("waits", lambda wait: wait["waited_ns"]))
    longest = f.filter("waits", lambda wait: wait["waited_ns"] == f.col("waited_ns"))
    found = (
        _accounts(frames)
        .withColumnsRenamed(
            {
                "member_id": "culprit",
                "join_ended_by": "join_ended",
                "bytes": "assignment_bytes",
            }
        )
        .withColumn("waited_ns", waited_ns)
        .withColumns(
            {
                "culprit_name": f.coalesce("instance_id", "client_id", "culprit"),
                "waited_for": f.array_min(
                    f.transform(longest, lambda wait: wait["member_id"])
                ),
            }
        )
    )
    return shaped(found, "silver/rebalances")


def pauses(frames: Frames, _options: Options) -> DataFrame:
    """One row per pause of an eager member that had partitions."""
    rows = _accounts(frames).select(
        *GROUP, "number", f.explode("pauses").alias("pause")
    )
    found = (
        rows.select(*GROUP, "number", "pause.*")
        .where(f.coalesce("count", f.lit(1)) > 0)
        .withColumnsRenamed(
            {"since_ns": "from_ns", "count": "partitions", "ended_by": "ended"}
        )
    )
    return shaped(named(found, frames), "silver/pauses")


def unread(frames: Frames, _options: Options) -> DataFrame:
    """One row per stretch of time in which partitions of a topic had no reader."""
    rows = _accounts(frames).select(
        *GROUP, "number", f.posexplode("unread").alias("position", "row")
    )
    found = (
        rows.unionByName(_outside(frames))
        .select(*GROUP, "number", "position", "row.*")
        .select("*", f.posexplode("parts").alias("part_at", "part"))
        .withColumn("partition_numbers", f.col("part.partitions"))
        .withColumn("ends", f.get("log_ends", f.col("part_at")))
        .withColumn("records", f.col("ends.records"))
        .withColumn("end_offsets", f.col("ends.offsets"))
        .withColumn("partitions", f.size("partition_numbers").cast("bigint"))
        .withColumn(
            "unread_ns", (f.col("until_ns") - f.col("since_ns")) * f.col("partitions")
        )
        .withColumn("topic", f.col("part.topic"))
        .withColumnRenamed("since_ns", "from_ns")
    )
    return shaped(named(found, frames), "silver/unread")


def down(frames: Frames) -> DataFrame:
    """The rows of silver/unread that are downtime."""
    return frames["silver/unread"].where("cause not in ('group_empty', 'work_ended')")


def _outside(frames: Frames) -> DataFrame:
    """Rows outside of rebalances: without a number, their positions are the group's."""
    place = ("node", "closed_sequence", "cause")
    copies = Window.partitionBy(*GROUP, *place).orderBy("sequence")
    rows = (
        of_kinds(frames, "unread_account")
        .withColumn("copy", f.row_number().over(copies))
        .where("copy = 1")
        .select(*GROUP, *place, f.posexplode("unread").alias("at", "row"))
    )
    in_group = Window.partitionBy(*GROUP).orderBy(*place, "at")
    return rows.select(
        *GROUP,
        f.lit(None).cast("bigint").alias("number"),
        (f.row_number().over(in_group) - 1).alias("position"),
        "row",
    )


def named(rows: DataFrame, frames: Frames) -> DataFrame:
    """Rows with the owner and name of their member."""
    members = frames["silver/memberships"].select(*GROUP, "member_id", "owner", "name")
    return (
        rows.join(members, [*GROUP, "member_id"], "left")
        .withColumn("owner", f.coalesce("owner", "member_id"))
        .withColumn("name", f.coalesce("name", "member_id"))
    )


def returns(frames: Frames, _options: Options) -> DataFrame:
    """One row per member whose process came back: the last of the accounts' rows."""
    rows = _accounts(frames).select(
        *GROUP, "number", f.posexplode("returns").alias("position", "row")
    )
    last = rows.groupBy(*by(*GROUP, f.col("row.previous_id").alias("previous_id"))).agg(
        f.max_by(f.struct("number", "row"), f.struct("number", "position")).alias(
            "last"
        )
    )
    since_ns, until_ns = f.col("last.row.since_ns"), f.col("last.row.until_ns")
    found = last.select(
        *GROUP,
        "last.number",
        "previous_id",
        *(f"last.row.{name}" for name in ("member_id", "how", "is_restart")),
        since_ns.alias("from_ns"),
        until_ns.alias("until_ns"),
        (until_ns - since_ns).alias("away_ns"),
    )
    return shaped(named(found, frames), "silver/returns")


def moves(frames: Frames, _options: Options) -> DataFrame:
    """One row per completed rebalance of a group of consumers."""
    owned = f.col("kept_count") + f.col("moved_count") + f.col("first_count")
    found = (
        _accounts(frames)
        .where((f.col("outcome") == "completed") & f.col("moves").isNotNull())
        .withColumns(
            {
                "members": f.size("members"),
                "owned": owned,
                "moved": f.col("moved_count"),
                "least_moved": f.col("least_moved_count"),
                "first_owned": f.col("first_count"),
                "given_up": f.col("given_up_count"),
            }
        )
    )
    return shaped(found, "silver/moves")
