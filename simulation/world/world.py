"""A world: brokers, topics and pods, and the time that passes for all of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kohort.broker.events.seen import Seen
from kohort.simulation.world.brokers import Brokers
from kohort.simulation.world.network import Network
from kohort.simulation.world.pod import Application, Pod, Watch
from kohort.simulation.world.randomness import Distribution, constant
from kohort.simulation.world.scheduler import START, Process, Scheduler

LATENCY_S = 0.0005
"""Latency of a message within a data centre."""


class World:
    """A cluster of brokers, and pods that consume from it.

        world = World(seed=1)
        world.brokers.create_topic("orders", 12, rate=10)
        world.pod("a", "billing", ["orders"]).start()
        world.run(60)

    Args:
        seed: determines everything that happens.
        config: the brokers' configuration: Kafka's keys and their values.
        nodes: the number of nodes.
        latency: of a message on the network, in seconds.
        labels: labels of the run in its events.
        run: id of the run in its events; None: one by the seed.
        listener: called with each event, as it is published.

    Attributes:
        scheduler: the time.
        network: between pods and nodes.
        brokers: the cluster.
        director: the process of what happens to the others.
        pods: all pods so far, by name.
        on_host: the latest pod of each host.
        watch: looks at pods that are made from now on.
    """

    def __init__(
        self,
        seed: int = 0,
        config: Mapping[str, object] | None = None,
        *,
        nodes: int = 1,
        latency: Distribution | None = None,
        labels: Mapping[str, str] | None = None,
        run: str | None = None,
        listener: Callable[[Seen], object] | None = None,
    ) -> None:
        self.scheduler = Scheduler(seed)
        latency = constant(LATENCY_S) if latency is None else latency
        self.network = Network(self.scheduler, latency)
        self.brokers = Brokers(
            self.scheduler,
            self.network,
            config or {},
            nodes,
            labels or {},
            run,
            listener,
        )
        self.director = Process(self.scheduler, "director")
        self.pods: dict[str, Pod] = {}
        self.on_host: dict[str, Pod] = {}
        self.watch: Watch | None = None

    def pod(
        self,
        name: str,
        group: str,
        topics: Sequence[str],
        application: Application | None = None,
        *,
        host: str | None = None,
        **settings: Any,
    ) -> Pod:
        """A pod that has not started yet.

        Args:
            name: its name, unique in the world.
            group: the ``group.id``.
            topics: the topics that it subscribes to.
            application: what it does with records.
            host: its host; None for one of its own, which has its name.
            settings: of the consumer, under Kafka's names with underscores.
        """
        assert name not in self.pods, f"there is a pod {name} already"
        host = name if host is None else host
        pod = self.pods[name] = self.on_host[host] = Pod(
            name,
            host,
            self.scheduler,
            self.network,
            self.brokers,
            topics,
            {"group_id": group, **settings},
            application or Application(),
        )
        pod.watch = self.watch
        return pod

    @property
    def elapsed(self) -> float:
        """Seconds since the start."""
        return self.scheduler.now - START

    def run(self, seconds: float) -> None:
        """Lets time pass.

        Raises:
            SimulationError: a process failed.
        """
        self.scheduler.run(self.scheduler.now + seconds)

    def close(self) -> None:
        """Ends the world: the accounts of all that has happened are published."""
        self.brokers.close()
        self.kill()

    def kill(self) -> None:
        """Ends all processes, as they are."""
        self.director.kill()
        for pod in self.pods.values():
            if not pod.process.is_dead:
                pod.process.kill()
