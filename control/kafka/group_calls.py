"""The calls of ``kohort groups``; each returns the exit code."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from kohort.client.admin import Admin
from kohort.client.administering.values import GroupDescription, MemberToRemove, Results
from kohort.client.errors import GroupIdNotFoundError, KohortError, UnknownTopicError
from kohort.client.network.metadata import TopicInfo
from kohort.client.offsets import LATEST, OffsetAndMetadata, TopicPartition
from kohort.control.kafka.options import Access, say
from kohort.control.kafka.printing import report, report_all
from kohort.control.kafka.rendering import shown_places
from kohort.control.kafka.topic_calls import admin_of
from kohort.control.tables import show, show_json, table
from kohort.control.terminal import fail, host_port, printable

if TYPE_CHECKING:
    from rich.table import Table

Offsets = Mapping[TopicPartition, OffsetAndMetadata]


async def list_groups(access: Access, states: Sequence[str], *, as_json: bool) -> int:
    """Lists groups, by name."""
    async with admin_of(access) as admin:
        found = await admin.list_consumer_groups(states=states)
    groups = [
        {
            "group": group.group_id,
            "state": group.state,
            "type": group.type,
            "protocol_type": group.protocol_type,
        }
        for _, group in sorted(found.groups.items())
    ]
    if as_json:
        show_json(groups)
    elif groups:
        cells = [[cell or None for cell in group.values()] for group in groups]
        show(table(("group", "state", "type", "protocol type"), cells))
    elif not found.errors:
        say(f"no groups in state {' or '.join(states)}" if states else "no groups yet")
    return report(found.errors.values())


async def describe(access: Access, names: Sequence[str], *, as_json: bool) -> int:
    """Shows groups; all if none is named."""
    errors: list[KohortError] = []
    async with admin_of(access) as admin:
        if not names:
            listed = await admin.list_consumer_groups()
            names = sorted(listed.groups)
            errors += listed.errors.values()
        described, failed = await described_groups(admin, names)
        errors += failed.values()
        offsets = await admin.list_consumer_group_offsets(dict.fromkeys(described))
        errors += offsets.errors.values()
        ends = await _ends(admin, described, offsets.values)
        nodes = (await admin.describe_cluster()).nodes
    shown = [
        {
            "group": name,
            "type": group.type,
            "state": group.state,
            "group_epoch": group.group_epoch,
            "target_assignment_epoch": group.target_assignment_epoch,
            "coordinator": {
                "id": group.coordinator_id,
                "address": _address(nodes, group.coordinator_id),
            },
            "protocol_type": group.protocol_type,
            "assignor": group.protocol,
            "members": _members(group),
            **_progress(group, offsets.values.get(name, {}), ends),
        }
        for name, group in described.items()
    ]
    if as_json:
        show_json(shown)
    else:
        for number, each in enumerate(shown):
            _show(each, is_first=number == 0)
    return report(errors)


async def described_groups(
    admin: Admin, names: Sequence[str]
) -> tuple[dict[str, GroupDescription], dict[str, KohortError]]:
    """Descriptions of groups, and the errors of the rest.

    For a group of another type, such as a share group (KIP-932), it shows only the
    state and the coordinator, with a note on stderr.
    """
    found = await admin.describe_consumer_groups(names)
    groups, errors = found.values, found.errors
    unknown = [n for n, e in errors.items() if isinstance(e, GroupIdNotFoundError)]
    listed = (await admin.list_consumer_groups()).groups if unknown else {}
    others = [name for name in unknown if name in listed]
    coordinators = await admin.cluster.coordinators(others)
    for name, node_id in coordinators.items():
        if isinstance(node_id, KohortError):
            continue
        row = listed[name]
        say(f"group {name!r} is of type {row.type!r}: its members cannot be shown")
        groups[name] = GroupDescription(
            name, row.type, row.state, row.protocol_type, "", (), node_id
        )
        del errors[name]
    return {name: groups[name] for name in names if name in groups}, errors


def _address(nodes: Mapping[int, Any], node_id: int) -> str | None:
    node = nodes.get(node_id)
    return None if node is None else host_port(node.host, node.port)


async def _ends(
    admin: Admin,
    groups: Mapping[str, GroupDescription],
    offsets: Mapping[str, Offsets],
) -> dict[TopicPartition, int]:
    """The end offsets of the partitions with committed offsets, if they exist."""
    places = {place for committed in offsets.values() for place in committed}
    for group in groups.values():
        for member in group.members:
            places |= set(member.partitions or ())
    found = await admin.list_offsets(dict.fromkeys(places, LATEST))
    return {place: row.offset for place, row in found.values.items()}


def _members(group: GroupDescription) -> list[dict[str, Any]]:
    return [
        {
            "member_id": member.member_id,
            "group_instance_id": member.group_instance_id,
            "client_id": member.client_id,
            "host": member.client_host,
            "topics": None
            if member.subscription is None
            else sorted(member.subscription.topics),
            "subscribed_pattern": member.subscribed_pattern,
            "member_epoch": member.member_epoch,
            "is_upgraded": member.is_upgraded,
            "partitions": _listed(member.partitions),
            "target_partitions": _listed(member.target_partitions),
        }
        for member in sorted(group.members, key=lambda m: (m.client_id, m.member_id))
    ]


def _listed(places: Sequence[TopicPartition] | None) -> list[list[Any]] | None:
    return None if places is None else [list(place) for place in sorted(places)]


def _progress(
    group: GroupDescription, committed: Offsets, ends: Mapping[TopicPartition, int]
) -> dict[str, Any]:
    """The lag of a group; partitions without a commit have none."""
    owners = {
        place: member.member_id
        for member in group.members
        for place in member.partitions or ()
    }
    partitions = []
    total = 0
    for place in sorted({*committed, *owners}):
        row, end = committed.get(place), ends.get(place)
        lag = None if row is None or end is None else end - row.offset
        total += lag or 0
        partitions.append(
            {
                "topic": place.topic,
                "partition": place.partition,
                "committed": None if row is None else row.offset,
                "end": end,
                "lag": lag,
                "owner": owners.get(place),
                "metadata": row.metadata if row is not None else None,
            }
        )
    return {"partitions": partitions, "lag": total}


def _show(group: Mapping[str, Any], *, is_first: bool) -> None:
    node = group["coordinator"]
    members, partitions = group["members"], group["partitions"]
    where = f"{node['address']} (node {node['id']})" if node["address"] else node["id"]
    parts: list[Any] = [] if is_first else [""]
    parts += [
        printable(f"group {group['group']}"),
        f"  type         {group['type'] or '-'}",
        f"  state        {group['state']}",
        *_epochs(group),
        f"  coordinator  {where}",
        printable(f"  assignor     {group['assignor'] or '-'}"),
        f"  members      {len(members)}",
        f"  lag          {group['lag']}",
    ]
    if members:
        parts += ["", _member_table(members, has_epochs=group["type"] == "consumer")]
    if partitions:
        cells = [[*p.values()][:6] for p in partitions]
        numbers = ("partition", "committed", "end", "lag")
        parts += ["", table(("topic", *numbers, "owner"), cells, numbers=numbers)]
    show(*parts)


def _epochs(group: Mapping[str, Any]) -> list[str]:
    """A line with the epochs of a consumer group."""
    epoch, target = group["group_epoch"], group["target_assignment_epoch"]
    if epoch is None:
        return []
    return [f"  epoch        {epoch} (target assignment: {target})"]


def _member_table(members: Sequence[Mapping[str, Any]], *, has_epochs: bool) -> Table:
    columns = ["member", "instance", "client", "host", "partitions"]
    keys = ["member_id", "group_instance_id", "client_id", "host"]
    if has_epochs:
        columns[-1:] = ["epoch", "partitions", "target"]
        keys.append("member_epoch")
    cells = []
    for member in members:
        row = [member[key] for key in keys]
        row.append(shown_places(member["partitions"] or ()) or None)
        if has_epochs:
            row.append(shown_places(member["target_partitions"] or ()) or None)
        cells.append(row)
    return table(columns, cells, numbers=("epoch",))


async def delete(access: Access, names: Sequence[str]) -> int:
    """Deletes groups."""
    async with admin_of(access) as admin:
        results = await admin.delete_consumer_groups(names)
    return report_all(results, lambda name: f"deleted {name}")


async def delete_offsets(access: Access, name: str, topics: Sequence[str]) -> int:
    """Deletes a group's committed offsets of some topics."""
    async with admin_of(access) as admin:
        # There may be committed offsets of deleted topics.
        offsets = await admin.list_consumer_group_offsets({name: None})
        committed = offsets[name]
        places = await places_of(admin, topics, committed)
        results: Results[TopicPartition, None]
        results = await admin.delete_consumer_group_offsets(name, places)
    return report_all(
        results, lambda p: f"deleted the offset of {p.topic}-{p.partition}"
    )


