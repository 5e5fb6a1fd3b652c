"""Calls of an admin client about consumer groups and their offsets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

from kohort.client.administering.fan_out import (
    Answers,
    Ask,
    Connected,
    NodeId,
    Where,
    ask_all_brokers,
    error_in,
    fan_out,
    for_groups,
    for_partitions,
)
from kohort.client.administering.values import (
    GroupDescription,
    GroupListing,
    GroupListings,
    MemberToRemove,
    Results,
    read_classic_group,
    read_consumer_group,
)
from kohort.client.errors import KohortError, UnsupportedVersionError, error_of
from kohort.client.network.cluster import Cluster
from kohort.client.network.group_offsets import (
    BY_NAME,
    Offsets,
    commit_rows,
    fetch_offsets,
)
from kohort.client.offsets import (
    Committable,
    TopicPartition,
    by_topic,
    committable,
)
from kohort.protocol.apis.k08_offset_commit import (
    OffsetCommitRequest,
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
from kohort.protocol.apis.k69_consumer_group_describe import (
    ConsumerGroupDescribeRequest,
)
from kohort.protocol.errors import ErrorCode

K = TypeVar("K")
V = TypeVar("V")

_DEAD = "Dead"
"""The state of unknown groups in responses of brokers before KIP-1043."""

_NO_CONSUMER_GROUP = {ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNSUPPORTED_VERSION}
"""Errors of ConsumerGroupDescribe after which DescribeGroups is asked."""


async def list_consumer_groups(
    admin: Connected,
    *,
    states: Sequence[str] = (),
    types: Sequence[str] = (),
    timeout_ms: int | None = None,
) -> GroupListings:
    """The groups of all brokers.

    Args:
        admin: the client.
        states: only groups in one of these states, such as ``Stable``.
        types: only groups of one of these types, such as ``classic``.
        timeout_ms: see `Admin`.

    Raises:
        KohortError: no broker responds.
    """
    cluster, api = admin.cluster, "ListGroups"
    lowest = 5 if types else 4 if states else 0
    request = ListGroupsRequest(states, types)

    async def ask(node_id: int) -> Mapping[str, GroupListing]:
        response = await cluster.call(node_id, api, request, versions=(lowest, 5))
        if error := error_in(response):
            raise error
        return {
            g.group_id: GroupListing(
                g.group_id, g.protocol_type, g.group_state, g.group_type
            )
            for g in response.groups
        }

    return GroupListings(*await ask_all_brokers(admin, api, ask, timeout_ms))


async def describe_consumer_groups(
    admin: Connected, groups: Iterable[str], timeout_ms: int | None = None
) -> Results[str, GroupDescription]:
    """Consumer groups and classic groups, and their members.

    As in the Java client, each group is asked for by ConsumerGroupDescribe, and again
    by DescribeGroups if it is no consumer group, or if the broker has none (KIP-848).
    """
    cluster = admin.cluster

    async def ask(
        node_id: NodeId, some: Sequence[str]
    ) -> Answers[str, GroupDescription]:
        assert node_id is not None
        found = await _describe_consumer_groups(cluster, node_id, some)
        if others := [group for group in some if group not in found]:
            found |= await _describe_classic_groups(cluster, node_id, others)
        return found

    return await _ask_coordinators(cluster, "DescribeGroups", timeout_ms, groups, ask)


async def _describe_consumer_groups(
    cluster: Cluster, node_id: int, groups: Sequence[str]
) -> dict[str, GroupDescription | KohortError]:
    """Descriptions and errors, without groups for which DescribeGroups is right."""
    api = "ConsumerGroupDescribe"
    try:
        request = ConsumerGroupDescribeRequest(groups)
        response = await cluster.call(node_id, api, request)
    except UnsupportedVersionError:
        return {}
    found: dict[str, GroupDescription | KohortError] = {}
    for row in response.groups:
        if row.error_code in _NO_CONSUMER_GROUP:
            continue
        error = error_in(row)
        if error is not None:
            error.fill(api=api)
        found[row.group_id] = error or read_consumer_group(row, node_id)
    return found


async def _describe_classic_groups(
    cluster: Cluster, node_id: int, groups: Sequence[str]
) -> dict[str, GroupDescription | KohortError]:
    request = DescribeGroupsRequest(groups)
    response = await cluster.call(node_id, "DescribeGroups", request)
    found: dict[str, GroupDescription | KohortError] = {}
    for row in response.groups:
        is_dead = not row.error_code and row.group_state == _DEAD
        error = error_of(ErrorCode.GROUP_ID_NOT_FOUND) if is_dead else error_in(row)
        found[row.group_id] = error or read_classic_group(row, node_id)
    return found


async def delete_consumer_groups(
    admin: Connected, groups: Iterable[str], timeout_ms: int | None = None
) -> Results[str, None]:
    """Deletes groups without members, and their offsets."""
    cluster, api = admin.cluster, "DeleteGroups"

    async def ask(node_id: NodeId, some: Sequence[str]) -> Answers[str, None]:
        response = await cluster.call(node_id, api, DeleteGroupsRequest(some))
        return {row.group_id: error_in(row) for row in response.results}

    return await _ask_coordinators(cluster, api, timeout_ms, groups, ask)


async def list_consumer_group_offsets(
    admin: Connected,
    groups: Mapping[str, Iterable[TopicPartition] | None],
    *,
    require_stable: bool = False,
    timeout_ms: int | None = None,
) -> Results[str, Offsets]:
    """Committed offsets of groups; partitions without one are left out.

    Args:
        admin: the client.
        groups: the partitions of each group, None for all.
        require_stable: whether to wait for transactions to end (KIP-447).
        timeout_ms: see `Admin`.
    """
    cluster = admin.cluster
    wanted = {
        group: None if partitions is None else by_topic(partitions)
        for group, partitions in groups.items()
    }

    async def ask(node_id: NodeId, some: Sequence[str]) -> Answers[str, Offsets]:
        assert node_id is not None
        named = {group: wanted[group] for group in some}
        return await fetch_offsets(
            cluster, node_id, named, require_stable=require_stable
        )

    return await _ask_coordinators(cluster, "OffsetFetch", timeout_ms, wanted, ask)


async def alter_consumer_group_offsets(
    admin: Connected,
    group: str,
    offsets: Mapping[TopicPartition, Committable],
    timeout_ms: int | None = None,
) -> Results[TopicPartition, None]:
    """Commits offsets of a group without members.

    Raises:
        ConfigError: an offset is below 0.
    """
    cluster, api = admin.cluster, "OffsetCommit"
    deadline = cluster.deadline(timeout_ms)
    wanted = {place: committable(place, row) for place, row in offsets.items()}

    async def ask(
        node_id: NodeId, some: Sequence[TopicPartition]
    ) -> Answers[TopicPartition, None]:
        rows = commit_rows({place: wanted[place] for place in some})
        request = OffsetCommitRequest(group, topics=rows)
        response = await cluster.call(node_id, api, request, versions=(2, BY_NAME))
        return _by_partition(response)

    where = for_partitions(api, group)
    return await _ask_coordinator(cluster, group, deadline, wanted, ask, where)


async def delete_consumer_group_offsets(
    admin: Connected,
    group: str,
    partitions: Iterable[TopicPartition],
    timeout_ms: int | None = None,
) -> Results[TopicPartition, None]:
    """Deletes committed offsets of topics that no member is subscribed to."""
    cluster, api = admin.cluster, "OffsetDelete"
    deadline = cluster.deadline(timeout_ms)

    async def ask(
        node_id: NodeId, some: Sequence[TopicPartition]
    ) -> Answers[TopicPartition, None]:
        rows = [
            OffsetDeleteRequestTopic(
                topic, [OffsetDeleteRequestPartition(p) for p in numbers]
            )
            for topic, numbers in by_topic(some).items()
        ]
        response = await cluster.call(node_id, api, OffsetDeleteRequest(group, rows))
        if error := error_in(response):
            raise error
        return _by_partition(response)

    where = for_partitions(api, group)
    return await _ask_coordinator(cluster, group, deadline, partitions, ask, where)


async def remove_members_from_consumer_group(
    admin: Connected,
    group: str,
    members: Iterable[MemberToRemove] | None = None,
    *,
    reason: str = "removed by an admin client",
    timeout_ms: int | None = None,
) -> Results[MemberToRemove, None]:
    """Removes members from a group, static ones too.

    Args:
        admin: the client.
        group: group id.
        members: the members; None for all of the group.
        reason: the reason that the broker logs (KIP-800).
        timeout_ms: see `Admin`.

    Raises:
        KohortError: `members` is None, and the group cannot be described.
    """
    cluster, api = admin.cluster, "LeaveGroup"
    deadline = cluster.deadline(timeout_ms)
    if members is None:
        described = await describe_consumer_groups(admin, [group], timeout_ms)
        members = [
            MemberToRemove(m.member_id, m.group_instance_id)
            for m in described[group].members
        ]

    async def ask(
        node_id: NodeId, some: Sequence[MemberToRemove]
    ) -> Answers[MemberToRemove, None]:
        rows = [MemberIdentity(*member, reason) for member in some]
        request = LeaveGroupRequest(group, "", rows)
        response = await cluster.call(node_id, api, request, versions=(3, 5))
        if error := error_in(response):
            raise error
        # The response has the members in the request's order, perhaps with other ids.
        return dict(zip(some, map(error_in, response.members), strict=False))

    def where(_: MemberToRemove) -> Mapping[str, Any]:
        return {"api": api, "group": group}

    return await _ask_coordinator(cluster, group, deadline, members, ask, where)


# -- routes


async def _to_coordinators(
    cluster: Cluster, groups: Sequence[str]
) -> Answers[str, int]:
    return await cluster.coordinators(groups)


async def _ask_coordinators(
    cluster: Cluster,
    api: str,
    timeout_ms: int | None,
    groups: Iterable[str],
    ask: Ask[str, V],
) -> Results[str, V]:
    deadline, where = cluster.deadline(timeout_ms), for_groups(api)
    return await fan_out(cluster, deadline, groups, _to_coordinators, ask, where)


async def _ask_coordinator(
    cluster: Cluster,
    group: str,
    deadline: float,
    items: Iterable[K],
    ask: Ask[K, None],
    where: Where[K],
) -> Results[K, None]:
    async def route(cluster: Cluster, some: Sequence[K]) -> Mapping[K, int]:
        return dict.fromkeys(some, await cluster.coordinator(group))

    return await fan_out(cluster, deadline, items, route, ask, where)


def _by_partition(response: Any) -> dict[TopicPartition, KohortError | None]:
    return {
        TopicPartition(topic.name, row.partition_index): error_in(row)
        for topic in response.topics
        for row in topic.partitions
    }
