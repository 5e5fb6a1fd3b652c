"""Steps, and parts of requests, that several scenarios share."""

from __future__ import annotations

from typing import Any

from tests.conformance.env import Env
from tests.conformance.member import Member
from tests.conformance.peer import Peer, Pending


def wanted(topic: str, *partitions: int) -> dict[str, Any]:
    """A topic of OffsetFetch; partition 0 by default."""
    return {"name": topic, "partition_indexes": list(partitions or (0,))}


def partitions_of(topic: str, *partitions: int) -> dict[str, Any]:
    """A topic of OffsetDelete; partition 0 by default."""
    return {
        "name": topic,
        "partitions": [{"partition_index": p} for p in partitions or (0,)],
    }


def topics_named(version: int, *names: str | None) -> dict[str, Any]:
    """The topics of Metadata."""
    topics: list[dict[str, Any]] = [{"name": n} for n in names]
    if version >= 10:
        topics = [t | {"topic_id": None} for t in topics]
    return {"topics": topics}


def identity(member_id: str, instance: str | None = None) -> dict[str, Any]:
    """A member of LeaveGroup."""
    return {"member_id": member_id, "group_instance_id": instance}


async def list_groups(env: Env, peer: Peer, version: int, **filters: Any) -> None:
    """ListGroups without the groups of other scenarios."""

    def edit(body: dict[str, Any]) -> None:
        body["groups"] = [
            g for g in body["groups"] if g["group_id"].startswith(env.group_prefix)
        ]

    await peer.call("ListGroups", version, edit=edit, **filters)


async def again(env: Env, member: Member) -> Member:
    """The same member on a second connection, while the first one waits."""
    twin = await env.successor(member, f"{member.name}-again")
    twin.member_id, twin.generation = member.member_id, member.generation
    return twin


async def leave_elsewhere(env: Env, member: Member) -> None:
    """A LeaveGroup on a second connection, while the member's own waits."""
    other = Member(await env.peer(f"{member.name}-leaves"), member.group)
    other.member_id, other.instance = member.member_id, member.instance
    await other.leave()


async def joined(
    env: Env, members: list[Member], joins: list[Pending], *, counts: bool = True
) -> None:
    """Records join results without the leader, which brokers may choose.

    Args:
        env: of the scene.
        members: that join.
        joins: their requests.
        counts: whether to record the number of members in the leader's list.
    """
    with env.transcript.muted():
        outcomes = await env.results(*joins)
    names = " and ".join(m.name for m in members)
    known = [len(o["members"]) for o in outcomes if o["members"]]
    env.note(
        f"{names} join" if counts else names,
        error_codes=[o["error_code"] for o in outcomes],
        generations=[o["generation_id"] for o in outcomes],
        leaders=sum(m.is_leader for m in members),
        **({"known_to_leader": known} if counts else {}),
    )
