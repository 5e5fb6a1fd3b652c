"""The schema of events, version 1: every kind, every field, in one table.

An event is one JSON object: the fields of `COMMON`, and those of its kind. A field
has the same name, type and meaning in every kind that has it, so all events fit in
one wide table. The JSON Schema, the Spark schema and the tables in the documents are
generated from here.

Within a schema version kinds and fields are only added. Readers ignore unknown ones,
and treat a missing field as null.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from kohort.broker import events
from kohort.broker.events import words
from kohort.broker.events.account.processes import RESTART_NS
from kohort.broker.events.words import Words

SCHEMA_VERSION = events.SCHEMA_VERSION

Type = str
"""``string``, ``int``, ``long``, ``boolean``, ``map`` (of strings to strings), or the
name of a row in `ROWS`, in brackets where there are several: ``[wait]``."""


@dataclass(frozen=True, slots=True)
class Field:
    """One field of events.

    Attributes:
        name: the key of the JSON object.
        type: see `Type`.
        says: its meaning, with the unit.
        may_be_null: whether it may be null or missing.
        words: the values of a string that is one of a few, and their meanings.
    """

    name: str
    type: Type
    says: str
    may_be_null: bool = True
    words: Words = field(default_factory=dict)


def _always(name: str, type_: Type, says: str, words: Words | None = None) -> Field:
    return Field(name, type_, says, may_be_null=False, words=words or {})


COMMON = (
    _always("schema", "int", "the version of this schema: 1"),
    _always("run", "string", "unique to a start of the broker"),
    _always("labels", "map", "the user's names for this run, its settings, its seed"),
    _always("node", "int", "the id of the node that published it"),
    _always(
        "sequence", "long", "counts the events of a run's node from 1, without gaps"
    ),
    _always("kind", "string", "the kind of event"),
    _always("time_ns", "long", "the broker's clock, ns since the epoch"),
    _always("wall_ns", "long", "the machine's clock, ns since the epoch"),
    Field("group", "string", "the group's id"),
    Field("generation", "int", "the group's generation after the event"),
    Field(
        "member_id",
        "string",
        "the member that it is about; of a rebalance: the member that caused it",
    ),
    Field("instance_id", "string", "that member's group.instance.id (KIP-345)"),
    Field(
        "client_id",
        "string",
        "that member's client.id; of a refused JoinGroup or OffsetCommit from no"
        " member, that of the request",
    ),
    Field("host", "string", "likewise: the client's host, as Kafka shows it"),
    Field(
        "connection",
        "long",
        "the number, within the run, of the connection of the member's last"
        " JoinGroup, or of the request that was refused: a new member id on the"
        " connection of an earlier one is the same process. Null: not known",
    ),
    Field("cause", "string", "the cause; each kind lists its own"),
    Field("reason", "string", "the reason that the client gave (KIP-800); null: none"),
)

ROWS: Mapping[str, tuple[Field, ...]] = {
    "wait": (
        _always("member_id", "string", "the member that the group waited for"),
        _always(
            "waited_ns",
            "long",
            "from the rebalance's start to its join; if it never came, to when it"
            " was gone, or to the end of the join phase",
        ),
        _always("came", "boolean", "whether it joined"),
    ),
    "part": (
        _always("topic", "string", "a topic"),
        _always("partitions", "[int]", "of it, in order"),
    ),
    "departure": (
        _always("member_id", "string", "the member that is gone"),
        _always("how", "string", "how it went", words.DEPARTURES),
    ),
    "return": (
        _always("member_id", "string", "the member that joined"),
        _always("previous_id", "string", "the earlier member of the same process"),
        _always("how", "string", "how the earlier one went", words.DEPARTURES),
        _always(
            "since_ns",
            "long",
            "its absence: from when the broker last heard of the earlier member",
        ),
        _always("until_ns", "long", "to the JoinGroup of the new one"),
        _always(
            "is_restart",
            "boolean",
            "the process was restarted. It has the instance id of the earlier member,"
            " or its client id and host, and was away for"
            f" {RESTART_NS // 60_000_000_000} minutes at most; of processes that look"
            " the same the one that went first is taken. False: it came on the same"
            " connection, so it never stopped",
        ),
    ),
    "refused_join": (
        _always(
            "who",
            "string",
            "the member id of the JoinGroup, else its instance id, else its client id",
        ),
        _always("cause", "string", "as in `member_refused`"),
    ),
    "piece": (
        _always("what", "string", "the reason for the wait", words.PIECES),
        _always("since_ns", "long", "its start"),
        _always("until_ns", "long", "its end"),
        _always(
            "ended_by",
            "string",
            "`joined` or `gone` (see `member_id`), a cause of `join_completed`,"
            " `extended`, `synced`, or the outcome of the rebalance",
        ),
        Field(
            "member_id",
            "string",
            "the member that joined or went; the leader, in `sync`",
        ),
        _always(
            "missing",
            "[string]",
            "members that had not joined, where no arrival ended it",
        ),
    ),
    "pause": (
        _always("member_id", "string", "the member that did not process"),
        _always("since_ns", "long", "its JoinGroup, or the start of the rebalance"),
        _always("until_ns", "long", "see `ended_by`"),
        Field(
            "count",
            "int",
            "how many partitions it had. 0: a new member, or one without partitions:"
            " it waited, and no processing paused. Null: not known, taken for some",
        ),
        _always("ended_by", "string", "what ended it", words.PAUSE_ENDS),
    ),
    "holding": (
        _always("member_id", "string", "a member"),
        _always("parts", "[part]", "its partitions"),
    ),
    "move": (
        Field("source", "string", "the last owner; null: none is known"),
        _always("target", "string", "the new owner"),
        _always(
            "is_return",
            "boolean",
            "the target's process had them before, earlier than the source",
        ),
        Field(
            "unread_ns",
            "long",
            "how long each of them had no reader before the target had its assignment,"
            " over all rebalances; null: not known",
        ),
        _always("count", "int", "how many"),
        _always("parts", "[part]", "which"),
    ),
    "unread": (
        _always("member_id", "string", "their last reader"),
        Field("reader", "string", "their reader from `until_ns` on; null: none"),
        _always("cause", "string", "why they have no reader", words.UNREAD_CAUSES),
        _always("since_ns", "long", "its start, or where the last account ends"),
        _always(
            "until_ns",
            "long",
            "when the reader was given its assignment; without one, where the account"
            " ends",
        ),
        _always("count", "int", "how many partitions"),
        _always("parts", "[part]", "which"),
    ),
    "offset": (
        _always("topic", "string", "a topic"),
        _always("partition", "int", "of it"),
        _always("offset", "long", "the offset of the next record to consume"),
        Field(
            "end_offset",
            "long",
            "the offset of the next record to be written, then; the difference is the"
            " lag. Null: not known",
        ),
    ),
}


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of event: when it comes, its causes, and its fields beyond `COMMON`."""

    name: str
    says: str
    fields: tuple[Field, ...] = ()
    causes: Mapping[str, str] = field(default_factory=dict)


