"""Types of events, a TypedDict for each kind; type checkers narrow by `kind`.

Generated from `kohort.broker.events.schema` by

    python -m kohort.broker.events.formats

At run time an event is a dict. A field that is NotRequired may be null or missing.
"""

from __future__ import annotations

from typing import Literal, NotRequired, TypeAlias, TypedDict


class WaitRow(TypedDict):
    member_id: str
    waited_ns: int
    came: bool
    told_ns: NotRequired[int | None]


class PartRow(TypedDict):
    topic: str
    partitions: list[int]


class DepartureRow(TypedDict):
    member_id: str
    how: Literal[
        "left",
        "removed",
        "expired",
        "kicked",
        "commanded",
        "replaced",
        "unseen",
    ]


class ReturnRow(TypedDict):
    member_id: str
    previous_id: str
    how: Literal[
        "left",
        "removed",
        "expired",
        "kicked",
        "commanded",
        "replaced",
        "unseen",
    ]
    since_ns: int
    until_ns: int
    is_restart: bool


class RefusedJoinRow(TypedDict):
    who: str
    cause: str


class PieceRow(TypedDict):
    what: Literal[
        "initial_delay",
        "join",
        "sync",
        "assign",
        "reconcile",
        "held",
        "unseen",
    ]
    since_ns: int
    until_ns: int
    ended_by: str
    member_id: NotRequired[str | None]
    missing: list[str]


class PauseRow(TypedDict):
    member_id: str
    since_ns: int
    until_ns: int
    count: NotRequired[int | None]
    ended_by: Literal[
        "synced",
        "gone",
        "rebalance",
        "unseen",
    ]


class StepRow(TypedDict):
    member_id: str
    what: Literal[
        "revoke",
        "wait",
    ]
    since_ns: int
    until_ns: int
    count: int
    holders: list[str]
    ended_by: Literal[
        "done",
        "gone",
        "rebalance",
        "unseen",
    ]


class HoldingRow(TypedDict):
    member_id: str
    parts: list[PartRow]


class MoveRow(TypedDict):
    source: NotRequired[str | None]
    target: str
    is_return: bool
    gap_ns: NotRequired[int | None]
    count: int
    parts: list[PartRow]


class UnreadRow(TypedDict):
    member_id: str
    reader: NotRequired[str | None]
    cause: Literal[
        "paused",
        "revoked",
        "left",
        "removed",
        "expired",
        "commanded",
        "kicked",
        "replaced",
        "disconnected",
        "unseen",
        "group_empty",
        "work_ended",
    ]
    since_ns: int
    until_ns: int
    count: int
    parts: list[PartRow]
    records: NotRequired[int | None]
    log_ends: NotRequired[list[LogEndRow] | None]


class LogEndRow(TypedDict):
    topic: str
    offsets: list[int]
    records: int


class OffsetRow(TypedDict):
    topic: str
    partition: int
    offset: int
    end_offset: NotRequired[int | None]


class AgainRow(TypedDict):
    topic: str
    partition: int
    first: int
    end: int
    records: int
    is_certain: bool
    previous_reader: NotRequired[str | None]
    reader: str
    reason_again: Literal[
        "rebalance",
        "seek",
        "out_of_range",
        "went_back",
        "commit_refused",
        "offset_deleted",
        "admin",
        "left",
        "removed",
        "expired",
        "kicked",
        "commanded",
        "replaced",
        "unseen",
    ]


class SkipRow(TypedDict):
    topic: str
    partition: int
    first: int
    end: int
    records: int
    reader: str
    reason_skipped: Literal[
        "reset",
        "out_of_range",
        "deleted",
        "commit_ahead",
        "found_late",
        "seek",
    ]


class RewindRow(TypedDict):
    topic: str
    partition: int
    offset: int
    previous_offset: int


class EvidenceRow(TypedDict):
    time_ns: int
    text: str
    sequence: NotRequired[int | None]
    generation: NotRequired[int | None]


