"""The tables of silver: group activity, as intervals and rows."""

from __future__ import annotations

from typing import Final

from kohort.pipeline.event_schema import WORDS
from kohort.pipeline.tables.table import GROUP, MEMBER, SILVER, Table, columns

OUTCOMES: Final = ", ".join(WORDS["outcomes"])
ENDS: Final = ", ".join(WORDS["pause_ends"])
TRANSACTION_CAUSES: Final = ", ".join(WORDS["transaction_ends"])
UNREAD_CAUSES: Final = ", ".join(WORDS["unread_causes"])

RUNS = Table(
    "runs",
    SILVER,
    "A run: from a start of the broker to its stop.",
    ("run",),
    columns(
        ("run", "string", "its unique id"),
        ("labels", "map<string,string>", "the user's labels (`serve --label`)"),
        ("scenario", "string", "the label scenario; null: not set"),
        ("seed", "string", "the label seed; null: not set"),
        ("first_ns", "bigint", "time_ns of its first event"),
        ("last_ns", "bigint", "the run's end"),
        ("events", "bigint", "number of events"),
        ("nodes", "array<int>", "nodes with events, in order"),
        ("groups", "bigint", "number of groups with events"),
    ),
)

REBALANCES = Table(
    "rebalances",
    SILVER,
    "A settled rebalance: a rebalance_account. See the event for the full meaning of"
    " each column.",
    ("run", "group", "number"),
    (
        *GROUP,
        *columns(
            (
                "number",
                "bigint",
                "its number among those of the group, from 1, by started_ns",
            ),
            ("node", "int", "the node on which it started"),
            ("sequence", "bigint", "started_sequence of the event"),
            ("started_ns", "bigint", "its start"),
            ("joined_ns", "bigint", "the end of its join phase; null: it did not end"),
            ("ended_ns", "bigint", "its end"),
            ("settled_ns", "bigint", "the end of its account"),
            ("duration_ns", "bigint", "ended_ns - started_ns"),
            ("outcome", "string", OUTCOMES),
            ("cause", "string", "its cause"),
            ("reason", "string", "the reason that the client gave"),
            (
                "culprit",
                "string",
                "member_id of the event: the first member that caused it",
            ),
            (
                "culprit_name",
                "string",
                "instance_id of the event, or else its client_id or member_id",
            ),
            ("culprits", "array<string>", "all members that caused it"),
            (
                "silent_ns",
                "bigint",
                "time since the broker last heard from the culprit",
            ),
            (
                "is_second_half",
                "boolean",
                "a cooperative member rejoined to have revoked partitions assigned",
            ),
            ("previous_state", "string", "the group's state before it"),
            ("expected", "array<string>", "members that had to join"),
            ("generation", "int", "the generation that it produced; null: none"),
            ("members", "array<string>", "members of that generation"),
            ("gained", "array<string>", "members that are new in that generation"),
            ("lost", "array<string>", "members that are no longer in the group"),
            ("join_ended", "string", "end of the join phase; null: unknown"),
            ("join_ns", "bigint", "duration of the join phase"),
            ("sync_ns", "bigint", "time from there to the leader's assignment"),
            (
                "waited_for",
                "string",
                (
                    "the member with the longest waited_ns in waits of the event; of"
                    " several, the one with the smallest id; null: none"
                ),
            ),
            ("waited_ns", "bigint", "its waited_ns"),
            ("protocol", "string", "the assignor"),
            ("leader", "string", "the member that computed the assignment"),
            ("leader_cause", "string", "why that member leads"),
            ("is_eager", "boolean", "members revoked all partitions; null: unknown"),
            ("assignment_bytes", "bigint", "size of all assignments"),
            ("metadata_bytes", "bigint", "size of all subscriptions"),
            ("paused_ns", "bigint", "member-ns of its pauses"),
            ("unread_ns", "bigint", "partition-ns of its unread that are downtime"),
            ("unread_empty_ns", "bigint", "partition-ns of group_empty"),
            (
                "unprocessed_ns",
                "bigint",
                (
                    "partition-ns for which slow pollers held their partitions: beside"
                    " unread_ns, not a part of it"
                ),
            ),
            ("is_whole", "boolean", "no event of it is missing"),
            (
                "words",
                "string",
                "the rebalance in a sentence, as `kohort why` prints it; null: unknown",
            ),
        ),
    ),
)

