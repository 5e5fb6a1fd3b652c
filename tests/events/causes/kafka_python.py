"""kafka-python: see `clients`."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

from kafka import KafkaConsumer
from kafka.coordinator.assignors.cooperative_sticky import (
    CooperativeStickyAssignor,
)
from kafka.coordinator.assignors.range import (
    RangePartitionAssignor,
)
from kafka.coordinator.assignors.roundrobin import (
    RoundRobinPartitionAssignor,
)
from tests.events.causes.clients import (
    HEARTBEAT_MS,
    LASTING_MS,
    POLL_S,
    Membership,
    OnAThread,
)

JOINING_S = 0.5
"""How long it polls where it has no partitions: it forgets an answer to JoinGroup that
comes between two polls, and joins again."""
LEADING_S = 1.0
"""How long one polls that leads: if it forgets the answer to a SyncGroup, all others
have to join again."""


class KafkaPythonClient(OnAThread):
    """kafka-python."""

    _ASSIGNORS = {  # noqa: RUF012
        "range": RangePartitionAssignor,
        "roundrobin": RoundRobinPartitionAssignor,
        "cooperative-sticky": CooperativeStickyAssignor,
    }

    def _make(self) -> None:
        wanted = self.wanted
        consumer = KafkaConsumer(
            bootstrap_servers=wanted.servers,
            group_id=wanted.group,
            client_id=wanted.name,
            group_instance_id=wanted.instance,
            partition_assignment_strategy=self._assignors(wanted.assignors),
            session_timeout_ms=wanted.session_ms,
            max_poll_interval_ms=wanted.poll_ms,
            metadata_max_age_ms=wanted.metadata_ms,
            heartbeat_interval_ms=HEARTBEAT_MS,
            request_timeout_ms=wanted.session_ms + LASTING_MS,
            connections_max_idle_ms=wanted.session_ms + 2 * LASTING_MS,
            fetch_max_wait_ms=50,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
        )
        if wanted.topics:
            consumer.subscribe([*wanted.topics])
            # A leader that learns of its partitions later has to join again.
            consumer.topics()
        self.consumer = consumer

    def _assignors(self, names: Sequence[str]) -> list[Any]:
        return [self._ASSIGNORS[name] for name in names]

    def _poll(self) -> None:
        seconds = POLL_S if self.consumer.assignment() else JOINING_S
        self.consumer.poll(timeout_ms=int(seconds * 1_000))

    async def subscribe_to(self, pattern: str) -> None:
        """As above."""
        await self._do(lambda: self.consumer.subscribe(pattern=pattern))


class SlowLeader(KafkaPythonClient):
    """A kafka-python consumer with an assignor of adjustable slowness."""

    def __init__(self, wanted: Membership) -> None:
        super().__init__(wanted)
        self._divides = threading.Event()
        self._divides.set()

    def _assignors(self, names: Sequence[str]) -> list[Any]:
        divides = self._divides

        class Slow(RangePartitionAssignor):  # type: ignore[misc]  # no types
            """Range, but slow."""

            @classmethod
            def assign(cls, cluster: Any, members: Any) -> Any:
                divides.wait()
                return super().assign(cluster, members)

        assert [*names] == ["range"]
        return [Slow]

    def _poll(self) -> None:
        self.consumer.poll(timeout_ms=int(LEADING_S * 1_000))

    def hold(self) -> None:
        """As above."""
        self._divides.clear()

    def go_on(self) -> None:
        """As above."""
        self._divides.set()

    async def end(self) -> None:
        """As above."""
        self.go_on()
        await super().end()
