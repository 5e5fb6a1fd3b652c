"""The choice of the group's protocol."""

from __future__ import annotations

from tests.conformance.env import Env
from tests.conformance.member import assignments, meta, protocols


async def join_protocols_of_everybody(env: Env) -> None:
    """A newcomer has to support one protocol that all others do, not just some."""
    a, b = await env.stable_group(
        "A",
        "B",
        A={"protocols": protocols("x", "y")},
        B={"protocols": protocols("y", "z")},
    )
    c = await env.member("C", join_version=3)
    await c.join(protocols=protocols("x"))
    await c.join(protocols=protocols("z", "x"))
    joining = await env.rebalance(c, 3, protocols=protocols("z", "x", "y"))
    first = await a.send_join()
    await b.join()
    await env.results(first, joining)


async def join_protocol_freed_by_leave(env: Env) -> None:
    """When the member with fewer protocols leaves, its restriction goes with it."""
    a, b = await env.stable_group(
        "A", "B", A={"protocols": protocols("x", "y")}, B={"protocols": protocols("y")}
    )
    c = await env.member("C", protocols=protocols("x"), join_version=3)
    await c.join()
    await b.leave()
    joining = await env.rebalance(c, 2)
    await a.join()
    await joining.result()
    await env.describe(a.peer)


async def protocol_ties(env: Env) -> None:
    """Two members, two common protocols, one vote each: which one is always the same."""
    pairs = [
        ("x", "y"),
        ("y", "x"),
        ("range", "roundrobin"),
        ("roundrobin", "range"),
        ("cooperative-sticky", "range"),
        ("sticky", "cooperative-sticky"),
        ("uniform", "sticky"),
        ("a", "b"),
        ("b", "a"),
    ]
    for number, (one, two) in enumerate(pairs):
        group = env.group(f"{number}")
        a, _ = await env.stable_group(
            "A",
            "B",
            A={"protocols": protocols(one, two)},
            B={"protocols": protocols(two, one)},
            group=group,
        )
        await env.describe(a.peer, group)


async def protocol_votes_of_three(env: Env) -> None:
    """Three protocols with one vote each, and two against one."""
    names = ["range", "roundrobin", "sticky"]
    for shift in range(2):
        group = env.group(f"tie-{shift}")
        orders = [names[i:] + names[:i] for i in (shift, shift + 1, shift + 2)]
        members = [
            await env.member(who, group, protocols=protocols(*order))
            for who, order in zip("ABC", orders, strict=True)
        ]
        await env.form(members)
        await env.describe(members[0].peer, group)


async def protocol_choice_follows_members(env: Env) -> None:
    """The choice is made anew in every generation: a leave can change it."""
    a, b, c = await env.stable_group(
        "A",
        "B",
        "C",
        A={"protocols": protocols("x", "y")},
        B={"protocols": protocols("y", "x")},
        C={"protocols": protocols("y", "x")},
    )
    await b.leave()
    await c.leave()
    await a.join()
    await a.sync(protocol_name="y")
    await a.sync(protocol_name="x", assignments=assignments(a))
    await env.describe(a.peer)


async def rebalance_protocol_votes(env: Env) -> None:
    """Each member votes for the first of its protocols that all support."""
    group = env.group("majority")
    a, _, _ = await env.stable_group(
        "A",
        "B",
        "C",
        A={"protocols": protocols("x", "y", "z")},
        B={"protocols": protocols("y", "x", "w")},
        C={"protocols": protocols("w", "y", "x")},
        group=group,
    )
    await env.describe(a.peer, group)
    group = env.group("only-common")
    a, _ = await env.stable_group(
        "A",
        "B",
        A={"protocols": protocols("x", "y")},
        B={"protocols": protocols("z", "y")},
        group=group,
    )
    await env.describe(a.peer, group)


async def rebalance_metadata_of_chosen_protocol(env: Env) -> None:
    """The leader gets the metadata that belongs to the chosen protocol."""

    def both(who: str) -> list[dict[str, object]]:
        return [
            {"name": "x", "metadata": meta(f"x of {who}")},
            {"name": "y", "metadata": meta(f"y of {who}")},
        ]

    a = await env.member("A", protocols=both("A"))
    b = await env.member("B", protocols=both("B")[1:])
    await a.join()
    await a.join()
    await b.join()
    joining = await env.rebalance(b, 2)
    await a.join()
    await joining.result()
