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
    _always("schema", "int", "version of this schema: 1"),
    _always("run", "string", "unique id of this run of the broker"),
    _always("labels", "map", "labels that the user gave this run, as by `--label`"),
    _always("node", "int", "id of the node that published the event"),
    _always(
        "sequence",
        "long",
        "number of the event among those of its run and node, from 1, without gaps",
    ),
    _always("kind", "string", "kind of event"),
    _always("time_ns", "long", "time by the broker's clock, ns since the epoch"),
    _always("wall_ns", "long", "time by the machine's clock, ns since the epoch"),
    Field("group", "string", "group id"),
    Field("generation", "int", "the group's generation after the event"),
    Field(
        "member_id",
        "string",
        "the member concerned; for a rebalance: the member that caused it",
    ),
    Field("instance_id", "string", "that member's group.instance.id (KIP-345)"),
    Field(
        "client_id",
        "string",
        "that member's client.id; for a refused JoinGroup or OffsetCommit of a"
        " non-member: the request's; for a transaction: the producer's",
    ),
    Field("host", "string", "that client's host, as Kafka shows it"),
    Field(
        "connection",
        "long",
        "number of the connection of the member's last JoinGroup, or of the refused"
        " request, within the run. A new member id on the connection of an earlier"
        " one is the same process. Null: unknown",
    ),
    Field("cause", "string", "cause; each kind lists its own"),
    Field(
        "reason",
        "string",
        "reason given by the client or a command (KIP-800); null: none",
    ),
)

