"""The tables of gold: the numbers for decisions of a platform team."""

from __future__ import annotations

from typing import Final

from kohort.pipeline.tables.table import GOLD, GROUP, Table, columns

_METRICS: Final = columns(
    ("rebalances", "bigint", "that started in it"),
    ("completed", "bigint", "of them those that ended with an assignment"),
    ("interrupted", "bigint", "of them those with that outcome"),
    ("by_cause", "map<string,bigint>", "of them, how many by cause; null: none"),
    (
        "duration_p50_s",
        "double",
        (
            "of the completed: percentile of duration_ns, interpolated linearly;"
            " null: there is none"
        ),
    ),
    ("duration_p95_s", "double", "the same"),
    ("duration_p99_s", "double", "the same"),
    ("duration_max_s", "double", "the same"),
    ("paused_s", "double", "member-seconds of pauses, the part that is in it"),
    (
        "unread_s",
        "double",
        "partition-seconds of unread, the part that is in it, without group_empty",
    ),
    ("member_s", "double", "member-seconds of memberships, the part that is in it"),
    ("capacity_lost", "double", "paused_s / member_s; null: there was no member"),
    ("members_most", "bigint", "of its completed rebalances: the most members"),
    ("storms", "bigint", "that began in it"),
    ("storm_rebalances", "bigint", "rebalances of those storms"),
    (
        "refused_full",
        "bigint",
        "refusals with the cause full or group_over_max_size (KIP-389)",
    ),
    (
        "refused_full_names",
        "bigint",
        "of them: how many different names, null not counted",
    ),
    ("partitions_moved", "bigint", "moved of the rebalances that started in it"),
    ("partitions_moved_least", "bigint", "least_moved of the same"),
    ("expired", "bigint", "memberships that ended in it as expired"),
    (
        "expired_unread_s",
        "double",
        "partition-seconds of unread with the cause expired that began in it",
    ),
    (
        "expired_unread_max_s",
        "double",
        "of a member: from its last sign of life to the last reader; null: none",
    ),
    ("metadata_bytes", "bigint", "of its completed rebalances"),
    ("assignment_bytes", "bigint", "of its completed rebalances"),
    ("bytes_per_rebalance", "double", "both, by the number of completed; null: none"),
    ("commits", "bigint", "offsets_committed events, also those without offsets"),
    ("offsets", "bigint", "offsets in them"),
    ("commit_failures", "bigint", "commit_refused events, also those without offsets"),
    (
        "commit_failures_by_error",
        "map<string,bigint>",
        "of them, how many by error; null: none",
    ),
    ("records_reprocessed", "bigint", "records of reprocessed with why = refused"),
    ("records_rewound", "bigint", "records of reprocessed with why = rewound"),
    ("lag_built", "bigint", "lag_built of the rebalances that started in it"),
    ("lag_built_max", "bigint", "the largest of those; null: none is known"),
    (
        "catch_up_p50_s",
        "double",
        "percentile of catch_up_ns of the same, interpolated; null: none is known",
    ),
    ("catch_up_max_s", "double", "the longest of those; null: none is known"),
)

HOURS = Table(
    "hours",
    GOLD,
    "A group in an hour (UTC). Rebalances and moments count in the hour in which"
    " they begin; other durations with the part that is in the hour. An hour has"
    " a row if the group has an event in it, or a part of a membership,"
    " pause or unread time longer than 0. Sums and counts are 0 where there is nothing"
    " to count, unless a column says otherwise.",
    ("run", "group", "hour"),
    (*GROUP, *columns(("hour", "timestamp", "when it begins")), *_METRICS),
)

GROUPS = Table(
    "groups",
    GOLD,
    "A group in a run; the same numbers for all of it. Every group that has an event"
    " has a row.",
    ("run", "group"),
    (*GROUP, *_METRICS),
)

RUN_METRICS = Table(
    "runs",
    GOLD,
    "A run; the same numbers for all its groups together. Every run has a row.",
    ("run",),
    (
        *columns(
            ("run", "string", "the start of the broker"),
            ("labels", "map<string,string>", "the user's labels (serve --label)"),
            ("scenario", "string", "the label scenario"),
            ("seed", "string", "the label seed"),
            ("first_ns", "bigint", "its first event"),
            ("last_ns", "bigint", "its last event"),
            ("events", "bigint", "how many it has"),
            ("groups", "bigint", "how many groups have events"),
        ),
        *_METRICS,
    ),
)

CAUSES = Table(
    "causes",
    GOLD,
    "Rebalances of a group, in an hour, for one cause.",
    ("run", "group", "hour", "cause"),
    (
        *GROUP,
        *columns(
            ("hour", "timestamp", "in which they started"),
            ("cause", "string", "of the rebalances"),
            ("rebalances", "bigint", "how many"),
            ("completed", "bigint", "of them those that ended with an assignment"),
            ("duration_p50_s", "double", "of the completed, as in hours"),
            ("duration_p95_s", "double", "the same"),
            ("duration_p99_s", "double", "the same"),
            ("paused_s", "double", "member-seconds: paused_ns of the rebalances"),
            ("unread_s", "double", "partition-seconds: unread_ns of the rebalances"),
        ),
    ),
)

