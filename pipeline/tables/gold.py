"""The tables of gold: numbers for the decisions of a platform team."""

from __future__ import annotations

from typing import Final

from kohort.pipeline.tables.table import GOLD, GROUP, Table, columns

_METRICS: Final = columns(
    ("rebalances", "bigint", "rebalances that started in it"),
    ("completed", "bigint", "of these, those that ended with an assignment"),
    ("interrupted", "bigint", "of these, those with that outcome"),
    ("by_cause", "map<string,bigint>", "of these, the number by cause; null: none"),
    (
        "duration_p50_s",
        "double",
        (
            "percentile of duration_ns of the completed ones, interpolated"
            " linearly; null: none"
        ),
    ),
    ("duration_p95_s", "double", "likewise"),
    ("duration_p99_s", "double", "likewise"),
    ("duration_max_s", "double", "longest duration of the completed ones"),
    (
        "downtime_s",
        "double",
        (
            "partition-seconds without a reader: of unread, the part within it, without"
            " group_empty and work_ended"
        ),
    ),
    (
        "downtime_by_cause",
        "map<string,double>",
        "of these, the seconds by cause of unread; null: none",
    ),
    (
        "unprocessed_s",
        "double",
        (
            "partition-seconds for which slow pollers held their partitions: of the"
            " rebalances that started in it; beside downtime_s, not a part of it"
        ),
    ),
    (
        "partition_s",
        "double",
        (
            "partition-seconds in which partitions had an owner or downtime, each"
            " moment once: of ownership and of downtime_s, the part within it"
        ),
    ),
    ("downtime_share", "double", "downtime_s / partition_s; null: no partitions known"),
    (
        "paused_s",
        "double",
        (
            "member-seconds of pauses, the part within it; their partitions are in"
            " downtime_s"
        ),
    ),
    ("member_s", "double", "member-seconds of memberships, the part within it"),
    ("members_most", "bigint", "largest number of members in its completed rebalances"),
    ("storms", "bigint", "storms that began in it"),
    ("storm_rebalances", "bigint", "rebalances of those storms"),
    (
        "refused_full",
        "bigint",
        "refusals with the cause full or group_over_max_size (KIP-389)",
    ),
    (
        "refused_full_names",
        "bigint",
        "of these, the number of different names, without null",
    ),
    ("partitions_moved", "bigint", "sum of moved of the rebalances that started in it"),
    ("partitions_moved_least", "bigint", "sum of least_moved of the same"),
    ("expired", "bigint", "memberships that ended in it as expired"),
    (
        "expired_unread_s",
        "double",
        "partition-seconds of unread with the cause expired that began in it",
    ),
    (
        "expired_unread_max_s",
        "double",
        (
            "longest time of a member, from its last sign of life until all of its"
            " partitions had a reader; null: none"
        ),
    ),
    ("metadata_bytes", "bigint", "sum over its completed rebalances"),
    ("assignment_bytes", "bigint", "sum over its completed rebalances"),
    ("bytes_per_rebalance", "double", "sum of both / completed; null: none completed"),
    ("commits", "bigint", "offsets_committed events, including those without offsets"),
    ("offsets", "bigint", "offsets in them"),
    (
        "commit_failures",
        "bigint",
        "commit_refused events, including those without offsets",
    ),
    (
        "commit_failures_by_error",
        "map<string,bigint>",
        "of these, the number by error; null: none",
    ),
    ("received", "bigint", "records that members received for the first time"),
    ("again_certain", "bigint", "records handled before, and sent again"),
    (
        "again_possible",
        "bigint",
        "records received before and not committed, and sent again",
    ),
    ("skipped", "bigint", "records that no member was sent"),
    ("went_back", "bigint", "commits below the committed offset, by partition"),
    (
        "uncommitted",
        "bigint",
        (
            "records received and not committed, by the last delivery_account of each"
            " group; null: unknown"
        ),
    ),
    ("lag_built", "bigint", "sum of lag_built of the rebalances that started in it"),
    ("lag_built_max", "bigint", "the largest of these; null: unknown"),
    (
        "catch_up_p50_s",
        "double",
        "percentile of catch_up_ns of the same, interpolated; null: unknown",
    ),
    ("catch_up_max_s", "double", "the longest of these; null: unknown"),
)

