"""Bugs to be planted by hand, each found by the swarm: in coordinators and in clients.

Each replaces something of kohort in this process.
"""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from kohort.broker.coordinator.classic import leave
from kohort.broker.coordinator.classic.group import ClassicGroup
from kohort.broker.coordinator.consumer.group import ConsumerGroup
from kohort.broker.coordinator.consumer.reconcile import _Step
from kohort.broker.coordinator.turn import Turn
from kohort.broker.shards import group_records
from kohort.client.consuming.commits import Commits
from kohort.client.consuming.fetcher import Fetcher
from kohort.client.group import application
from kohort.client.group.classic import sync
from kohort.client.group.classic.member import ClassicMember
from kohort.protocol.slotted import replace

_Change = tuple[Any, str, Any]
"""The owner of a name, the name, and what takes its place."""


# -- in coordinators


def fenced_commits() -> _Change:
    """A classic group takes commits of any member and generation."""
    return ClassicGroup, "validate_offset_commit", lambda *_: 0


def stale_epochs() -> _Change:
    """A consumer group takes commits of any epoch."""
    return ConsumerGroup, "_validate_epoch", lambda *_: 0


def early_owners() -> _Change:
    """Partitions count as given up before their owner has said so."""
    return _Step, "_owns", lambda *_: True


def lost_member() -> _Change:
    """A group's record lacks its last member."""
    make: Any = vars(group_records)["_group_value"]

    def fewer(record: Any) -> Any:
        return make(replace(record, members=record.members[:-1]))

    return group_records, "_group_value", fewer


def unanswered_sync() -> _Change:
    """The last of several requests that wait for the same is not answered."""
    reply = Turn.reply_alike

    def reply_to_most(self: Turn, result: Any, tokens: Any, values: Any) -> None:
        count = max(1, len(tokens) - 1)
        reply(self, result, tokens[:count], values[:count])

    return Turn, "reply_alike", reply_to_most


def same_generation() -> _Change:
    """A rebalance does not increment the generation."""
    begin = ClassicGroup.next_generation

    def stay(self: ClassicGroup, now: float) -> Any:
        listed = begin(self, now)
        self.generation_id = max(1, self.generation_id - 1)
        return listed

    return ClassicGroup, "next_generation", stay


def undead_members() -> _Change:
    """A session that ends removes no member."""
    return leave, "expire", lambda *_, **__: None


# -- in clients


def kept_partitions() -> _Change:
    """An eager member joins without giving its partitions up."""
    return ClassicMember, "is_cooperative", True


def unwatched_partitions() -> _Change:
    """The leader does not notice new partitions."""
    return sync, "changed_partitions", lambda _: None


def forgotten_rejoin() -> _Change:
    """A cooperative member that has given partitions up does not join again."""

    def take(*args: Any) -> bool:
        application.take_assignment(*args)
        return True

    return sync, "application", SimpleNamespace(take_assignment=take)


def ignored_commits() -> _Change:
    """A consumer begins at the first record, whatever is committed."""

    async def nothing(_: Commits, places: Any) -> Any:
        return dict.fromkeys(places)

    return Commits, "committed", nothing


def commits_ahead() -> _Change:
    """A consumer commits one more record than it has handled."""
    positions = Fetcher.positions

    def ahead(self: Fetcher, places: Any) -> Any:
        found = positions(self, places).items()
        return {p: row._replace(offset=row.offset + 1) for p, row in found}

    return Fetcher, "positions", ahead


BUGS: dict[str, Callable[[], _Change]] = {
    bug.__name__: bug
    for bug in (
        fenced_commits,
        stale_epochs,
        early_owners,
        lost_member,
        unanswered_sync,
        same_generation,
        undead_members,
        kept_partitions,
        unwatched_partitions,
        forgotten_rejoin,
        ignored_commits,
        commits_ahead,
    )
}


def plant(name: str) -> Callable[[], None]:
    """Plants a bug; returns a function that removes it."""
    owner, attribute, value = BUGS[name]()
    before = vars(owner)[attribute]
    setattr(owner, attribute, value)
    return lambda: setattr(owner, attribute, before)
