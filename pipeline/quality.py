"""Checks of the data: missing, duplicate and impossible events.

Each check has a share above which it fails the build, which is then not published, or
marks the run. All checks run together, as Spark expressions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from kohort.pipeline.event_schema import KINDS
from kohort.pipeline.table_functions import EVENTS, Frames, by

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

PASSED: Final = "passed"
MARKED: Final = "marked"
FAILED: Final = "failed"
_BAD_FIRST: Final = (FAILED, MARKED, PASSED)

QUARANTINE: Final = "bronze/quarantine"

LATE_S: Final = 60
"""An event is late if a stream reads it this long after the broker published it."""
_BUCKET_BITS: Final = 16
"""Sequences are checked in stretches of 65,536, small enough to sort one by one."""
_ONLY_NAMED: Final = 3
"""Marked runs that a check names."""


@dataclass(frozen=True, slots=True)
class Rule:
    """One check.

    Attributes:
        says: its numerator and denominator, in words.
        threshold: the share above which it does not pass.
        otherwise: the outcome then: `MARKED`, or `FAILED`.
    """

    says: str
    threshold: float = 0.0
    otherwise: str = MARKED


CHECKS: Final[Mapping[str, Rule]] = MappingProxyType(
    {
        "missing_events": Rule(
            "sequence numbers of a node, from 1 to its last, without an event; of all"
            " those numbers"
        ),
        "double_events": Rule(
            "events that are stored twice; of all events", otherwise=FAILED
        ),
        "late_events": Rule(
            f"events that a stream read more than {LATE_S} s after the broker published"
            " them, by the broker's system clock; of all events that streams read",
            threshold=0.01,
        ),
        "time_back": Rule(
            "events with an earlier time_ns than the previous event of the same node;"
            " of all events"
        ),
        "unknown_kinds": Rule(
            "events of a kind that this version does not know; of all events"
        ),
        "announced_losses": Rule(
            "events that an events_lost reports as lost; of those and all events read"
            " (missing_events counts those that no other source had)"
        ),
        "quarantined_lines": Rule("lines that are not events; of all lines read"),
        "negative_durations": Rule(
            "rebalances, intervals and waits that end before they begin; of all",
            otherwise=FAILED,
        ),
        "rebalances_without_account": Rule(
            "rebalances before the last one of their group that have no"
            " rebalance_account; of all that started: the epochs of a consumer group up"
            " to its target assignment are one"
        ),
        "rebalances_without_end": Rule(
            "accounts of rebalances whose end is missing from the events; of all"
            " accounts"
        ),
        "ends_without_start": Rule(
            "accounts of rebalances whose start is missing from the events; of all"
            " accounts"
        ),
        "two_owners": Rule(
            "ownerships of a partition that begin while another member of the group"
            " owns it; of all ownerships"
        ),
        "members_unintroduced": Rule(
            "memberships whose start no event shows: no first member_joined, no"
            " member_replaced, no group_loaded; of all memberships"
        ),
    }
)
"""All checks, by name."""


@dataclass(frozen=True, slots=True)
class Rules:
    """The user's settings of the checks.

    Attributes:
        thresholds: shares of checks, in place of theirs.
        otherwise: `MARKED` or `FAILED`, in place of theirs.
    """

    thresholds: Mapping[str, float] = field(default_factory=dict)
    otherwise: Mapping[str, str] = field(default_factory=dict)

    def of(self, name: str) -> Rule:
        """A check's rule, with the user's changes."""
        rule = CHECKS[name]
        return Rule(
            rule.says,
            self.thresholds.get(name, rule.threshold),
            self.otherwise.get(name, rule.otherwise),
        )


@dataclass(frozen=True, slots=True)
class Check:
    """The result of a check over all runs.

    Attributes:
        name: its name.
        outcome: of the run with the worst.
        found: how many.
        of: of how many.
        share: the largest of a run.
        threshold: above which it does not pass.
        bad: in how many runs it did not pass.
        runs: some of them.
    """

    name: str
    outcome: str
    found: int
    of: int
    share: float
    threshold: float
    bad: int
    runs: Sequence[str]


def worst(checks: Sequence[Check]) -> str:
    """The worst outcome."""
    return min((each.outcome for each in checks), key=_BAD_FIRST.index, default=PASSED)


def checks(rows: DataFrame) -> Sequence[Check]:
    """The checks of ``gold/quality``, each over all runs, those that failed first."""
    from pyspark.sql import functions as sql

    is_bad = sql.col("outcome") != PASSED
    found = (
        rows.groupBy(*by("check"))
        .agg(
            sql.sum("found").alias("found"),
            sql.sum("of").alias("of"),
            sql.max("share").alias("share"),
            sql.max("threshold").alias("threshold"),
            sql.collect_set("outcome").alias("outcomes"),
            sql.count_if(is_bad).alias("bad"),
            sql.sort_array(sql.collect_set(sql.when(is_bad, sql.col("run")))).alias(
                "runs"
            ),
        )
        .withColumn("runs", sql.slice("runs", 1, _ONLY_NAMED))
        .collect()
    )
    made = [
        Check(
            row["check"],
            min(row["outcomes"], key=_BAD_FIRST.index),
            row["found"],
            row["of"],
            row["share"],
            row["threshold"],
            row["bad"],
            tuple(row["runs"]),
        )
        for row in found
    ]
    order = [*CHECKS]
    return sorted(
        made, key=lambda each: (_BAD_FIRST.index(each.outcome), order.index(each.name))
    )


def judged(frames: Frames, rules: Rules) -> DataFrame:
    """``gold/quality``: the results of the checks, with their outcomes.

    Args:
        frames: the tables, and the quarantine.
        rules: the user's rules.
    """
    from pyspark.sql import functions as sql

    found = _for_each_run(frames, _of_runs(frames)).unionByName(_quarantined(frames))
    said = {name: rules.of(name) for name in CHECKS}
    share = sql.when(sql.col("of") > 0, sql.col("found") / sql.col("of")).otherwise(0.0)
    otherwise = _by_check({name: rule.otherwise for name, rule in said.items()})
    passes = sql.col("share") <= sql.col("threshold")
    return found.select(
        "check",
        "run",
        "found",
        "of",
        share.cast("double").alias("share"),
        _by_check({n: rule.threshold for n, rule in said.items()}).alias("threshold"),
        _by_check({name: rule.says for name, rule in said.items()}).alias("says"),
        otherwise.alias("otherwise"),
    ).select(
        *("check", "run", "found", "of", "share", "threshold"),
        sql.when(passes, sql.lit(PASSED))
        .otherwise(sql.col("otherwise"))
        .alias("outcome"),
        "says",
    )


def _by_check(said: Mapping[str, float | str]) -> Column:
    """The value of the row's check."""
    from pyspark.sql import functions as sql

    pairs = [sql.lit(each) for pair in said.items() for each in pair]
    return sql.element_at(sql.create_map(*pairs), sql.col("check"))


