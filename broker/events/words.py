"""The words of events that every view shares: assignors, causes, outcomes.

This is the one place for them. `kohort.broker.events.schema` lists them in the
documents and in the JSON Schema, `kohort.control.why` makes sentences of them, and
``pipeline/event_schema.json`` has `as_json` under the key "words".
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from kohort.broker.events.delivery_words import REASONS, SKIP_REASONS, WENT_BACK

Words = Mapping[str, str]
"""Values of a field, with their meanings."""

ID_GIVEN: Final = "need to re-join with the given member-id"
"""Begins kafka-clients' reason in the second JoinGroup of each new member (KIP-394),
which says nothing about the member."""
COOPERATIVE: Final = frozenset(
    {"cooperative-sticky", "stream", "compatible", "sessioned"}
)
"""Assignors whose members keep their partitions while they rebalance (KIP-429): those
of kafka-clients, librdkafka, franz-go and kohort; of Kafka Streams since 2.4, which
calls its assignor "stream"; of Kafka Connect (KIP-415, KIP-507; its eager one is
"default"). Any other assignor counts as eager."""

REBALANCE_CAUSES: Final[Words] = MappingProxyType(
    {
        "member_joined": "a new member joined",
        "member_left": "a member sent LeaveGroup, or an admin removed it",
        "session_expired": "a member sent no heartbeat for its session timeout",
        "metadata_changed": "a member rejoined with different protocols or"
        " subscriptions",
        "leader_rejoined": "the leader rejoined: its topics may have changed",
        "static_member_replaced": "a static member rejoined, and the group needs a new"
        " assignment: its assignor changes, or a join or sync phase was under way",
        "sync_timeout": "members did not send SyncGroup in time",
        "assignment_not_stored": "the log refused the leader's assignment: the group's"
        " record was too large",
        "group_over_max_size": "the group was loaded with more members than"
        " group.max.size, or a command limited it to fewer than it had (KIP-389)",
        "member_kicked": "a command removed a member",
        "requested": "a command asked for it",
        "topics_changed": "topics that the members of a consumer group subscribe to"
        " have changed, or those that a pattern matches",
        "revocation_timeout": "a member of a consumer group did not give up its"
        " partitions within its rebalance timeout (KIP-848)",
    }
)

UNSEEN: Final = "unseen"
"""The cause of a rebalance, or an end, that is missing from the events."""

REBALANCE_SENTENCES: Final[Words] = MappingProxyType(
    {
        "member_joined": "{who} joined",
        "member_left": "{who} left",
        "session_expired": "{who}'s session expired",
        "metadata_changed": "{who} rejoined with different protocols or subscriptions",
        "leader_rejoined": "the leader, {who}, rejoined to reassign partitions",
        "static_member_replaced": "the static member {who} rejoined with a new member"
        " id, and the group needed a new assignment",
        "sync_timeout": "{who} did not send SyncGroup in time",
        "assignment_not_stored": "the log refused the assignment of {who} because the"
        " group's record was too large",
        "group_over_max_size": "the group was loaded with more members than"
        " group.max.size",
        "member_kicked": "a test kicked {who}",
        "requested": "a test asked for a rebalance",
        "topics_changed": "the topics that the group subscribes to have changed",
        "revocation_timeout": "{who} did not give up its partitions in time",
        UNSEEN: "the rebalance began before these events",
    }
)
"""The same causes as sentences; ``{who}`` stands for the members that caused it."""

COMMANDS: Final[Words] = MappingProxyType(
    {
        "kick": "the member is removed",
        "expire": "the member's session expires now",
        "fence": "the member's heartbeats fail until it joins again (KIP-848)",
        "hold_member": "the member keeps its partitions and its epoch until"
        " `release_member` (KIP-848)",
        "release_member": "the member goes on to its target assignment",
        "mute": "nothing that the member sends counts as a sign of life",
        "unmute": "the member is heard again",
        "rebalance": "the group rebalances",
        "hold": "the group stays in a state as soon as it is in it: see `held_in`",
        "release": "the group goes on",
        "limit": "the group has a limit in place of group.max.size: see `max_size`",
    }
)

CONVERSIONS: Final[Words] = MappingProxyType(
    {
        "upgraded": "a member joined by the consumer protocol, and the members of the"
        " classic protocol stay: an online upgrade (KIP-848)",
        "downgraded": "the last member of the consumer protocol went, or came back by"
        " the classic protocol: an online downgrade (KIP-848)",
        "replaced": "a member of another protocol joined while the group had no"
        " members",
    }
)

LEADER_CAUSES: Final[Words] = MappingProxyType(
    {
        "first": "it was the first to join",
        "gone": "the previous leader is gone, and of the remaining members it comes"
        " first by the hash of the member id",
        "late": "the previous leader did not rejoin in time, and of the members that"
        " did, it comes first by the hash of the member id",
        "replaced": "the previous leader rejoined with this member id",
        "loaded": "the log names it as the leader",
    }
)

OUTCOMES: Final[Words] = MappingProxyType(
    {
        "completed": "the leader sent the assignment, or all members of a consumer"
        " group had their partitions: the group became Stable",
        "emptied": "no member was left: the group became Empty",
        "interrupted": "another rebalance began before the group became Stable",
        "moved": "another coordinator loaded the group before the end",
        "cut": "the broker stopped before the end; `ended_ns` is the last event",
        "unseen": "the end is missing from the events; `ended_ns` is the last event"
        " before the gap",
        "under_way": "the rebalance is in progress: only in answers to a request, never"
        " in the stream",
    }
)

DEPARTURES: Final[Words] = MappingProxyType(
    {
        "left": "it sent LeaveGroup",
        "removed": "an admin removed it",
        "expired": "its session expired",
        "kicked": "the broker removed it: it missed the join phase or the sync phase,"
        " or the group was full",
        "commanded": "a command removed it, or ended its session",
        "replaced": "its static member rejoined with a new member id, and the old id is"
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
        "assign": "a consumer group: waiting for a target assignment",
        "reconcile": "a consumer group: waiting for members to take over their targets",
        "held": "a test held the group in this phase",
        "unseen": "the end of the join phase is missing from the events",
    }
)

PAUSE_ENDS: Final[Words] = MappingProxyType(
    {
        "synced": "the member got its assignment",
        "gone": "the member is gone",
        "rebalance": "another rebalance began; its account has the rest",
        "unseen": "the end is missing from the events, or has not come yet",
    }
)

STEPS: Final[Words] = MappingProxyType(
    {
        "revoke": "it has to give up partitions",
        "wait": "it waits for partitions that other members hold",
    }
)

STEP_ENDS: Final[Words] = MappingProxyType(
    {
        "done": "it gave them up, or it got the last of them",
        "gone": "the member is gone",
        "rebalance": "another rebalance began; its account has the rest",
        "unseen": "the end is missing from the events, or has not come yet",
    }
)

UNREAD_CAUSES: Final[Words] = MappingProxyType(
    {
        "paused": "an eager member revoked it to rejoin; counted from its JoinGroup",
        "revoked": "a cooperative member, or one of a consumer group, got an assignment"
        " without it",
        "left": "its member left; counted from the LeaveGroup",
        "removed": "an admin removed its member",
        "expired": "the session of its member expired; counted from when the broker"
        " last heard of the member, or its connection was closed",
        "commanded": "a command removed its member, or ended the member's session",
        "kicked": "the broker removed its member; counted from when the broker last"
        " heard of it",
        "replaced": "its static member was restarted; counted from when the broker"
        " last heard of the old process, or its connection was closed",
        "disconnected": "its member had closed its connection, and had not come back"
        " when the broker stopped",
        "unseen": "its member is gone, and no event says how",
        "group_empty": "the group was Empty",
        "work_ended": "the group's work had ended: all members were gone, and nobody"
        " joined again before the broker stopped",
    }
)

UNREAD_ENDS: Final[Words] = MappingProxyType(
    {
        "read_again": "a member reads the partitions again, without a rebalance: a"
        " static member is back",
        "broker_stopped": "the broker stopped",
        "unseen": "events are missing",
    }
)

TRANSACTION_STATES: Final[Words] = MappingProxyType(
    {
        "Empty": "a producer has the id, and has not begun a transaction",
        "Ongoing": "a transaction is open",
        "PrepareCommit": "it will be committed: markers are being written",
        "PrepareAbort": "it will be aborted: markers are being written",
        "CompleteCommit": "it is committed: all markers are written",
        "CompleteAbort": "it is aborted: all markers are written",
        "Dead": "the id expired, and is forgotten",
        "PrepareEpochFence": "its producer is about to be fenced",
    }
)

TRANSACTION_ENDS: Final[Words] = MappingProxyType(
    {
        "client_committed": "the producer committed it",
        "client_aborted": "the producer aborted it",
        "timeout": "it was open for longer than its timeout",
        "fenced": "another producer sent InitProducerId with the same transactional.id",
        "operator": "an admin or a command ended it",
    }
)
"""Causes of PrepareCommit and PrepareAbort."""

TRANSACTION_CAUSES: Final[Words] = MappingProxyType(
    {
        "initialized": "a producer sent InitProducerId",
        "client_began": "the producer added its first partition or group",
        "client_added": "the producer added further partitions or groups",
        **TRANSACTION_ENDS,
        "markers_written": "all its partitions have the marker",
        "id_expired": "the id was not used for transactional.id.expiration.ms",
        "loaded": "the coordinator read it from its log",
    }
)

FAULT_EFFECTS: Final[Words] = MappingProxyType(
    {
        "error": "it was answered with `error`, and had no effect",
        "answer": "a function of a test answered it, and it had no effect",
        "change": "a function of a test changed its answer",
        "delay": "its answer was delayed",
        "disconnect_before": "its connection was closed, and it had no effect",
        "disconnect_after": "its connection was closed in place of an answer",
        "swallow": "it had no effect and no answer",
        "throttle": "its answer had a throttle time",
        "duplicate": "it took effect twice",
        "stale": "it was answered as an earlier one, and had no effect",
        "corrupt": "bytes of its answer were changed",
        "truncate": "half of its answer was sent, and the connection was closed",
        "trickle": "its answer was sent byte by byte",
        "black_hole": "nothing of the connection is read or answered",
        "jitter": "what the connection sends and receives is delayed at random",
    }
)
"""The effects of faults on a request; the last two affect a whole connection."""

_SHARED: Final[Mapping[str, Words]] = MappingProxyType(
    {
        "rebalance_causes": REBALANCE_CAUSES,
        "rebalance_sentences": REBALANCE_SENTENCES,
        "leader_causes": LEADER_CAUSES,
        "outcomes": OUTCOMES,
        "departures": DEPARTURES,
        "pieces": PIECES,
        "pause_ends": PAUSE_ENDS,
        "steps": STEPS,
        "step_ends": STEP_ENDS,
        "unread_causes": UNREAD_CAUSES,
        "transaction_states": TRANSACTION_STATES,
        "transaction_ends": TRANSACTION_ENDS,
        "again_reasons": REASONS,
        "skip_reasons": SKIP_REASONS,
        "went_back": WENT_BACK,
    }
)


def as_json() -> dict[str, Any]:
    """All words as JSON types, for JavaScript and Spark."""
    shared: dict[str, Any] = {name: {**words} for name, words in _SHARED.items()}
    return {"cooperative": sorted(COOPERATIVE), "id_given": ID_GIVEN, **shared}