_STATE = _always("state", "string", "the group's state after the event")
_PREVIOUS_STATE = _always("previous_state", "string", "the group's state before it")
_ERROR = _always("error", "string", "the error's name on the wire, as Kafka spells it")
_SILENT = Field(
    "silent_ns", "long", "since the broker last heard of it; null: not known"
)
_WAS_PENDING = _always(
    "was_pending",
    "boolean",
    "it was a pending member: it had an id, and had not joined yet",
)
_OFFER = (
    _always("session_timeout_ms", "long", "its session.timeout.ms"),
    _always(
        "rebalance_timeout_ms",
        "long",
        "its rebalance timeout: the time it may take to rejoin",
    ),
    _always("protocols", "[string]", "its assignors, the preferred one first"),
    Field("topics", "[string]", "its subscription; null: it is no consumer"),
)

_CULPRITS = _always(
    "culprits", "[string]", "the ids of all who caused it; `member_id` is the first"
)
_MEMBERS = _always("members", "[string]", "the generation's, in Kafka's order")
_GAINED = _always("gained", "[string]", "members that were not in the last generation")
_LOST = _always("lost", "[string]", "members of the last generation that are not in it")
_BYTES = Field("bytes", "long", "of all assignments; null: none was made")
_METADATA_BYTES = Field(
    "metadata_bytes", "long", "of all subscriptions; null: no assignment was made"
)
_WAITS = _always("waits", "[wait]", "members that the group waited for, and how long")