# -- counts. Each function returns (run, check, found, of)


def _of_runs(frames: Frames) -> DataFrame:
    """The results of all checks of runs; a run need not have a row of each check."""
    parts = [
        _identities(frames),
        _time_back(frames),
        _each_event(frames),
        _negative(frames),
        _accounts(frames),
        _two_owners(frames),
        _unintroduced(frames),
    ]
    return reduce(lambda one, other: one.unionByName(other), parts)


def _for_each_run(frames: Frames, found: DataFrame) -> DataFrame:
    """A row of each run for each check: of none nothing was found."""
    from pyspark.sql import functions as sql

    names = [name for name in CHECKS if name != "quarantined_lines"]
    each = sql.explode(sql.array(*map(sql.lit, names))).alias("check")
    nothing = frames["silver/runs"].select(
        "run", each, sql.lit(0).alias("found"), sql.lit(0).alias("of")
    )
    return (
        nothing.unionByName(found)
        .groupBy(*by("check", "run"))
        .agg(
            sql.sum("found").cast("bigint").alias("found"),
            sql.sum("of").cast("bigint").alias("of"),
        )
    )


def _counted(rows: DataFrame, *counts: tuple[str, Column, Column]) -> DataFrame:
    """Several checks by one aggregation of (check, numerator, denominator)."""
    from pyspark.sql import functions as sql

    cells = [
        sql.struct(
            sql.lit(name).alias("check"),
            sql.coalesce(found, sql.lit(0)).cast("bigint").alias("found"),
            sql.coalesce(of, sql.lit(0)).cast("bigint").alias("of"),
        ).alias(name)
        for name, found, of in counts
    ]
    sums = rows.groupBy(*by("run")).agg(*cells)
    names = [sql.col(name) for name, _, _ in counts]
    return sums.select("run", sql.inline(sql.array(*names)))