async def remove_members(
    access: Access, name: str, members: Sequence[str], instances: Sequence[str]
) -> int:
    """Removes members; all if none is named."""
    wanted: list[MemberToRemove] | None = [
        *(MemberToRemove(member_id) for member_id in members),
        *(MemberToRemove("", instance_id) for instance_id in instances),
    ]
    async with admin_of(access) as admin:
        results = await admin.remove_members_from_consumer_group(
            name, wanted or None, reason="removed by kohort groups remove-members"
        )
    return report_all(
        results, lambda m: f"removed {m.group_instance_id or m.member_id}"
    )


async def places_of(
    admin: Admin, topics: Sequence[str], also: Iterable[TopicPartition] = ()
) -> list[TopicPartition]:
    """The partitions that "TOPIC" and "TOPIC:0,2" stand for.

    Args:
        admin: looks up the topics.
        topics: as above.
        also: partitions that exist even if their topic does not.

    Raises:
        KohortError: the topic or partition is unknown.
    """
    found: dict[TopicPartition, None] = {}
    known: dict[str, set[int]] = {}
    for place in also:
        known.setdefault(place.topic, set()).add(place.partition)
    for text in topics:
        name, _, numbers = text.partition(":")
        described = await admin.describe_topics([name])
        there: set[int] = set(known.get(name, ()))
        if name in described.values:
            topic: TopicInfo = described[name]
            there |= {p.partition for p in topic.partitions}
        elif not there:
            described.check()
        wanted = _numbers(text, numbers) if numbers else sorted(there)
        for number in wanted:
            if number not in there:
                raise UnknownTopicError(
                    "unknown partition", topic=name, partition=number
                )
            found[TopicPartition(name, number)] = None
    return list(found)


def _numbers(text: str, numbers: str) -> list[int]:
    try:
        return [int(number) for number in numbers.split(",")]
    except ValueError:
        fail(f"--topic {text!r}: must be TOPIC or TOPIC:N,N", 2)
