"""The account of a rebalance, published once it is settled."""

from __future__ import annotations

from collections.abc import Mapping

from kohort.broker.events import words
from kohort.broker.events.account.processes import RESTART_NS
from kohort.broker.events.fields import PREVIOUS_STATE, SILENT, Field, Kind, always
from kohort.broker.events.kinds.rebalances import (
    BYTES,
    CULPRITS,
    GAINED,
    LOST,
    MEMBERS,
    METADATA_BYTES,
    WAITS,
)

ROWS: Mapping[str, tuple[Field, ...]] = {
    "departure": (
        always("member_id", "string", "the member that is gone"),
        always("how", "string", "how it left the group", words.DEPARTURES),
    ),
    "return": (
        always("member_id", "string", "the member that joined"),
        always("previous_id", "string", "the earlier member of the same process"),
        always(
            "how", "string", "how the earlier member left the group", words.DEPARTURES
        ),
        always(
            "since_ns",
            "long",
            "start of its absence: when the broker last heard from the earlier member",
        ),
        always(
            "until_ns", "long", "end of its absence: the JoinGroup of the new member"
        ),
        always(
            "is_restart",
            "boolean",
            "true: the process was restarted. It has the instance id of the earlier"
            " member, or its client id and host, and was away for at most"
            f" {RESTART_NS // 60_000_000_000} minutes; of several processes that look"
            " the same, the first that went is taken. False: it joined on the same"
            " connection, so it never stopped",
        ),
    ),
    "refused_join": (
        always(
            "who",
            "string",
            "member id of the JoinGroup, or else its instance id or client id",
        ),
        always("cause", "string", "as in `member_refused`"),
    ),
    "piece": (
        always("what", "string", "reason for the wait", words.PIECES),
        always("since_ns", "long", "its start"),
        always("until_ns", "long", "its end"),
        always(
            "ended_by",
            "string",
            "`joined` or `gone` (see `member_id`), a cause of `join_completed`,"
            " `extended`, `synced`, `held` or `released` by a test, or the outcome of"
            " the rebalance",
        ),
        Field(
            "member_id",
            "string",
            "the member that joined or went; the leader, in `sync`",
        ),
        always(
            "missing",
            "[string]",
            "members that had not joined, if no join ended the piece",
        ),
    ),
    "pause": (
        always("member_id", "string", "the member whose processing paused"),
        always("since_ns", "long", "its JoinGroup, or the start of the rebalance"),
        always("until_ns", "long", "see `ended_by`"),
        Field(
            "count",
            "int",
            "number of its partitions. 0: a new member, or one without partitions: no"
            " processing paused. Null: unknown, assumed to be some",
        ),
        always("ended_by", "string", "end of the pause", words.PAUSE_ENDS),
    ),
    "step": (
        always("member_id", "string", "a member"),
        always("what", "string", "step", words.STEPS),
        always("since_ns", "long", "the answer to its heartbeat that began it"),
        always("until_ns", "long", "see `ended_by`"),
        always("count", "int", "the number of these partitions, at the start"),
        always("holders", "[string]", "`wait`: the members that held them"),
        always("ended_by", "string", "end of the step", words.STEP_ENDS),
    ),
    "holding": (
        always("member_id", "string", "a member"),
        always("parts", "[part]", "its partitions"),
    ),
    "move": (
        Field("source", "string", "the last owner; null: unknown"),
        always("target", "string", "the new owner"),
        always(
            "is_return",
            "boolean",
            "the target's process owned them before the source did",
        ),
        Field(
            "gap_ns",
            "long",
            "time that each of them had no reader before the target got its assignment,"
            " over all rebalances; null: unknown",
        ),
        always("count", "int", "number of partitions"),
        always("parts", "[part]", "the partitions"),
    ),
    "unread": (
        always("member_id", "string", "their last reader"),
        Field("reader", "string", "their reader from `until_ns` on; null: none"),
        always("cause", "string", "cause", words.UNREAD_CAUSES),
        always("since_ns", "long", "start, or the end of the last account"),
        always(
            "until_ns",
            "long",
            "when the new reader got its assignment; without one, the end of the"
            " account",
        ),
        always("count", "int", "number of partitions"),
        always("parts", "[part]", "the partitions"),
        Field(
            "records",
            "long",
            "records appended to them meanwhile, by the ends of their logs; a"
            " transaction's marker counts as one. Null: unknown, as in a data"
            " directory, or while the clock stood still",
        ),
        Field(
            "log_ends",
            "[log_end]",
            "by topic, as in `parts`: the ends of the logs at `until_ns`; null:"
            " unknown",
        ),
    ),
    "log_end": (
        always("topic", "string", "a topic"),
        always("offsets", "[long]", "the ends of the logs of its partitions, in order"),
        always("records", "long", "its part of `records`"),
    ),
}