HOURS = Table(
    "hours",
    GOLD,
    "A group in an hour (UTC). Rebalances and moments count in the hour in which"
    " they begin, other durations with the part within the hour. An hour has a row"
    " if the group has an event in it, or a part of a membership, pause or unread"
    " time longer than 0. Empty sums and counts are 0, unless a column says"
    " otherwise.",
    ("run", "group", "hour"),
    (*GROUP, *columns(("hour", "timestamp", "its start")), *_METRICS),
)

GROUPS = Table(
    "groups",
    GOLD,
    "A group in a run, with the same numbers for the whole run. Every group with an"
    " event has a row.",
    ("run", "group"),
    (*GROUP, *_METRICS),
)

RUN_METRICS = Table(
    "runs",
    GOLD,
    "A run, with the same numbers for all its groups together. Every run has a row.",
    ("run",),
    (
        *columns(
            ("run", "string", "id of the run of the broker"),
            ("labels", "map<string,string>", "the user's labels (`serve --label`)"),
            ("scenario", "string", "the label scenario"),
            ("seed", "string", "the label seed"),
            ("first_ns", "bigint", "its first event"),
            ("last_ns", "bigint", "its last event"),
            ("events", "bigint", "number of events"),
            ("groups", "bigint", "number of groups with events"),
        ),
        *_METRICS,
    ),
)

CAUSES = Table(
    "causes",
    GOLD,
    "Rebalances of a group in an hour, by cause.",
    ("run", "group", "hour", "cause"),
    (
        *GROUP,
        *columns(
            ("hour", "timestamp", "hour in which they started"),
            ("cause", "string", "cause of the rebalances"),
            ("rebalances", "bigint", "number of rebalances"),
            ("completed", "bigint", "of these, those that ended with an assignment"),
            ("duration_p50_s", "double", "for the completed ones, as in hours"),
            ("duration_p95_s", "double", "likewise"),
            ("duration_p99_s", "double", "likewise"),
            ("downtime_s", "double", "partition-seconds: sum of unread_ns"),
            ("paused_s", "double", "member-seconds: sum of paused_ns"),
        ),
    ),
)

STORMS = Table(
    "storms",
    GOLD,
    "A storm: many rebalances of a group in a short time. A stretch is k"
    " consecutive rebalances (k = 5) of which the last starts at most t after the"
    " first (t = 60 s); k and t are options of the build. Stretches with a common"
    " rebalance are one storm.",
    ("run", "group", "from_ns"),
    (
        *GROUP,
        *columns(
            ("from_ns", "bigint", "started_ns of its first rebalance"),
            ("until_ns", "bigint", "started_ns of its last rebalance"),
            ("first_number", "bigint", "number of the first"),
            ("last_number", "bigint", "number of the last"),
            ("rebalances", "bigint", "number of rebalances"),
            ("by_cause", "map<string,bigint>", "of these, the number by cause"),
            (
                "names",
                "array<string>",
                "their distinct culprit_names, in order, without null",
            ),
        ),
    ),
)

CULPRITS = Table(
    "culprits",
    GOLD,
    "The members that made a group rebalance.",
    ("run", "group", "cause", "name"),
    (
        *GROUP,
        *columns(
            ("cause", "string", "cause of the rebalances"),
            ("name", "string", "culprit_name of the rebalances"),
            ("rebalances", "bigint", "number of rebalances"),
            (
                "duration_s",
                "double",
                "total duration of those that have ended; 0: none",
            ),
            ("downtime_s", "double", "partition-seconds, as in causes"),
            ("paused_s", "double", "member-seconds, as in causes"),
        ),
    ),
)

WAITED_FOR = Table(
    "waited_for",
    GOLD,
    "A member that a group waited for: it was the last one in join phases.",
    ("run", "group", "name"),
    (
        *GROUP,
        *columns(
            (
                "name",
                "string",
                (
                    "name in the membership of waited_for of rebalances; without one,"
                    " the member id"
                ),
            ),
            ("rebalances", "bigint", "number of rebalances"),
            ("waited_s", "double", "sum of waited_ns"),
            ("waited_max_s", "double", "longest waited_ns"),
        ),
    ),
)