def _identities(frames: Frames) -> DataFrame:
    """Checks of sequence numbers: missing, double and announced ones."""
    from pyspark.sql import functions as sql

    from kohort.pipeline.bronze import statistics

    rows, announced = sql.col("rows"), sql.coalesce("announced", sql.lit(0))
    return _counted(
        statistics(frames[EVENTS]),
        ("missing_events", sql.sum("missing"), sql.sum("last")),
        ("double_events", sql.sum(rows - sql.col("numbers")), sql.sum(rows)),
        ("announced_losses", sql.sum(announced), sql.sum(announced + rows)),
    )


def _time_back(frames: Frames) -> DataFrame:
    """Time that goes back: within stretches of sequences, and from one to the next."""
    from pyspark.sql import Window
    from pyspark.sql import functions as sql

    bucket = sql.shiftright("sequence", _BUCKET_BITS)
    rows = frames[EVENTS].select(
        *("run", "node", "sequence", "time_ns"),
        bucket.alias("bucket"),
        # One number to sort by is several times cheaper than a run's name.
        sql.xxhash64("run", "node", bucket).alias("stretch"),
    )
    within = Window.partitionBy("stretch").orderBy("sequence")
    stretches = (
        rows.withColumn("before", sql.lag("time_ns").over(within))
        .groupBy(*by("stretch"))
        .agg(
            *(sql.first(name).alias(name) for name in ("run", "node", "bucket")),
            sql.count("*").alias("events"),
            sql.count_if(sql.col("time_ns") < sql.col("before")).alias("back"),
            sql.min_by("time_ns", "sequence").alias("first_ns"),
            sql.max_by("time_ns", "sequence").alias("last_ns"),
        )
    )
    between = Window.partitionBy("run", "node").orderBy("bucket")
    goes_back = sql.col("first_ns") < sql.lag("last_ns").over(between)
    back = sql.col("back") + sql.when(goes_back, 1).otherwise(0)
    return _counted(
        stretches.select("run", "events", back.alias("back")),
        ("time_back", sql.sum("back"), sql.sum("events")),
    )


def _each_event(frames: Frames) -> DataFrame:
    """Checks of single events."""
    from pyspark.sql import functions as sql

    after = sql.unix_micros("arrived") * 1000 - sql.col("wall_ns")
    late = after > LATE_S * 1_000_000_000
    # The source is a topic, then; a file has a path.
    by_stream = ~sql.col("source").contains("/")
    unknown = ~sql.col("kind").isin(sorted(KINDS))
    return _counted(
        frames[EVENTS],
        ("late_events", sql.count_if(late & by_stream), sql.count_if(by_stream)),
        ("unknown_kinds", sql.count_if(unknown), sql.count("*")),
    )


def _negative(frames: Frames) -> DataFrame:
    """Durations and intervals below 0."""
    from pyspark.sql import functions as sql

    def least(path: str, *durations: Column) -> DataFrame:
        rows = frames[path]
        # Of one column there is no least.
        return rows.select("run", sql.least(*durations, sql.lit(0)).alias("least"))

    lasts = sql.col("until_ns") - sql.col("from_ns")
    spans = ("duration_ns", "join_ns", "sync_ns", "waited_ns")
    parts = [
        least("silver/rebalances", *map(sql.col, spans)),
        least("silver/memberships", lasts, sql.col("silent_ns")),
        least("silver/ownership", lasts),
        least("silver/pauses", lasts),
        least("silver/unread", lasts),
        least("silver/returns", lasts),
        least("silver/transactions", sql.col("open_ns"), sql.col("ending_ns")),
    ]
    rows = reduce(lambda one, other: one.unionByName(other), parts)
    negative = sql.count_if(sql.col("least") < 0)
    return _counted(rows, ("negative_durations", negative, sql.count("*")))


