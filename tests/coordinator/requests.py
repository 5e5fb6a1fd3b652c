"""Requests that both members and other clients send."""

from __future__ import annotations

from collections.abc import Sequence

from tests.coordinator.driver import SIMPLE, Driver, Pending

from kohort.broker.coordinator.effects import CommitResult, LeaveResult
from kohort.broker.coordinator.events import (
    CommitOffsets,
    Leave,
    LeavingMember,
    Offsets,
)
from kohort.broker.notice import Client


def start_leave(
    driver: Driver, *members: tuple[str, str | None], group: str = "g"
) -> Pending[LeaveResult]:
    """Sends LeaveGroup for (member id, instance id) each."""
    pending: Pending[LeaveResult] = Pending("leave")
    leaving = [LeavingMember(m, i, None) for m, i in members]
    return driver.ask(Leave(pending, group, leaving), pending)


def start_commit(
    driver: Driver,
    offsets: Sequence[tuple[str, int, int, int, str | None]],
    *,
    group: str = "g",
    generation_id: int = -1,
    member_id: str = "",
    instance: str | None = None,
    is_old: bool = False,
    retention_ms: int = -1,
    end_offset: int | None = None,
    client: Client = SIMPLE,
) -> Pending[CommitResult]:
    """Sends OffsetCommit for (topic, partition, offset, leader epoch, metadata) each.

    By default as a consumer that is not a member.
    """
    pending: Pending[CommitResult] = Pending("commit")
    event = CommitOffsets(
        pending,
        group,
        generation_id,
        member_id,
        instance,
        client,
        is_old,
        Offsets.of([(*offset, end_offset) for offset in offsets]),
        retention_ms,
    )
    return driver.ask(event, pending)
