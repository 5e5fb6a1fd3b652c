"""The command ``kohort transaction``: power over a transaction, over HTTP."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from kohort.control.commands.of_verbs import add_verbs
from kohort.control.commands.over_http import command_of, timeout_option
from kohort.control.commands.transactions import STATES
from kohort.control.terminal import examples, printable
from kohort.control.transaction_verbs import TransactionVerbs

if TYPE_CHECKING:
    from kohort.control.remote import Remote

_id = click.argument("name", metavar="ID")


@click.group()
@examples("kohort transaction fence orders-1", "kohort transaction hold orders-1")
def transaction() -> None:
    """Fences producers; ends, holds and moves their transactions.

    Needs a broker with an HTTP port: kohort serve --http 9080. ID is the
    transactional.id of a producer. To look at transactions, see kohort transactions.
    """


add_verbs(transaction, TransactionVerbs, ID="orders-1")


@command_of(transaction)
@_id
@click.option(
    "--state",
    type=click.Choice([*STATES, "Dead"], case_sensitive=False),
    metavar="STATE",
    help="The id is in this state, for example Ongoing.",
)
@timeout_option
@examples("kohort transaction until orders-1 --state CompleteCommit")
def until(remote: Remote, *, name: str, state: str | None, timeout: float) -> None:
    """Waits until a transactional id is in a state.

    Without STATE it waits until the id exists. If it is not in the state in time, the
    exit code is 1.
    """
    query = {} if state is None else {"state": state}
    found = remote.wait("v1", "transactions", name, "until", timeout_s=timeout, **query)
    click.echo(f"transaction {printable(name)} is {found['state']}")
