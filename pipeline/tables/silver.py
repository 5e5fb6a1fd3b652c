"""The tables of silver: group activity, as intervals and rows."""

from __future__ import annotations

from typing import Final

from kohort.pipeline.event_schema import WORDS
from kohort.pipeline.tables.table import GROUP, MEMBER, SILVER, Table, columns

OUTCOMES: Final = ", ".join(WORDS["outcomes"])
ENDS: Final = ", ".join(WORDS["pause_ends"])
UNREAD_CAUSES: Final = ", ".join(WORDS["unread_causes"])

RUNS = Table(
    "runs",
    SILVER,
    "A run: one start of the broker, or one simulated world.",
    ("run",),
    columns(
        ("run", "string", "unique to it"),
        ("labels", "map<string,string>", "the user's labels (serve --label)"),
        ("scenario", "string", "the label scenario; null: there is none"),
        ("seed", "string", "the label seed; null: there is none"),
        ("first_ns", "bigint", "time_ns of its first event"),
        ("last_ns", "bigint", "the run's end"),
        ("events", "bigint", "how many it has"),
        ("nodes", "array<int>", "the nodes that saw some, in order"),
        ("groups", "bigint", "how many groups have events"),
    ),
)

REBALANCES = Table(
    "rebalances",
    SILVER,
    "A rebalance that is settled: a rebalance_account. The event has the meaning of"
    " each column in full.",
    ("run", "group", "number"),
    (
        *GROUP,
        *columns(
            ("number", "bigint", "counts those of the group from 1, by started_ns"),
            ("node", "int", "the node that saw it start"),
            ("sequence", "bigint", "started_sequence of the event"),
            ("started_ns", "bigint", "its start"),
            ("joined_ns", "bigint", "the end of its join phase; null: it did not end"),
            ("ended_ns", "bigint", "its end"),
            ("settled_ns", "bigint", "the end of its account"),
            ("duration_ns", "bigint", "ended_ns - started_ns"),
            ("outcome", "string", OUTCOMES),
            ("cause", "string", "why it started"),
            ("reason", "string", "the client's own words"),
            ("culprit", "string", "member_id of the event: the first that caused it"),
            (
                "culprit_name",
                "string",
                "instance_id of the event, else its client_id, else its member_id",
            ),
            ("culprits", "array<string>", "all members that caused it"),
            ("silent_ns", "bigint", "since the broker last heard of the culprit"),
            (
                "is_second_half",
                "boolean",
                "a cooperative member rejoined to have revoked partitions assigned",
            ),
            ("previous_state", "string", "the group's state before it"),
            ("expected", "array<string>", "members that were to join"),
            ("generation", "int", "the one that it made; null: none"),
            ("members", "array<string>", "of that generation"),
            ("gained", "array<string>", "members that are new in it"),
            ("lost", "array<string>", "members that are not in it any more"),
            ("join_ended", "string", "what ended the join phase; null: not known"),
            ("join_ns", "bigint", "the join phase"),
            ("sync_ns", "bigint", "from there to the leader's assignment"),
            (
                "waited_for",
                "string",
                (
                    "of the waits of the event the member with the longest waited_ns;"
                    " of several the one with the smallest id; null: none"
                ),
            ),
            ("waited_ns", "bigint", "its waited_ns"),
            ("protocol", "string", "the assignor"),
            ("leader", "string", "the member that computed the assignment"),
            ("leader_cause", "string", "why that member leads"),
            ("is_eager", "boolean", "members revoked all that they had; null: unknown"),
            ("assignment_bytes", "bigint", "bytes of all assignments"),
            ("metadata_bytes", "bigint", "bytes of all subscriptions"),
            ("paused_ns", "bigint", "member-ns of its pauses"),
            ("unread_ns", "bigint", "partition-ns of its unread, but group_empty"),
            ("unread_empty_ns", "bigint", "partition-ns of group_empty"),
            ("is_whole", "boolean", "no event of it is missing"),
        ),
    ),
)