ROWS: Mapping[str, tuple[Field, ...]] = {
    "wait": (
        _always("member_id", "string", "the member that the group waited for"),
        _always(
            "waited_ns",
            "long",
            "from the start of the rebalance to its join; if it did not join, until"
            " it was gone, or to the end of the join phase",
        ),
        _always("came", "boolean", "whether it joined"),
    ),
    "part": (
        _always("topic", "string", "a topic"),
        _always("partitions", "[int]", "its partitions, in order"),
    ),
    "departure": (
        _always("member_id", "string", "the member that is gone"),
        _always("how", "string", "how it left the group", words.DEPARTURES),
    ),
    "return": (
        _always("member_id", "string", "the member that joined"),
        _always("previous_id", "string", "the earlier member of the same process"),
        _always(
            "how", "string", "how the earlier member left the group", words.DEPARTURES
        ),
        _always(
            "since_ns",
            "long",
            "start of its absence: when the broker last heard from the earlier member",
        ),
        _always(
            "until_ns", "long", "end of its absence: the JoinGroup of the new member"
        ),
        _always(
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
        _always(
            "who",
            "string",
            "member id of the JoinGroup, or else its instance id or client id",
        ),
        _always("cause", "string", "as in `member_refused`"),
    ),
    "piece": (
        _always("what", "string", "reason for the wait", words.PIECES),
        _always("since_ns", "long", "its start"),
        _always("until_ns", "long", "its end"),
        _always(
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
        _always(
            "missing",
            "[string]",
            "members that had not joined, if no join ended the piece",
        ),
    ),
    "pause": (
        _always("member_id", "string", "the member whose processing paused"),
        _always("since_ns", "long", "its JoinGroup, or the start of the rebalance"),
        _always("until_ns", "long", "see `ended_by`"),
        Field(
            "count",
            "int",
            "number of its partitions. 0: a new member, or one without partitions: no"
            " processing paused. Null: unknown, assumed to be some",
        ),
        _always("ended_by", "string", "end of the pause", words.PAUSE_ENDS),
    ),
    "holding": (
        _always("member_id", "string", "a member"),
        _always("parts", "[part]", "its partitions"),
    ),
    "move": (
        Field("source", "string", "the last owner; null: unknown"),
        _always("target", "string", "the new owner"),
        _always(
            "is_return",
            "boolean",
            "the target's process owned them before the source did",
        ),
        Field(
            "unread_ns",
            "long",
            "time that each of them had no reader before the target got its assignment,"
            " over all rebalances; null: unknown",
        ),
        _always("count", "int", "number of partitions"),
        _always("parts", "[part]", "the partitions"),
    ),
    "unread": (
        _always("member_id", "string", "their last reader"),
        Field("reader", "string", "their reader from `until_ns` on; null: none"),
        _always("cause", "string", "cause", words.UNREAD_CAUSES),
        _always("since_ns", "long", "start, or the end of the last account"),
        _always(
            "until_ns",
            "long",
            "when the new reader got its assignment; without one, the end of the"
            " account",
        ),
        _always("count", "int", "number of partitions"),
        _always("parts", "[part]", "the partitions"),
    ),
    "offset": (
        _always("topic", "string", "a topic"),
        _always("partition", "int", "a partition of it"),
        _always("offset", "long", "offset of the next record to consume"),
        Field(
            "end_offset",
            "long",
            "log end offset at that time; the difference is the lag. Null: unknown",
        ),
    ),
}


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of event: its occasion, its causes, and its fields beyond `COMMON`."""

    name: str
    says: str
    fields: tuple[Field, ...] = ()
    causes: Mapping[str, str] = field(default_factory=dict)


_STATE = _always("state", "string", "the group's state after the event")
_PREVIOUS_STATE = _always("previous_state", "string", "the group's state before it")
_ERROR = _always("error", "string", "Kafka's name of the error")
_SILENT = Field(
    "silent_ns",
    "long",
    "time since the broker last heard from the member; null: unknown",
)
_WAS_PENDING = _always(
    "was_pending",
    "boolean",
    "it was a pending member: it had an id and had not joined yet",
)
_OFFER = (
    _always("session_timeout_ms", "long", "its session.timeout.ms"),
    _always(
        "rebalance_timeout_ms",
        "long",
        "its rebalance timeout: the time it has to rejoin",
    ),
    _always("protocols", "[string]", "its assignors, the preferred one first"),
    Field("topics", "[string]", "its subscription; null: not a consumer"),
)

_CULPRITS = _always(
    "culprits",
    "[string]",
    "ids of all members that caused it; `member_id` is the first",
)
_MEMBERS = _always("members", "[string]", "members of the generation, in Kafka's order")
_GAINED = _always("gained", "[string]", "members that were not in the last generation")
_LOST = _always("lost", "[string]", "members of the last generation that are not in it")
_BYTES = Field("bytes", "long", "size of all assignments; null: there are none")
_METADATA_BYTES = Field(
    "metadata_bytes", "long", "size of all subscriptions; null: there is no assignment"
)
_WAITS = _always("waits", "[wait]", "members that the group waited for")

_TRANSACTIONAL_ID = _always("transactional_id", "string", "a transactional.id")
_PRODUCER_ID = _always("producer_id", "long", "the producer's id")
_IN_TRANSACTION = Field(
    "producer_id", "long", "the producer of their transaction; null: without one"
)
_PRODUCER_EPOCH = _always("producer_epoch", "int", "the producer's epoch")

_ACCOUNT = (
    # The rebalance, and why it began.
    _always(
        "started_sequence",
        "long",
        "`sequence` of its `rebalance_started` (of the same run and node), or of its"
        " first event if that one is missing",
    ),
    _PREVIOUS_STATE,
    _always("previous_generation", "int", "the generation that it ended"),
    _CULPRITS,
    _always(
        "departures",
        "[departure]",
        "members that left the group: the culprits, and others during the join phase",
    ),
    _always(
        "returns",
        "[return]",
        "processes that are back as another member: those of new members, and those of"
        " crashed members that were back before the session expired. Of rows with the"
        " same `previous_id` the last one counts. A static member that takes its old"
        " place (`member_replaced`) is not included",
    ),
    _SILENT,
    _always(
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
    _always("outcome", "string", "outcome", words.OUTCOMES),
    _always("started_ns", "long", "its start"),
    Field("joined_ns", "long", "the end of its join phase; null: it did not end"),
    _always("ended_ns", "long", "its end: see `outcome`"),
    _always("settled_ns", "long", "the end of the account: see `rebalance_account`"),
    _always("duration_ns", "long", "from its start to its end"),
    _always("join_ns", "long", "the part for the join phase"),
    _always("sync_ns", "long", "the part for the leader's assignment"),
    Field(
        "join_ended_by",
        "string",
        "end of the join phase: the cause of `join_completed`; null: unknown",
    ),
    _always("pieces", "[piece]", "the pieces of `duration_ns`, in order, without gaps"),
    _WAITS,
    # The members.
    _always("expected", "[string]", "the members that had to join"),
    _MEMBERS,
    _GAINED,
    _LOST,
    _always(
        "latecomers", "[string]", "members removed because they missed the join phase"
    ),
    _always(
        "missing",
        "[string]",
        "members that had not joined when it ended without a generation",
    ),
    _always("refused", "[refused_join]", "JoinGroups refused in the join phase"),
    Field("protocol", "string", "the assignor's name"),
    Field("leader", "string", "the member that computes the assignment"),
    Field("leader_cause", "string", "why that member leads", words=words.LEADER_CAUSES),
    Field("previous_leader", "string", "the leader before that member"),
    Field(
        "is_eager",
        "boolean",
        "members revoke all their partitions before they rejoin; null: unknown",
    ),
    _BYTES,
    _METADATA_BYTES,
    # The cost of the rebalance.
    _always(
        "pauses",
        "[pause]",
        "eager members, from their JoinGroup to their assignment; cooperative members"
        " have no pauses",
    ),
    _always("paused_ns", "long", "the sum of all pauses whose `count` is not 0"),
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
    _always("moved_count", "int", "partitions that went from one member to another"),
    _always(
        "least_moved_count",
        "int",
        "minimum of partitions that had to move for the same shares: the sum of a_k -"
        " min(b_k, a_k); b: the number of partitions in `kept` and in `moves` with a"
        " source that each of `members` had before, sorted descending; a: the same"
        " afterwards",
    ),
    _always("first_count", "int", "partitions without a known owner before"),
    _always("kept_count", "int", "partitions in `kept`"),
    _always("given_up_count", "int", "partitions in `given_up`"),
    _always(
        "unread",
        "[unread]",
        "partitions that had a reader and then none, from the end of the account before"
        " to the end of this one, so that sums over accounts count each moment once",
    ),
    _always("unread_ns", "long", "the sum of them, except `group_empty`"),
    _always("unread_empty_ns", "long", "the sum of `group_empty`"),
    _always("is_whole", "boolean", "no event of it is missing"),
    _always(
        "is_ownership_whole",
        "boolean",
        "all assignments before it were seen; otherwise `first_count` partitions may"
        " have had an owner",
    ),
)

KINDS: tuple[Kind, ...] = (
    # -- members
    Kind("member_id_given", "A client got a member id to join with (KIP-394)."),
    Kind("pending_member_expired", "A pending member did not join in time."),
    Kind(
        "member_joined",
        "A JoinGroup was accepted.",
        (_always("is_first", "boolean", "false: it was a member already"), *_OFFER),
        {
            "new": "the member is new",
            "rejoin": "the group is rebalancing, and the member takes part",
            "metadata_changed": "its protocols or subscriptions have changed",
            "leader": "it is the leader and requests a rebalance",
            "repeated": "nothing changed: it gets the same response as before",
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
        "A member or pending member was removed by LeaveGroup.",
        (_WAS_PENDING,),
        {
            "left": "it left on its own; `reason` is null if it gave none",
            "removed": "an admin removed it",
        },
    ),
    Kind(
        "member_expired",
        "A member's session ended.",
        (_SILENT,),
        {
            "silent": "it sent no heartbeat for its session timeout",
            "commanded": "a command ended it, or a command had muted the member",
        },
    ),
    Kind(
        "member_kicked",
        "The broker removed a member or a pending member.",
        (_WAS_PENDING, _SILENT),
        {
            "full": "it rejoined late, when the group was already full (KIP-389)",
            "did_not_join_in_time": "it missed the join phase",
            "did_not_sync_in_time": "it did not send SyncGroup in time",
            "group_over_max_size": "the group was too large (KIP-389)",
            "commanded": "a command (`commanded`)",
        },
    ),
    Kind(
        "member_replaced",
        "A static member came back under a new id; the old one is fenced (KIP-345).",
        (_always("replaced_member_id", "string", "its old id"), _SILENT, *_OFFER),
    ),
    Kind(
        "commanded",
        "A test or an operator uses power over a group; events of its effects follow.",
        (
            Field(
                "held_in",
                "string",
                "`hold`, `release`: the state that the group is held in",
            ),
            Field(
                "max_size",
                "int",
                "`limit`: number of members; null: group.max.size applies again",
            ),
        ),
        words.COMMANDS,
    ),
    Kind(
        "leader_chosen",
        "A group has another leader.",
        (Field("previous_leader", "string", "the previous leader"),),
        words.LEADER_CAUSES,
    ),
    Kind(
        "heartbeat",
        "A heartbeat. Published only if the broker was started with heartbeat events.",
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
            _always(
                "members", "[string]", "members that have to join, in Kafka's order"
            ),
            _CULPRITS,
        ),
        words.REBALANCE_CAUSES,
    ),
    Kind(
        "window_opened",
        "A new group waits for more members (KIP-134).",
        (
            _always("delay_ms", "long", "length of the window"),
            _always(
                "remaining_ms", "long", "time by which further windows may extend it"
            ),
        ),
        {
            "first": "the first member joined",
            "extended": "members joined in the last one",
        },
    ),
    Kind(
        "join_completed",
        "The join phase has ended: the members that joined are the next generation.",
        (
            _MEMBERS,
            _GAINED,
            _LOST,
            _WAITS,
            _always("duration_ns", "long", "time since the rebalance started"),
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
            _always("duration_ns", "long", "time since the end of the join phase"),
        ),
    ),
    Kind(
        "member_synced",
        "A member got its assignment.",
        (_always("waited_ns", "long", "time since the response to its JoinGroup"),),
    ),
    Kind(
        "partitions_changed",
        "A member's assignment has changed. If its partitions are the same and only"
        " other bytes differ, `partitions_gained` and `partitions_lost` are empty.",
        (
            _always("owned", "[part]", "its partitions now"),
            _always("partitions_gained", "[part]", "new partitions"),
            _always("partitions_lost", "[part]", "partitions it no longer has"),
        ),
        {
            "assigned": "the leader's assignment",
            "gone": "it is no longer a member",
            "replaced": "a static member came back: they moved to its new id",
            "loaded": "the coordinator read it from its log; nothing is gained or lost",
        },
    ),
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
    # -- offsets
    Kind(
        "offsets_committed",
        "Offsets were committed. Those of a transaction are committed when it is.",
        (_always("offsets", "[offset]", "the offsets"), _IN_TRANSACTION),
    ),
    Kind(
        "commit_refused",
        "A commit was refused, completely or in part.",
        (_ERROR, _always("offsets", "[offset]", "the offsets"), _IN_TRANSACTION),
    ),
    Kind(
        "offsets_expired",
        "Offsets of a group expired (`offsets.retention.minutes`).",
        (_always("expired", "[part]", "their partitions"),),
    ),
    Kind(
        "offsets_deleted",
        "Offsets of a group were deleted.",
        (_always("deleted", "[part]", "their partitions"),),
        {"admin": "OffsetDelete", "topic_deleted": "their topic was deleted"},
    ),
    Kind(
        "append_failed",
        "The log refused records of the group because they are larger than"
        " `max.message.bytes` of `__consumer_offsets`.",
        (
            _ERROR,
            _always("size_bytes", "long", "size of the batch; 0: it cannot be encoded"),
            _always("max_bytes", "long", "maximum size of a batch"),
        ),
        {
            "group": "the group's record: subscriptions and assignments of all members",
            "offsets": "committed or deleted offsets",
        },
    ),
    # -- transactions
    Kind(
        "transaction_state",
        "A transactional id has another state, or its transaction got more partitions"
        " or groups. `client_id` is that of the producer.",
        (
            _TRANSACTIONAL_ID,
            _PRODUCER_ID,
            _PRODUCER_EPOCH,
            _always("state", "string", "its state", words.TRANSACTION_STATES),
            Field(
                "previous_state",
                "string",
                "its state before; null: the id is new",
                words=words.TRANSACTION_STATES,
            ),
            _always("partitions", "[part]", "the partitions of the transaction"),
            _always(
                "group_ids", "[string]", "groups whose offsets are in the transaction"
            ),
            Field(
                "started_ns",
                "long",
                "start of the transaction; null: none is open or being ended",
            ),
            Field(
                "duration_ns", "long", "time in `previous_state`; null: the id is new"
            ),
            _always("timeout_ms", "long", "the producer's transaction.timeout.ms"),
        ),
        words.TRANSACTION_CAUSES,
    ),
    Kind(
        "transaction_fenced",
        "A request of a producer was refused because its epoch is not the current one.",
        (
            Field(
                _TRANSACTIONAL_ID.name,
                _TRANSACTIONAL_ID.type,
                "its transactional.id; null: unknown, as in a partition's log",
            ),
            _PRODUCER_ID,
            _always("producer_epoch", "int", "its epoch"),
            _always("current_epoch", "int", "the current epoch of the producer id"),
            _always("api", "string", "the request's API"),
            _ERROR,
        ),
    ),
    Kind(
        "transaction_ended_in_partition",
        "The marker that ends a transaction was written to a partition.",
        (
            _always("topic", "string", "the topic"),
            _always("partition", "int", "the partition"),
            _PRODUCER_ID,
            _PRODUCER_EPOCH,
            _always("is_commit", "boolean", "false: the transaction was aborted"),
            Field(
                "first_offset",
                "long",
                "offset of the transaction's first record; null: it has none here",
            ),
            _always("end_offset", "long", "offset of the marker"),
            _always(
                "held_back",
                "long",
                "records that the last stable offset moved over: read_committed"
                " consumers get past them from now on. 0: another transaction holds it"
                " at the same place or before",
            ),
            Field(
                "duration_ns",
                "long",
                "time since the transaction's first record; null: it has none here",
            ),
        ),
    ),
    # -- coordinators and the broker
    Kind(
        "group_loaded",
        "A coordinator read a group from its log.",
        (
            _STATE,
            _always("members", "[string]", "members, in Kafka's order"),
            Field("protocol", "string", "the assignor's name"),
            Field("leader", "string", "the leader"),
        ),
    ),
    Kind(
        "shard_loaded",
        "A node coordinates the groups of a partition of __consumer_offsets.",
        (
            _always("partition", "int", "partition of __consumer_offsets"),
            _always("groups", "int", "number of groups in it"),
            _always("duration_ns", "long", "time it took to load"),
        ),
    ),
    Kind(
        "shard_unloaded",
        "A node no longer coordinates the groups of a partition.",
        (_always("partition", "int", "partition of __consumer_offsets"),),
        {
            "moved": "another node coordinates them",
            "stopped": "the node was stopped",
            "failed": "its log failed",
            "deleted": "__consumer_offsets was deleted",
        },
    ),
    Kind(
        "fault_struck",
        "A rule of the fault plan struck a request. Black holes and jitter strike"
        " connections, and are published once for each. `client_id`, `host` and"
        " `connection` are the request's.",
        (
            _always("fault_id", "int", "the rule's number, from 1"),
            _always("fault", "string", "the rule's name, or `fault` and its id"),
            Field("api", "string", "the request's API; null: the whole connection"),
            Field("error", _ERROR.type, _ERROR.says),
        ),
        words.FAULT_EFFECTS,
    ),
    Kind("node_started", "A node accepts connections."),
    Kind("node_stopped", "A node no longer accepts connections."),
    # -- the stream itself
    Kind(
        "events_lost",
        "This reader was too slow: events are missing here, but not for other readers."
        " It has the number and the times of the last missing event.",
        (
            _always("first", "long", "`sequence` of the first missing event"),
            _always("last", "long", "`sequence` of the last missing event"),
        ),
    ),
)

BY_NAME: Mapping[str, Kind] = MappingProxyType({kind.name: kind for kind in KINDS})
