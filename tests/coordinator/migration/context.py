"""Scenes of groups with members of both protocols."""

from __future__ import annotations

from typing import Any

from tests.coordinator.consumer.context import Scene
from tests.coordinator.member import Member, dealt, subscribed

from kohort.protocol.consumer import decode_assignment


class Mixed(Scene):
    """A scene with a topic "t", and classic consumers of it."""

    def __init__(self, partitions: int = 2, **settings: Any) -> None:
        super().__init__(**settings)
        self.topic("t", partitions)

    def classic_group(
        self, shares: dict[str, list[int]], **options: Any
    ) -> list[Member]:
        """A Stable classic group whose members have these partitions of "t"."""
        static = options.pop("static", False)
        members = [
            self.classic(name, instance=f"i-{name}" if static else None, **options)
            for name in shares
        ]
        self.form(members, sync=False)
        rows = [(member.member_id, dealt(*shares[member.name])) for member in members]
        for member in members[1:]:
            member.sync()
        members[0].sync(rows)
        return members

    def classic(self, name: str, **options: Any) -> Member:
        """A classic consumer of "t"."""
        return self.member(name, **({"protocols": subscribed("t")} | options))

    def consumer_as_classic(self, name: str, *topics: str, **options: Any) -> Member:
        """A classic consumer of some topics."""
        return self.member(name, protocols=subscribed(*topics), **options)


def partitions(assignment: bytes) -> list[int]:
    """The partitions of "t" in an assignment of the classic protocol."""
    rows = decode_assignment(assignment).assigned_partitions
    assert all(row.topic == "t" for row in rows)
    return sorted(each for row in rows for each in row.partitions)
