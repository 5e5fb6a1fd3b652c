"""The facts of a request that rules select by: its sender, group, members, topics."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from typing import Any, Final

from kohort.broker.coordinator.state import GroupState
from kohort.broker.faults.rule import Rule
from kohort.broker.long_work import Pace
from kohort.broker.request import Request

TOPIC_ROWS: Final = (
    "topics",
    "topic_data",
    "topic_names",
    "topic_partitions",
    "v3_and_below_topics",
)
"""Fields of requests whose rows are topics: names, or messages that have one."""
PARTITION_ROWS: Final = ("partitions", "partition_data", "partition_indexes")
_TOPIC_RESOURCE: Final = 2
"""The resource type of topics in requests about configurations."""
_OWNERS: Final = ("groups", "transactions", "markers")
"""Fields of requests whose rows have such fields: OffsetFetch, AddPartitionsToTxn and
WriteTxnMarkers."""
_GROUP_KEY: Final = 0
"""The key type of groups in FindCoordinator."""
_TRANSACTION_KEY: Final = 1
"""That of transactional ids."""
_ROW_COST: Final = 1
"""Cost of looking at one topic or partition, as `Pace` counts."""


class Facts:
    """Facts of one request.

    Args:
        request: the request, decoded.

    Attributes:
        request: see above.
        groups: ids of the groups that it names.
        transactional_ids: the transactional ids that it names.
        member_ids: the members that send it, or that it removes.
        instance_ids: their group.instance.ids.
        topics: the partitions that it names, by topic; empty before `read_topics`.
        has_all_topics: whether it asks for all topics.
        keepers: rules that will repeat its response to a later request.
    """

    __slots__ = (
        "groups",
        "has_all_topics",
        "instance_ids",
        "keepers",
        "member_ids",
        "request",
        "topics",
        "transactional_ids",
    )

    def __init__(self, request: Request) -> None:
        message = request.message
        self.request = request
        self.groups = _groups(message)
        self.transactional_ids = _transactional_ids(message)
        senders = [message, *getattr(message, "members", ())]
        if not hasattr(message, "group_id"):
            senders = []
        elif not message.group_id:
            # OffsetFetch has them per group since v8.
            senders += getattr(message, "groups", ())
        self.member_ids = _given(senders, "member_id")
        self.instance_ids = _given(senders, "group_instance_id")
        self.topics: dict[str, set[int]] = {}
        self.has_all_topics = False
        self.keepers: list[Rule] = []

    @property
    def group(self) -> str | None:
        """Its group; None if it names none, or several."""
        return _only(self.groups)

    @property
    def transactional_id(self) -> str | None:
        """Its transactional id; None likewise."""
        return _only(self.transactional_ids)

    @property
    def member_id(self) -> str | None:
        """Its member; None likewise."""
        return _only(self.member_ids)

    @property
    def instance_id(self) -> str | None:
        """The group.instance.id of its member; None likewise."""
        return _only(self.instance_ids)

    def states(self) -> set[str]:
        """The states of its groups now; a group that does not exist is Dead."""
        shards = self.request.node.cluster.shards
        found: set[str] = set()
        for group_id in self.groups:
            groups = shards.for_id(group_id).groups if len(shards) else {}
            group = groups.get(group_id)
            found.add(GroupState.DEAD if group is None else group.state)
        return found

    def read_topics(self) -> Generator[None, None, None]:
        """Collects the topics and partitions, a piece at a time."""
        message, pace = self.request.message, Pace()
        rows_of = (getattr(message, name, ()) or () for name in _OWNERS)
        owners = [each for rows in rows_of for each in rows if each]
        for owner in [message, *owners]:
            for name in TOPIC_ROWS:
                rows = getattr(owner, name, ())
                if rows is None:
                    self.has_all_topics = True
                else:
                    yield from self._add(rows, pace)
        resources = getattr(message, "resources", ())
        for row in resources:
            if row.resource_type == _TOPIC_RESOURCE:
                self.topics.setdefault(row.resource_name, set())
            if pace.spend(_ROW_COST):
                yield
        if getattr(message, "session_epoch", -1) > 0:
            yield from self._add_session(message.session_id, pace)
        if self.request.api.name == "Metadata":
            yield from self._add_described(pace)

    def _add(self, rows: Sequence[Any], pace: Pace) -> Generator[None, None, None]:
        for row in rows:
            partitions = self._of_topic(row)
            for name in PARTITION_ROWS:
                for each in getattr(row, name, None) or ():
                    partitions.add(index_of(each))
                    if pace.spend(_ROW_COST):
                        yield
            if pace.spend(_ROW_COST):
                yield

    def _add_described(self, pace: Pace) -> Generator[None, None, None]:
        """Adds the partitions that Metadata describes: requests name topics only."""
        by_name = self.request.node.cluster.topics.by_name
        for name in [*by_name] if self.has_all_topics else [*self.topics]:
            topic = by_name.get(name)
            if topic is not None:
                count = len(topic.partitions)
                self.topics.setdefault(name, set()).update(range(count))
                if pace.spend(_ROW_COST * count):
                    yield

    def name_of(self, row: Any) -> str | None:
        """The name of a row's topic; None for an unknown id."""
        name = row if isinstance(row, str) else ""
        for field in ("name", "topic", "topic_name"):
            name = name or getattr(row, field, "") or ""
        topic_id = getattr(row, "topic_id", b"")
        if name or not topic_id:
            return name
        topic = self.request.node.cluster.topics.by_id.get(topic_id)
        return None if topic is None else topic.name

    def _of_topic(self, row: Any) -> set[int]:
        """The set of a topic's partitions; a topic with an unknown id has none."""
        name = self.name_of(row)
        return set() if name is None else self.topics.setdefault(name, set())

    def _named(self, key: str | bytes) -> set[int]:
        if isinstance(key, bytes):
            topic = self.request.node.cluster.topics.by_id.get(key)
            if topic is None:
                return set()
            key = topic.name
        return self.topics.setdefault(key, set())

    def _add_session(self, session_id: int, pace: Pace) -> Generator[None, None, None]:
        """Adds a fetch session's partitions: requests list only changes (KIP-227)."""
        session = self.request.node.fetch_sessions.get(session_id)
        if session is not None:
            for key, index in [*session.partitions]:
                self._named(key).add(index)
                if pace.spend(_ROW_COST):
                    yield