def _accounts(frames: Frames) -> DataFrame:
    """Rebalances without an account, and accounts without a start or an end."""
    from pyspark.sql import functions as sql

    place = sql.struct("time_ns", "node", "sequence")
    # In Assigning, an epoch belongs to the rebalance before (KIP-848).
    state = sql.coalesce("previous_state", sql.lit(""))
    starts = frames[EVENTS].where(
        (sql.col("kind") == "rebalance_started") & (state != "Assigning")
    )
    # The last one of a group may be under way.
    latest = starts.groupBy(*by("run", "group")).agg(sql.max(place).alias("latest"))
    known = frames["silver/rebalances"].select(
        *("run", "node", "sequence", "cause", "outcome"), sql.lit(1).alias("account")
    )
    rows = (
        starts.join(latest, ["run", "group"])
        .select(
            *("run", "node", "sequence"),
            (place == sql.col("latest")).alias("is_last"),
            sql.lit(1).alias("start"),
        )
        .join(known, ["run", "node", "sequence"], "full")
    )
    account, start = sql.col("account"), sql.col("start")
    return _counted(
        rows,
        (
            "rebalances_without_account",
            sql.count_if(account.isNull() & ~sql.col("is_last")),
            sql.count(start),
        ),
        (
            "ends_without_start",
            sql.count_if(sql.col("cause") == "unseen"),
            sql.count(account),
        ),
        (
            "rebalances_without_end",
            sql.count_if(sql.col("outcome") == "unseen"),
            sql.count(account),
        ),
    )


def _two_owners(frames: Frames) -> DataFrame:
    """Ownerships that begin while another one lasts."""
    from pyspark.sql import Window
    from pyspark.sql import functions as sql

    before = (
        Window.partitionBy("run", "group", "topic", "partition")
        .orderBy("from_ns", "from_node", "from_sequence")
        .rowsBetween(Window.unboundedPreceding, -1)
    )
    until = sql.coalesce(sql.col("until_ns"), sql.lit(2**63 - 1))
    rows = frames["silver/ownership"].select(
        *("run", "from_ns"),
        until.alias("until"),
        sql.max(until).over(before).alias("taken_until"),
    )
    begins, ends = sql.col("from_ns"), sql.col("until")
    taken = (begins < sql.col("taken_until")) & (begins < ends)
    return _counted(rows, ("two_owners", sql.count_if(taken), sql.count("*")))


def _unintroduced(frames: Frames) -> DataFrame:
    """Members with events, but without one that adds them to their group."""
    from pyspark.sql import functions as sql

    loaded = (
        frames[EVENTS]
        .where(sql.col("kind") == "group_loaded")
        .select("run", "group", sql.explode("members").alias("member_id"))
        .distinct()
        .withColumn("is_loaded", sql.lit(True))
    )
    rows = frames["silver/memberships"].select(
        "run", "group", "member_id", "is_start_known"
    )
    rows = rows.join(loaded, ["run", "group", "member_id"], "left")
    unknown = (
        ~sql.coalesce("is_start_known", sql.lit(False)) & sql.col("is_loaded").isNull()
    )
    return _counted(
        rows, ("members_unintroduced", sql.count_if(unknown), sql.count("*"))
    )


def _quarantined(frames: Frames) -> DataFrame:
    """Lines of all files and topics that are no events; of no run."""
    from pyspark.sql import functions as sql

    bad = frames[QUARANTINE].select(sql.lit(1).alias("found"), sql.lit(1).alias("of"))
    good = frames["silver/runs"].select(
        sql.lit(0).alias("found"), sql.col("events").alias("of")
    )
    return bad.unionByName(good).agg(
        sql.lit("quarantined_lines").alias("check"),
        sql.lit(None).cast("string").alias("run"),
        sql.coalesce(sql.sum("found"), sql.lit(0)).cast("bigint").alias("found"),
        sql.coalesce(sql.sum("of"), sql.lit(0)).cast("bigint").alias("of"),
    )
