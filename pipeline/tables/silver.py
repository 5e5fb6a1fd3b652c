"""The tables of silver: what groups did, in intervals and rows."""

from __future__ import annotations

from typing import Final

from kohort.pipeline.tables.table import GROUP, MEMBER, SILVER, Table, columns

RUNS = Table(
    "runs",
    SILVER,
    "A run: one start of the broker, or one simulated world.",
    ("run",),
    columns(
        ("run", "string", "unique to it"),
        ("labels", "map<string,string>", "what the user calls it"),
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
    "A rebalance: what began with a rebalance_started. Up to the next"
    " rebalance_started or group_loaded of the group, in order, its events are the"
    " first join_completed and the first assignment_made.",
    ("run", "group", "number"),
    (
        *GROUP,
        *columns(
            ("number", "bigint", "counts those of the group from 1, in order"),
            ("node", "int", "the node that saw it begin"),
            ("sequence", "bigint", "of its rebalance_started"),
            ("started_ns", "bigint", "time_ns of its rebalance_started"),
            (
                "ended_ns",
                "bigint",
                (
                    "when it was over: the assignment_made (completed), the"
                    " join_completed (emptied), or what began next (interrupted,"
                    " moved); null: open"
                ),
            ),
            ("duration_ns", "bigint", "ended_ns - started_ns; null: open"),
            (
                "outcome",
                "string",
                (
                    "completed: it has an assignment_made. Else emptied: it has a"
                    " join_completed without members. Else interrupted: another"
                    " rebalance_started came next. Else moved: a group_loaded came"
                    " next. Else open: the events end"
                ),
            ),
            ("cause", "string", "of rebalance_started"),
            ("reason", "string", "of rebalance_started: the client's own words"),
            ("culprit", "string", "member_id of rebalance_started"),
            (
                "culprit_name",
                "string",
                (
                    "instance_id of rebalance_started, else its client_id, else its"
                    " member_id"
                ),
            ),
            ("culprits", "array<string>", "of rebalance_started: all who caused it"),
            ("previous_state", "string", "of rebalance_started"),
            ("expected", "array<string>", "members of rebalance_started"),
            (
                "generation",
                "int",
                "of join_completed, else of assignment_made; null: it made none",
            ),
            ("members", "array<string>", "of join_completed"),
            ("gained", "array<string>", "of join_completed"),
            ("lost", "array<string>", "of join_completed"),
            ("join_ended", "string", "the cause of join_completed"),
            ("join_ns", "bigint", "duration_ns of join_completed"),
            ("sync_ns", "bigint", "duration_ns of assignment_made"),
            (
                "waited_for",
                "string",
                (
                    "of the waits of join_completed the member with the longest"
                    " waited_ns; of several the one with the smallest id; null: nobody"
                ),
            ),
            ("waited_ns", "bigint", "its waited_ns"),
            ("protocol", "string", "of assignment_made: the assignor"),
            ("leader", "string", "of assignment_made"),
            ("assignment_bytes", "bigint", "bytes of assignment_made"),
            ("metadata_bytes", "bigint", "metadata_bytes of assignment_made"),
        ),
    ),
)

MEMBERSHIPS = Table(
    "memberships",
    SILVER,
    "A member's time in a group. Who was only given an id, and never joined,"
    " has none; neither has an id of which only the end was seen. The member's"
    " own events are the member_joined, member_replaced, member_synced,"
    " partitions_changed, member_left, member_expired and member_kicked that"
    " have it as member_id, but those with was_pending. Its ends are the last"
    " three kinds of those, and the member_replaced that has it as"
    " replaced_member_id. A coordinator that moves may bring back a member"
    " whose end was not stored: what counts is the last end, in order, and none"
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
                    " replaced, kicked, or forgotten; null: it has not ended"
                ),
            ),
            ("reason", "string", "of its end"),
            (
                "silent_ns",
                "bigint",
                (
                    "of its end, if that is a member_expired: since its last sign of"
                    " life"
                ),
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
            ("partition", "int", "of it"),
        ),
        *MEMBER,
        *columns(
            ("from_ns", "bigint", "time_ns of the event that it begins with"),
            ("from_node", "int", "that event's node"),
            ("from_sequence", "bigint", "that event's sequence"),
            ("until_ns", "bigint", "time_ns of the event that it ends with"),
            ("began", "string", "the cause of the event that it begins with"),
            (
                "number",
                "bigint",
                (
                    "of the last rebalance that started before, in order, by the"
                    " event that it begins with; null: none was seen"
                ),
            ),
            (
                "previous_owner",
                "string",
                (
                    "owner of the row of the same partition that began last before"
                    " this one, in order; null: none was seen"
                ),
            ),
            ("previous_member_id", "string", "its member"),
            (
                "moved",
                "boolean",
                ("began is assigned, and previous_owner is another owner; else false"),
            ),
            (
                "idle_ns",
                "bigint",
                (
                    "from_ns - until_ns of the row before, at least 0 (0 if that had"
                    " not ended by then); null: there was none"
                ),
            ),
            (
                "crash_idle_ns",
                "bigint",
                (
                    "where began is assigned, and the row before ended because its"
                    " member expired (its membership's how, and the same until_ns):"
                    " from_ns - (until_ns - silent_ns) of that membership: from its"
                    " last sign of life to the new owner; else null"
                ),
            ),
        ),
    ),
)