MEMBERSHIPS = Table(
    "memberships",
    SILVER,
    "A member's time in a group. A pending member that never joined has no row,"
    " nor has an id of which only the end was seen. The member's own events are"
    " the member_joined, member_replaced, member_synced, partitions_changed,"
    " member_left, member_expired and member_kicked that have it as member_id,"
    " except those with was_pending. Its ends are the last three of these kinds,"
    " and the member_replaced that has it as replaced_member_id. When a"
    " coordinator moves, a member whose end was not stored may come back: the"
    " last end, in order, counts, unless a later group_loaded has the member. Or"
    " a member may be lost: if no end of it counts, it is forgotten by the first"
    " group_loaded that is later (by time_ns) than from_ns and than every"
    " group_loaded that has it.",
    ("run", "group", "member_id"),
    (
        *GROUP,
        *MEMBER,
        *columns(
            (
                "instance_id",
                "string",
                (
                    "group.instance.id (KIP-345): the first one in its own events, in"
                    " order, that is not null"
                ),
            ),
            ("client_id", "string", "client.id: likewise"),
            ("host", "string", "host, as Kafka shows it: likewise"),
            ("connection", "bigint", "connection of its first JoinGroup: likewise"),
            ("last_connection", "bigint", "the last one in its own events, in order"),
            (
                "is_eager",
                "boolean",
                (
                    "by the protocols of its first member_joined or member_replaced;"
                    " null: not seen"
                ),
            ),
            ("session_timeout_ms", "bigint", "from the same event"),
            ("rebalance_timeout_ms", "bigint", "from the same event"),
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
                    "its end: left or removed (the cause of member_left), expired,"
                    " replaced or kicked; unseen: a group_loaded has forgotten it;"
                    " null: it has not ended"
                ),
            ),
            ("reason", "string", "the reason of its end"),
            (
                "silent_ns",
                "bigint",
                "at its end: time since the broker last heard from it; null: unknown",
            ),
        ),
    ),
)

OWNERSHIP = Table(
    "ownership",
    SILVER,
    "The time for which a member owns a partition. It begins with a"
    " partitions_changed that has the partition in partitions_gained, or, with the"
    " cause loaded, in owned if the member was not known to own it; it ends with the"
    " member's next partitions_changed that has it in partitions_lost.",
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
    "The pause of an eager member with partitions, from its JoinGroup to its"
    " assignment: a row of pauses of a rebalance_account whose count is not 0. A pause"
    " that continues in the next rebalance has a row there, too.",
    ("run", "group", "number", "member_id", "from_ns"),
    (
        *GROUP,
        *columns(("number", "bigint", "number of the rebalance")),
        *MEMBER,
        *columns(
            ("from_ns", "bigint", "its start"),
            ("until_ns", "bigint", "its end"),
            ("partitions", "bigint", "number of its partitions; null: unknown"),
            ("ended", "string", ENDS),
        ),
    ),
)

UNREAD = Table(
    "unread",
    SILVER,
    "The time for which partitions of a topic that had a reader have none: a row of"
    " unread of a rebalance_account or an unread_account. Sums count each moment once.",
    ("run", "group", "number", "position", "topic"),
    (
        *GROUP,
        *columns(
            (
                "number",
                "bigint",
                (
                    "number of the rebalance whose account has it; it may have begun"
                    " earlier. Null: an unread_account, which is of no rebalance"
                ),
            ),
            (
                "position",
                "int",
                (
                    "position of the row in the account; without a rebalance, in all"
                    " unread_accounts of the group"
                ),
            ),
            ("topic", "string", "the partitions' topic"),
        ),
        *MEMBER,
        *columns(
            ("reader", "string", "the member that reads them next; null: none yet"),
            ("cause", "string", UNREAD_CAUSES),
            ("from_ns", "bigint", "its start; after a crash: the last sign of life"),
            ("until_ns", "bigint", "its end"),
            ("partition_numbers", "array<int>", "the partitions"),
            ("partitions", "bigint", "number of partitions"),
            ("unread_ns", "bigint", "(until_ns - from_ns) * partitions"),
            (
                "records",
                "bigint",
                (
                    "records appended to them meanwhile, by the ends of their logs;"
                    " null: unknown"
                ),
            ),
            (
                "end_offsets",
                "array<bigint>",
                "the ends of their logs at until_ns; null: unknown",
            ),
        ),
    ),
)

