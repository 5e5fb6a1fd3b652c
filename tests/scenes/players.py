"""Members of four client libraries, each in a thread: the programs of `tests.workers`.

All do the same: they read "orders" in the group "billing", and commit after each poll,
or only before their partitions are revoked.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tests.patience import PATIENCE_S
from tests.workers.lines import Member

HEARTBEAT_MS = 30
"""Members learn of a rebalance by a heartbeat."""
SESSION_MS = 45_000
POLL_MS = 300_000


class RefusedError(Exception):
    """The library goes on trying, but the application should not."""


# Only the library of a player is imported: each is slow to import.


def _confluent() -> type[Member]:
    from tests.workers.confluent import ConfluentMember

    return ConfluentMember


def _kafka_python() -> type[Member]:
    from kafka.net.inet import KafkaNetSocket
    from tests.workers.kafka_python import KafkaPythonMember

    class ClosingSocket(KafkaNetSocket):  # type: ignore[misc]  # no types
        """Closes a socket that does not connect. kafka-python drops it instead.

        A garbage collection in a later test would warn of it.
        """

        SCHEMES = ("closing",)

        async def sock_connect(
            self, net: Any, sock: socket.socket, *where: Any, **until: Any
        ) -> socket.socket:
            try:
                await super().sock_connect(net, sock, *where, **until)
            except BaseException:
                sock.close()
                raise
            return sock

    class Closing(KafkaPythonMember):
        more = {"proxy_url": "closing://"}  # noqa: RUF012

    return Closing


def _aiokafka() -> type[Member]:
    from tests.workers.aiokafka import AiokafkaMember

    return AiokafkaMember


def _kohort() -> type[Member]:
    from tests.workers.kohort import KohortMember

    return KohortMember


LIBRARIES: dict[str, Callable[[], type[Member]]] = {
    "kohort": _kohort,
    "aiokafka": _aiokafka,
    "confluent-kafka": _confluent,
    "kafka-python": _kafka_python,
}


@dataclass
class Player:
    """A member.

    Attributes:
        library: one of `LIBRARIES`.
        servers: bootstrap servers.
        name: its client id.
        instance: its ``group.instance.id``.
        commits_polls: whether it commits after each poll, and not only before its
            partitions are revoked.
        count: the number of records that it has read.
        until_read: notified after each poll with records.
    """

    library: str
    servers: str
    name: str
    instance: str | None = None
    commits_polls: bool = True
    count: int = 0
    until_read: threading.Condition = field(default_factory=threading.Condition)
    is_stopping: bool = False
    refusal: str = ""

    def words(self, **more: str) -> dict[str, str]:
        """Those of the command `join`."""
        found = {
            "bootstrap": self.servers,
            "topic": "orders",
            "group": "billing",
            "client": self.name,
            "assignor": "range",
            "session": str(SESSION_MS),
            "poll": str(POLL_MS),
            "heartbeat": str(HEARTBEAT_MS),
            "service": "after" if self.commits_polls else "released",
        }
        if self.instance:
            found["instance"] = self.instance
        return found | more

    def run(self) -> None:
        """Reads until `stop`, then closes, which leaves the group."""
        member = LIBRARIES[self.library]()(self.words(), self.hear)
        try:
            while not self.is_stopping:
                member.step()
                if self.refusal:
                    raise RefusedError(self.refusal)
        finally:
            member.close()

    def stop(self) -> None:
        """Makes `run` return soon."""
        self.is_stopping = True

    def hear(self, event: str, **fields: Any) -> None:
        """Takes an event of the program."""
        if event == "consumed":
            with self.until_read:
                self.count += len(fields["records"])
                self.until_read.notify_all()
        elif event == "error" or "JoinGroup failed" in fields.get("text", ""):
            self.refusal = fields["text"]

    def has_read(self, count: int) -> None:
        """Waits until it has read this number of records."""
        with self.until_read:
            assert self.until_read.wait_for(lambda: self.count >= count, PATIENCE_S)
