"""The member's side of the group protocol: takes events, says what is to be done.

Pure: no clock, no socket, no randomness, no futures. Time comes with each event,
and whoever performs the effects adds jitter to timers if it wants any. A driver
for asyncio is `kohort.client.coordination`; simulations bring their own.

It acts as the Java client does. Where several things are to be done, the order is:
finish the listener's call, tell it what was lost, leave if asked to, take a new
assignment, join. After each event it looks what of that comes next.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kohort.client.member import LONGEST_REASON
from kohort.client.membership import (
    COMPLETING_REBALANCE,
    ENDED,
    LEAVING,
    PREPARING_REBALANCE,
    STABLE,
    UNJOINED,
    Answered,
    Arm,
    AssignmentFailed,
    AssignmentMade,
    CallKind,
    Closed,
    CommitRefused,
    Effect,
    Ended,
    Event,
    Expired,
    Failed,
    ForgetCoordinator,
    ListenerDone,
    MetadataChanged,
    PollBegan,
    PollEnded,
    RebalanceEnforced,
    Subscribed,
    Unsubscribed,
)
from kohort.client.rebalance import COORDINATOR_AWAY, Rebalancing
from kohort.protocol.apis.k12_heartbeat import HeartbeatRequest, HeartbeatResponse
from kohort.protocol.apis.k13_leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
)
from kohort.protocol.errors import ErrorCode

_ID_GRACE = 1.0
"""How long, in seconds, a member that leaves waits for the id it is being given
(KIP-394), so that it can hand it back: else rebalances would wait for that id."""

_STANDSTILL = 0.1
"""How late, in seconds, a timer is if the whole process stood still: it could not
send heartbeats, nor read the answers that had come."""


class Session(Rebalancing):
    """One member, from its first subscription to its end; see `Member`."""

    __slots__ = ()

    def handle(self, event: Event, now: float) -> list[Effect]:
        """Takes an event.

        Args:
            event: what happened.
            now: seconds on the driver's clock, never less than before.

        Returns:
            What is to be done, in this order.
        """
        if self.state is ENDED:
            return []
        self._now = now
        effects = self._effects = []
        _HANDLERS[type(event)](self, event)
        self._go_on()
        return effects

    @property
    def is_rebalancing(self) -> bool:
        """Whether it is on its way to another assignment."""
        return self.subscription is not None and (
            self.state is not STABLE
            or self._rejoin is not None
            or self._target is not None
        )

    @property
    def is_unsubscribing(self) -> bool:
        """Whether it has yet to give up what it had when it unsubscribed."""
        return self._unsubscribed and self.state is not ENDED

    # -- what comes next

    def _go_on(self) -> None:
        """Begins whatever is next, if nothing stands in the way."""
        if self._call is not None or self.state is ENDED:
            return
        if self._lost:
            lost, self._lost = self._lost, frozenset()
            self._call_listener(CallKind.LOST, lost)
        elif self._closed is not None or self._unsubscribed or self._has_failed:
            self._leave()
        elif self._target is not None:
            self._take(self._target)
        elif self._may_join():
            self._prepare_join()

    def _may_join(self) -> bool:
        if self.state is STABLE and self._rejoin is None:
            self._rejoin = self._changed_partitions()
        return (
            self.subscription is not None
            and self.state in (UNJOINED, STABLE)
            and self._rejoin is not None
            and self._retry_at is None
            and not self._awaits_poll
        )

    def _listener_done(self, event: ListenerDone) -> None:
        call = self._call
        if call is not None and call.token == event.token:
            self._call = None
            if call.kind is CallKind.REVOKED:
                self.owned -= set(call.partitions)
            if self._is_polling:
                # The call may have been what was too slow; the poll goes on.
                self._awaits_poll = False

    # -- signs of life

    def _heartbeat(self) -> None:
        if self._heartbeat_token or self.state not in (COMPLETING_REBALANCE, STABLE):
            return
        request = HeartbeatRequest(
            self.settings.group_id,
            self.generation_id,
            self.member_id,
            self.settings.group_instance_id,
        )
        self._heartbeat_sent = self._now
        # An answer that is lost must leave the time for another attempt.
        timeout_ms = self.settings.session_timeout_ms // 2
        timeout_ms = min(self.settings.request_timeout_ms, timeout_ms)
        self._heartbeat_token = self._send("Heartbeat", request, timeout_ms)

    def _heartbeat_answered(self, response: HeartbeatResponse) -> None:
        self._heartbeat_token = 0
        code = response.error_code
        if code in (ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS):
            # From when it was sent: the broker cannot have counted from earlier.
            self._alive(self._heartbeat_sent)
            passed_ms = (self._now - self._heartbeat_sent) * 1000
            self._arm_heartbeat(max(self.settings.heartbeat_interval_ms - passed_ms, 0))
            if code and self.state is STABLE:
                self._rejoin_for("the group rebalances")
        elif code in COORDINATOR_AWAY:
            self._miss_heartbeat()
        else:
            self._expelled("Heartbeat", code)

    def _miss_heartbeat(self) -> None:
        self._effects.append(ForgetCoordinator())
        self._arm_heartbeat(self.settings.retry_backoff_ms)

    def _session_expired(self) -> None:
        """Other members may own the partitions by now; the broker knows best.

        A join that waits is a sign of life, however long it takes. Where the
        process itself stood still it asks first whether it has been missed.
        """
        armed, self._session_armed = self._session_armed, None
        if self.generation_id < 0 or self.state in (PREPARING_REBALANCE, LEAVING):
            return
        if self._now < self._session_deadline:
            self._watch_session()
            return
        if (
            armed is not None
            and self._now - armed >= _STANDSTILL
            and not self._stood_still
        ):
            self._stood_still = True
            interval = self.settings.heartbeat_interval_ms / 1000
            self._session_deadline = self._now + interval
            self._watch_session()
            self._heartbeat()
            return
        self._effects.append(ForgetCoordinator())
        self._lose("the session timed out without an answer", keeps_id=True)

    # -- max.poll.interval.ms (KIP-62)

    def _poll_began(self, _: PollBegan) -> None:
        self._is_polling = True
        self._awaits_poll = False
        if self._call is not None:
            self._count_poll()

    def _poll_ended(self, _: PollEnded) -> None:
        self._is_polling = False
        self._count_poll()

    def _poll_expired(self) -> None:
        """Leaves by itself where the application is stuck, or its listener.

        Static members only fall silent, and keep their place until their
        sessions end (KIP-345).
        """
        self._poll_armed = False
        waits = self._is_polling and self._call is None
        if waits or self.subscription is None or self._is_leaving():
            return
        if self._now < self._poll_deadline:
            self._poll_armed = True
            self._effects.append(Arm("poll", self._poll_deadline))
            return
        interval_ms = self.settings.max_poll_interval_ms
        what = "the listener took longer than" if self._is_polling else "no poll within"
        reason = f"{what} max.poll.interval.ms ({interval_ms} ms)"
        if self.member_id and self.settings.group_instance_id is None:
            self._send_leave(reason)
        self._awaits_poll = True
        self._lose(reason, keeps_id=False)

    # -- leaving

    def _is_leaving(self) -> bool:
        return self._closed is not None or self._unsubscribed or self._has_failed

    def _leave(self) -> None:
        """Gives everything up, then goes."""
        if self.state is LEAVING:
            return
        if self.owned:
            self._call_listener(CallKind.REVOKED, self.owned)
            return
        leaves = self._closed.leaves if self._closed is not None else None
        if leaves is None:
            leaves = self.settings.group_instance_id is None
        if leaves and self._join_token and not self.member_id and self._awaits_id():
            return
        self._drop("_join_token", "_sync_token", "_assign_token", "_heartbeat_token")
        if not leaves or not self.member_id:
            self._left()
            return
        reason = "the consumer has unsubscribed"
        if self._closed is not None:
            reason = self._closed.reason
        elif self._has_failed:
            reason = "the consumer has failed"
        self._transition(LEAVING)
        self._leave_token = self._send_leave(reason)

    def _awaits_id(self) -> bool:
        if self._leave_deadline is None:
            self._leave_deadline = self._now + _ID_GRACE
            self._effects.append(Arm("leave", self._leave_deadline))
        return self._now < self._leave_deadline

    def _send_leave(self, reason: str) -> int:
        member = MemberIdentity(
            self.member_id,
            self.settings.group_instance_id,
            reason[:LONGEST_REASON],
        )
        # Its id twice: up to v2 LeaveGroup is of one member.
        request = LeaveGroupRequest(self.settings.group_id, self.member_id, [member])
        self._notice("left", reason=reason)
        return self._send("LeaveGroup", request, self.settings.request_timeout_ms)

    def _leave_answered(self, _: LeaveGroupResponse) -> None:
        """Whatever the answer: who does not know the member need not forget it."""
        self._leave_token = 0
        self._left()

    def _left(self) -> None:
        self.member_id, self.generation_id = "", -1
        self._follow()
        self._target = None
        self._leave_deadline = None
        if self._closed is not None or self._has_failed:
            self._transition(ENDED)
            self._effects.append(Ended())
            return
        self._transition(UNJOINED)
        self._unsubscribed = False
        self._rejoin = None if self.subscription is None else "the consumer subscribes"

    # -- what the application wants

    def _subscribed(self, event: Subscribed) -> None:
        topics = tuple(dict.fromkeys(event.topics))
        before, self.subscription = self.subscription, topics
        if before is None:
            self._rejoin_for("the consumer subscribes")
            if not self._is_polling:
                self._count_poll()
        elif set(before) != set(topics):
            self._rejoin_for("the subscription has changed")
        if not self.is_leader:
            self.topics = frozenset(topics)

    def _unsubscribe(self, _: Unsubscribed) -> None:
        self.subscription = None
        self._rejoin = None
        self._unsubscribed = True

    def _close(self, event: Closed) -> None:
        if self._closed is None:
            self._closed = event

    def _enforce(self, event: RebalanceEnforced) -> None:
        if self.subscription is not None:
            self._rejoin_for(event.reason)

    # -- what comes of effects

    def _answered(self, event: Answered) -> None:
        """Takes a response; one that nobody waits for is of no interest."""
        if event.token == self._heartbeat_token:
            self._heartbeat_answered(event.response)
        elif event.token == self._join_token:
            self._join_answered(event.response)
        elif event.token == self._sync_token:
            self._sync_answered(event.response)
        elif event.token == self._leave_token:
            self._leave_answered(event.response)

    def _failed(self, event: Failed) -> None:
        """Takes a failure of the network: the membership stands as long as it may."""
        token, api = event.token, ""
        if token == self._leave_token:
            self._leave_token = 0
            self._left()
        elif token == self._heartbeat_token:
            self._heartbeat_token = 0
            api = "Heartbeat"
            if event.is_retriable:
                self._miss_heartbeat()
        elif token in (self._join_token, self._sync_token):
            api = "JoinGroup" if token == self._join_token else "SyncGroup"
            self._join_token = self._sync_token = 0
            if event.is_retriable:
                self._failed_to_join(api, was_waiting=event.was_waiting)
        if api and not event.is_retriable:
            self._fail(api, 0, event.error)

    def _commit_refused(self, event: CommitRefused) -> None:
        """Knows sooner than by the next heartbeat that it is out, or is to join."""
        is_now = event.generation_id == self.generation_id
        if not is_now or self.state not in (COMPLETING_REBALANCE, STABLE):
            return  # it was about the past, or a join will tell
        if event.code != ErrorCode.REBALANCE_IN_PROGRESS:
            self._expelled("OffsetCommit", event.code)
        elif self.state is STABLE:
            self._rejoin_for("the group rebalances")

    def _expired(self, event: Expired) -> None:
        if event.key == "heartbeat":
            self._heartbeat()
        elif event.key == "session":
            self._session_expired()
        elif event.key == "poll":
            self._poll_expired()
        elif self._retry_at is not None and self._now >= self._retry_at:
            # Whatever timer it was; "leave" needs no more than a look at what is next.
            self._retry_at = None


_HANDLERS: dict[type, Callable[[Session, Any], None]] = {
    Subscribed: Session._subscribed,  # noqa: SLF001 - of this module
    Unsubscribed: Session._unsubscribe,  # noqa: SLF001
    Closed: Session._close,  # noqa: SLF001
    PollBegan: Session._poll_began,  # noqa: SLF001
    PollEnded: Session._poll_ended,  # noqa: SLF001
    MetadataChanged: Session._metadata_changed,  # noqa: SLF001
    RebalanceEnforced: Session._enforce,  # noqa: SLF001
    Answered: Session._answered,  # noqa: SLF001
    Failed: Session._failed,  # noqa: SLF001
    CommitRefused: Session._commit_refused,  # noqa: SLF001
    AssignmentMade: Session._assignment_made,  # noqa: SLF001
    AssignmentFailed: Session._assignment_failed,  # noqa: SLF001
    ListenerDone: Session._listener_done,  # noqa: SLF001
    Expired: Session._expired,  # noqa: SLF001
}
