"""Members of classic groups, and the parts of their requests."""

from __future__ import annotations

from typing import Any

from tests.conformance import kio_codec
from tests.conformance.connection import Outcome
from tests.conformance.consumer_protocol import consumer_subscription
from tests.conformance.peer import Peer, Pending


def meta(text: str, *topics: str) -> bytes:
    """A consumer's subscription with `text` as its user data.

    Real Kafka parses the metadata of members of type "consumer", so it has to be
    well-formed even if only its identity matters.
    """
    return consumer_subscription(list(topics), user_data=text.encode())


def protocols(*names: str, metadata: bytes = meta("meta")) -> list[dict[str, Any]]:
    """Protocols of JoinGroup that have the same metadata."""
    return [{"name": n, "metadata": metadata} for n in names]


class Member:
    """A member of a classic group.

    Remembers member id and generation from the coordinator's responses, and uses them
    for its next requests. Keyword arguments override single fields.
    """

    def __init__(
        self,
        peer: Peer,
        group: str,
        *,
        name: str | None = None,
        join_version: int = 9,
        protocol_type: str = "consumer",
        protocols: list[dict[str, Any]] | None = None,
        session_ms: int = 30_000,
        rebalance_ms: int = 30_000,
        instance: str | None = None,
    ) -> None:
        self.peer = peer
        self.group = group
        self.name = name or peer.name
        self.join_version = join_version
        self.protocol_type = protocol_type
        self.protocols = protocols or [
            {"name": "range", "metadata": meta(f"meta-{self.name}")}
        ]
        self.session_ms = session_ms
        self.rebalance_ms = rebalance_ms
        self.instance = instance
        self.member_id = ""
        self.generation = -1
        self.protocol_name = self.protocols[0]["name"]
        self.is_leader = False

    # -- requests

    def _fields(
        self, api: str, version: int, fields: dict[str, Any], over: dict[str, Any]
    ) -> dict[str, Any]:
        """Drops fields that the version lacks, unless given explicitly."""
        known = kio_codec.request_fields(api, version)
        out = {k: v for k, v in fields.items() if k in known}
        if out.get("group_instance_id", 0) is None:
            del out["group_instance_id"]
        return out | over

    def join_fields(self, version: int, **over: Any) -> dict[str, Any]:
        """Fields of the next JoinGroup."""
        fields = {
            "group_id": self.group,
            "session_timeout_ms": self.session_ms,
            "rebalance_timeout_ms": self.rebalance_ms,
            "member_id": self.member_id,
            "group_instance_id": self.instance,
            "protocol_type": self.protocol_type,
            "protocols": self.protocols,
        }
        return self._fields("JoinGroup", version, fields, over)

    def _absorb_join(self, outcome: Outcome) -> None:
        if not outcome.ok:
            return
        code = int(outcome["error_code"])
        if code in (0, 79) and outcome["member_id"]:
            self.member_id = outcome["member_id"]
        if code == 0:
            self.generation = outcome["generation_id"]
            self.protocol_name = outcome["protocol_name"]
            self.is_leader = outcome["leader"] == self.member_id

    async def send_join(self, version: int | None = None, **over: Any) -> Pending:
        """Sends a JoinGroup without waiting."""
        version = self.join_version if version is None else version
        return await self.peer.send(
            "JoinGroup",
            version,
            who=self.name,
            absorb=self._absorb_join,
            **self.join_fields(version, **over),
        )

    async def join(self, version: int | None = None, **over: Any) -> Outcome:
        """Sends a JoinGroup and waits."""
        version = self.join_version if version is None else version
        return await self.peer.call(
            "JoinGroup",
            version,
            who=self.name,
            absorb=self._absorb_join,
            **self.join_fields(version, **over),
        )

    def sync_fields(self, version: int, **over: Any) -> dict[str, Any]:
        """Fields of the next SyncGroup."""
        fields = {
            "group_id": self.group,
            "generation_id": self.generation,
            "member_id": self.member_id,
            "group_instance_id": self.instance,
            "protocol_type": self.protocol_type,
            "protocol_name": self.protocol_name,
            "assignments": [],
        }
        return self._fields("SyncGroup", version, fields, over)

    async def send_sync(self, version: int = 5, **over: Any) -> Pending:
        """Sends a SyncGroup without waiting."""
        return await self.peer.send(
            "SyncGroup", version, who=self.name, **self.sync_fields(version, **over)
        )

    async def sync(self, version: int = 5, **over: Any) -> Outcome:
        """Sends a SyncGroup and waits."""
        return await self.peer.call(
            "SyncGroup", version, who=self.name, **self.sync_fields(version, **over)
        )

    def heartbeat_fields(self, version: int, **over: Any) -> dict[str, Any]:
        """Fields of the next Heartbeat."""
        fields = {
            "group_id": self.group,
            "generation_id": self.generation,
            "member_id": self.member_id,
            "group_instance_id": self.instance,
        }
        return self._fields("Heartbeat", version, fields, over)

    async def send_heartbeat(self, version: int = 4, **over: Any) -> Pending:
        """Sends a Heartbeat without waiting."""
        fields = self.heartbeat_fields(version, **over)
        return await self.peer.send("Heartbeat", version, who=self.name, **fields)

    async def heartbeat(self, version: int = 4, **over: Any) -> Outcome:
        """Sends a Heartbeat and waits."""
        fields = self.heartbeat_fields(version, **over)
        return await self.peer.call("Heartbeat", version, who=self.name, **fields)

    def leave_fields(self, version: int, **over: Any) -> dict[str, Any]:
        """Fields of LeaveGroup."""
        if version < 3:
            return {"group_id": self.group, "member_id": self.member_id} | over
        identity: dict[str, Any] = {"member_id": self.member_id}
        if self.instance is not None:
            identity["group_instance_id"] = self.instance
        return {"group_id": self.group, "members": [identity]} | over

    async def send_leave(self, version: int = 5, **over: Any) -> Pending:
        """Sends a LeaveGroup without waiting."""
        fields = self.leave_fields(version, **over)
        return await self.peer.send("LeaveGroup", version, who=self.name, **fields)

    async def leave(self, version: int = 5, **over: Any) -> Outcome:
        """Sends a LeaveGroup and waits."""
        fields = self.leave_fields(version, **over)
        return await self.peer.call("LeaveGroup", version, who=self.name, **fields)

    def commit_fields(
        self, version: int, topic: str, offset: int, **over: Any
    ) -> dict[str, Any]:
        """Fields of an OffsetCommit of one offset of partition 0."""
        fields = {
            "group_id": self.group,
            "generation_id_or_member_epoch": self.generation,
            "member_id": self.member_id,
            "group_instance_id": self.instance,
            "topics": [commit_topic(topic, offset)],
        }
        return self._fields("OffsetCommit", version, fields, over)

    async def send_commit(
        self, topic: str, offset: int, version: int = 9, **over: Any
    ) -> Pending:
        """Sends an OffsetCommit without waiting."""
        fields = self.commit_fields(version, topic, offset, **over)
        return await self.peer.send("OffsetCommit", version, who=self.name, **fields)

    async def commit(
        self, topic: str, offset: int, version: int = 9, **over: Any
    ) -> Outcome:
        """Sends an OffsetCommit and waits."""
        fields = self.commit_fields(version, topic, offset, **over)
        return await self.peer.call("OffsetCommit", version, who=self.name, **fields)


def commit_topic(
    topic: str, offset: int, partition: int = 0, metadata: str | None = ""
) -> dict[str, Any]:
    """A topic of OffsetCommit, with one partition."""
    return {
        "name": topic,
        "partitions": [
            {
                "partition_index": partition,
                "committed_offset": offset,
                "committed_metadata": metadata,
            }
        ],
    }


def assignments(*members: Member) -> list[dict[str, Any]]:
    """One assignment per member, with the member's name."""
    return [
        {"member_id": m.member_id, "assignment": f"assigned-{m.name}".encode()}
        for m in members
    ]
