"""The command ``kohort transaction``: power over a transaction, over HTTP."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from kohort.control.commands.over_http import NODE, command_of
from kohort.control.commands.transactions import STATES
from kohort.control.terminal import examples, printable

if TYPE_CHECKING:
    from kohort.control.remote import Remote

MARGIN_S = 10.0
"""Time for the answer after the broker has stopped waiting."""

_id = click.argument("name", metavar="ID")


@click.group()
@examples("kohort transaction fence orders-1", "kohort transaction hold orders-1")
def transaction() -> None:
    """Fences producers; ends, holds and moves their transactions.

    Needs a broker with an HTTP port: kohort serve --http 9080. ID is the
    transactional.id of a producer. To look at transactions, see kohort transactions.
    """


def _tell(name: str, done: str, found: dict[str, Any]) -> None:
    state = found["state"]
    now = "it does not exist yet" if state == "Dead" else f"it is {state} now"
    click.echo(f"transaction {printable(name)} {done}; {now}")


@command_of(transaction)
@_id
@examples("kohort transaction fence orders-1")
def fence(remote: Remote, *, name: str) -> None:
    """Fences the producer, as another one with the same ID does.

    An open transaction is aborted.
    """
    found = remote.post("v1", "transactions", name, "fence")
    _tell(name, "has its producer fenced", found)


@command_of(transaction)
@_id
@examples("kohort transaction expire orders-1")
def expire(remote: Remote, *, name: str) -> None:
    """Aborts the open transaction, as its timeout does."""
    found = remote.post("v1", "transactions", name, "expire")
    _tell(name, "has timed out", found)


@command_of(transaction)
@_id
@click.argument(
    "state",
    default="PrepareCommit",
    type=click.Choice(["PrepareCommit", "PrepareAbort"]),
)
@examples(
    "kohort transaction hold orders-1", "kohort transaction hold orders-1 PrepareAbort"
)
def hold(remote: Remote, *, name: str, state: str) -> None:
    """Holds the next transaction in a state: its markers are not written.

    STATE is PrepareCommit (the default) or PrepareAbort.
    """
    found = remote.post("v1", "transactions", name, "hold", state=state)
    _tell(name, f"will be held in {state}", found)


@command_of(transaction)
@_id
@examples("kohort transaction release orders-1")
def release(remote: Remote, *, name: str) -> None:
    """Lets a held transaction continue."""
    found = remote.post("v1", "transactions", name, "release")
    _tell(name, "is released", found)


@command_of(transaction)
@_id
@click.argument("node", type=NODE, required=False)
@examples("kohort transaction move orders-1", "kohort transaction move orders-1 2")
def move(remote: Remote, *, name: str, node: int | None) -> None:
    """Moves a transactional id to another coordinator.

    Without NODE, it is the next running node. All ids in the same partition of
    __transaction_state move with it.
    """
    found = remote.post("v1", "transactions", name, "move", node=node)
    node_id = found["coordinator"]
    click.echo(f"node {node_id} coordinates transaction {printable(name)}")


@command_of(transaction)
@_id
@click.option(
    "--state",
    type=click.Choice([*STATES, "Dead"], case_sensitive=False),
    metavar="STATE",
    help="The id is in this state, for example Ongoing.",
)
@click.option(
    "--timeout",
    type=click.FloatRange(min=0),
    default=10.0,
    help="Seconds to wait.",
)
@examples("kohort transaction until orders-1 --state CompleteCommit")
def until(remote: Remote, *, name: str, state: str | None, timeout: float) -> None:
    """Waits until a transactional id is in a state.

    Without STATE it waits until the id exists. If it is not in the state in time, the
    exit code is 1.
    """
    query = {"timeout": str(timeout)}
    if state is not None:
        query["state"] = state
    found = remote.get(
        "v1", "transactions", name, "until", query=query, timeout_s=timeout + MARGIN_S
    )
    click.echo(f"transaction {printable(name)} is {found['state']}")