_ACCOUNT = (
    # The rebalance, and why it began.
    _always(
        "started_sequence",
        "long",
        "`sequence` of its `rebalance_started` (of the same run and node); of the first"
        " event of it that was seen, if that one is missing",
    ),
    _PREVIOUS_STATE,
    _always("previous_generation", "int", "the generation that it ended"),
    _CULPRITS,
    _always(
        "departures",
        "[departure]",
        "members that went: the culprits, and others during the join phase",
    ),
    _always(
        "returns",
        "[return]",
        "processes that went, and are back as another member: those of new members, and"
        " those of members that crashed and whose process was back before the session"
        " expired. Of rows with the same `previous_id` the last one counts. A static"
        " member that takes its old place (`member_replaced`) is none of them",
    ),
    _SILENT,
    _always(
        "is_second_half",
        "boolean",
        "a cooperative member rejoined so that the partitions that it gave up are"
        " assigned (KIP-429): nothing new has happened",
    ),
    Field(
        "is_same_offer",
        "boolean",
        "`metadata_changed`: the assignors and topics are the same as before; null:"
        " not known, or another cause",
    ),
    # Its course.
    _always("outcome", "string", "how it ended", words.OUTCOMES),
    _always("started_ns", "long", "its start"),
    Field("joined_ns", "long", "the end of its join phase; null: it did not end"),
    _always("ended_ns", "long", "its end: see `outcome`"),
    _always("settled_ns", "long", "the end of the account: see `rebalance_account`"),
    _always("duration_ns", "long", "from its start to its end"),
    _always("join_ns", "long", "of it the join phase"),
    _always("sync_ns", "long", "of it the wait for the leader's assignment"),
    Field(
        "join_ended_by",
        "string",
        "what ended the join phase: the cause of `join_completed`; null: not known",
    ),
    _always("pieces", "[piece]", "of `duration_ns`: in order, without gaps"),
    _WAITS,
    # The members.
    _always("expected", "[string]", "the members that had to join"),
    _MEMBERS,
    _GAINED,
    _LOST,
    _always("latecomers", "[string]", "removed because they missed the join phase"),
    _always("missing", "[string]", "had not joined when it ended without a generation"),
    _always("refused", "[refused_join]", "JoinGroups refused in the join phase"),
    Field("protocol", "string", "the assignor's name"),
    Field("leader", "string", "the member that computes the assignment"),
    Field("leader_cause", "string", "why that member leads", words=words.LEADER_CAUSES),
    Field("previous_leader", "string", "the leader before that member"),
    Field(
        "is_eager",
        "boolean",
        "members revoke all that they own to rejoin; null: not known",
    ),
    _BYTES,
    _METADATA_BYTES,
    # The cost of the rebalance.
    _always(
        "pauses",
        "[pause]",
        "eager members, from their JoinGroup to their assignment; cooperative members"
        " go on with the partitions that they keep, and have none",
    ),
    _always("paused_ns", "long", "the sum of all pauses whose `count` is not 0"),
    Field(
        "moves",
        "[move]",
        "partitions with a new owner; null: it is no group of consumers",
    ),
    Field("kept", "[holding]", "partitions whose owner is the same; null: likewise"),
    Field(
        "given_up",
        "[holding]",
        "partitions that an assignment took from a member, and that have no owner yet:"
        " the first half of a cooperative rebalance; null: likewise",
    ),
    _always("moved_count", "int", "partitions that went from one member to another"),
    _always(
        "least_moved_count",
        "int",
        "partitions that had to move for the same shares, at least: the sum of a_k -"
        " min(b_k, a_k); b: how many of `kept` and `moves` with a source each of"
        " `members` had before, sorted descending; a: the same afterwards",
    ),
    _always("first_count", "int", "partitions without a known owner before"),
    _always("kept_count", "int", "partitions in `kept`"),
    _always("given_up_count", "int", "partitions in `given_up`"),
    _always(
        "unread",
        "[unread]",
        "partitions that had a reader, and then none: up to the end of this account,"
        " and since the end of the one before. Sums over accounts count each moment"
        " once",
    ),
    _always("unread_ns", "long", "the sum of them, but for `group_empty`"),
    _always("unread_empty_ns", "long", "the sum of `group_empty`"),
    _always("is_whole", "boolean", "no event of it is missing"),
    _always(
        "is_ownership_whole",
        "boolean",
        "all assignments before it were seen; else `first_count` partitions may have"
        " had an owner",
    ),
)