MEMBERSHIPS = Table(
    "memberships",
    SILVER,
    "A member's time in a group. A pending member that never joined has none;"
    " neither has an id of which only the end was seen. The member's"
    " own events are the member_joined, member_replaced, member_synced,"
    " partitions_changed, member_left, member_expired and member_kicked that"
    " have it as member_id, but those with was_pending. Its ends are the last"
    " three kinds of those, and the member_replaced that has it as"
    " replaced_member_id. A coordinator that moves may bring back a member"
    " whose end was not stored: the last end, in order, counts, and none"
    " if a group_loaded after it has the member. Or it may know nothing of a"
    " member: one of which no end counts is forgotten by the first group_loaded"
    " that is later (by time_ns) than from_ns and than every group_loaded that"
    " has it.",
    ("run", "group", "member_id"),
    (
        *GROUP,
        *MEMBER,
        *columns(
            (
                "instance_id",
                "string",
                (
                    "group.instance.id (KIP-345): of its own events, in order, the"
                    " first that is not null"
                ),
            ),
            ("client_id", "string", "client.id: the same"),
            ("host", "string", "as Kafka shows it: the same"),
            ("connection", "bigint", "that it came on: the same"),
            ("last_connection", "bigint", "of its own events, in order, the last one"),
            (
                "is_eager",
                "boolean",
                (
                    "by the protocols of its first member_joined or member_replaced;"
                    " null: none was seen"
                ),
            ),
            ("session_timeout_ms", "bigint", "of the same event"),
            ("rebalance_timeout_ms", "bigint", "of the same event"),
            (
                "from_ns",
                "bigint",
                (
                    "time_ns of the first event that has it as a member:"
                    " member_joined, member_replaced (the new id), member_synced,"
                    " partitions_changed, or among the members of rebalance_started,"
                    " join_completed, group_loaded"
                ),
            ),
            (
                "is_start_known",
                "boolean",
                (
                    "whether it has a member_joined with is_first, or a"
                    " member_replaced as the new id"
                ),
            ),
            (
                "until_ns",
                "bigint",
                (
                    "time_ns of its end, or of the group_loaded that has forgotten it;"
                    " null: it has not ended"
                ),
            ),
            (
                "how",
                "string",
                (
                    "which end: left or removed (the cause of member_left), expired,"
                    " replaced or kicked; unseen: a group_loaded has forgotten it;"
                    " null: it has not ended"
                ),
            ),
            ("reason", "string", "of its end"),
            (
                "silent_ns",
                "bigint",
                "of its end: since the broker last heard of it; null: unknown",
            ),
        ),
    ),
)

OWNERSHIP = Table(
    "ownership",
    SILVER,
    "A member has a partition. It begins with a partitions_changed that has the"
    " partition in partitions_gained, or, with the cause loaded, in owned while the"
    " member does not have it as far as was seen; it ends with the member's next"
    " partitions_changed that has it in partitions_lost.",
    ("run", "group", "topic", "partition", "member_id", "from_ns", "from_sequence"),
    (
        *GROUP,
        *columns(
            ("topic", "string", "the partition's topic"),
            ("partition", "int", "its number"),
        ),
        *MEMBER,
        *columns(
            ("from_ns", "bigint", "time_ns of the event that it begins with"),
            ("from_node", "int", "that event's node"),
            ("from_sequence", "bigint", "that event's sequence"),
            ("until_ns", "bigint", "time_ns of the event that it ends with"),
            ("began", "string", "the cause of the event that it begins with"),
        ),
    ),
)

PAUSES = Table(
    "pauses",
    SILVER,
    "An eager member with partitions does not process, from its JoinGroup to its"
    " assignment: a row of pauses of a rebalance_account whose count is not 0. A pause"
    " that goes on in the next rebalance has a row of that rebalance, too.",
    ("run", "group", "number", "member_id", "from_ns"),
    (
        *GROUP,
        *columns(("number", "bigint", "of the rebalance")),
        *MEMBER,
        *columns(
            ("from_ns", "bigint", "its start"),
            ("until_ns", "bigint", "its end"),
            ("partitions", "bigint", "how many the member had; null: unknown"),
            ("ended", "string", ENDS),
        ),
    ),
)

UNREAD = Table(
    "unread",
    SILVER,
    "Partitions of a topic that had a reader have none, for some time: a row of unread"
    " of a rebalance_account. Sums over rebalances count each moment once.",
    ("run", "group", "number", "position", "topic"),
    (
        *GROUP,
        *columns(
            (
                "number",
                "bigint",
                (
                    "of the rebalance that has it in its account; it may have begun"
                    " before that"
                ),
            ),
            ("position", "int", "of the row in the account"),
            ("topic", "string", "the partitions' topic"),
        ),
        *MEMBER,
        *columns(
            ("reader", "string", "the member that reads them next; null: none yet"),
            ("cause", "string", UNREAD_CAUSES),
            ("from_ns", "bigint", "its start: of a crash, the last sign of life"),
            ("until_ns", "bigint", "its end"),
            ("partitions", "bigint", "how many"),
            ("unread_ns", "bigint", "(until_ns - from_ns) * partitions"),
        ),
    ),
)

RETURNS = Table(
    "returns",
    SILVER,
    "A member went, and its process is back as another member: a row of returns of a"
    " rebalance_account; of several with the same previous_id the last. A static member"
    " that took its old place has none: its end in memberships is replaced.",
    ("run", "group", "previous_id"),
    (
        *GROUP,
        *columns(("number", "bigint", "of the rebalance that has it in its account")),
        *MEMBER,
        *columns(
            ("previous_id", "string", "the member that went; member_id is the new one"),
            ("how", "string", "how that one went"),
            ("from_ns", "bigint", "when the broker last heard of that one"),
            ("until_ns", "bigint", "the JoinGroup of the new one"),
            ("away_ns", "bigint", "until_ns - from_ns"),
            (
                "is_restart",
                "boolean",
                "false: it came on the same connection, so it never stopped",
            ),
        ),
    ),
)

