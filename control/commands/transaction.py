"""The command ``kohort transaction``: power over a transaction, over HTTP."""

from __future__ import annotations

from typing import Any

import click

from kohort.control.commands.of_verbs import add_conditions, add_verbs
from kohort.control.terminal import examples, printable
from kohort.control.transaction_verbs import TransactionVerbs


@click.group()
@examples("kohort transaction fence orders-1", "kohort transaction hold orders-1")
def transaction() -> None:
    """Fences producers; ends, holds and moves their transactions.

    Needs a broker with an HTTP port: kohort serve --http 9080. ID is the
    transactional.id of a producer. To look at transactions, see kohort transactions.
    """


def _show(found: dict[str, Any]) -> None:
    name = printable(found["transactional_id"])
    click.echo(f"transaction {name} is {found['state']}")


add_verbs(transaction, TransactionVerbs, ID="orders-1")
add_conditions(transaction, TransactionVerbs, _show, ID="orders-1")