KINDS: tuple[Kind, ...] = (
    # -- members
    Kind("member_id_given", "A client was given a member id to join with (KIP-394)."),
    Kind("pending_member_expired", "A pending member did not join in time."),
    Kind(
        "member_joined",
        "A JoinGroup was accepted.",
        (_always("is_first", "boolean", "false: it was a member already"), *_OFFER),
        {
            "new": "the member is new",
            "rejoin": "the group rebalances, and it takes part",
            "metadata_changed": "its protocols or subscriptions have changed",
            "leader": "it is the leader, and asks for a rebalance",
            "repeated": "nothing changed: it gets the same answer as before",
        },
    ),
    Kind(
        "member_refused",
        "A JoinGroup was refused.",
        (_ERROR,),
        {
            "full": "group.max.size is reached (KIP-389)",
            "fenced": "another process has its instance id (KIP-345)",
            "inconsistent": "its protocols do not fit the group's",
            "unknown": "its member id is unknown",
            "invalid": "the request is invalid: the error says why",
        },
    ),
    Kind(
        "member_left",
        "A member, or a pending member, is gone by LeaveGroup.",
        (_WAS_PENDING,),
        {
            "left": "it left by itself; `reason` is null if it gave none",
            "removed": "an admin removed it",
        },
    ),
    Kind(
        "member_expired",
        "A member sent no heartbeat for its session timeout.",
        (_SILENT,),
    ),
    Kind(
        "member_kicked",
        "The broker removed a member or a pending member.",
        (_WAS_PENDING, _SILENT),
        {
            "full": "it rejoined late, and the group was full by then (KIP-389)",
            "did_not_join_in_time": "it missed the join phase",
            "did_not_sync_in_time": "it did not send SyncGroup in time",
            "group_over_max_size": "the group was too large (KIP-389)",
        },
    ),
    Kind(
        "member_replaced",
        "A static member came back under a new id; the old one is fenced (KIP-345).",
        (_always("replaced_member_id", "string", "its old id"), _SILENT, *_OFFER),
    ),
    Kind(
        "leader_chosen",
        "A group has another leader.",
        (Field("previous_leader", "string", "the previous leader"),),
        words.LEADER_CAUSES,
    ),
    Kind(
        "heartbeat",
        "A heartbeat; only if the broker was started with heartbeats as events.",
        (_ERROR,),
    ),
    # -- rebalances
    Kind(
        "group_state",
        "The state of a group changed.",
        (_STATE, _PREVIOUS_STATE),
    ),
    Kind(
        "rebalance_started",
        "A group waits for its members to rejoin.",
        (
            _PREVIOUS_STATE,
            _always("members", "[string]", "those that have to join, in Kafka's order"),
            _CULPRITS,
        ),
        words.REBALANCE_CAUSES,
    ),
    Kind(
        "window_opened",
        "A new group waits for more members (KIP-134).",
        (
            _always("delay_ms", "long", "how long"),
            _always("remaining_ms", "long", "how much longer it may become"),
        ),
        {
            "first": "the first member joined",
            "extended": "members joined in the last one",
        },
    ),
    Kind(
        "join_completed",
        "The join phase is over: the members that joined are the next generation.",
        (
            _MEMBERS,
            _GAINED,
            _LOST,
            _WAITS,
            _always("duration_ns", "long", "since the rebalance started"),
            Field(
                "protocol", "string", "the assignor's name; null: the group is Empty"
            ),
            Field("leader", "string", "the leader; null: the group is Empty"),
        ),
        {
            "all_joined": "all members have joined",
            "rebalance_timeout": "the longest rebalance timeout of a member was over",
            "initial_delay": "the initial delay was over (KIP-134)",
            "nobody_left": "all members are gone",
        },
    ),
    Kind(
        "assignment_made",
        "The leader has sent the assignment: the group is Stable.",
        (
            _always("protocol", "string", "the assignor's name"),
            _always("leader", "string", "the leader that sent it"),
            _BYTES,
            _METADATA_BYTES,
            _always("duration_ns", "long", "since the join phase was over"),
        ),
    ),
    Kind(
        "member_synced",
        "A member was given its assignment.",
        (_always("waited_ns", "long", "since its join was answered"),),
    ),
    Kind(
        "partitions_changed",
        "A member's assignment has changed. If its partitions are the same, and only"
        " other bytes of it differ, none is gained and none lost.",
        (
            _always("owned", "[part]", "its partitions now"),
            _always("partitions_gained", "[part]", "new ones"),
            _always("partitions_lost", "[part]", "those that it has no more"),
        ),
        {
            "assigned": "the leader's assignment",
            "gone": "it is not a member any more",
            "replaced": "a static member came back: they moved to its new id",
            "loaded": "the coordinator read it from its log; none"
            " is gained and none lost",
        },
    ),
    Kind(
        "rebalance_account",
        "The account of one rebalance, computed once for all views as soon as it is"
        " settled: all members have their assignment, the group is Empty, the next"
        " rebalance begins, or the coordinator is gone. `generation` is the one that"
        " the rebalance made; `member_id` is the first culprit. It is written only"
        " while the stream has a reader for it: a file, the topic, HTTP, metrics.",
        _ACCOUNT,
        {
            **words.REBALANCE_CAUSES,
            words.UNSEEN: "the start is missing from the events",
        },
    ),
    # -- offsets
    Kind(
        "offsets_committed",
        "Offsets were committed.",
        (_always("offsets", "[offset]", "which"),),
    ),
    Kind(
        "commit_refused",
        "A commit, or a part of it, was refused.",
        (_ERROR, _always("offsets", "[offset]", "which")),
    ),
    Kind(
        "offsets_expired",
        "Offsets of a group expired (`offsets.retention.minutes`).",
        (_always("expired", "[part]", "which"),),
    ),
    Kind(
        "offsets_deleted",
        "Offsets of a group were deleted.",
        (_always("deleted", "[part]", "which"),),
        {"admin": "OffsetDelete", "topic_deleted": "their topic is gone"},
    ),
    Kind(
        "append_failed",
        "The group's records were refused by the log: they are larger than"
        " `max.message.bytes` of `__consumer_offsets`.",
        (
            _ERROR,
            _always("size_bytes", "long", "of the batch; 0: it cannot be encoded"),
            _always("max_bytes", "long", "the largest batch that the log takes"),
        ),
        {
            "group": "the record of the group: subscriptions and assignments of all"
            " members",
            "offsets": "committed or deleted offsets",
        },
    ),
    # -- coordinators and the broker
    Kind(
        "group_loaded",
        "A coordinator read a group from its log.",
        (
            _STATE,
            _always("members", "[string]", "in Kafka's order"),
            Field("protocol", "string", "the assignor's name"),
            Field("leader", "string", "the leader"),
        ),
    ),
    Kind(
        "shard_loaded",
        "A node coordinates the groups of a partition of __consumer_offsets.",
        (
            _always("partition", "int", "of __consumer_offsets"),
            _always("groups", "int", "how many were found"),
            _always("duration_ns", "long", "how long it took to read"),
        ),
    ),
    Kind(
        "shard_unloaded",
        "A node does not coordinate those groups any more.",
        (_always("partition", "int", "of __consumer_offsets"),),
        {
            "moved": "another node does",
            "stopped": "the node stops",
            "failed": "its log failed",
            "deleted": "__consumer_offsets was deleted",
        },
    ),
    Kind("node_started", "A node accepts connections."),
    Kind("node_stopped", "A node does not accept connections any more."),
    # -- the stream itself
    Kind(
        "events_lost",
        "This reader was too slow: events are missing here, and only here. It has"
        " the number and the times of the last one that is missing.",
        (
            _always("first", "long", "the first sequence that is missing"),
            _always("last", "long", "the last one"),
        ),
    ),
)

BY_NAME: Mapping[str, Kind] = MappingProxyType({kind.name: kind for kind in KINDS})
