"""The order of a group's members: that of a Java HashMap over their ids.

Ids are random, so ranks in a `JavaHashMap` are recorded, which sees the same puts and
removals as the group: 0, 1, 2, ... for members in its order.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tests.conformance.env import Env
from tests.conformance.java_hash_map import JavaHashMap
from tests.conformance.member import Member
from tests.conformance.peer import Pending

ORDERED = True


class _Group:
    """A group whose members joined in a known order.

    Attributes:
        members: in that order.
    """

    def __init__(self, env: Env) -> None:
        self.members: list[Member] = []
        self._env = env
        self._order = JavaHashMap()
        self._leader = ""

    async def form(self, count: int, *, static: bool = False, **options: Any) -> None:
        """Lets members join one after the other; the first one leads."""
        with self._env.transcript.muted():
            joins = []
            for number in range(count):
                instance = f"i-{number}" if static else None
                joins.append(await self.enter(instance=instance, **options))
                if not number:
                    await joins.pop().result()
                    self._leader = self.members[0].member_id
                    await self._env.sync_all(self.members)
            joins.append(await self.members[0].send_join())
        self._env.note(f"{count} members")
        await self.complete(joins)

    async def enter(self, **options: Any) -> Pending:
        """A new member joins; the others are waited for."""
        with self._env.transcript.muted():
            name = f"M{len(self.members):02}"
            member = await self._env.member(name, **options)
            if member.instance is None and member.join_version >= 4:
                await member.join()
            self.members.append(member)
            if len(self.members) == 1:
                return await member.send_join()
            return await self._env.rebalance(member, len(self.members))

    async def rejoin(self, *late: Member) -> None:
        """All but those who are late join again, in a rebalance that has begun."""
        await self.complete(await self.send_joins(*late))

    async def send_joins(self, *late: Member) -> list[Pending]:
        """The joins of all but those who are late."""
        with self._env.transcript.muted():
            return [await m.send_join() for m in self.members if m not in late]

    async def complete(self, joins: Iterable[Pending]) -> None:
        """Records the leader and its list of members; then everyone syncs."""
        with self._env.transcript.muted():
            answers = await self._env.results(*joins)
        self.add_ids()
        joined = {answer["member_id"] for answer in answers}
        (leader,) = {answer["leader"] for answer in answers}
        among_joined = [each for each in self._order if each in joined].index(leader)
        is_same = leader == self._leader
        ids = [each["member_id"] for answer in answers for each in answer["members"]]
        self._env.note(
            "join",
            members=self._order.ranks(ids),
            leader="as before" if is_same else among_joined,
        )
        self._leader = leader
        with self._env.transcript.muted():
            await self._env.sync_all([m for m in self.members if m.member_id in joined])
        await self.describe()

    def add_ids(self) -> None:
        """Members that joined for the first time get their places."""
        for each in self.members:
            self._order.put(each.member_id)

    async def leave(self, *leaving: Member) -> None:
        """Members leave, one after the other."""
        for member in leaving:
            with self._env.transcript.muted():
                await member.leave()
            self.forget(member)

    def forget(self, member: Member) -> None:
        """A member is gone."""
        self.members.remove(member)
        self._order.remove(member.member_id)

    def replace(self, old: Member, new: Member) -> None:
        """A successor took the place of a static member."""
        self.members[self.members.index(old)] = new
        self._order.remove(old.member_id)
        self._order.put(new.member_id)

    @property
    def leader(self) -> Member:
        """The member that leads."""
        (leader,) = [each for each in self.members if each.is_leader]
        return leader

    async def describe(self) -> None:
        """Records the order of DescribeGroups."""
        with self._env.transcript.muted():
            admin = await self._env.peer("admin")
            (group,) = (await self._env.describe(admin))["groups"]
        ids = [each["member_id"] for each in group["members"]]
        ranks = self._order.ranks(ids)
        self._env.note("description", state=group["group_state"], members=ranks)


async def order_of_12_members(env: Env) -> None:
    """As many members as 16 buckets take: leader's list, DescribeGroups."""
    await _Group(env).form(12)


async def order_of_13_members(env: Env) -> None:
    """The first number of members that needs 32 buckets."""
    await _Group(env).form(13)


async def order_of_30_members(env: Env) -> None:
    """Thirty members, in 64 buckets."""
    await _Group(env).form(30)


async def order_of_members_with_old_versions(env: Env) -> None:
    """Members that need no second join, v3."""
    await _Group(env).form(10, join_version=3)


async def order_after_leaves(env: Env) -> None:
    """Buckets stay as many as they were when most members leave."""
    group = _Group(env)
    await group.form(14)
    await group.leave(*group.members[2:11])
    await group.describe()
    await group.rejoin()


async def order_of_newcomers(env: Env) -> None:
    """Newcomers after leaves have the places that their ids give them."""
    group = _Group(env)
    await group.form(10)
    await group.leave(*group.members[3:6])
    await group.rejoin()
    joins = [await group.enter(), await group.enter()]
    with env.transcript.muted():
        joins += [await m.send_join() for m in group.members[:-2]]
    await group.complete(joins)


async def order_leader_leaves(env: Env) -> None:
    """The next leader is the first in the order, twice."""
    group = _Group(env)
    await group.form(10)
    for _ in range(2):
        await group.leave(group.leader)
        await group.rejoin()


async def order_leader_is_late(env: Env) -> None:
    """A leader that does not rejoin in time is gone, and the first of the others leads."""
    group = _Group(env)
    await group.form(8, rebalance_ms=1500)
    late = group.leader
    joins = [await group.enter(rebalance_ms=1500)]
    with env.transcript.muted():
        joins += [await m.send_join() for m in group.members[:-1] if m is not late]
        await joins[0].within(0.0, 10.0)
    group.forget(late)
    await group.complete(joins)


async def order_static_leader_is_late(env: Env) -> None:
    """A static leader that is late stays, and the first of those who joined leads."""
    group = _Group(env)
    await group.form(8, static=True, rebalance_ms=1500)
    late = group.leader
    joins = [await group.enter(rebalance_ms=1500)]
    with env.transcript.muted():
        joins += [await m.send_join() for m in group.members[:-1] if m is not late]
    await group.complete(joins)


async def order_static_members(env: Env) -> None:
    """Static members have no place of their own."""
    await _Group(env).form(10, static=True)


async def order_static_replacement(env: Env) -> None:
    """A successor has the place that its new id gives it."""
    group = _Group(env)
    await group.form(10, static=True)
    for old in group.members[2:5]:
        with env.transcript.muted():
            new = await env.successor(old, f"{old.name}-again")
            await new.join()
        group.replace(old, new)
    await group.describe()
    with env.transcript.muted():
        joins = [await env.rebalance(group.leader, len(group.members))]
    await group.complete([*joins, *await group.send_joins(group.leader)])


async def order_leader_does_not_sync(env: Env) -> None:
    """A leader that does not sync in time is gone, and the first of the others leads."""
    group = _Group(env)
    await group.form(8, rebalance_ms=1000)
    late = group.leader
    joins = [await group.enter(rebalance_ms=1000)]
    with env.transcript.muted():
        joins += [await m.send_join() for m in group.members[:-1]]
        await env.results(*joins)
        syncs = [await m.send_sync() for m in group.members if m is not late]
        await env.results(*syncs)
    group.add_ids()
    group.forget(late)
    await group.rejoin()