def _groups(message: Any) -> Sequence[str]:
    group_id = getattr(message, "group_id", "")
    if group_id:
        return (group_id,)
    if hasattr(message, "groups_names"):
        return tuple(message.groups_names)
    if hasattr(message, "coordinator_keys"):
        return _keys(message, _GROUP_KEY)
    rows = getattr(message, "groups", ())
    return tuple(row if isinstance(row, str) else row.group_id for row in rows)


def _transactional_ids(message: Any) -> Sequence[str]:
    for name in ("transactional_id", "v3_and_below_transactional_id"):
        transactional_id = getattr(message, name, None)
        if transactional_id:
            return (transactional_id,)
    if hasattr(message, "coordinator_keys"):
        return _keys(message, _TRANSACTION_KEY)
    if hasattr(message, "transactional_ids"):
        return tuple(message.transactional_ids)
    rows = getattr(message, "transactions", ())
    return tuple(row.transactional_id for row in rows)


def _keys(message: Any, key_type: int) -> Sequence[str]:
    """The keys of a FindCoordinator, if they are of this type."""
    keys = message.coordinator_keys or (message.key,)
    return tuple(keys) if message.key_type == key_type else ()


def _only(values: Sequence[str]) -> str | None:
    return values[0] if len(values) == 1 else None


def _given(senders: Iterable[Any], name: str) -> tuple[str, ...]:
    found = (getattr(each, name, None) for each in senders)
    return tuple(value for value in found if value)


def index_of(row: Any) -> int:
    """The index of a partition: in some messages it is the row."""
    for name in ("partition_index", "partition", "index"):
        found = getattr(row, name, None)
        if found is not None:
            return int(found)
    return int(row)
