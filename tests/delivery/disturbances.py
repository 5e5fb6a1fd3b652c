"""The disturbances of the table: each lets a group work, and then disturbs it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from tests.delivery.cell import RECORDS, TRANSACTIONAL, Cell, Member

MANY = 10 * RECORDS
"""Records per partition, so that members are disturbed at work."""
SESSION_MS = 6_000
"""Session timeout of members that are disturbed at work. If a commit is refused,
aiokafka joins anew without its member id; until that member's session has expired, the
group waits for it."""
BACK = 3
"""The offset to which `seek` goes back."""


async def worker(cell: Cell, **words: object) -> Member:
    """A member that has handled everything."""
    cell.produce()
    member = await cell.join("one", **words)
    await cell.worked()
    return member


async def busy(cell: Cell) -> Member:
    """A member that has handled a part of its records."""
    cell.produce(MANY)
    member = await cell.join("one", session=SESSION_MS)
    await cell.until("begun", lambda: len(member.handled) > 3 * RECORDS)
    return member


async def nothing(cell: Cell) -> None:
    """No disturbance."""
    await worker(cell)
    await cell.closed()


async def join(cell: Cell) -> None:
    """A second member takes one of two partitions."""
    await worker(cell)
    await cell.join("two")
    await cell.balanced()
    await cell.closed()


async def storm(cell: Cell) -> None:
    """Three rebalances, one after the other."""
    await join(cell)
    for _ in range(2):
        generation = cell.group.generation
        cell.group.rebalance("storm")
        await cell.until("rebalanced", lambda: cell.group.generation > generation)  # noqa: B023 - at once
        await cell.balanced()
        await cell.closed()


async def replaced(cell: Cell) -> None:
    """A member closes; another one takes over."""
    await cell.leave(await worker(cell))
    await cell.join("two")
    await cell.stable(1)
    await cell.closed()


async def one_of_two(cell: Cell) -> None:
    """One of two members closes."""
    one = await cell.join("one")
    await cell.join("two")
    await cell.balanced()
    cell.produce()
    await cell.worked()
    await cell.leave(one)
    await cell.stable(1)
    await cell.closed()


async def crash(cell: Cell) -> None:
    """A process is killed; another one takes over."""
    await cell.crash(await worker(cell))
    cell.group.expire("one")
    await cell.join("two")
    await cell.stable(1)
    await cell.closed()


async def kick(cell: Cell) -> None:
    """A member is removed, and joins again under another member id."""
    await worker(cell)
    (before,) = cell.group.members
    cell.group.kick("one")

    def is_back() -> bool:
        ids = [each.member_id for each in cell.group.members]
        return cell.group.state == "Stable" and ids not in ([], [before.member_id])

    await cell.until("back", is_back)
    await cell.closed()


async def restart(cell: Cell) -> None:
    """All nodes stop, one after the other, and start again."""
    await worker(cell)
    for node_id in cell.broker.cluster.nodes:
        await cell.broker.restart_node(node_id)
    await cell.closed()


async def seek(cell: Cell) -> None:
    """The application seeks back in one partition."""
    one = await worker(cell)
    many = len(one.handled) + RECORDS - BACK
    one.worker.send("seek", partition=1, offset=BACK)
    await cell.until("handled again", lambda: len(one.handled) >= many)
    await cell.closed()


async def latest(cell: Cell) -> None:
    """Records are written while no member is there; auto.offset.reset is latest."""
    one = await cell.join("one", reset="latest")
    await cell.stable(1)
    await cell.until("reading", lambda: cell.is_read)
    cell.produce(3)
    await cell.worked()
    await cell.leave(one)
    cell.produce(4)
    await cell.join("two", reset="latest")
    await cell.stable(1)
    await cell.until("reading", lambda: cell.is_read)
    await cell.closed()


async def deleted(cell: Cell) -> None:
    """Records are deleted before they were read."""
    await cell.leave(await worker(cell))
    cell.produce()
    cell.delete(RECORDS + 6)
    await cell.join("two")
    await cell.stable(1)
    await cell.closed()


async def static(cell: Cell) -> None:
    """A static member closes, and comes back."""
    await cell.leave(await worker(cell, instance="i1"))
    await cell.join("one", instance="i1")
    await cell.closed()


async def static_crash(cell: Cell) -> None:
    """A static member is killed, and comes back."""
    await cell.crash(await worker(cell, instance="i1"))
    await cell.join("one", instance="i1")
    await cell.closed()


async def join_at_work(cell: Cell) -> None:
    """A second member joins while the first one is at work."""
    await busy(cell)
    await cell.join("two", session=SESSION_MS)
    await cell.stable(2)
    await cell.closed()


async def close_at_work(cell: Cell) -> None:
    """A member closes while it is at work."""
    await cell.leave(await busy(cell))
    await cell.join("two")
    await cell.stable(1)
    await cell.closed()


async def aborted(cell: Cell) -> None:
    """The records are those of transactions, and the last ones are aborted."""
    for name in ("one", "two"):
        await cell.produce_in_transactions()
        member = await cell.join(name)
        await cell.worked()
        if cell.service in AT_ONCE:
            await cell.until("lag 0", lambda: not any(cell.group.lag().values()))
        if name == "one":
            await cell.leave(member)
    await cell.closed()


AT_ONCE: Final = frozenset({"after", "before", TRANSACTIONAL})
"""Services that commit each record at once."""
AT_WORK: Final = frozenset({"join_at_work", "close_at_work"})
DISTURBANCES: Final[Mapping[str, Callable[[Cell], Awaitable[None]]]] = {
    each.__name__: each
    for each in (
        *(
            nothing,
            join,
            storm,
            replaced,
            one_of_two,
            crash,
            kick,
            restart,
            seek,
            latest,
        ),
        *(aborted, deleted, static, static_crash, join_at_work, close_at_work),
    )
}
