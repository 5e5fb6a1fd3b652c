"""From one generation to the next: join, lead or follow, sync."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kohort.client.member import LONGEST_REASON, Member
from kohort.client.membership import (
    COMPLETING_REBALANCE,
    PREPARING_REBALANCE,
    STABLE,
    UNJOINED,
    AssignmentFailed,
    AssignmentMade,
    CallKind,
    MakeAssignment,
    MetadataChanged,
    TopicPartition,
)
from kohort.protocol.apis.k11_join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from kohort.protocol.apis.k14_sync_group import (
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)
from kohort.protocol.consumer import (
    PROTOCOL_TYPE,
    Assignment,
    Subscription,
    TopicPartitions,
    decode_assignment,
    decode_subscription,
    encode,
)
from kohort.protocol.errors import ErrorCode
from kohort.protocol.messages import WireError

COORDINATOR_AWAY = {
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
}
"""Look for the coordinator again, and keep the membership."""


_JOIN_LAPSE_MS = 5_000
"""How much longer than a rebalance may take an answer is waited for."""


class Rebalancing(Member):
    """A member on its way to another assignment."""

    __slots__ = ()

    @property
    def is_cooperative(self) -> bool:
        """Whether it keeps its partitions while it joins (KIP-429)."""
        return all(offer.is_cooperative for offer in self.settings.offers)

    # -- join

    def _prepare_join(self) -> None:
        """Gives up what cannot be kept, then joins.

        Eager members give up everything, cooperative ones what they do not
        subscribe to any more (KIP-429).
        """
        revoked = self.owned
        if self.is_cooperative:
            revoked = self._unwanted(revoked)
        if revoked:
            self._call_listener(CallKind.REVOKED, revoked)
        else:
            self._join()

    def _unwanted(
        self, partitions: Iterable[TopicPartition]
    ) -> frozenset[TopicPartition]:
        wanted = self.subscription or ()
        return frozenset(p for p in partitions if p[0] not in wanted)

    def _join(self) -> None:
        settings = self.settings
        assert self.subscription is not None  # noqa: S101 - ours
        self._reason, self._rejoin = self._rejoin or "", None
        protocols = [
            JoinGroupRequestProtocol(
                offer.name, self._metadata(offer.user_data(*self._last))
            )
            for offer in settings.offers
        ]
        request = JoinGroupRequest(
            settings.group_id,
            settings.session_timeout_ms,
            settings.max_poll_interval_ms,
            self.member_id,
            settings.group_instance_id,
            PROTOCOL_TYPE,
            protocols,
            self._reason[:LONGEST_REASON],
        )
        self._transition(PREPARING_REBALANCE)
        self._drop("_heartbeat_token", "_sync_token", "_assign_token")
        self._join_token = self._send("JoinGroup", request, self._rebalance_ms())

    def _metadata(self, user_data: bytes | None) -> bytes:
        subscription = Subscription(
            self.subscription or (),
            user_data,
            _by_topic(sorted(self.owned)),
            self.generation_id,
            self.settings.client_rack,
        )
        return encode(subscription)

    def _rebalance_ms(self) -> int:
        """How long an answer may take that waits for a rebalance."""
        rebalance_ms = self.settings.max_poll_interval_ms + _JOIN_LAPSE_MS
        return max(self.settings.request_timeout_ms, rebalance_ms)

    def _join_answered(self, response: JoinGroupResponse) -> None:
        self._join_token = 0
        code = response.error_code
        if code == ErrorCode.NONE:
            self._joined(response)
            return
        if code not in COORDINATOR_AWAY | {
            ErrorCode.MEMBER_ID_REQUIRED,
            ErrorCode.REBALANCE_IN_PROGRESS,
            ErrorCode.UNKNOWN_MEMBER_ID,
        }:
            self._fail("JoinGroup", code)
            return
        self._transition(UNJOINED)
        self._rejoin_for(self._reason)
        if code == ErrorCode.MEMBER_ID_REQUIRED:
            if self.member_id:  # KIP-394 asks once; a broker that goes on can wait
                self._retry()
            self.member_id = response.member_id
        elif code == ErrorCode.UNKNOWN_MEMBER_ID:
            self._lose("the group does not know the member", keeps_id=False)
        else:
            self._alive(self._now)
            self._retry(forget=code in COORDINATOR_AWAY)

    def _joined(self, response: JoinGroupResponse) -> None:
        offered = {offer.name for offer in self.settings.offers}
        if (
            response.protocol_type not in (None, PROTOCOL_TYPE)
            or response.protocol_name not in offered
        ):
            self._fail("JoinGroup", ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
            return
        self.member_id = response.member_id
        self.generation_id = response.generation_id
        self.protocol_name = response.protocol_name
        self._attempts = 0
        self._transition(COMPLETING_REBALANCE)
        self._alive(self._now)
        self._arm_heartbeat(self.settings.heartbeat_interval_ms)
        self._notice("generation_joined", leader=response.leader)
        self._follow()
        if response.leader == self.member_id:
            self._lead(response)
        else:
            self._sync([])

    def _failed_to_join(self, api: str, *, was_waiting: bool) -> None:
        self._transition(UNJOINED)
        self._rejoin_for(self._reason)
        if api == "JoinGroup" and was_waiting:
            # Parked at the broker it was a sign of life, until the connection broke.
            self._alive(self._now)
        elif api == "JoinGroup":
            # Nobody knows whether it arrived: the last sign of life counts.
            self._watch_session()
        self._retry(forget=True)

    # -- the leader's duties

    def _lead(self, response: JoinGroupResponse) -> None:
        members = []
        topics = set(self.subscription or ())
        for member in response.members:
            try:
                subscription = decode_subscription(member.metadata)
            except WireError:
                continue
            topics.update(subscription.topics)
            row = member.member_id, member.group_instance_id, subscription
            members.append(row)
        self.is_leader = True
        self.topics = frozenset(topics)
        # What is heard from now on may be newer than what will be assigned by.
        self._partitions = {}
        self._assign_token = self._token()
        self._effects.append(
            MakeAssignment(
                self._assign_token,
                response.protocol_name or "",
                members,
                sorted(topics),
                response.skip_assignment,
            )
        )

    def _assignment_made(self, event: AssignmentMade) -> None:
        if event.token != self._assign_token:
            return
        self._assign_token = 0
        self._snapshot = dict(event.partitions)
        self._partitions = self._snapshot | self._partitions
        self._sync(
            [
                SyncGroupRequestAssignment(
                    member_id, encode(Assignment(_by_topic(partitions)))
                )
                for member_id, partitions in event.assignments.items()
            ]
        )

    def _assignment_failed(self, event: AssignmentFailed) -> None:
        if event.token == self._assign_token:
            self._assign_token = 0
            self._fail("SyncGroup", 0, event.error)

    def _metadata_changed(self, event: MetadataChanged) -> None:
        self._partitions = dict(event.partitions)

    def _changed_partitions(self) -> str | None:
        """What the leader of a generation has to assign again for, if anything."""
        if self._snapshot is None:
            return None
        known = self._partitions
        changed = [t for t, n in self._snapshot.items() if known.get(t, n) != n]
        if not changed:
            return None
        return f"the partitions of {', '.join(sorted(changed))} have changed"

    # -- sync

    def _sync(self, assignments: list[SyncGroupRequestAssignment]) -> None:
        request = SyncGroupRequest(
            self.settings.group_id,
            self.generation_id,
            self.member_id,
            self.settings.group_instance_id,
            PROTOCOL_TYPE,
            self.protocol_name,
            assignments,
        )
        self._sync_token = self._send("SyncGroup", request, self._rebalance_ms())

    def _sync_answered(self, response: SyncGroupResponse) -> None:
        self._sync_token = 0
        code = response.error_code
        if code == ErrorCode.NONE:
            self._synced(response)
        elif code == ErrorCode.REBALANCE_IN_PROGRESS:
            self._transition(UNJOINED)
            self._rejoin_for("the group rebalances")
            self._retry(at_once=True)
        elif code in COORDINATOR_AWAY:
            self._transition(UNJOINED)
            self._rejoin_for("the coordinator has moved")
            self._alive(self._now)
            self._retry(forget=True)
        else:
            self._expelled("SyncGroup", code)

    def _synced(self, response: SyncGroupResponse) -> None:
        name = response.protocol_name
        if response.protocol_type not in (None, PROTOCOL_TYPE) or (
            name is not None and name != self.protocol_name
        ):
            self._fail("SyncGroup", ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
            return
        assignment = Assignment()
        if response.assignment:  # none at all for whom the leader forgot
            try:
                assignment = decode_assignment(response.assignment)
            except WireError as error:
                self._fail("SyncGroup", 0, error)
                return
        target = frozenset(
            (row.topic, partition)
            for row in assignment.assigned_partitions
            for partition in row.partitions
        )
        self._transition(STABLE)
        self._alive(self._now)
        if self._unwanted(target):
            # The leader went by an earlier subscription. What is owned was
            # claimed in the join, so nobody else has got it.
            self._rejoin_for("the assignment has topics that are not subscribed to")
            self._retry()
            return
        self._target = target
        self._last = tuple(sorted(target)), self.generation_id

    def _expelled(self, api: str, code: int) -> None:
        """The answer to a heartbeat or a sync says that the member is out."""
        if code == ErrorCode.UNKNOWN_MEMBER_ID:
            self._lose("the group does not know the member", keeps_id=False)
        elif code == ErrorCode.ILLEGAL_GENERATION:
            self._lose("the group is in another generation", keeps_id=True)
        else:
            self._fail(api, code)

    def _take(self, target: frozenset[TopicPartition]) -> None:
        """Takes an assignment; what is new in it counts at once (KIP-429).

        What is not in it is given up before, and joining again lets others have it.
        """
        revoked = self.owned - target
        if revoked:
            self._rejoin_for("it has given up partitions")
            self._call_listener(CallKind.REVOKED, revoked)
            return
        self._target = None
        added = target - self.owned
        self.owned = target
        self._call_listener(CallKind.ASSIGNED, added)


def _by_topic(partitions: Iterable[TopicPartition]) -> Sequence[TopicPartitions]:
    topics: dict[str, list[int]] = {}
    for topic, partition in partitions:
        topics.setdefault(topic, []).append(partition)
    return [TopicPartitions(topic, numbers) for topic, numbers in topics.items()]
