"""The pods of a group: a slot for each member, and the process that fills it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from random import Random
from typing import Final

from kohort.simulation.scenario.model import GroupSpec
from kohort.simulation.world.pod import Pod
from kohort.simulation.world.world import World

LOOK_S: Final = 0.25
"""How often a deployment looks whether a pod is ready."""


class Fleet:
    """The pods of one group.

    A slot is an identity: the client id and, of a static member, the instance id and
    the host, as in a StatefulSet. A process that restarts keeps its slot.

    Attributes:
        spec: the group.
        random: decides which pods something happens to.
        pods: the latest pod of each slot, in order.
    """

    def __init__(self, world: World, spec: GroupSpec) -> None:
        self.spec = spec
        self.random: Random = world.scheduler.random(f"fleet/{spec.name}")
        self.pods: dict[int, Pod] = {}
        self._world = world
        self._slots = 0
        self._starts: dict[int, int] = {}

    def alive(self) -> list[int]:
        """The slots with a process."""
        return [slot for slot, pod in self.pods.items() if pod.is_alive]

    def start(self, slot: int | None = None) -> Pod:
        """Starts a process, unless its slot has one.

        Args:
            slot: its identity; None for a new one.
        """
        if slot is None:
            self._slots += 1
            slot = self._slots
        elif self.pods[slot].is_alive:
            return self.pods[slot]  # two happenings restart it
        number = self._starts[slot] = self._starts.get(slot, 0) + 1
        spec = self.spec
        identity = f"{spec.name}-{slot}"
        settings = {"client_id": identity, **spec.settings}
        if spec.is_static:
            settings["group_instance_id"] = identity
        del settings["group_id"]
        name = identity if number == 1 else f"{identity}.{number}"
        pod = self._world.pod(
            name,
            spec.name,
            spec.topics,
            spec.application,
            host=identity if spec.is_static else None,
            **settings,
        )
        self.pods[slot] = pod
        pod.start()
        return pod

    async def start_many(self, count: int) -> None:
        """Starts new members, one after the other."""
        for number in range(count):
            if number:
                await asyncio.sleep(self.spec.start_every.draw(self.random))
            self.start()

    def chosen(
        self, count: int | None, *, newest: bool = False, slot: int | None = None
    ) -> list[int]:
        """Slots with a process: all, some at random, the newest, or a certain one."""
        slots = self.alive()
        if slot is not None:
            return [slot] if slot in slots else []
        if count is None or count >= len(slots):
            return slots
        if newest:
            return slots[len(slots) - count :]
        return sorted(self.random.sample(slots, count))

    async def end(
        self, slot: int, *, crashes: bool = False, leaves: bool | None = None
    ) -> None:
        """Ends the process of a slot, and returns when it has ended."""
        pod = self.pods[slot]
        if not pod.is_alive:
            return
        if crashes:
            pod.crash()
            return
        ended = asyncio.ensure_future(pod.ended())
        pod.stop(leaves=leaves)
        await ended

    def settled(self) -> Iterator[Pod]:
        """The pods whose consumers have an assignment."""
        return (pod for pod in self.pods.values() if pod.is_settled)


async def until_ready(pod: Pod, timeout_s: float) -> None:
    """Returns when a pod has an assignment, has ended, or the time is over."""
    until = asyncio.get_running_loop().time() + timeout_s
    while pod.is_alive and not pod.is_settled:
        if asyncio.get_running_loop().time() >= until:
            return
        await asyncio.sleep(LOOK_S)
