"""What a member knows, and what every phase of its protocol does with it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kohort.client.membership import (
    PREPARING_REBALANCE,
    TRANSITIONS,
    UNJOINED,
    Arm,
    Call,
    CallKind,
    Cancel,
    Closed,
    Effect,
    Fail,
    ForgetCoordinator,
    MemberState,
    Notice,
    Send,
    SessionSettings,
    TopicPartition,
)
from kohort.protocol.errors import KIP_389_GROUP_MAX_SIZE_REACHED, ErrorCode

REMOVED = {
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.FENCED_INSTANCE_ID,
    ErrorCode.GROUP_MAX_SIZE_REACHED,
    KIP_389_GROUP_MAX_SIZE_REACHED,
}
"""The group no longer knows the member, or never did."""


LONGEST_REASON = 255
"""Characters, as the Java client cuts them (KIP-800)."""


class Member:
    """One member of a group: its state, its requests and timers, its signs of life.

    Attributes:
        state: where it stands.
        member_id: empty while it has none.
        generation_id: -1 while it is in none. Commits bring it.
        owned: the partitions that it may consume.
        subscription: the topics that it wants; None for no membership.
        topics: those whose partitions it has to know: the group's if it leads.
        is_leader: whether it leads its generation.
        protocol_name: what the group has chosen.
    """

    __slots__ = (
        "_assign_token",
        "_attempts",
        "_awaits_poll",
        "_call",
        "_closed",
        "_effects",
        "_has_failed",
        "_heartbeat_sent",
        "_heartbeat_token",
        "_is_polling",
        "_join_token",
        "_last",
        "_last_token",
        "_leave_deadline",
        "_leave_token",
        "_lost",
        "_now",
        "_partitions",
        "_poll_armed",
        "_poll_deadline",
        "_reason",
        "_rejoin",
        "_retry_at",
        "_session_armed",
        "_session_deadline",
        "_snapshot",
        "_stood_still",
        "_sync_token",
        "_target",
        "_unsubscribed",
        "generation_id",
        "is_leader",
        "member_id",
        "owned",
        "protocol_name",
        "settings",
        "state",
        "subscription",
        "topics",
    )

    def __init__(self, settings: SessionSettings) -> None:
        """Makes a member that wants nothing yet."""
        self.settings = settings
        self.state: MemberState = UNJOINED
        self.member_id = ""
        self.generation_id = -1
        self.owned: frozenset[TopicPartition] = frozenset()
        self.subscription: tuple[str, ...] | None = None
        self.topics: frozenset[str] = frozenset()
        self.is_leader = False
        self.protocol_name: str | None = None
        self._now = 0.0
        self._effects: list[Effect] = []
        self._last_token = 0
        # Requests under way; whatever else comes in is not waited for any more.
        self._join_token = self._sync_token = self._assign_token = 0
        self._heartbeat_token = self._leave_token = 0
        self._heartbeat_sent = 0.0
        # The listener's call that runs, and what is to be called next.
        self._call: Call | None = None
        self._lost: frozenset[TopicPartition] = frozenset()
        self._target: frozenset[TopicPartition] | None = None
        # The last assignment and its generation, for user data.
        self._last: tuple[tuple[TopicPartition, ...] | None, int] = (None, -1)
        # Why it has to join; why it did.
        self._rejoin: str | None = None
        self._reason = ""
        self._attempts = 0
        self._retry_at: float | None = None
        # Partitions per topic: as known, and as the leader assigned by.
        self._partitions: dict[str, int] = {}
        self._snapshot: dict[str, int] | None = None
        self._session_deadline = 0.0
        self._session_armed: float | None = None
        self._stood_still = False
        self._is_polling = False
        self._poll_deadline = 0.0
        self._poll_armed = False
        self._awaits_poll = False
        self._closed: Closed | None = None
        self._unsubscribed = False
        self._has_failed = False
        self._leave_deadline: float | None = None

    # -- effects

    def _token(self) -> int:
        self._last_token += 1
        return self._last_token

    def _send(self, api: str, request: Any, timeout_ms: int) -> int:
        token = self._token()
        self._effects.append(Send(token, api, request, timeout_ms))
        return token

    def _drop(self, *names: str) -> None:
        """Waits no longer for the answers to these requests."""
        for name in names:
            token = getattr(self, name)
            if token:
                setattr(self, name, 0)
                self._effects.append(Cancel(token))

    def _call_listener(
        self, kind: CallKind, partitions: Iterable[TopicPartition]
    ) -> None:
        self._call = Call(self._token(), kind, sorted(partitions))
        self._effects.append(self._call)
        if self._is_polling:
            self._count_poll()

    def _notice(self, kind: str, **fields: object) -> None:
        fields |= {"member_id": self.member_id, "generation_id": self.generation_id}
        self._effects.append(Notice(kind, fields))

    def _transition(self, state: MemberState) -> None:
        assert state in TRANSITIONS[self.state], f"{self.state} to {state}"  # noqa: S101
        self.state = state

    # -- when to join

    def _rejoin_for(self, reason: str) -> None:
        """Has to join; the first reason is told."""
        if self._rejoin is None:
            self._rejoin = reason

    def _retry(self, *, forget: bool = False, at_once: bool = False) -> None:
        """Joins again after a while; the first time at once, if that makes sense."""
        if forget:
            self._effects.append(ForgetCoordinator())
        attempts, self._attempts = self._attempts, self._attempts + 1
        if at_once and not attempts:
            return
        settings = self.settings
        backoff_ms = settings.retry_backoff_ms * 2 ** min(attempts, 16)
        backoff_ms = min(backoff_ms, settings.retry_backoff_max_ms)
        self._retry_at = self._now + backoff_ms / 1000
        self._effects.append(Arm("retry", self._retry_at))

    # -- signs of life

    def _alive(self, since: float) -> None:
        """Counts the session's time from a sign of life that the broker has seen."""
        if self.generation_id < 0:
            return
        self._session_deadline = since + self.settings.session_timeout_ms / 1000
        self._stood_still = False
        self._watch_session()

    def _watch_session(self) -> None:
        """Sees to it that the session's end is not missed.

        A timer that fires early does no harm; most never get to replace one.
        """
        at = max(self._session_deadline, self._now)
        if self._session_armed is None or at < self._session_armed:
            self._session_armed = at
            self._effects.append(Arm("session", at))

    def _arm_heartbeat(self, ms: float) -> None:
        self._effects.append(Arm("heartbeat", self._now + ms / 1000))

    def _count_poll(self) -> None:
        """Gives the application, or its listener, its time (KIP-62)."""
        interval = self.settings.max_poll_interval_ms / 1000
        self._poll_deadline = self._now + interval
        if not self._poll_armed:
            self._poll_armed = True
            self._effects.append(Arm("poll", self._poll_deadline))

    # -- the end of a membership

    def _lose(self, reason: str, *, keeps_id: bool) -> None:
        """The partitions may be somebody else's from now on."""
        going: set[TopicPartition] = set()
        if self._call is not None and self._call.kind is CallKind.REVOKED:
            going = set(self._call.partitions)
        self._notice("membership_lost", reason=reason, partitions=len(self.owned))
        self._lost |= self.owned - going
        self.owned = frozenset()
        self._target = None
        self.generation_id = -1
        if not keeps_id:
            self.member_id = ""
        self._follow()
        self._drop("_join_token", "_sync_token", "_assign_token", "_heartbeat_token")
        self._transition(UNJOINED)
        self._rejoin_for(reason)
        self._retry(at_once=True)

    def _fail(self, api: str, code: int, error: Exception | None = None) -> None:
        if not self._has_failed:
            self._effects.append(Fail(api, code, error))
        self._has_failed = True
        if code in REMOVED:
            self._lose("the group has refused the member", keeps_id=False)
        elif self.state is PREPARING_REBALANCE:
            self._transition(UNJOINED)

    def _follow(self) -> None:
        """Only the leader looks after topics that others subscribe to."""
        self.is_leader = False
        self.topics = frozenset(self.subscription or ())
        self._snapshot = None
