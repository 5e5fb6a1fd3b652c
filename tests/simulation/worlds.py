"""Worlds for scenes: short timeouts, a topic, and pods that share it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kohort.broker.events.seen import Seen
from kohort.simulation.world.pod import Application, Pod
from kohort.simulation.world.randomness import Distribution, constant
from kohort.simulation.world.world import World

PARTITIONS = 6


class Scene:
    """A world with a topic ``t``, whose events are kept.

    Args:
        seed: of the world.
        rate: records per second in each partition.
        nodes: the number of nodes.
        latency: of a message, in seconds.
        config: the brokers' configuration.
    """

    def __init__(
        self,
        *,
        seed: int = 1,
        rate: float = 1.0,
        nodes: int = 1,
        latency: Distribution | None = None,
        config: Mapping[str, object] | None = None,
    ) -> None:
        chosen = {"group.initial.rebalance.delay.ms": 100, **(config or {})}
        self.world = World(seed, chosen, nodes=nodes, latency=latency)
        self.seen: list[Seen] = []
        self.world.brokers.events.listen(self.seen.append)
        self.world.brokers.create_topic("t", PARTITIONS, rate)

    def pod(
        self, name: str, application: Application | None = None, **settings: Any
    ) -> Pod:
        """A pod of group ``g``, started now."""
        settings = {"auto_offset_reset": "earliest", **settings}
        pod = self.world.pod(name, "g", ["t"], application, **settings)
        pod.start()
        return pod

    def pods(self, *names: str, **settings: Any) -> list[Pod]:
        """Pods with an assignment."""
        application = Application(record_s=constant(0.01))
        found = [self.pod(name, application, **settings) for name in names]
        self.world.run(30)
        assert all(pod.is_settled for pod in found)
        assert owned(*found) == ALL
        return found

    def run(self, seconds: float) -> None:
        """Lets time pass."""
        self.world.run(seconds)

    def events(self, kind: str) -> list[Any]:
        """The events of a kind."""
        return [seen.event for seen in self.seen if seen.notice.kind == kind]

    def cause(self) -> str:
        """The cause of the last rebalance."""
        return str(self.events("rebalance_started")[-1]["cause"])


def owned(*pods: Pod) -> list[tuple[str, int]]:
    """The partitions that pods own, sorted."""
    return sorted(place for pod in pods for place in pod.owned)


ALL = [("t", index) for index in range(PARTITIONS)]