RETURNS = Table(
    "returns",
    SILVER,
    "A process that came back as another member: a row of returns of a"
    " rebalance_account; of several with the same previous_id the last. A static member"
    " that took its old place has no row: its end in memberships is replaced.",
    ("run", "group", "previous_id"),
    (
        *GROUP,
        *columns(("number", "bigint", "number of the rebalance whose account has it")),
        *MEMBER,
        *columns(
            ("previous_id", "string", "the former member; member_id is the new one"),
            ("how", "string", "end of the former member"),
            ("from_ns", "bigint", "when the broker last heard from the former member"),
            ("until_ns", "bigint", "JoinGroup of the new member"),
            ("away_ns", "bigint", "until_ns - from_ns"),
            (
                "is_restart",
                "boolean",
                "false: it joined on the same connection, so it never stopped",
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
            (
                "member_id",
                "string",
                "the member that committed; null: not a member, for example an admin",
            ),
            (
                "name",
                "string",
                "instance_id of the event, or else client_id or member_id",
            ),
            ("client_id", "string", "of the event"),
            ("host", "string", "of the event"),
            ("connection", "bigint", "of the event"),
            ("generation", "int", "of the event"),
            ("time_ns", "bigint", "of the event"),
            ("node", "int", "of the event"),
            ("sequence", "bigint", "of the event"),
            ("is_first", "boolean", "true for the first offset of its event"),
            ("topic", "string", "the partition's topic"),
            ("partition", "int", "its number"),
            ("offset", "bigint", "offset of the next record to consume"),
            (
                "end_offset",
                "bigint",
                "log end offset at that time; null: unknown",
            ),
            ("error", "string", "error of a refused commit; null: accepted"),
        ),
    ),
)

DELIVERY = Table(
    "delivery",
    SILVER,
    "Records that a group was sent again, or skipped: a row of again or skips of a"
    " delivery_account. Or a commit below the committed offset: a row of"
    " offsets_went_back. See the events for the full meaning.",
    ("run", "group", "node", "sequence", "what", "position"),
    (
        *GROUP,
        *columns(
            ("time_ns", "bigint", "of the event"),
            ("node", "int", "of the event"),
            ("sequence", "bigint", "of the event"),
            ("position", "int", "the row's place in its list, from 0"),
            ("topic", "string", "the partition's topic"),
            ("partition", "int", "its number"),
            (
                "what",
                "string",
                (
                    "again_certain (handled before), again_possible (received before,"
                    " not committed), skipped, or went_back"
                ),
            ),
            (
                "first",
                "bigint",
                "offset of the first record; went_back: the committed offset",
            ),
            (
                "end",
                "bigint",
                "offset behind the last record; went_back: the offset before",
            ),
            ("records", "bigint", "their number; null: went_back"),
            ("reason", "string", "reason_again, reason_skipped, or cause"),
        ),
        *MEMBER,
        *columns(
            (
                "previous_id",
                "string",
                "the member that received them first; null: unknown, or not again",
            ),
        ),
    ),
)

REFUSALS = Table(
    "refusals",
    SILVER,
    "A refused JoinGroup (member_refused), or a member removed because the group was"
    " too large (member_kicked with the cause full or group_over_max_size).",
    ("run", "node", "sequence"),
    (
        *GROUP,
        *columns(
            ("time_ns", "bigint", "of the event"),
            ("node", "int", "of the event"),
            ("sequence", "bigint", "of the event"),
            ("kind", "string", "member_refused or member_kicked"),
            ("member_id", "string", "the member; null: without an id"),
            (
                "name",
                "string",
                "instance_id of the event, or else client_id or member_id",
            ),
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
            ("number", "bigint", "number of the rebalance"),
            ("started_ns", "bigint", "of the rebalance"),
            ("generation", "int", "of the rebalance"),
            ("members", "bigint", "number of members of its generation"),
            ("owned", "bigint", "partitions that it assigned"),
            (
                "moved",
                "bigint",
                "moved_count: partitions that another member owned before",
            ),
            ("least_moved", "bigint", "least_moved_count: minimum that had to move"),
            (
                "first_owned",
                "bigint",
                "first_count: partitions without a known owner before",
            ),
            (
                "given_up",
                "bigint",
                "given_up_count: partitions taken from members and not assigned",
            ),
        ),
    ),
)

LAG_CHANGES = Table(
    "lag_changes",
    SILVER,
    "A change of a group's lag by an event, and the starts of rebalances among them:"
    " the steps of T, see silver/lags.",
    ("run", "group", "time_ns", "node", "sequence"),
    (
        *GROUP,
        *columns(
            ("slice_ns", "bigint", "start of the minute of time_ns"),
            ("time_ns", "bigint", "time of the event, or end of time without a reader"),
            ("node", "int", "the event's node; -1: end of time without a reader"),
            ("sequence", "bigint", "the event's number; 0: no event"),
            ("change", "bigint", "change of the lag; null: start of a rebalance"),
            (
                "peak_until_ns",
                "bigint",
                "end of the time for the peak of the rebalance that starts; 0: unknown",
            ),
        ),
    ),
)

LAGS = Table(
    "lags",
    SILVER,
    "The lag that a completed rebalance built up: the records that were appended to"
    " partitions while they had no reader. T, the group's lag after an OffsetCommit, or"
    " after time without a reader (unread, with end_offsets, without group_empty and"
    " work_ended), is the sum over its partitions of end_offset - offset (at least 0):"
    " the last known of each at or before it, in order; only partitions with an"
    " accepted commit with an end_offset count. The rebalance's events are those from"
    " its rebalance_started to the next one of the group; for the peak, those up to"
    " 30 s after ended_ns: later lag has other causes. No row if the records of its"
    " unread are unknown, and there is no T before it, or none for the peak.",
    ("run", "group", "number"),
    (
        *GROUP,
        *columns(
            ("number", "bigint", "number of the rebalance"),
            ("started_ns", "bigint", "of the rebalance"),
            ("ended_ns", "bigint", "of the rebalance"),
            ("lag_before", "bigint", "records: the last T before it; null: none"),
            ("lag_peak", "bigint", "records: the largest T for the peak; null: none"),
            ("peak_ns", "bigint", "time_ns of the first of its events with that lag"),
            (
                "lag_built",
                "bigint",
                (
                    "records of its unread, without group_empty and work_ended; if any"
                    " are unknown, lag_peak - lag_before, at least 0"
                ),
            ),
            (
                "worked_off_ns",
                "bigint",
                (
                    "if lag_built is above 0: time_ns of the first of its events with"
                    " T <= lag_before, from the peak on; null: none"
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

TRANSACTIONS = Table(
    "transactions",
    SILVER,
    "A transaction. Its events are the transaction_state of its transactional_id, in"
    " order, from one with the state Ongoing, PrepareCommit or PrepareAbort (an open"
    " state) that is the first or follows one with another state, up to the next such"
    " event. It is decided by its first event with one of the last two states. Its"
    " markers are the transaction_ended_in_partition with its producer_id from then"
    " on (by time_ns), until another transaction with that producer_id is decided.",
    ("run", "transactional_id", "number"),
    columns(
        ("run", "string", "id of the run of the broker"),
        ("transactional_id", "string", "the producer's transactional.id"),
        ("number", "bigint", "its number among those of the id, from 1, in order"),
        ("producer_id", "bigint", "of its first event"),
        ("producer_epoch", "int", "likewise"),
        ("client_id", "string", "the first one in its events with an open state"),
        ("timeout_ms", "bigint", "of its first event: transaction.timeout.ms"),
        ("from_ns", "bigint", "its start: started_ns of its first event"),
        (
            "decided_ns",
            "bigint",
            "time_ns of the event that decides it; null: undecided at the run's end",
        ),
        (
            "until_ns",
            "bigint",
            (
                "time_ns of its first event with the state CompleteCommit or"
                " CompleteAbort and the cause markers_written; null: markers are"
                " missing"
            ),
        ),
        ("result", "string", "committed or aborted; null: undecided"),
        ("cause", "string", f"cause of the decision: {TRANSACTION_CAUSES}"),
        ("open_ns", "bigint", "decided_ns - from_ns; null: undecided"),
        ("ending_ns", "bigint", "until_ns - decided_ns; null: one of them is null"),
        (
            "partitions",
            "bigint",
            "the largest number of partitions in its events with an open state",
        ),
        ("groups", "array<string>", "all group_ids of its events, in order"),
        ("markers", "bigint", "number of its markers"),
        ("held_back", "bigint", "sum of held_back of its markers"),
    ),
)

FINDINGS = Table(
    "findings",
    SILVER,
    "A known problem of a group, with advice: the latest revision of a finding that was"
    " not withdrawn. See the event for the full meaning of each column.",
    ("run", "group", "finding"),
    (
        *GROUP,
        *columns(
            ("finding", "string", "its key in the run and group"),
            ("code", "string", "the problem"),
            ("title", "string", "the problem in words"),
            ("advice", "string", "the remedy"),
            ("is_sure", "boolean", "false: other things look the same"),
            ("members", "array<string>", "names of the members that it is about"),
            ("evidence_count", "bigint", "number of observations"),
            ("from_ns", "bigint", "since_ns of the event"),
            ("until_ns", "bigint", "of the event"),
            ("unread_ns", "bigint", "partition-time without a reader that it cost"),
            ("paused_ns", "bigint", "member-time in which members paused for it"),
            ("records", "bigint", "of the event"),
            ("setting", "string", "setting that would have helped; null: none"),
            ("current", "string", "its value; null: unknown"),
            ("suggested", "string", "the suggested value"),
            (
                "saving_ns",
                "bigint",
                "partition-time that it would have saved; null: unknown",
            ),
            ("revision", "bigint", "number of its revisions"),
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
    DELIVERY,
    REFUSALS,
    MOVES,
    LAG_CHANGES,
    LAGS,
    TRANSACTIONS,
    FINDINGS,
)
"""A table comes after those that it is made from."""
