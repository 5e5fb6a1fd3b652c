"""Compares the members of groups: who owns a partition, which records were handled."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator

from kohort.broker.coordinator.classic.group import ClassicGroup
from kohort.broker.coordinator.effects import OffsetRecord
from kohort.broker.coordinator.group import Group
from kohort.client.offsets import TopicPartition
from kohort.simulation.checking.violation import ViolationError
from kohort.simulation.world.pod import Pod
from kohort.simulation.world.records import FlushedPartition, Rows
from kohort.simulation.world.world import World


class Handled:
    """The records of a partition that members of a group have handled.

    Attributes:
        end: the first record that none of them has handled.
    """

    def __init__(self) -> None:
        self.end = 0
        # Ranges behind it, by their first offsets.
        self._islands: dict[int, int] = {}

    def add(self, start: int, end: int) -> None:
        """Records were handled, from `start` up to `end`."""
        self._islands[start] = max(end, self._islands.get(start, 0))
        while reached := [each for each in self._islands if each <= self.end]:
            for each in reached:
                self.end = max(self.end, self._islands.pop(each))


class Pods:
    """Watches what the members of a world own, and the records that they handle.

    A member counts as fenced

    - if its coordinator does not know its member id: it has removed the member;
    - if it is a static member of an earlier generation: Kafka lets such members miss a
      rebalance, but not commit afterwards (KIP-345);
    - if the coordinator may have lost its assignment: a loss of power has removed
      records since.

    Until it learns that, it reads on, which no broker can prevent: nothing is checked
    of it.

    Args:
        world: see above.
        fail: takes violations.
    """

    def __init__(self, world: World, fail: Callable[[Exception], None]) -> None:
        self._world = world
        self._fail = fail
        self._handled: dict[tuple[str, str, int], Handled] = defaultdict(Handled)
        # By pod: how often the group's log had lost records at its last assignment.
        self._losses: dict[str, int] = {}

    # -- `Watch`

    def assigned(self, pod: Pod, places: Collection[TopicPartition]) -> None:
        """A member may read partitions: the others have given them up before."""
        shards = self._world.brokers.cluster.shards
        log = shards.for_id(pod.config.group_id or "").partition
        assert isinstance(log, FlushedPartition)
        self._losses[pod.name] = log.losses
        self._check_owners(pod, places)

    def taken(self, pod: Pod, rows: Rows) -> None:
        """A member is about to handle records: it alone, and none is committed."""
        group = self.group_of(pod)
        if group is None:
            return
        self._check_owners(pod, [place for place, _, _ in rows])
        for (topic, partition), start, _ in rows:
            entry = group.offsets.get((topic, partition))
            if entry is not None and start < entry[0]:
                self._violated(
                    f"no member handles committed records again, as {pod.name} from "
                    f"{start} of {topic}-{partition}, which is committed up to "
                    f"{entry[0]}"
                )

    def handled(self, pod: Pod, rows: Rows) -> None:
        """A member has handled records."""
        for (topic, partition), start, count in rows:
            known = self._handled[pod.config.group_id or "", topic, partition]
            if not known.end and pod.config.auto_offset_reset != "earliest":
                known.end = start
            known.add(start, start + count)

    def handled_up_to(self, group_id: str, topic: str, partition: int) -> int:
        """The first record of a partition that no member has handled."""
        return self._handled[group_id, topic, partition].end

    # -- the log

    def committed(self, record: OffsetRecord) -> None:
        """An offset was committed: all records before it have been handled."""
        if record.entry is None:
            return
        key = record.group_id, record.topic, record.partition
        end, offset = self._handled[key].end, record.entry[0]
        is_known = any(True for _ in self._members(record.group_id))
        if is_known and offset > end and self._begins_early(record.group_id):
            self._violated(
                f"each record is handled before it is committed, unlike {end} of "
                f"{record.topic}-{record.partition}, which is committed up to {offset}"
            )

    def _begins_early(self, group_id: str) -> bool:
        pods = self._members(group_id)
        return all(pod.config.auto_offset_reset == "earliest" for pod in pods)

    # -- members

    def group_of(self, pod: Pod) -> Group | None:
        """A member's group at its coordinator; None if the member is fenced."""
        shards, group_id = self._world.brokers.cluster.shards, pod.config.group_id or ""
        if not len(shards):
            return None
        shard = shards.for_id(group_id)
        log, group = shard.partition, shard.groups.get(group_id)
        assert isinstance(log, FlushedPartition)
        if self._losses.get(pod.name, log.losses) != log.losses:
            return None
        if group is None or pod.member_id not in group.members:
            return None
        is_static = pod.config.group_instance_id is not None
        has_missed = is_static and pod.generation_id != group.generation_id
        return None if has_missed and isinstance(group, ClassicGroup) else group

    def _members(self, group_id: str) -> Iterator[Pod]:
        return (
            pod for pod in self._world.pods.values() if pod.config.group_id == group_id
        )

    def _check_owners(self, pod: Pod, places: Collection[TopicPartition]) -> None:
        if self.group_of(pod) is None:
            return
        for other in self._members(pod.config.group_id or ""):
            if other is pod or not other.is_alive:
                continue
            for topic, partition in sorted(other.owned.intersection(places)):
                if self.group_of(other) is not None:
                    self._violated(
                        f"a partition has one owner, unlike {topic}-{partition}, "
                        f"which {pod.name} reads and {other.name} has not given up"
                    )

    def _violated(self, words: str) -> None:
        self._fail(ViolationError(words))
