"""Arguments and results of `Admin`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
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
        """The values of the successful items."""
        return {
            item: found
            for item, found in self._found.items()
            if not isinstance(found, KohortError)
        }

    @property
    def errors(self) -> dict[K, KohortError]:
        """The errors of the failed items."""
        return {
            item: found
            for item, found in self._found.items()
            if isinstance(found, KohortError)
        }

    def check(self) -> dict[K, V]:
        """The values of all items.

        Raises:
            KohortError: the error of the first failed item.
        """
        for error in self.errors.values():
            raise error
        return self.values


@slotted
class NewTopic:
    """A topic to create; -1 for the broker's default."""

    name: str
    num_partitions: int = -1
    replication_factor: int = -1
    assignments: Mapping[int, Sequence[int]] = {}
    """Replicas by partition, in place of the two numbers."""
    configs: Mapping[str, str] = {}


@slotted
class CreatedTopic:
    """A created topic; -1 and zeros if the broker does not send the values."""

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

    A broker without a name stands for the default of all brokers.
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
    """None for no value, or for a secret."""
    source: int
    """Kafka's number of its source: 1 for the topic's own, 5 for the default."""
    is_read_only: bool
    is_sensitive: bool
    type: int
    """Kafka's number; 0 if the broker does not send it."""
    synonyms: Sequence[tuple[str, str | None, int]]
    """(name, value, source), in the order of precedence."""
    documentation: str | None


@slotted
class ClusterDescription:
    """A cluster, as described by a broker."""

    cluster_id: str | None
    controller_id: int
    nodes: Mapping[int, Node]


@slotted
class GroupListing:
    """A group, in brief; "" if the broker does not send a value."""

    group_id: str
    protocol_type: str
    state: str
    type: str


@slotted
class GroupListings:
    """The groups of all brokers that responded, and the errors of the others."""

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
    """The member's metadata for the chosen protocol."""
    assignment: bytes
    subscription: Subscription | None
    """Decoded from the metadata; None if that is empty or not a subscription."""
    partitions: Sequence[TopicPartition] | None
    """Decoded from the assignment; None if that is empty or in another format."""
    member_epoch: int | None = None
    """Its epoch. This and the next fields are None in a classic group."""
    target_partitions: Sequence[TopicPartition] | None = None
    """Its partitions in the target assignment."""
    subscribed_pattern: str | None = None
    """Its pattern of topics; None without one."""
    is_upgraded: bool | None = None
    """False if it still uses the classic protocol; None: the broker does not say."""


@slotted
class GroupDescription:
    """A group; "" if the broker does not send a value.

    Attributes:
        type: ``classic``, or ``consumer`` (KIP-848).
        protocol: the assignor.
        group_epoch: of a consumer group; None: another one.
        target_assignment_epoch: likewise.
    """

    group_id: str
    type: str
    state: str
    protocol_type: str
    protocol: str
    members: Sequence[MemberDescription]
    coordinator_id: int
    group_epoch: int | None = None
    target_assignment_epoch: int | None = None


class MemberToRemove(NamedTuple):
    """A member, by its id, or a static member by its instance id."""

    member_id: str = ""
    group_instance_id: str | None = None


@slotted
class TransactionListing:
    """A transactional id."""

    transactional_id: str
    producer_id: int
    state: str
    coordinator_id: int


@slotted
class TransactionListings:
    """The transactional ids of all brokers that respond, by id.

    Attributes:
        transactions: by transactional id.
        errors: by node id, of the others.
    """

    transactions: Mapping[str, TransactionListing]
    errors: Mapping[int, KohortError]


@slotted
class TransactionDescription:
    """A transactional id, and its last transaction.

    Attributes:
        timeout_ms: the limit for a transaction.
        started_at_ms: the start of the last transaction, in milliseconds since the
            epoch; None before the first one.
        partitions: those in the open transaction.
    """

    transactional_id: str
    state: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    started_at_ms: int | None
    partitions: AbstractSet[TopicPartition]
    coordinator_id: int


class ProducerEpoch(NamedTuple):
    """A producer's id and epoch."""

    producer_id: int
    producer_epoch: int


@slotted
class ProducerDescription:
    """A producer that has written to a partition.

    Attributes:
        last_sequence: of its last record; -1 for none.
        last_timestamp_ms: of its last batch.
        coordinator_epoch: of its last marker; -1 for none.
        first_offset: of its open transaction; None without one.
    """

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp_ms: int
    coordinator_epoch: int
    first_offset: int | None


def read_classic_group(group: Any, coordinator_id: int) -> GroupDescription:
    """The description in a row of a DescribeGroupsResponse."""
    is_consumer = group.protocol_type == PROTOCOL_TYPE
    return GroupDescription(
        group.group_id,
        "classic",
        group.group_state,
        group.protocol_type,
        group.protocol_data,
        [
            _read_classic_member(member, is_consumer=is_consumer)
            for member in group.members
        ],
        coordinator_id,
    )


def _read_classic_member(member: Any, *, is_consumer: bool) -> MemberDescription:
    subscription = partitions = None
    if is_consumer:
        # Brokers check neither: clients may send anything.
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


_UPGRADED = {0: False, 1: True}
"""By the type of a member; -1 is unknown (KIP-1099)."""


def read_consumer_group(group: Any, coordinator_id: int) -> GroupDescription:
    """The description in a row of a ConsumerGroupDescribeResponse."""
    return GroupDescription(
        group.group_id,
        "consumer",
        group.group_state,
        PROTOCOL_TYPE,
        group.assignor_name,
        [_read_consumer_member(member) for member in group.members],
        coordinator_id,
        group.group_epoch,
        group.assignment_epoch,
    )


def _read_consumer_member(member: Any) -> MemberDescription:
    return MemberDescription(
        member.member_id,
        member.instance_id,
        member.client_id,
        member.client_host,
        b"",
        b"",
        Subscription(member.subscribed_topic_names, rack_id=member.rack_id),
        _places(member.assignment),
        member.member_epoch,
        _places(member.target_assignment),
        member.subscribed_topic_regex or None,
        _UPGRADED.get(member.member_type),
    )


def _places(assignment: Any) -> list[TopicPartition]:
    return [
        TopicPartition(each.topic_name, partition)
        for each in assignment.topic_partitions
        for partition in each.partitions
    ]