COMMITS = Table(
    "commits",
    SILVER,
    "An offset of an OffsetCommit, accepted or refused.",
    ("run", "node", "sequence", "topic", "partition"),
    (
        *GROUP,
        *columns(
            ("member_id", "string", "the committer; null: no member, as an admin"),
            ("name", "string", "instance_id of the event, else client_id, member_id"),
            ("client_id", "string", "of the event"),
            ("host", "string", "of the event"),
            ("connection", "bigint", "of the event"),
            ("generation", "int", "of the event"),
            ("time_ns", "bigint", "of the event"),
            ("node", "int", "of the event"),
            ("sequence", "bigint", "of the event"),
            ("is_first", "boolean", "it is the first offset of its event"),
            ("topic", "string", "the partition's topic"),
            ("partition", "int", "of it"),
            ("offset", "bigint", "the next record to consume"),
            (
                "end_offset",
                "bigint",
                "the next record to be written, then; null: unknown",
            ),
            ("error", "string", "why it was refused; null: accepted"),
        ),
    ),
)

REPROCESSED = Table(
    "reprocessed",
    SILVER,
    "Records of a partition that were processed twice, as far as commits show"
    " it: a lower bound. Of the accepted rows of (run, group, topic,"
    " partition), in order, take A and the one before it, B (A has none:"
    " nothing). why = refused: between them rows were refused to other member"
    " ids than A's (none is another one than some); with F the largest offset"
    " of those, records = min(A.offset, F) - B.offset. why = rewound: A has a"
    " member_id that is not empty, and records = B.offset - A.offset. Only rows"
    " with records above 0 are there.",
    ("run", "group", "topic", "partition", "node", "sequence", "why"),
    (
        *GROUP,
        *columns(
            ("topic", "string", "the partition's topic"),
            ("partition", "int", "of it"),
            ("time_ns", "bigint", "of A"),
            ("node", "int", "of A"),
            ("sequence", "bigint", "of A"),
            ("member_id", "string", "of A"),
            ("why", "string", "refused or rewound"),
            ("records", "bigint", "how many"),
        ),
    ),
)

REFUSALS = Table(
    "refusals",
    SILVER,
    "A JoinGroup was refused (member_refused), or a member was taken out for want of"
    " room (member_kicked with the cause full or group_over_max_size).",
    ("run", "node", "sequence"),
    (
        *GROUP,
        *columns(
            ("time_ns", "bigint", "of the event"),
            ("node", "int", "of the event"),
            ("sequence", "bigint", "of the event"),
            ("kind", "string", "member_refused or member_kicked"),
            ("member_id", "string", "who; null: it had no id"),
            ("name", "string", "instance_id of the event, else client_id, member_id"),
            ("host", "string", "of the event"),
            ("cause", "string", "of the event"),
            ("error", "string", "of the event"),
        ),
    ),
)

MOVES = Table(
    "moves",
    SILVER,
    "Moves of partitions by a completed rebalance of consumers.",
    ("run", "group", "number"),
    (
        *GROUP,
        *columns(
            ("number", "bigint", "of the rebalance"),
            ("started_ns", "bigint", "of the rebalance"),
            ("generation", "int", "of the rebalance"),
            ("members", "bigint", "how many its generation has"),
            ("owned", "bigint", "partitions that it assigned"),
            ("moved", "bigint", "moved_count: of them those of another member before"),
            ("least_moved", "bigint", "least_moved_count: the least that had to move"),
            ("first_owned", "bigint", "first_count: without a known owner before"),
            ("given_up", "bigint", "given_up_count: taken from members, not assigned"),
        ),
    ),
)

LAGS = Table(
    "lags",
    SILVER,
    "The lag that a completed rebalance built up, as commits show it. T, the"
    " group's lag after an OffsetCommit, is the sum over its partitions of"
    " end_offset - offset (at least 0) of the last accepted row at or before"
    " it, in order; only rows that have an end_offset count, and only events"
    " with such rows. The rebalance's events are those from its"
    " rebalance_started to the next one of the group; for the peak those not"
    " later than 30 s after ended_ns: later lag has other causes. No row"
    " where there is no T before it, or none for the peak.",
    ("run", "group", "number"),
    (
        *GROUP,
        *columns(
            ("number", "bigint", "of the rebalance"),
            ("started_ns", "bigint", "of the rebalance"),
            ("ended_ns", "bigint", "of the rebalance"),
            ("lag_before", "bigint", "records: the last T before it"),
            ("lag_peak", "bigint", "records: the largest T for the peak"),
            ("peak_ns", "bigint", "time_ns of the first of its events with that"),
            ("lag_built", "bigint", "lag_peak - lag_before, at least 0"),
            (
                "worked_off_ns",
                "bigint",
                (
                    "where lag_built is above 0: time_ns of the first of its events,"
                    " not before that with the peak, with T <= lag_before; null: none"
                ),
            ),
            (
                "catch_up_ns",
                "bigint",
                "worked_off_ns - ended_ns, at least 0; null: unknown",
            ),
        ),
    ),
)

SILVER_TABLES: Final = (
    RUNS,
    REBALANCES,
    MEMBERSHIPS,
    OWNERSHIP,
    PAUSES,
    UNREAD,
    RETURNS,
    COMMITS,
    REPROCESSED,
    REFUSALS,
    MOVES,
    LAGS,
)
"""A table comes after those that it is made from."""
