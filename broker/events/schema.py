"""The schema of events, version 1: every kind, every field, in one table.

An event is one JSON object: the fields of `COMMON`, and those of its kind. A field
has the same name, type and meaning in every kind that has it, so all events fit in
one wide table. The JSON Schema, the Spark schema and the page in the documents are
made from here.

Within a schema version kinds and fields are only added. Readers ignore what they do
not know, and take a field that is missing for null.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from kohort.broker import events

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
        says: what it means, with the unit.
        may_be_null: whether it may be null or missing.
    """

    name: str
    type: Type
    says: str
    may_be_null: bool = True


def _always(name: str, type_: Type, says: str) -> Field:
    return Field(name, type_, says, may_be_null=False)


COMMON = (
    _always("schema", "int", "the version of this schema: 1"),
    _always("run", "string", "unique to a start of the broker"),
    _always("labels", "map", "what the user calls this run, its settings, its seed"),
    _always("node", "int", "the id of the node that saw it"),
    _always(
        "sequence", "long", "counts the events of a run's node from 1, without gaps"
    ),
    _always("kind", "string", "what happened"),
    _always("time_ns", "long", "the broker's clock, ns since the epoch"),
    _always("wall_ns", "long", "the machine's clock, ns since the epoch"),
    Field("group", "string", "the group's id"),
    Field("generation", "int", "the group's generation after the event"),
    Field("member_id", "string", "whom it is about; of a rebalance: who caused it"),
    Field("instance_id", "string", "that member's group.instance.id (KIP-345)"),
    Field("client_id", "string", "that member's client.id"),
    Field("host", "string", "that member's host, as Kafka shows it"),
    Field("cause", "string", "why; the kind lists the words"),
    Field("reason", "string", "what the client said itself (KIP-800); null: nothing"),
)