class Common(TypedDict):
    schema: int
    run: str
    labels: dict[str, str]
    node: int
    sequence: int
    time_ns: int
    wall_ns: int
    group: NotRequired[str | None]
    generation: NotRequired[int | None]
    member_id: NotRequired[str | None]
    instance_id: NotRequired[str | None]
    client_id: NotRequired[str | None]
    host: NotRequired[str | None]
    connection: NotRequired[int | None]
    reason: NotRequired[str | None]


class MemberIdGiven(Common):
    kind: Literal["member_id_given"]
    cause: NotRequired[None]


class PendingMemberExpired(Common):
    kind: Literal["pending_member_expired"]
    cause: NotRequired[None]


class MemberJoined(Common):
    kind: Literal["member_joined"]
    cause: Literal[
        "new",
        "rejoin",
        "metadata_changed",
        "leader",
        "repeated",
    ]
    is_first: bool
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocols: list[str]
    topics: NotRequired[list[str] | None]
    group_type: NotRequired[str | None]


class MemberRefused(Common):
    kind: Literal["member_refused"]
    cause: Literal[
        "full",
        "fenced",
        "inconsistent",
        "unknown",
        "unsupported",
        "too_large",
        "invalid",
    ]
    error: str


class MemberLeft(Common):
    kind: Literal["member_left"]
    cause: Literal[
        "left",
        "removed",
    ]
    was_pending: bool
    software: NotRequired[str | None]


class MemberExpired(Common):
    kind: Literal["member_expired"]
    cause: Literal[
        "silent",
        "commanded",
    ]
    silent_ns: NotRequired[int | None]
    is_connected: NotRequired[bool | None]
    is_active: NotRequired[bool | None]


class MemberKicked(Common):
    kind: Literal["member_kicked"]
    cause: Literal[
        "full",
        "did_not_join_in_time",
        "did_not_sync_in_time",
        "did_not_revoke_in_time",
        "group_over_max_size",
        "commanded",
    ]
    was_pending: bool
    silent_ns: NotRequired[int | None]


class MemberReplaced(Common):
    kind: Literal["member_replaced"]
    cause: NotRequired[None]
    replaced_member_id: str
    silent_ns: NotRequired[int | None]
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocols: list[str]
    topics: NotRequired[list[str] | None]
    group_type: NotRequired[str | None]


class MemberFenced(Common):
    kind: Literal["member_fenced"]
    cause: NotRequired[None]
    error: str


class MemberDisconnected(Common):
    kind: Literal["member_disconnected"]
    cause: Literal[
        "closed",
        "away",
    ]


class Commanded(Common):
    kind: Literal["commanded"]
    cause: Literal[
        "kick",
        "expire",
        "fence",
        "hold_member",
        "release_member",
        "mute",
        "unmute",
        "rebalance",
        "hold",
        "release",
        "limit",
    ]
    held_in: NotRequired[str | None]
    max_size: NotRequired[int | None]


class LeaderChosen(Common):
    kind: Literal["leader_chosen"]
    cause: Literal[
        "first",
        "gone",
        "late",
        "replaced",
        "loaded",
    ]
    previous_leader: NotRequired[str | None]


class Heartbeat(Common):
    kind: Literal["heartbeat"]
    cause: NotRequired[None]
    error: str


class GroupState(Common):
    kind: Literal["group_state"]
    cause: NotRequired[None]
    state: str
    previous_state: str


class GroupConverted(Common):
    kind: Literal["group_converted"]
    cause: Literal[
        "upgraded",
        "downgraded",
        "replaced",
    ]
    group_type: str


class RebalanceStarted(Common):
    kind: Literal["rebalance_started"]
    cause: Literal[
        "member_joined",
        "member_left",
        "session_expired",
        "metadata_changed",
        "leader_rejoined",
        "static_member_replaced",
        "sync_timeout",
        "assignment_not_stored",
        "group_over_max_size",
        "member_kicked",
        "requested",
        "topics_changed",
        "revocation_timeout",
    ]
    group_type: NotRequired[str | None]
    previous_state: str
    members: list[str]
    culprits: list[str]


