"""The part of `Admin` that is about consumer groups and their offsets."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

from kohort.client.admin_topics import by_topic
from kohort.client.admin_values import (
    GroupDescription,
    GroupListing,
    GroupListings,
    MemberToRemove,
    Results,
    read_group,
)
from kohort.client.cluster import Cluster
from kohort.client.errors import KohortError, error_of
from kohort.client.fan_out import Ask, Where, fan_out, of_groups, of_partitions
from kohort.client.offsets import (
    Committable,
    OffsetAndMetadata,
    TopicPartition,
    committable,
)
from kohort.protocol.apis.k08_offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kohort.protocol.apis.k09_offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from kohort.protocol.apis.k13_leave_group import LeaveGroupRequest, MemberIdentity
from kohort.protocol.apis.k15_describe_groups import DescribeGroupsRequest
from kohort.protocol.apis.k16_list_groups import ListGroupsRequest
from kohort.protocol.apis.k42_delete_groups import DeleteGroupsRequest
from kohort.protocol.apis.k47_offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from kohort.protocol.errors import ErrorCode

K = TypeVar("K")
V = TypeVar("V")
Offsets = dict[TopicPartition, OffsetAndMetadata]

_BY_NAME = 9
"""The last version of OffsetCommit and OffsetFetch that has topics by name."""
_SEVERAL_GROUPS = 8
"""The first version of OffsetFetch with several groups (KIP-709)."""
_DEAD = "Dead"
"""The state that brokers give to groups that there are not, before KIP-1043."""
_REMOVED = "removed by an admin client"


class GroupCalls:
    """Calls about groups, which go to their coordinators.

    As those of `TopicCalls`.
    """

    cluster: Cluster

    async def list_consumer_groups(
        self,
        *,
        states: Sequence[str] = (),
        types: Sequence[str] = (),
        timeout_ms: int | None = None,
    ) -> GroupListings:
        """The groups of all brokers.

        Args:
            states: only groups in one of these, as in ``Stable``.
            types: only groups of one of these, as in ``classic``.
            timeout_ms: see above.

        Raises:
            KohortError: no broker answers at all.
        """
        lowest = 5 if types else 4 if states else 0
        deadline = self.cluster.deadline(timeout_ms)
        await self.cluster.retrying(deadline, self.cluster.refresh, api="Metadata")

        async def ask(node_id: int) -> Sequence[GroupListing] | KohortError:
            async def once() -> Sequence[GroupListing]:
                request = ListGroupsRequest(states, types)
                response = await self.cluster.call(
                    node_id, "ListGroups", request, versions=(lowest, 5)
                )
                if response.error_code:
                    name = self.cluster.name_of(node_id)
                    raise error_of(response.error_code, api="ListGroups", broker=name)
                return [
                    GroupListing(
                        g.group_id, g.protocol_type, g.group_state, g.group_type
                    )
                    for g in response.groups
                ]

            try:
                broker = self.cluster.name_of(node_id)
                where = {"api": "ListGroups", "broker": broker}
                return await self.cluster.retrying(deadline, once, **where)
            except KohortError as error:
                return error

        node_ids = list(self.cluster.metadata.nodes)
        answers = await asyncio.gather(*map(ask, node_ids))
        groups: dict[str, GroupListing] = {}
        errors: dict[int, KohortError] = {}
        for node_id, answer in zip(node_ids, answers, strict=True):
            if isinstance(answer, KohortError):
                errors[node_id] = answer
            else:
                groups |= {group.group_id: group for group in answer}
        if errors and len(errors) == len(node_ids):
            raise errors[node_ids[0]]
        return GroupListings(groups, errors)

    async def describe_consumer_groups(
        self, groups: Iterable[str], timeout_ms: int | None = None
    ) -> Results[str, GroupDescription]:
        """Groups of the classic protocol, and their members."""
        deadline = self.cluster.deadline(timeout_ms)
        api = "DescribeGroups"

        async def ask(
            node_id: int | None, some: Sequence[str]
        ) -> Mapping[str, GroupDescription | KohortError]:
            assert node_id is not None  # noqa: S101 - a coordinator
            request = DescribeGroupsRequest(some)
            response = await self.cluster.call(node_id, api, request)
            found: dict[str, GroupDescription | KohortError] = {}
            for row in response.groups:
                code, message = row.error_code, row.error_message
                if not code and row.group_state == _DEAD:
                    code = ErrorCode.GROUP_ID_NOT_FOUND
                found[row.group_id] = (
                    self._group_error(api, node_id, row.group_id, code, message)
                    if code
                    else read_group(row, node_id)
                )
            return found

        return await self._of_groups(api, deadline, groups, ask)

    async def delete_consumer_groups(
        self, groups: Iterable[str], timeout_ms: int | None = None
    ) -> Results[str, None]:
        """Deletes groups without members, and their offsets."""
        deadline = self.cluster.deadline(timeout_ms)
        api = "DeleteGroups"

        async def ask(
            node_id: int | None, some: Sequence[str]
        ) -> Mapping[str, KohortError | None]:
            request = DeleteGroupsRequest(some)
            response = await self.cluster.call(node_id, api, request)
            return {
                row.group_id: self._group_error(
                    api, node_id, row.group_id, row.error_code
                )
                if row.error_code
                else None
                for row in response.results
            }

        return await self._of_groups(api, deadline, groups, ask)

    async def list_consumer_group_offsets(
        self,
        groups: Mapping[str, Iterable[TopicPartition] | None],
        *,
        require_stable: bool = False,
        timeout_ms: int | None = None,
    ) -> Results[str, Offsets]:
        """Committed offsets of groups; partitions without one are left out.

        Args:
            groups: the partitions that are asked about, None for all.
            require_stable: whether to wait for transactions to end (KIP-447).
            timeout_ms: see above.
        """
        deadline = self.cluster.deadline(timeout_ms)
        wanted = {
            group: None if partitions is None else by_topic(partitions)
            for group, partitions in groups.items()
        }

        async def ask(
            node_id: int | None, some: Sequence[str]
        ) -> Mapping[str, Offsets | KohortError]:
            return await self._fetch_offsets(
                node_id, {group: wanted[group] for group in some}, require_stable
            )

        return await self._of_groups("OffsetFetch", deadline, wanted, ask)

    async def _fetch_offsets(
        self,
        node_id: int | None,
        wanted: Mapping[str, dict[str, list[int]] | None],
        require_stable: bool,
    ) -> dict[str, Offsets | KohortError]:
        api = "OffsetFetch"
        # Version 1 can neither ask for all topics nor tell a group's error.
        connection = await self.cluster.connection(node_id)
        version = connection.version(api, (2, _BY_NAME))

        async def send(request: OffsetFetchRequest) -> Any:
            return await self.cluster.call(
                node_id, api, request, versions=(version, version)
            )

        if version >= _SEVERAL_GROUPS:
            rows = [
                OffsetFetchRequestGroup(
                    group,
                    topics=None
                    if topics is None
                    else [
                        OffsetFetchRequestTopics(topic, partition_indexes=numbers)
                        for topic, numbers in topics.items()
                    ],
                )
                for group, topics in wanted.items()
            ]
            response = await send(OffsetFetchRequest("", (), rows, require_stable))
            answers = [(row.group_id, row) for row in response.groups]
        else:
            answers = []
            for group, topics in wanted.items():
                named = None
                if topics is not None:
                    named = [OffsetFetchRequestTopic(*each) for each in topics.items()]
                request = OffsetFetchRequest(group, named, (), require_stable)
                answers.append((group, await send(request)))
        return {
            group: self._read_offsets(node_id, group, answer)
            for group, answer in answers
        }

    def _read_offsets(
        self, node_id: int | None, group: str, answer: Any
    ) -> Offsets | KohortError:
        api = "OffsetFetch"
        if answer.error_code:
            return self._group_error(api, node_id, group, answer.error_code)
        found: Offsets = {}
        for topic in answer.topics:
            for row in topic.partitions:
                if row.error_code:
                    error = self._group_error(api, node_id, group, row.error_code)
                    error.topic, error.partition = topic.name, row.partition_index
                    return error
                if row.committed_offset >= 0:
                    found[TopicPartition(topic.name, row.partition_index)] = (
                        OffsetAndMetadata(
                            row.committed_offset,
                            row.metadata or "",
                            row.committed_leader_epoch,
                        )
                    )
        return found

    async def alter_consumer_group_offsets(
        self,
        group: str,
        offsets: Mapping[TopicPartition, Committable],
        timeout_ms: int | None = None,
    ) -> Results[TopicPartition, None]:
        """Commits offsets of a group without members.

        Raises:
            ConfigError: an offset is below 0.
        """
        deadline = self.cluster.deadline(timeout_ms)
        api = "OffsetCommit"
        wanted = {place: committable(place, row) for place, row in offsets.items()}

        def row_of(topic: str, partition: int) -> OffsetCommitRequestPartition:
            found = wanted[TopicPartition(topic, partition)]
            return OffsetCommitRequestPartition(
                partition, found.offset, found.leader_epoch, found.metadata
            )

        async def ask(
            node_id: int | None, some: Sequence[TopicPartition]
        ) -> Mapping[TopicPartition, KohortError | None]:
            rows = [
                OffsetCommitRequestTopic(
                    topic, partitions=[row_of(topic, p) for p in numbers]
                )
                for topic, numbers in by_topic(some).items()
            ]
            request = OffsetCommitRequest(group, topics=rows)
            response = await self.cluster.call(
                node_id, api, request, versions=(2, _BY_NAME)
            )
            return self._by_partition(api, node_id, group, response)

        where = of_partitions(api, group)
        return await self._of_one_group(group, deadline, wanted, ask, where)

    async def delete_consumer_group_offsets(
        self,
        group: str,
        partitions: Iterable[TopicPartition],
        timeout_ms: int | None = None,
    ) -> Results[TopicPartition, None]:
        """Deletes committed offsets of topics that no member is subscribed to."""
        deadline = self.cluster.deadline(timeout_ms)
        api = "OffsetDelete"

        async def ask(
            node_id: int | None, some: Sequence[TopicPartition]
        ) -> Mapping[TopicPartition, KohortError | None]:
            rows = [
                OffsetDeleteRequestTopic(
                    topic, [OffsetDeleteRequestPartition(p) for p in numbers]
                )
                for topic, numbers in by_topic(some).items()
            ]
            request = OffsetDeleteRequest(group, rows)
            response = await self.cluster.call(node_id, api, request)
            if response.error_code:
                raise self._group_error(api, node_id, group, response.error_code)
            return self._by_partition(api, node_id, group, response)

        where = of_partitions(api, group)
        return await self._of_one_group(group, deadline, partitions, ask, where)

    async def remove_members_from_consumer_group(
        self,
        group: str,
        members: Iterable[MemberToRemove] | None = None,
        *,
        reason: str = _REMOVED,
        timeout_ms: int | None = None,
    ) -> Results[MemberToRemove, None]:
        """Removes members from a group, static ones too.

        Args:
            group: group id.
            members: which; None for all there are.
            reason: told to the broker, which logs it (KIP-800).
            timeout_ms: see above.

        Raises:
            KohortError: `members` is None, and the group cannot be described.
        """
        deadline = self.cluster.deadline(timeout_ms)
        api = "LeaveGroup"
        if members is None:
            described = await self.describe_consumer_groups([group], timeout_ms)
            members = [
                MemberToRemove(m.member_id, m.group_instance_id)
                for m in described[group].members
            ]

        async def ask(
            node_id: int | None, some: Sequence[MemberToRemove]
        ) -> Mapping[MemberToRemove, KohortError | None]:
            rows = [MemberIdentity(*member, reason) for member in some]
            response = await self.cluster.call(
                node_id, api, LeaveGroupRequest(group, "", rows), versions=(3, 5)
            )
            if response.error_code:
                raise self._group_error(api, node_id, group, response.error_code)
            # Members are answered in their order, perhaps by ids of the broker's.
            return {
                member: self._group_error(api, node_id, group, row.error_code)
                if row.error_code
                else None
                for member, row in zip(some, response.members, strict=False)
            }

        def where(_: MemberToRemove) -> Mapping[str, Any]:
            return {"api": api, "group": group}

        return await self._of_one_group(group, deadline, members, ask, where)

    # -- who is asked

    async def _to_coordinators(
        self, groups: Sequence[str]
    ) -> Mapping[str, int | KohortError]:
        return await self.cluster.coordinators(groups)

    async def _of_groups(
        self, api: str, deadline: float, groups: Iterable[str], ask: Ask[str, V]
    ) -> Results[str, V]:
        route, where = self._to_coordinators, of_groups(api)
        return await fan_out(self.cluster, deadline, groups, route, ask, where)

    async def _of_one_group(
        self,
        group: str,
        deadline: float,
        items: Iterable[K],
        ask: Ask[K, None],
        where: Where[K],
    ) -> Results[K, None]:
        async def route(some: Sequence[K]) -> Mapping[K, int]:
            return dict.fromkeys(some, await self.cluster.coordinator(group))

        return await fan_out(self.cluster, deadline, items, route, ask, where)

    # -- errors

    def _group_error(
        self,
        api: str,
        node_id: int | None,
        group: str,
        code: int,
        message: str | None = None,
    ) -> KohortError:
        name = None if node_id is None else self.cluster.name_of(node_id)
        return error_of(code, api=api, broker=name, group=group, message=message)

    def _by_partition(
        self, api: str, node_id: int | None, group: str, response: Any
    ) -> dict[TopicPartition, KohortError | None]:
        found: dict[TopicPartition, KohortError | None] = {}
        for topic in response.topics:
            for row in topic.partitions:
                key = TopicPartition(topic.name, row.partition_index)
                found[key] = None
                if row.error_code:
                    error = self._group_error(api, node_id, group, row.error_code)
                    error.topic, error.partition = key
                    found[key] = error
        return found