_ACCOUNT = (
    # The rebalance, and why it began.
    always(
        "started_sequence",
        "long",
        "`sequence` of its `rebalance_started` (of the same run and node), or of its"
        " first event if that one is missing",
    ),
    PREVIOUS_STATE,
    always("previous_generation", "int", "the generation that it ended"),
    CULPRITS,
    always(
        "departures",
        "[departure]",
        "members that left the group: the culprits, and others during the join phase",
    ),
    always(
        "returns",
        "[return]",
        "processes that are back as another member: those of new members, and those of"
        " crashed members that were back before the session expired. Of rows with the"
        " same `previous_id` the last one counts. A static member that takes its old"
        " place (`member_replaced`) is not included",
    ),
    SILENT,
    always(
        "is_second_half",
        "boolean",
        "a cooperative member rejoined only to have the partitions that it gave up"
        " assigned (KIP-429)",
    ),
    Field(
        "is_same_offer",
        "boolean",
        "`metadata_changed`: the assignors and topics are the same as before; null:"
        " unknown, or another cause",
    ),
    # Its course.
    always("outcome", "string", "outcome", words.OUTCOMES),
    always("started_ns", "long", "its start"),
    Field("joined_ns", "long", "the end of its join phase; null: it did not end"),
    always("ended_ns", "long", "its end: see `outcome`"),
    always("settled_ns", "long", "the end of the account: see `rebalance_account`"),
    always(
        "duration_ns", "long", "from its start to its end: the group was not Stable"
    ),
    always(
        "join_ns",
        "long",
        "the part for the join phase; in a consumer group, for the target assignment",
    ),
    always(
        "sync_ns",
        "long",
        "the part for the leader's assignment; in a consumer group, until all members"
        " had their partitions",
    ),
    Field(
        "join_ended_by",
        "string",
        "end of the join phase: the cause of `join_completed`; null: unknown",
    ),
    always("pieces", "[piece]", "the pieces of `duration_ns`, in order, without gaps"),
    WAITS,
    # The members.
    always("expected", "[string]", "the members that had to join"),
    MEMBERS,
    GAINED,
    LOST,
    always(
        "latecomers", "[string]", "members removed because they missed the join phase"
    ),
    always(
        "missing",
        "[string]",
        "members that had not joined when it ended without a generation",
    ),
    always("refused", "[refused_join]", "JoinGroups refused in the join phase"),
    Field("protocol", "string", "the assignor's name"),
    Field("leader", "string", "the member that computes the assignment"),
    Field("leader_cause", "string", "why that member leads", words=words.LEADER_CAUSES),
    Field("previous_leader", "string", "the leader before that member"),
    Field(
        "is_eager",
        "boolean",
        "members revoke all their partitions before they rejoin; null: unknown",
    ),
    BYTES,
    METADATA_BYTES,
    # The cost of the rebalance.
    always(
        "pauses",
        "[pause]",
        "eager members, from their JoinGroup to their assignment; cooperative members"
        " have no pauses",
    ),
    always("paused_ns", "long", "the sum of all pauses whose `count` is not 0"),
    Field(
        "steps",
        "[step]",
        "a consumer group: the steps of its members to the target assignment; null: an"
        " older kohort",
    ),
    Field(
        "group_type",
        "string",
        "classic, or consumer (KIP-848); null: classic, from an older kohort",
    ),
    Field(
        "moves",
        "[move]",
        "partitions with a new owner; null: not a group of consumers",
    ),
    Field("kept", "[holding]", "partitions that kept their owner; null: likewise"),
    Field(
        "given_up",
        "[holding]",
        "partitions that an assignment took from a member and that have no owner yet:"
        " the first half of a cooperative rebalance; null: likewise",
    ),
    always("moved_count", "int", "partitions that went from one member to another"),
    always(
        "least_moved_count",
        "int",
        "minimum of partitions that had to move for the same shares: the sum of a_k -"
        " min(b_k, a_k); b: the number of partitions in `kept` and in `moves` with a"
        " source that each of `members` had before, sorted descending; a: the same"
        " afterwards",
    ),
    always("first_count", "int", "partitions without a known owner before"),
    always("kept_count", "int", "partitions in `kept`"),
    always("given_up_count", "int", "partitions in `given_up`"),
    always(
        "unread",
        "[unread]",
        "partitions that had a reader and then none, from the end of the account before"
        " to the end of this one, so that sums over the accounts of both kinds count"
        " each moment once",
    ),
    always(
        "unread_ns", "long", "the sum of them, except `group_empty` and `work_ended`"
    ),
    always("unread_empty_ns", "long", "the sum of `group_empty`"),
    always(
        "unprocessed_ns",
        "long",
        "partition-time for which slow pollers held their partitions, beside"
        " `unread_ns`: members that took 5 s or more to rejoin, from the start of the"
        " rebalance; and those that left because their applications did not poll, for"
        " their max.poll.interval.ms before that",
    ),
    Field(
        "words",
        "string",
        "the rebalance in a sentence, as `kohort why` prints it, from all that was"
        " known when it was settled; null: an older kohort",
    ),
    always("is_whole", "boolean", "no event of it is missing"),
    always(
        "is_ownership_whole",
        "boolean",
        "all assignments before it were seen; otherwise `first_count` partitions may"
        " have had an owner",
    ),
)

KINDS: tuple[Kind, ...] = (
    Kind(
        "rebalance_account",
        "The account of one rebalance, computed once for all views as soon as it is"
        " settled: all members have their assignment, the group is Empty, the next"
        " rebalance begins, or the coordinator is gone. `generation` is the one that"
        " the rebalance produced; `member_id` is the first culprit. It is published"
        " only while the stream has a reader for it: a file, the topic, HTTP, metrics.",
        _ACCOUNT,
        {
            **words.REBALANCE_CAUSES,
            words.UNSEEN: "the start is missing from the events",
        },
    ),
    Kind(
        "unread_account",
        "Time without a reader that belongs to no rebalance: no account of one has it."
        " Published with, and as, `rebalance_account`.",
        (
            always(
                "closed_sequence",
                "long",
                "`sequence` of the event that ended it (of the same run and node), or"
                " of the group's last one before the broker stopped",
            ),
            always("unread", "[unread]", "as in `rebalance_account`"),
            always("unread_ns", "long", "likewise"),
            always("unread_empty_ns", "long", "likewise"),
        ),
        words.UNREAD_ENDS,
    ),
)