class WindowOpened(Common):
    kind: Literal["window_opened"]
    cause: Literal[
        "first",
        "extended",
    ]
    delay_ms: int
    remaining_ms: int


class JoinCompleted(Common):
    kind: Literal["join_completed"]
    cause: Literal[
        "all_joined",
        "rebalance_timeout",
        "initial_delay",
        "nobody_left",
        "target_due",
    ]
    members: list[str]
    gained: list[str]
    lost: list[str]
    waits: list[WaitRow]
    duration_ns: int
    protocol: NotRequired[str | None]
    leader: NotRequired[str | None]


class AssignmentMade(Common):
    kind: Literal["assignment_made"]
    cause: NotRequired[None]
    protocol: str
    leader: NotRequired[str | None]
    bytes: NotRequired[int | None]
    metadata_bytes: NotRequired[int | None]
    duration_ns: int


class MemberSynced(Common):
    kind: Literal["member_synced"]
    cause: NotRequired[None]
    waited_ns: int


class MemberReconciled(Common):
    kind: Literal["member_reconciled"]
    cause: Literal[
        "stable",
        "unrevoked_partitions",
        "unreleased_partitions",
    ]
    member_epoch: int
    target_epoch: int
    revoking: list[PartRow]
    awaited: list[PartRow]
    holders: list[str]


class PartitionsChanged(Common):
    kind: Literal["partitions_changed"]
    cause: Literal[
        "assigned",
        "gone",
        "replaced",
        "loaded",
    ]
    owned: list[PartRow]
    partitions_gained: list[PartRow]
    partitions_lost: list[PartRow]


class RebalanceAccount(Common):
    kind: Literal["rebalance_account"]
    cause: Literal[
        "member_joined",
        "member_left",
        "session_expired",
        "metadata_changed",
        "leader_rejoined",
        "static_member_replaced",
        "sync_timeout",
        "assignment_not_stored",
        "group_over_max_size",
        "member_kicked",
        "requested",
        "topics_changed",
        "revocation_timeout",
        "unseen",
    ]
    started_sequence: int
    previous_state: str
    previous_generation: int
    culprits: list[str]
    departures: list[DepartureRow]
    returns: list[ReturnRow]
    silent_ns: NotRequired[int | None]
    is_second_half: bool
    is_same_offer: NotRequired[bool | None]
    outcome: Literal[
        "completed",
        "emptied",
        "interrupted",
        "moved",
        "cut",
        "unseen",
        "under_way",
    ]
    started_ns: int
    joined_ns: NotRequired[int | None]
    ended_ns: int
    settled_ns: int
    duration_ns: int
    join_ns: int
    sync_ns: int
    join_ended_by: NotRequired[str | None]
    pieces: list[PieceRow]
    waits: list[WaitRow]
    expected: list[str]
    members: list[str]
    gained: list[str]
    lost: list[str]
    latecomers: list[str]
    missing: list[str]
    refused: list[RefusedJoinRow]
    protocol: NotRequired[str | None]
    leader: NotRequired[str | None]
    leader_cause: NotRequired[
        Literal[
            "first",
            "gone",
            "late",
            "replaced",
            "loaded",
        ]
        | None
    ]
    previous_leader: NotRequired[str | None]
    is_eager: NotRequired[bool | None]
    bytes: NotRequired[int | None]
    metadata_bytes: NotRequired[int | None]
    pauses: list[PauseRow]
    paused_ns: int
    steps: NotRequired[list[StepRow] | None]
    group_type: NotRequired[str | None]
    moves: NotRequired[list[MoveRow] | None]
    kept: NotRequired[list[HoldingRow] | None]
    given_up: NotRequired[list[HoldingRow] | None]
    moved_count: int
    least_moved_count: int
    first_count: int
    kept_count: int
    given_up_count: int
    unread: list[UnreadRow]
    unread_ns: int
    unread_empty_ns: int
    unprocessed_ns: int
    words: NotRequired[str | None]
    is_whole: bool
    is_ownership_whole: bool