STORMS = Table(
    "storms",
    GOLD,
    "A storm: many rebalances of a group in a short time. A stretch is k"
    " rebalances that follow each other (k = 5) and of which the last starts"
    " not later than t after the first (t = 60 s); k and t are options of the"
    " build. Stretches that have a rebalance in common are one storm.",
    ("run", "group", "from_ns"),
    (
        *GROUP,
        *columns(
            ("from_ns", "bigint", "started_ns of its first rebalance"),
            ("until_ns", "bigint", "started_ns of its last rebalance"),
            ("first_number", "bigint", "number of the first"),
            ("last_number", "bigint", "number of the last"),
            ("rebalances", "bigint", "how many"),
            ("by_cause", "map<string,bigint>", "of them, how many by cause"),
            (
                "names",
                "array<string>",
                "their culprit_names, in order, each once, without null",
            ),
        ),
    ),
)

CULPRITS = Table(
    "culprits",
    GOLD,
    "Who made a group rebalance.",
    ("run", "group", "cause", "name"),
    (
        *GROUP,
        *columns(
            ("cause", "string", "of the rebalances"),
            ("name", "string", "culprit_name of the rebalances"),
            ("rebalances", "bigint", "how many"),
            ("duration_s", "double", "of all that are over, together; 0: none is"),
            ("paused_s", "double", "member-seconds, as in causes"),
            ("unread_s", "double", "partition-seconds, as in causes"),
        ),
    ),
)

WAITED_FOR = Table(
    "waited_for",
    GOLD,
    "A member that a group waited for: in how many join phases it was the last.",
    ("run", "group", "name"),
    (
        *GROUP,
        *columns(
            (
                "name",
                "string",
                (
                    "of the membership of waited_for of rebalances; where there is"
                    " none, the member id"
                ),
            ),
            ("rebalances", "bigint", "how many"),
            ("waited_s", "double", "waited_ns, together"),
            ("waited_max_s", "double", "the longest"),
        ),
    ),
)

INITIAL_DELAY = Table(
    "initial_delay",
    GOLD,
    "Savings by the initial delay (KIP-134): pairs of runs with the same"
    " labels, the scenario and the seed among them, but for"
    " group.initial.rebalance.delay.ms, which is 0 in one of them and a number"
    " above 0 in the other. Each with each, where there are several. Groups"
    " that are in both.",
    ("scenario", "seed", "group", "delay_ms", "run_with", "run_without"),
    columns(
        ("scenario", "string", "the label scenario"),
        ("seed", "string", "the label seed"),
        ("group", "string", "the group's id"),
        ("delay_ms", "bigint", "the label group.initial.rebalance.delay.ms"),
        ("run_with", "string", "the run with the delay"),
        ("run_without", "string", "the run without"),
        ("rebalances_with", "bigint", "rebalances of groups"),
        ("rebalances_without", "bigint", "the same"),
        ("rebalances_saved", "bigint", "without - with"),
        ("paused_with_s", "double", "paused_s of groups"),
        ("paused_without_s", "double", "the same"),
        ("paused_saved_s", "double", "without - with"),
        (
            "first_assignment_with_s",
            "double",
            (
                "from the first from_ns of a membership of the group to the first"
                " ended_ns of a completed rebalance; null: there is none"
            ),
        ),
        ("first_assignment_without_s", "double", "the same"),
        ("later_s", "double", "with - without: its cost; null: one of them is"),
    ),
)

SETTINGS = Table(
    "settings",
    GOLD,
    "A setting that would help a group, with its evidence.",
    ("run", "group", "rule"),
    (
        *GROUP,
        *columns(
            ("rule", "string", "which of the rules in the documents"),
            ("setting", "string", "the configuration key"),
            ("where", "string", "broker or client"),
            ("suggested", "string", "the value"),
            ("evidence", "string", "in words, with the numbers"),
            ("cases", "bigint", "how often it was seen"),
            ("rebalances_saved", "bigint", "at the most, had it been set; null: none"),
            ("paused_saved_s", "double", "member-seconds, the same"),
            ("confidence", "double", "0 to 1; computed as the rule says"),
        ),
    ),
)

QUALITY = Table(
    "quality",
    GOLD,
    "A check of the data of a run, or of all (run is null).",
    ("check", "run"),
    columns(
        ("check", "string", "its name"),
        ("run", "string", "of which run; null: of all"),
        ("found", "bigint", "how many"),
        ("of", "bigint", "of how many"),
        ("share", "double", "found / of; 0 of none"),
        ("threshold", "double", "the share above which it fails"),
        ("outcome", "string", "passed, marked or failed"),
        ("says", "string", "in words"),
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
    SETTINGS,
    QUALITY,
)
"""A table comes after those that it is made from."""