STAND_STILLS = Table(
    "stand_stills",
    SILVER,
    "An eager member (one whose assignors were never seen counts as such)"
    " waits for an assignment and can do nothing meanwhile. It waits from the"
    " first of its member_joined that is not repeated, since it was synced"
    " last, to its member_synced, or until it is gone: its next end in the"
    " sense of memberships, or being forgotten. It stands still if it was"
    " assigned partitions when the wait began (the owned of its last"
    " partitions_changed was not empty). A static member that comes back"
    " (member_replaced) has what its old id had, and waits from then on if of"
    " the group's last rebalance_started, join_completed and group_loaded, in"
    " order, the last is a rebalance_started, or if at the same time_ns a"
    " rebalance_started with the cause static_member_replaced has it among its"
    " culprits.",
    ("run", "group", "member_id", "from_ns"),
    (
        *GROUP,
        *MEMBER,
        *columns(
            ("from_ns", "bigint", "since when"),
            ("until_ns", "bigint", "until when"),
            ("ended", "string", "synced, gone; null: it did not"),
            (
                "number",
                "bigint",
                (
                    "of the last rebalance whose started_ns is not after from_ns;"
                    " null: none was seen"
                ),
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
            ("member_id", "string", "who committed; null: no member, such as an admin"),
            ("name", "string", "instance_id of the event, else client_id, member_id"),
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
    "What a completed rebalance did to partitions. The last owner of a"
    " partition is the owner of its last row of ownership, also while nobody"
    " has it. Before and after a rebalance is before the first and after the"
    " last of its rows of ownership (those with its number, began = assigned),"
    " in order; where it has none, both are at its assignment_made. Let P be"
    " the partitions that had a last owner before, and whose last owner after"
    " is an owner among the members of its generation (where its join_completed"
    " was not seen: nobody).",
    ("run", "group", "number"),
    (
        *GROUP,
        *columns(
            ("number", "bigint", "of the rebalance"),
            ("started_ns", "bigint", "of the rebalance"),
            ("generation", "int", "of the rebalance"),
            ("members", "bigint", "how many its generation has"),
            (
                "owned",
                "bigint",
                "partitions whose last owner afterwards is one of its members",
            ),
            ("moved", "bigint", "of P those whose last owner is another one now"),
            (
                "least_moved",
                "bigint",
                (
                    "the least that had to move for the same shares: |P| - the sum"
                    " over k of min(b_k, a_k); b: of each member of the generation the"
                    " number of partitions in P that it was the last owner of before,"
                    " sorted descending; a: the same afterwards"
                ),
            ),
            ("first_owned", "bigint", "rows of ownership that had no previous owner"),
        ),
    ),
)

LAGS = Table(
    "lags",
    SILVER,
    "What lag a completed rebalance built up, as commits show it. T, the"
    " group's lag after an OffsetCommit, is the sum over its partitions of"
    " end_offset - offset (at least 0) of the last accepted row at or before"
    " it, in order; only rows that have an end_offset count, and only events"
    " with such rows. The rebalance's events are those from its"
    " rebalance_started to the next one of the group; for the peak those not"
    " later than 30 s after ended_ns: what comes later is of every day. No row"
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
    STAND_STILLS,
    COMMITS,
    REPROCESSED,
    REFUSALS,
    MOVES,
    LAGS,
)
"""A table comes after those that it is made from."""
