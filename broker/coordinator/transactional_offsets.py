"""Offsets in transactions: TxnOffsetCommit, and the markers that end transactions."""

from __future__ import annotations

from kohort.broker.coordinator import notices, offsets, pending
from kohort.broker.coordinator.appends import Changed, GroupChange
from kohort.broker.coordinator.effects import CommitRecords, CommitResult
from kohort.broker.coordinator.events import (
    CommitInTransaction,
    Offsets,
    TransactionEnded,
)
from kohort.broker.coordinator.group import Group
from kohort.broker.coordinator.offsets import MakeGroup
from kohort.broker.coordinator.pending import OpenTransactions
from kohort.broker.coordinator.turn import Turn
from kohort.protocol.errors import ErrorCode


def commit(
    turn: Turn,
    groups: dict[str, Group],
    transactions: OpenTransactions,
    event: CommitInTransaction,
    make_group: MakeGroup,
) -> None:
    """Stores pending offsets; a simple consumer's first commit creates its group.

    It is no sign of life of a member, as in Kafka: producers send it.
    """
    group = groups.get(event.group_id)
    wanted, result = offsets.without_too_long(turn.settings, event.offsets)
    error = _validate(group, event, wanted)
    if error or not event.offsets:
        if error and turn.listening:
            refusal = notices.commit_refused(group, event, event.offsets, error)
            turn.notices.append(refusal)
        turn.reply(event.token, CommitResult(error))
        return
    is_new = group is None
    if group is None:
        group = groups[event.group_id] = make_group(event.group_id, turn.now)
    records, change = _store(turn, group, event, wanted, is_new=is_new)
    if turn.listening:
        turn.notices += notices.pending_stored(
            group, event, result.codes, is_new=is_new
        )
    if records:
        turn.append_changes(records, Changed((change,)), is_atomic=True)
        found = transactions.commit(event.producer_id, event.group_id)
        found.who = notices.sender(group, event)
        ends = dict(zip(change.keys, records.offsets.log_ends, strict=True))
        found.log_ends.update(ends)
    elif is_new:
        turn.appends.unwritten.add(event.group_id)
    turn.reply_after_appends(event.token, result)


def _validate(group: Group | None, event: CommitInTransaction, wanted: Offsets) -> int:
    if group is not None:
        return group.validate_transactional_commit(event, wanted)
    return 0 if event.generation_id < 0 else ErrorCode.ILLEGAL_GENERATION


def _store(
    turn: Turn,
    group: Group,
    event: CommitInTransaction,
    wanted: Offsets,
    *,
    is_new: bool,
) -> tuple[CommitRecords, GroupChange]:
    """Adds pending offsets."""
    now_ms = int(turn.now * 1000)
    keys = offsets.keys_of(wanted)
    rows = zip(wanted.offsets, wanted.leader_epochs, wanted.metadata, strict=True)
    entries = [(offset, epoch, text or "", now_ms) for offset, epoch, text in rows]
    change = GroupChange(
        group,
        keys,
        [*map(group.offsets.get, keys)],
        [*map(group.expire_ms.get, keys)] if group.expire_ms else (),
        pending.put(group, event.producer_id, keys, entries),
        is_new,
    )
    records = CommitRecords(
        group.group_id,
        wanted,
        now_ms,
        -1,
        is_plain=not any(wanted.metadata),
        producer=(event.producer_id, event.producer_epoch),
    )
    return records, change


def ended(
    turn: Turn,
    groups: dict[str, Group],
    transactions: OpenTransactions,
    event: TransactionEnded,
) -> None:
    """Makes the pending offsets of a producer count, or drops them.

    The group stays even if it has nothing else, as in Kafka: it expires later.
    """
    for group_id, found in transactions.end(event.producer_id).items():
        group = groups.get(group_id)
        if group is None:
            continue
        keys = pending.end(
            group, event.producer_id, found.log_ends, is_commit=event.is_commit
        )
        if keys:
            notices.offsets_committed_in_transaction(
                turn, group, event.producer_id, keys, found
            )
