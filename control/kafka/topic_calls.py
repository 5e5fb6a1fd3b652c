"""The calls of ``kohort topics``; each returns the exit code."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from kohort.client.admin import Admin
from kohort.client.administering.values import (
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
    Results,
)
from kohort.client.config import AdminConfig
from kohort.client.errors import KohortError, TopicExistsError, UnknownTopicError
from kohort.client.network.metadata import NO_NODE, TopicInfo
from kohort.client.offsets import (
    EARLIEST,
    LATEST,
    OffsetAndTimestamp,
    TopicPartition,
)
from kohort.control.kafka.options import Access
from kohort.control.kafka.printing import report, report_all
from kohort.control.tables import show, show_json, table
from kohort.control.terminal import counted

TOPICS_OWN = 1
"""The source of a key that was set for this topic."""

Offsets = Results[TopicPartition, OffsetAndTimestamp]


def admin_of(access: Access) -> Admin:
    """An admin client."""
    return Admin(access.config(AdminConfig, usual={"client_id": "kohort-admin"}))


async def list_topics(access: Access, *, internal: bool, as_json: bool) -> int:
    """Lists topics, by name."""
    async with admin_of(access) as admin:
        found = await admin.list_topics()
    topics = [
        {
            "topic": name,
            "partitions": len(topic.partitions),
            "replication_factor": _replicas(topic),
            "internal": topic.is_internal,
        }
        for name, topic in sorted(found.items())
        if not topic.is_internal or internal
    ]
    if as_json:
        show_json(topics)
    elif topics:
        columns = ("topic", "partitions", "replicas")
        cells = [[*t.values()][:3] for t in topics]
        show(table(columns, cells, numbers=columns[1:]))
    return 0


def _replicas(topic: TopicInfo) -> int:
    return max((len(p.replicas) for p in topic.partitions), default=0)


async def describe(
    access: Access, names: Sequence[str], *, all_configs: bool, as_json: bool
) -> int:
    """Shows topics."""
    async with admin_of(access) as admin:
        found = await admin.describe_topics(names)
        topics = found.values
        places = [
            TopicPartition(name, p.partition)
            for name, topic in topics.items()
            for p in topic.partitions
            if p.leader_id != NO_NODE  # only the leader knows
        ]
        begins = await admin.list_offsets(dict.fromkeys(places, EARLIEST))
        ends = await admin.list_offsets(dict.fromkeys(places, LATEST))
        resources = [ConfigResource(ResourceType.TOPIC, name) for name in topics]
        configs = await admin.describe_configs(resources)
    shown = [
        {
            "topic": name,
            "topic_id": topic.topic_id.hex() if any(topic.topic_id) else None,
            "internal": topic.is_internal,
            "replication_factor": _replicas(topic),
            "partitions": _partitions(topic, begins, ends),
            "configs": _configs(
                configs.values.get(ConfigResource(ResourceType.TOPIC, name), {}),
                everything=all_configs,
            ),
        }
        for name, topic in topics.items()
    ]
    if as_json:
        show_json(shown)
    else:
        for number, topic in enumerate(shown):
            _show(topic, is_first=number == 0)
    errors: Iterable[KohortError] = [
        *found.errors.values(),
        *{str(e): e for e in begins.errors.values()}.values(),
        *configs.errors.values(),
    ]
    return report(errors)


def _partitions(topic: TopicInfo, begins: Offsets, ends: Offsets) -> list[Any]:
    first, last = begins.values, ends.values
    found = []
    for p in topic.partitions:
        place = TopicPartition(topic.name, p.partition)
        found.append(
            {
                "partition": p.partition,
                "leader": None if p.leader_id == NO_NODE else p.leader_id,
                "replicas": list(p.replicas),
                "isr": list(p.isr),
                "start": first[place].offset if place in first else None,
                "end": last[place].offset if place in last else None,
            }
        )
    return found


def _configs(
    entries: Mapping[str, ConfigEntry], *, everything: bool
) -> dict[str, str | None]:
    return {
        name: entry.value
        for name, entry in sorted(entries.items())
        if everything or entry.source == TOPICS_OWN
    }


def _show(topic: Mapping[str, Any], *, is_first: bool) -> None:
    count, replicas = len(topic["partitions"]), topic["replication_factor"]
    columns = ("partition", "leader", "replicas", "isr", "start", "end")
    cells = [
        [
            p["partition"],
            p["leader"],
            ",".join(map(str, p["replicas"])),
            ",".join(map(str, p["isr"])),
            p["start"],
            p["end"],
        ]
        for p in topic["partitions"]
    ]
    parts: list[Any] = [] if is_first else [""]
    parts.append(
        f"topic {topic['topic']}: {counted(count, 'partition')}, "
        f"{counted(replicas, 'replica')}"
    )
    parts += [f"  {key}={value}" for key, value in topic["configs"].items()]
    numbers = ("partition", "leader", "start", "end")
    show(*parts, table(columns, cells, numbers=numbers))


async def create(
    access: Access,
    names: Sequence[str],
    *,
    partitions: int | None,
    replication_factor: int | None,
    configs: Mapping[str, str],
    if_not_exists: bool,
    dry_run: bool,
) -> int:
    """Creates topics."""
    wanted = [
        NewTopic(name, partitions or -1, replication_factor or -1, {}, configs)
        for name in names
    ]
    async with admin_of(access) as admin:
        results = await admin.create_topics(wanted, validate_only=dry_run)
    return report_all(
        results,
        lambda name: f"{'would create' if dry_run else 'created'} {name}",
        TopicExistsError if if_not_exists else None,
        lambda name: f"{name} exists",
    )


async def delete(access: Access, names: Sequence[str], *, if_exists: bool) -> int:
    """Deletes topics."""
    async with admin_of(access) as admin:
        results = await admin.delete_topics(names)
    return report_all(
        results,
        lambda name: f"deleted {name}",
        UnknownTopicError if if_exists else None,
        lambda name: f"{name} does not exist",
    )


async def alter(
    access: Access,
    names: Sequence[str],
    *,
    partitions: int | None,
    changes: Mapping[str, str | None],
) -> int:
    """Adds partitions, and changes configurations."""
    code = 0
    async with admin_of(access) as admin:
        if changes:
            resources = [ConfigResource(ResourceType.TOPIC, name) for name in names]
            altered = await admin.alter_configs(dict.fromkeys(resources, changes))
            keys = ", ".join(changes)
            code |= report_all(altered, lambda r: f"changed {keys} of {r.name}")
        if partitions is not None:
            grown = await admin.create_partitions(dict.fromkeys(names, partitions))
            text = f"has {counted(partitions, 'partition')} now"
            code |= report_all(grown, lambda name: f"{name} {text}")
    return code