class UnreadAccount(Common):
    kind: Literal["unread_account"]
    cause: Literal[
        "read_again",
        "broker_stopped",
        "unseen",
    ]
    closed_sequence: int
    unread: list[UnreadRow]
    unread_ns: int
    unread_empty_ns: int


class Finding(Common):
    kind: Literal["finding"]
    cause: NotRequired[None]
    finding: str
    revision: int
    code: str
    title: str
    advice: str
    is_sure: bool
    is_withdrawn: bool
    members: list[str]
    evidence: list[EvidenceRow]
    evidence_count: int
    since_ns: int
    until_ns: int
    unread_ns: int
    paused_ns: int
    records: int
    setting: NotRequired[str | None]
    current: NotRequired[str | None]
    suggested: NotRequired[str | None]
    saving_ns: NotRequired[int | None]


class OffsetsCommitted(Common):
    kind: Literal["offsets_committed"]
    cause: NotRequired[None]
    offsets: list[OffsetRow]
    producer_id: NotRequired[int | None]


class CommitRefused(Common):
    kind: Literal["commit_refused"]
    cause: NotRequired[None]
    error: str
    offsets: list[OffsetRow]
    producer_id: NotRequired[int | None]


class OffsetsUnchecked(Common):
    kind: Literal["offsets_unchecked"]
    cause: NotRequired[None]
    producer_id: int


class OffsetsExpired(Common):
    kind: Literal["offsets_expired"]
    cause: NotRequired[None]
    expired: list[PartRow]


class OffsetsDeleted(Common):
    kind: Literal["offsets_deleted"]
    cause: Literal[
        "admin",
        "topic_deleted",
    ]
    deleted: list[PartRow]


class AppendFailed(Common):
    kind: Literal["append_failed"]
    cause: Literal[
        "group",
        "offsets",
    ]
    error: str
    size_bytes: int
    max_bytes: int


class DeliveryAccount(Common):
    kind: Literal["delivery_account"]
    cause: NotRequired[None]
    received: int
    again_certain: int
    again_possible: int
    skipped: int
    uncommitted: int
    again: list[AgainRow]
    skips: list[SkipRow]
    words: str


class OffsetsWentBack(Common):
    kind: Literal["offsets_went_back"]
    cause: Literal[
        "commit",
        "transaction",
        "admin",
    ]
    rewinds: list[RewindRow]


class TransactionState(Common):
    kind: Literal["transaction_state"]
    cause: Literal[
        "initialized",
        "client_began",
        "client_added",
        "client_committed",
        "client_aborted",
        "timeout",
        "fenced",
        "operator",
        "markers_written",
        "id_expired",
        "loaded",
    ]
    transactional_id: str
    producer_id: int
    producer_epoch: int
    state: Literal[
        "Empty",
        "Ongoing",
        "PrepareCommit",
        "PrepareAbort",
        "CompleteCommit",
        "CompleteAbort",
        "Dead",
        "PrepareEpochFence",
    ]
    previous_state: NotRequired[
        Literal[
            "Empty",
            "Ongoing",
            "PrepareCommit",
            "PrepareAbort",
            "CompleteCommit",
            "CompleteAbort",
            "Dead",
            "PrepareEpochFence",
        ]
        | None
    ]
    partitions: list[PartRow]
    group_ids: list[str]
    started_ns: NotRequired[int | None]
    duration_ns: NotRequired[int | None]
    timeout_ms: int


class TransactionFenced(Common):
    kind: Literal["transaction_fenced"]
    cause: NotRequired[None]
    transactional_id: NotRequired[str | None]
    producer_id: int
    producer_epoch: int
    current_epoch: int
    api: str
    error: str


