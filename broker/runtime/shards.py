"""All partitions of a coordinator's topic: finds the coordinator of an id.

Coordinators are loaded when the topic is created or restored, so that a broker accepts
connections sooner.
"""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from kohort.broker.log.store import StorageError
from kohort.broker.runtime.effects import CommandResult
from kohort.broker.runtime.hash import partition_of
from kohort.broker.runtime.runtime import Runtime
from kohort.broker.topics.topic import Topic
from kohort.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from kohort.broker.log.partition import Partition
    from kohort.broker.notice import Notice
    from kohort.broker.runtime.driver import Driver
    from kohort.broker.runtime.machine import Loading
    from kohort.broker.runtime.shard import Shard

S = TypeVar("S", bound="Shard[Any]")


class Shards(ABC, Generic[S]):
    """All partitions of a coordinator's topic.

    Args:
        runtime: the parts of the broker that coordinators run on.
        create: creates the topic; called when the first id is used.
        refuses_first: whether the first FindCoordinator fails, as in a new cluster of
            Kafka; see `kohort.broker.shards.first_use`.
    """

    noun: ClassVar[str]
    """The noun for the ids in a sentence, such as "group"."""

    def __init__(
        self,
        runtime: Runtime,
        create: Callable[[], object],
        *,
        refuses_first: bool,
    ) -> None:
        self._runtime = runtime
        self._create = create
        self._refuses_first = refuses_first
        self._shards: list[S] = []

    def __iter__(self) -> Iterator[S]:
        return iter(self._shards)

    def __len__(self) -> int:
        """The number of shards; 0 before the topic is created."""
        return len(self._shards)

    # -- what each coordinator declares

    @abstractmethod
    def new_shard(self, index: int, partition: Partition) -> S:
        """Returns the shard of a partition."""

    @abstractmethod
    def begin(self) -> Loading:
        """Returns the state before any record of a log is read."""

    @abstractmethod
    def slices(self, shard: S, read: Any) -> Iterator[None]:
        """Reads a shard's log by `Shard.feed`; yields whenever others should run."""

    @abstractmethod
    def new_driver(
        self, shard: S, publish: Callable[[Notice, float], None]
    ) -> Driver[Any]:
        """Returns a driver of a coordinator without state."""

    @abstractmethod
    def _id_of(self, event: Any) -> str:
        """The id that an event, or a command, is about."""

    @abstractmethod
    def _refused(self, event: Any, error: ErrorCode) -> object:
        """Returns the result of an event that no coordinator handles."""

    # -- following the topic

    def attach(self, topic: Topic) -> None:
        """Takes the new topic: its leaders load their ids."""
        self._shards = [
            *map(self.new_shard, range(len(topic.partitions)), topic.partitions)
        ]
        for shard, leader in zip(self._shards, topic.leaders, strict=True):
            shard.lead(leader)

    def detach(self, cause: str) -> None:
        """Drops the topic, which was deleted, or the broker stops."""
        shards, self._shards = self._shards, []
        for shard in shards:
            shard.unload(cause)

    def lead(self, index: int, node_id: int, cause: str) -> None:
        """Sets the leader of a shard; see `Shard.lead`."""
        self._shards[index].lead(node_id, cause)

    # -- finding coordinators

    def can_find(self) -> bool:
        """Returns whether FindCoordinator may name coordinators.

        The look-up that creates the topic fails, if the first one has to.
        """
        if self._shards or not self._refuses_first:
            return True
        with contextlib.suppress(StorageError):
            self._create()
        return False

    def index_of(self, id_: str) -> int:
        """The partition of the topic that an id belongs to.

        Raises:
            StorageError: the disk has no room for the topic.
        """
        if not self._shards:
            self._create()
        return partition_of(id_, len(self._shards))

    def for_id(self, id_: str) -> S:
        """Returns the shard of an id.

        Raises:
            StorageError: the disk has no room for the topic.
        """
        index = self.index_of(id_)  # first: it may make the shards
        return self._shards[index]

    def led_by(self, node_id: int) -> list[S]:
        """The shards that a node leads."""
        return [shard for shard in self._shards if shard.node_id == node_id]

    # -- events

    def submit(self, node_id: int | None, event: Any) -> None:
        """Hands an event to its id's coordinator, or refuses it.

        Args:
            node_id: the node that was asked; None for whatever node the coordinator is
                on.
            event: a request.
        """
        error = ErrorCode.NOT_COORDINATOR
        # As in Kafka, no request but FindCoordinator creates the topic there.
        if self._shards or not self._refuses_first:
            # Else the disk has no room for the topic.
            with contextlib.suppress(StorageError):
                shard = self.for_id(self._id_of(event))
                error = shard.error(shard.node_id if node_id is None else node_id)
                if shard.driver is not None and not error:
                    shard.driver.submit(event)
                    return
        event.token.answer(self._refused(event, error))

    def command(self, command: Any) -> None:
        """Hands a command to its id's coordinator, on any node.

        Raises:
            StorageError: the disk has no room for the topic.
        """
        shard = self.for_id(self._id_of(command))
        if shard.driver is not None:
            shard.driver.submit(command)
        else:
            command.token.answer(CommandResult(shard.refusal))
