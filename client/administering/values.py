"""Arguments and results of `Admin`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from enum import IntEnum
from typing import Any, Generic, NamedTuple, TypeVar

from kohort.client.errors import KohortError
from kohort.client.network.metadata import Node
from kohort.client.offsets import TopicPartition
from kohort.protocol.consumer import (
    PROTOCOL_TYPE,
    Subscription,
    decode_assignment,
    decode_subscription,
)
from kohort.protocol.messages import WireError
from kohort.protocol.slotted import slotted

K = TypeVar("K")
V = TypeVar("V")


class Results(Generic[K, V]):
    """The result of each item of a call, in the order of the call.

    results = await admin.delete_topics(["a", "b"])
    results["a"]       # the item's value, or its error raised
    results.errors     # {"b": UnknownTopicError(...)}
    results.check()    # all values; raises the first error, if there is one
    """

    def __init__(self, found: Mapping[K, V | KohortError]) -> None:
        self._found = dict(found)

    def __getitem__(self, item: K) -> V:
        found = self._found[item]
        if isinstance(found, KohortError):
            raise found
        return found

    def __iter__(self) -> Iterator[K]:
        return iter(self._found)

    def __len__(self) -> int:
        return len(self._found)

    def __contains__(self, item: object) -> bool:
        return item in self._found

    def __repr__(self) -> str:
        return f"Results({self._found!r})"

    @property
    def values(self) -> dict[K, V]:
        """The values of the items that worked."""
        return {
            item: found
            for item, found in self._found.items()
            if not isinstance(found, KohortError)
        }

    @property
    def errors(self) -> dict[K, KohortError]:
        """The errors of those that did not."""
        return {
            item: found
            for item, found in self._found.items()
            if isinstance(found, KohortError)
        }

    def check(self) -> dict[K, V]:
        """The values of all items.

        Raises:
            KohortError: the first item's that did not work.
        """
        for error in self.errors.values():
            raise error
        return self.values


@slotted
class NewTopic:
    """A topic to create; -1 stands for the broker's default."""

    name: str
    num_partitions: int = -1
    replication_factor: int = -1
    assignments: Mapping[int, Sequence[int]] = {}
    """Replicas by partition, in place of the two numbers."""
    configs: Mapping[str, str] = {}


@slotted
class CreatedTopic:
    """A topic that was created; -1 and zeros where the broker does not tell."""

    name: str
    topic_id: bytes
    num_partitions: int
    replication_factor: int


class ResourceType(IntEnum):
    """Kinds of resources that have a configuration, by Kafka's numbers."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class ConfigResource(NamedTuple):
    """Something with a configuration: a topic by name, a broker by its id as text.

    A broker without a name stands for what all brokers have in common.
    """

    type: ResourceType
    name: str


class ConfigOperation(IntEnum):
    """Operations on a configuration key, by Kafka's numbers (KIP-339)."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class ConfigChange(NamedTuple):
    """A change of a key; `APPEND` and `SUBTRACT` are for lists."""

    operation: ConfigOperation
    value: str | None = None


@slotted
class ConfigEntry:
    """A key of a configuration."""

    name: str
    value: str | None
    """None where it is none, or a secret."""
    source: int
    """Kafka's number for where it comes from: 1 is the topic's own, 5 the default."""
    is_read_only: bool
    is_sensitive: bool
    type: int
    """Kafka's number; 0 where the broker does not tell."""
    synonyms: Sequence[tuple[str, str | None, int]]
    """(name, value, source), in the order in which they count."""
    documentation: str | None


@slotted
class ClusterDescription:
    """The cluster as a broker describes it."""

    cluster_id: str | None
    controller_id: int
    nodes: Mapping[int, Node]


@slotted
class GroupListing:
    """A group, in brief; "" where the broker does not tell."""

    group_id: str
    protocol_type: str
    state: str
    type: str


@slotted
class GroupListings:
    """The groups of all brokers that have answered, and why others have not."""

    groups: Mapping[str, GroupListing]
    errors: Mapping[int, KohortError]
    """By node id."""


@slotted
class MemberDescription:
    """A member of a group."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    metadata: bytes
    """As the member sent it for the protocol that was chosen."""
    assignment: bytes
    subscription: Subscription | None
    """Read from the metadata; None where that is something else, or nothing."""
    partitions: Sequence[TopicPartition] | None
    """Read from the assignment; None where that is something else, or nothing."""


@slotted
class GroupDescription:
    """A group of the classic protocol."""

    group_id: str
    state: str
    protocol_type: str
    protocol: str
    members: Sequence[MemberDescription]
    coordinator_id: int


class MemberToRemove(NamedTuple):
    """A member, by its id or, if it is a static one, by its instance id."""

    member_id: str = ""
    group_instance_id: str | None = None


def read_group(group: Any, coordinator_id: int) -> GroupDescription:
    """The description in a row of a DescribeGroupsResponse."""
    is_consumer = group.protocol_type == PROTOCOL_TYPE
    return GroupDescription(
        group.group_id,
        group.group_state,
        group.protocol_type,
        group.protocol_data,
        [_read_member(member, is_consumer=is_consumer) for member in group.members],
        coordinator_id,
    )


def _read_member(member: Any, *, is_consumer: bool) -> MemberDescription:
    subscription = partitions = None
    if is_consumer:
        # Brokers check neither: any client may have put anything there.
        try:
            subscription = decode_subscription(member.member_metadata)
        except WireError:
            subscription = None
        try:
            assignment = decode_assignment(member.member_assignment)
        except WireError:
            partitions = None
        else:
            partitions = [
                TopicPartition(each.topic, partition)
                for each in assignment.assigned_partitions
                for partition in each.partitions
            ]
    return MemberDescription(
        member.member_id,
        member.group_instance_id,
        member.client_id,
        member.client_host,
        member.member_metadata,
        member.member_assignment,
        subscription,
        partitions,
    )