INITIAL_DELAY = Table(
    "initial_delay",
    GOLD,
    "Savings by the initial delay (KIP-134): pairs of runs with the same labels,"
    " including scenario and seed, except group.initial.rebalance.delay.ms, which is"
    " 0 in one run and above 0 in the other. All such pairs, and the groups that are"
    " in both runs.",
    ("scenario", "seed", "group", "delay_ms", "run_with", "run_without"),
    columns(
        ("scenario", "string", "the label scenario"),
        ("seed", "string", "the label seed"),
        ("group", "string", "the group's id"),
        ("delay_ms", "bigint", "the label group.initial.rebalance.delay.ms"),
        ("run_with", "string", "the run with the delay"),
        ("run_without", "string", "the run without"),
        ("rebalances_with", "bigint", "rebalances in groups"),
        ("rebalances_without", "bigint", "likewise"),
        ("rebalances_saved", "bigint", "without - with"),
        ("downtime_with_s", "double", "downtime_s in groups"),
        ("downtime_without_s", "double", "likewise"),
        ("downtime_saved_s", "double", "without - with"),
        (
            "first_assignment_with_s",
            "double",
            (
                "time from the first from_ns of a membership of the group to the"
                " first ended_ns of a completed rebalance; null: none"
            ),
        ),
        ("first_assignment_without_s", "double", "likewise"),
        ("later_s", "double", "with - without: the cost; null: one of them is null"),
    ),
)

FINDINGS = Table(
    "findings",
    GOLD,
    "Known problems of a group of one kind: the findings of one code, added up.",
    ("run", "group", "code"),
    (
        *GROUP,
        *columns(
            ("code", "string", "of the findings"),
            ("findings", "bigint", "number of findings"),
            ("sure", "bigint", "of these, those with is_sure"),
            ("cases", "bigint", "sum of their evidence_count"),
            ("from_ns", "bigint", "the earliest from_ns"),
            ("until_ns", "bigint", "the latest until_ns"),
            ("downtime_s", "double", "sum of their unread_ns, in partition-seconds"),
            ("paused_s", "double", "sum of their paused_ns, in member-seconds"),
            ("records", "bigint", "sum of their records"),
            (
                "downtime_saved_s",
                "double",
                "sum of their saving_ns, in partition-seconds; null: unknown",
            ),
            (
                "title",
                "string",
                "of the one with the largest saving_ns, or else unread_ns",
            ),
            ("advice", "string", "likewise"),
            ("setting", "string", "likewise"),
            ("current", "string", "likewise"),
            ("suggested", "string", "likewise"),
        ),
    ),
)

QUALITY = Table(
    "quality",
    GOLD,
    "A check of the data of a run, or of all runs (run is null).",
    ("check", "run"),
    columns(
        ("check", "string", "name of the check"),
        ("run", "string", "the run; null: all"),
        ("found", "bigint", "number found"),
        ("of", "bigint", "number checked"),
        ("share", "double", "found / of; 0 if of is 0"),
        ("threshold", "double", "the share above which it fails"),
        ("outcome", "string", "passed, marked or failed"),
        ("says", "string", "the check in words"),
    ),
)

TRANSACTIONS = Table(
    "transactions",
    GOLD,
    "Transactions that started in an hour of a run, and those of the whole run (hour"
    " is null). An hour, or a run, without a transaction has no row.",
    ("run", "hour"),
    columns(
        ("run", "string", "id of the run of the broker"),
        ("hour", "timestamp", "start of the hour (UTC); null: the whole run"),
        ("transactions", "bigint", "transactions that started in it"),
        ("transactional_ids", "bigint", "of these, the number of different ids"),
        ("committed", "bigint", "of these, those with that result"),
        ("aborted", "bigint", "likewise"),
        ("undecided", "bigint", "of these, those without a result"),
        (
            "aborts_by_cause",
            "map<string,bigint>",
            "of the aborted ones, the number by cause; null: none",
        ),
        (
            "open_p50_s",
            "double",
            (
                "percentile of open_ns of those with a result, interpolated linearly;"
                " null: none"
            ),
        ),
        ("open_p95_s", "double", "likewise"),
        ("open_p99_s", "double", "likewise"),
        ("open_max_s", "double", "the longest open_ns; null: none has a result"),
        ("held_back", "bigint", "sum of their held_back"),
        ("held_back_max", "bigint", "the largest of these"),
    ),
)

GOLD_TABLES: Final = (
    HOURS,
    GROUPS,
    RUN_METRICS,
    CAUSES,
    STORMS,
    CULPRITS,
    WAITED_FOR,
    INITIAL_DELAY,
    TRANSACTIONS,
    FINDINGS,
    QUALITY,
)
"""A table comes after those that it is made from."""
