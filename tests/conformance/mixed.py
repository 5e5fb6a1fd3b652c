"""Groups with members of both protocols: steps that their scenarios share."""

from __future__ import annotations

from typing import Any

from tests.conformance.consumer_protocol import (
    consumer_assignment,
    consumer_subscription,
)
from tests.conformance.env import Env
from tests.conformance.member import Member, protocols


def offer(*topics: str, owned: dict[str, list[int]] | None = None) -> Any:
    """The protocols of a classic consumer; a cooperative one says what it owns."""
    version = 0 if owned is None else 1
    metadata = consumer_subscription([*topics], version, owned=owned)
    return protocols("range", metadata=metadata)


async def classic_group(
    env: Env, topic: str, plan: dict[str, list[int]], **options: Any
) -> list[Member]:
    """A Stable group of classic consumers with these partitions, led by the first."""
    is_static = options.pop("static", False)
    members = [
        await env.member(
            name,
            protocols=offer(topic),
            instance=f"i-{name}" if is_static else None,
            **options,
        )
        for name in plan
    ]
    await env.form(members, sync=False)
    with env.transcript.muted():
        leader = next(m for m in members if m.is_leader)
        waiting = [await m.send_sync() for m in members if m is not leader]
        shares = [
            {
                "member_id": each.member_id,
                "assignment": consumer_assignment({topic: plan[each.name]}),
            }
            for each in members
        ]
        await leader.sync(assignments=shares)
        await env.results(*waiting)
    return members


async def join_twice(env: Env, member: Member) -> None:
    """Unrecorded: a classic member gets its id, and joins with it."""
    with env.transcript.muted():
        await member.join()
        await member.join()
