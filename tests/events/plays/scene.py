"""Scenes that end with a certain event, and their verbs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.coordinator.context import Context
from tests.coordinator.member import Member, dealt

Facts = dict[str, Any]
Scene = Callable[[Context], Facts]
"""Plays a scene; returns the fields that the last event of its kind must have."""

S = 1_000_000_000
"""A second, ns."""


class Plays(dict[tuple[str, str | None], Scene]):
    """Scenes by the kind and the cause of an event."""

    def play(self, kind: str, cause: str | None = None) -> Callable[[Scene], Scene]:
        """Adds the scene of a kind and a cause."""

        def keep(scene: Scene) -> Scene:
            assert (kind, cause) not in self
            self[kind, cause] = scene
            return scene

        return keep


def owning(context: Context, *names: str, **options: Any) -> list[Member]:
    """A stable group whose members own partition 0, 1, ... of t."""
    members = [*context.stable_group(*names, sync=False, **options)]
    for member in members[1:]:
        member.sync()
    members[0].sync([(m.member_id, dealt(i)) for i, m in enumerate(members)])
    return members


def part(*partitions: int) -> list[Facts]:
    """Some partitions of t."""
    return [{"topic": "t", "partitions": [*partitions]}]


def assign_too_much(c: Context, *members: Member) -> None:
    """The log refuses the assignment of the first, which leads."""
    c.is_holding = True
    for member in members[1:]:
        member.sync()
    members[0].sync()
    c.refuse()
    c.is_holding = False
