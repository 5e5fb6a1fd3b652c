"""The words of events that every view shares: assignors, causes, outcomes.

This is the one place for them. `kohort.broker.events.schema` lists them in the
documents and in the JSON Schema, `kohort.control.why` makes sentences of them, and
``pipeline/event_schema.json`` has `as_json` under the key "words".
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

Words = Mapping[str, str]
"""Values of a field, with their meanings."""

COOPERATIVE: Final = frozenset(
    {"cooperative-sticky", "stream", "compatible", "sessioned"}
)
"""Assignors whose members keep what they own while they rebalance (KIP-429): of
kafka-clients, librdkafka, franz-go and kohort; of Kafka Streams since 2.4, which calls
its assignor "stream"; of Kafka Connect (KIP-415, KIP-507; its eager one is "default").
Any other name is taken for an eager assignor's."""

REBALANCE_CAUSES: Final[Words] = MappingProxyType(
    {
        "member_joined": "a new member joined",
        "member_left": "a member sent LeaveGroup, or an admin removed it",
        "session_expired": "a member sent no heartbeat for its session timeout",
        "metadata_changed": "a member rejoined with other protocols or subscriptions",
        "leader_rejoined": "the leader rejoined: its topics may have changed",
        "static_member_replaced": "a static member came back, and the group needs a new"
        " assignment: its assignor changes, or a join or sync phase was under way",
        "sync_timeout": "members did not send SyncGroup in time",
        "assignment_not_stored": "the log refused the leader's assignment: the group's"
        " record was too large",
        "group_over_max_size": "the group was loaded with more members than"
        " group.max.size (KIP-389)",
    }
)

UNSEEN: Final = "unseen"
"""The cause of a rebalance, or an end, that is missing from the events."""

REBALANCE_SENTENCES: Final[Words] = MappingProxyType(
    {
        "member_joined": "{who} joined",
        "member_left": "{who} left",
        "session_expired": "the session of {who} expired",
        "metadata_changed": "{who} rejoined with other protocols or subscriptions than"
        " before",
        "leader_rejoined": "the leader, {who}, rejoined to reassign partitions",
        "static_member_replaced": "the static member {who} came back under a new id,"
        " and a new assignment was necessary",
        "sync_timeout": "{who} did not send SyncGroup in time",
        "assignment_not_stored": "the log refused the assignment of {who}, as the"
        " group's record was too large",
        "group_over_max_size": "the group was loaded with more members than"
        " group.max.size",
        UNSEEN: "the rebalance began before these events",
    }
)
"""The same causes as sentences: ``{who}`` stands for the members that caused it."""

LEADER_CAUSES: Final[Words] = MappingProxyType(
    {
        "first": "it was the first to join",
        "gone": "the previous leader is gone, and of the others it is the first by the"
        " hash of the member id",
        "late": "the previous leader did not join this generation in time, and of those"
        " that did it is the first by the hash of the member id",
        "replaced": "the previous leader came back under this id",
        "loaded": "the log names it as the leader",
    }
)

OUTCOMES: Final[Words] = MappingProxyType(
    {
        "completed": "the leader sent the assignment: the group was Stable",
        "emptied": "no member was left: the group was Empty",
        "interrupted": "another rebalance began before the leader sent the assignment",
        "moved": "another coordinator loaded the group before the end",
        "cut": "the broker stopped before the end; `ended_ns` is the last event",
        "unseen": "the end is missing from the events; `ended_ns` is the last event"
        " before the gap",
        "under_way": "the rebalance goes on: only in answers to a question, never in"
        " the stream",
    }
)

DEPARTURES: Final[Words] = MappingProxyType(
    {
        "left": "it sent LeaveGroup",
        "removed": "an admin removed it",
        "expired": "its session expired",
        "kicked": "the broker removed it: it missed the join phase or the sync phase,"
        " or the group was full",
        "replaced": "a static member came back under a new id, and the old one is"
        " fenced",
        "unseen": "a generation, or a coordinator that loaded the group, does not"
        " have it",
    }
)

PIECES: Final[Words] = MappingProxyType(
    {
        "initial_delay": "a window of the initial delay (KIP-134)",
        "join": "waiting for members to rejoin, and for pending members to join",
        "sync": "waiting for the leader's assignment",
        "unseen": "the end of the join phase is missing from the events",
    }
)

PAUSE_ENDS: Final[Words] = MappingProxyType(
    {
        "synced": "the member was given its assignment",
        "gone": "the member is gone",
        "rebalance": "another rebalance began; its account has the rest",
        "unseen": "the end is missing from the events, or has not come yet",
    }
)

UNREAD_CAUSES: Final[Words] = MappingProxyType(
    {
        "paused": "an eager member revoked it to rejoin; counted from its JoinGroup",
        "revoked": "a cooperative member was given an assignment without it",
        "left": "its member left; counted from the LeaveGroup",
        "removed": "an admin removed its member",
        "expired": "the session of its member expired; counted from when the broker"
        " last heard of the member",
        "kicked": "the broker removed its member; counted from when the broker last"
        " heard of it",
        "replaced": "its static member was restarted; counted from when the broker"
        " last heard of the old process",
        "unseen": "its member is gone, and no event says how",
        "group_empty": "the group was Empty",
    }
)

_SHARED: Final[Mapping[str, Words]] = MappingProxyType(
    {
        "rebalance_causes": REBALANCE_CAUSES,
        "rebalance_sentences": REBALANCE_SENTENCES,
        "leader_causes": LEADER_CAUSES,
        "outcomes": OUTCOMES,
        "departures": DEPARTURES,
        "pieces": PIECES,
        "pause_ends": PAUSE_ENDS,
        "unread_causes": UNREAD_CAUSES,
    }
)


def as_json() -> dict[str, Any]:
    """All of it as JSON's types, for JavaScript and Spark."""
    shared: dict[str, Any] = {name: {**words} for name, words in _SHARED.items()}
    return {"cooperative": sorted(COOPERATIVE), **shared}