class TransactionEndedInPartition(Common):
    kind: Literal["transaction_ended_in_partition"]
    cause: NotRequired[None]
    topic: str
    partition: int
    producer_id: int
    producer_epoch: int
    is_commit: bool
    first_offset: NotRequired[int | None]
    end_offset: int
    held_back: int
    duration_ns: NotRequired[int | None]


class GroupLoaded(Common):
    kind: Literal["group_loaded"]
    cause: NotRequired[None]
    state: str
    members: list[str]
    protocol: NotRequired[str | None]
    leader: NotRequired[str | None]


class ShardLoaded(Common):
    kind: Literal["shard_loaded"]
    cause: NotRequired[None]
    partition: int
    groups: int
    duration_ns: int


class ShardUnloaded(Common):
    kind: Literal["shard_unloaded"]
    cause: Literal[
        "moved",
        "stopped",
        "failed",
        "deleted",
    ]
    partition: int


class FaultStruck(Common):
    kind: Literal["fault_struck"]
    cause: Literal[
        "error",
        "answer",
        "change",
        "delay",
        "disconnect_before",
        "disconnect_after",
        "swallow",
        "throttle",
        "duplicate",
        "stale",
        "corrupt",
        "truncate",
        "trickle",
        "black_hole",
        "jitter",
    ]
    fault_id: int
    fault: str
    api: NotRequired[str | None]
    error: NotRequired[str | None]


class ClockAdvanced(Common):
    kind: Literal["clock_advanced"]
    cause: NotRequired[None]
    until_ns: int
    credits_heartbeats: bool


class NodeStarted(Common):
    kind: Literal["node_started"]
    cause: NotRequired[None]


class NodeStopped(Common):
    kind: Literal["node_stopped"]
    cause: NotRequired[None]


class EventsLost(Common):
    kind: Literal["events_lost"]
    cause: NotRequired[None]
    first: int
    last: int


EventKind: TypeAlias = Literal[
    "member_id_given",
    "pending_member_expired",
    "member_joined",
    "member_refused",
    "member_left",
    "member_expired",
    "member_kicked",
    "member_replaced",
    "member_fenced",
    "member_disconnected",
    "commanded",
    "leader_chosen",
    "heartbeat",
    "group_state",
    "group_converted",
    "rebalance_started",
    "window_opened",
    "join_completed",
    "assignment_made",
    "member_synced",
    "member_reconciled",
    "partitions_changed",
    "rebalance_account",
    "unread_account",
    "finding",
    "offsets_committed",
    "commit_refused",
    "offsets_unchecked",
    "offsets_expired",
    "offsets_deleted",
    "append_failed",
    "delivery_account",
    "offsets_went_back",
    "transaction_state",
    "transaction_fenced",
    "transaction_ended_in_partition",
    "group_loaded",
    "shard_loaded",
    "shard_unloaded",
    "fault_struck",
    "clock_advanced",
    "node_started",
    "node_stopped",
    "events_lost",
]


Event: TypeAlias = (
    MemberIdGiven
    | PendingMemberExpired
    | MemberJoined
    | MemberRefused
    | MemberLeft
    | MemberExpired
    | MemberKicked
    | MemberReplaced
    | MemberFenced
    | MemberDisconnected
    | Commanded
    | LeaderChosen
    | Heartbeat
    | GroupState
    | GroupConverted
    | RebalanceStarted
    | WindowOpened
    | JoinCompleted
    | AssignmentMade
    | MemberSynced
    | MemberReconciled
    | PartitionsChanged
    | RebalanceAccount
    | UnreadAccount
    | Finding
    | OffsetsCommitted
    | CommitRefused
    | OffsetsUnchecked
    | OffsetsExpired
    | OffsetsDeleted
    | AppendFailed
    | DeliveryAccount
    | OffsetsWentBack
    | TransactionState
    | TransactionFenced
    | TransactionEndedInPartition
    | GroupLoaded
    | ShardLoaded
    | ShardUnloaded
    | FaultStruck
    | ClockAdvanced
    | NodeStarted
    | NodeStopped
    | EventsLost
)