ROWS: Mapping[str, tuple[Field, ...]] = {
    "wait": (
        _always("member_id", "string", "who was waited for"),
        _always(
            "waited_ns",
            "long",
            "from the rebalance's start to its join; if it never came, to when it"
            " was gone, or to the end of the join phase",
        ),
        _always("came", "boolean", "whether it joined in the end"),
    ),
    "part": (
        _always("topic", "string", "a topic"),
        _always("partitions", "[int]", "of it, in order"),
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
    """One kind of event: when it comes, its causes, and its fields besides `COMMON`."""

    name: str
    says: str
    fields: tuple[Field, ...] = ()
    causes: Mapping[str, str] = field(default_factory=dict)


_STATE = _always("state", "string", "the group's state after the event")
_PREVIOUS_STATE = _always("previous_state", "string", "the group's state before it")
_ERROR = _always("error", "string", "the error's name on the wire, as Kafka spells it")
_WAS_PENDING = _always("was_pending", "boolean", "it had an id and had not joined yet")
_OFFER = (
    _always("session_timeout_ms", "long", "how long it may be silent"),
    _always("rebalance_timeout_ms", "long", "how long it may take to rejoin"),
    _always("protocols", "[string]", "the assignors it knows, the preferred one first"),
    Field("topics", "[string]", "what it subscribes to; null: it is no consumer"),
)
_REASONS_TO_REBALANCE = MappingProxyType(
    {
        "member_joined": "a new member came",
        "member_left": "a member sent LeaveGroup, or an admin took it out",
        "session_expired": "a member was not heard of for its session timeout",
        "metadata_changed": "a member rejoined with other protocols or subscriptions",
        "leader_rejoined": "the leader rejoined: what it divides may have changed",
        "static_member_replaced": "a static member came back, and what it supports"
        " or the moment made a new assignment necessary",
        "sync_timeout": "members did not fetch their assignment in time",
        "group_over_max_size": "the group was loaded with more members than"
        " group.max.size (KIP-389)",
    }
)

KINDS: tuple[Kind, ...] = (
    # -- members
    Kind("member_id_given", "A newcomer was given an id to join with (KIP-394)."),
    Kind("pending_member_expired", "An id that was given out was not used in time."),
    Kind(
        "member_joined",
        "A JoinGroup was taken.",
        (_always("is_first", "boolean", "false: it was a member already"), *_OFFER),
        {
            "new": "the member is new",
            "rejoin": "the group rebalances, and it takes part",
            "metadata_changed": "its protocols or subscriptions are others than before",
            "leader": "it leads, and asks for a rebalance by that",
            "repeated": "nothing changed: it is told what it was told before",
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
            "unknown": "its member id is none of the group's",
            "invalid": "the request cannot be: the error says why",
        },
    ),
    Kind(
        "member_left",
        "A member, or an id that was given out, is gone by LeaveGroup.",
        (_WAS_PENDING,),
        {
            "left": "it said so itself; `reason` has its words, null: no reason given",
            "removed": "an admin took it out",
        },
    ),
    Kind(
        "member_expired",
        "A member was not heard of for its session timeout.",
        (_always("silent_ns", "long", "since its last sign of life"),),
    ),
    Kind(
        "member_kicked",
        "The broker took a member, or an id that was given out, away.",
        (_WAS_PENDING,),
        {
            "full": "it came late, and others had taken its room (KIP-389)",
            "did_not_join_in_time": "it missed the join phase",
            "did_not_sync_in_time": "it did not fetch its assignment in time",
            "group_over_max_size": "the group was too large (KIP-389)",
        },
    ),
    Kind(
        "member_replaced",
        "A static member came back under a new id; the old one is fenced (KIP-345).",
        (_always("replaced_member_id", "string", "its old id"), *_OFFER),
    ),
    Kind(
        "leader_chosen",
        "A group has another leader.",
        (Field("previous_leader", "string", "who led before"),),
        {
            "first": "it came first",
            "gone": "the one before is gone",
            "late": "the one before did not join this generation in time",
            "replaced": "the one before came back under this id",
            "loaded": "the log says so",
        },
    ),
    Kind(
        "heartbeat",
        "A member gave a sign of life; only where asked for.",
        (_ERROR,),
    ),
    # -- rebalances
    Kind(
        "group_state",
        "A group went to another state.",
        (_STATE, _PREVIOUS_STATE),
    ),
    Kind(
        "rebalance_started",
        "A group waits for its members to join again.",
        (
            _PREVIOUS_STATE,
            _always("members", "[string]", "who is to join, in order of arrival"),
            _always(
                "culprits",
                "[string]",
                "the ids of all who caused it; `member_id` is the first of them",
            ),
        ),
        _REASONS_TO_REBALANCE,
    ),
    Kind(
        "window_opened",
        "A new group waits for more members (KIP-134).",
        (
            _always("delay_ms", "long", "how long"),
            _always("remaining_ms", "long", "how much longer it may become"),
        ),
        {"first": "the first member came", "extended": "somebody came in the last one"},
    ),
    Kind(
        "join_completed",
        "The join phase is over: who joined makes the next generation.",
        (
            _always("members", "[string]", "the generation's, in order of arrival"),
            _always(
                "gained", "[string]", "of them those that were not in the last one"
            ),
            _always("lost", "[string]", "who was in the last one, and is not in this"),
            _always("waits", "[wait]", "who was waited for, and how long"),
            _always("duration_ns", "long", "since the rebalance started"),
            Field("protocol", "string", "the assignor's name; null: nobody is in it"),
            Field("leader", "string", "who is to divide; null: nobody is in it"),
        ),
        {
            "all_joined": "nobody was missing any more",
            "rebalance_timeout": "the longest rebalance timeout of a member was over",
            "initial_delay": "the initial delay was over (KIP-134)",
            "nobody_left": "all members are gone",
        },
    ),
    Kind(
        "assignment_made",
        "The leader has divided: the group is Stable.",
        (
            _always("protocol", "string", "the assignor's name"),
            _always("leader", "string", "who has divided"),
            _always("bytes", "long", "of all assignments"),
            _always(
                "metadata_bytes", "long", "of all subscriptions that it was made from"
            ),
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
        "A member's assignment is another one than before. Where it says the same in"
        " other words, or something besides partitions, none is gained and none lost.",
        (
            _always("owned", "[part]", "what it has now"),
            _always("partitions_gained", "[part]", "what is new"),
            _always("partitions_lost", "[part]", "what it had before"),
        ),
        {
            "assigned": "the leader's assignment",
            "gone": "it is no member any more",
            "replaced": "a static member came back: they moved to its new id",
            "loaded": "the log says so; none is gained and none lost",
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
        "Offsets of a group were kept long enough.",
        (_always("expired", "[part]", "which"),),
    ),
    Kind(
        "offsets_deleted",
        "Offsets of a group were deleted.",
        (_always("deleted", "[part]", "which"),),
        {"admin": "OffsetDelete", "topic_deleted": "their topic is gone"},
    ),
    # -- coordinators and the broker
    Kind(
        "group_loaded",
        "A coordinator read a group from its log.",
        (
            _STATE,
            _always("members", "[string]", "in order of arrival"),
            Field("protocol", "string", "the assignor's name"),
            Field("leader", "string", "who leads"),
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
        "This reader was too slow: events are missing here, and only here. It bears"
        " the number and the times of the last one that is missing.",
        (
            _always("first", "long", "the first sequence that is missing"),
            _always("last", "long", "the last one"),
        ),
    ),
)

BY_NAME: Mapping[str, Kind] = MappingProxyType({kind.name: kind for kind in KINDS})
