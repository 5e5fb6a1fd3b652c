"""The command ``kohort transactions``: transactions of a running broker, over HTTP."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from kohort.control.commands.over_http import command_of
from kohort.control.terminal import examples, json_option, printable
from kohort.control.transaction_verbs import STATES

if TYPE_CHECKING:
    from kohort.control.remote import Remote


@click.group()
@examples("kohort transactions list --open 10", "kohort transactions describe tx-1")
def transactions() -> None:
    """Shows transactions, their producers and partitions.

    Needs a broker with an HTTP port: kohort serve --http 9080.
    """


@command_of(transactions)
@click.option(
    "--state",
    type=click.Choice(STATES, case_sensitive=False),
    metavar="STATE",
    help="Lists ids in this state, for example Ongoing.",
)
@click.option(
    "--open",
    "open_s",
    metavar="SECONDS",
    type=click.FloatRange(min=0),
    help="Lists ids whose transaction has been open for this long.",
)
@json_option
@examples("kohort transactions list", "kohort transactions list --open 10")
def list_(
    remote: Remote, *, state: str | None, open_s: float | None, as_json: bool
) -> None:
    """Lists transactional ids and their states."""
    from kohort.control.tables import show, show_json, table

    query: dict[str, Any] = {}
    if state is not None:
        query["state"] = state
    if open_s is not None:
        query["open_ms"] = round(open_s * 1000)
    found = remote.get("v1", "transactions", query=query)
    rows = found["transactions"]
    if as_json:
        show_json(rows)
        return
    if not rows:
        kind = "such transactions" if query else "transactional ids"
        click.echo(f"no {kind}; {found['total']} ids in all" if query else f"no {kind}")
        return
    columns = ("id", "state", "open", "producer", "epoch", "client", "partitions")
    cells = [
        (
            row["transactional_id"],
            row["state"],
            _open(row),
            row["producer_id"],
            row["producer_epoch"],
            row["client_id"],
            row["partition_count"],
        )
        for row in rows
    ]
    show(table(columns, cells, ("producer", "epoch", "partitions")))


@command_of(transactions)
@click.argument("name", metavar="ID")
@json_option
@examples("kohort transactions describe tx-1")
def describe(remote: Remote, *, name: str, as_json: bool) -> None:
    """Shows a transactional id, and the partitions of its transaction."""
    from kohort.control.tables import show, show_json, table

    found = remote.get("v1", "transactions", name)
    if as_json:
        show_json(found)
        return
    facts = {
        "state": found["state"],
        "held in": found["held"],
        "open for": _open(found),
        "timeout": _duration(found["timeout_ms"]),
        "producer": f"{found['producer_id']}, epoch {found['producer_epoch']}",
        "client": found["client_id"],
        "coordinator": f"node {found['coordinator']}",
        "groups": ", ".join(found["groups"]) or None,
    }
    lines = [
        f"  {key:11}  {printable(str(value))}"
        for key, value in facts.items()
        if value is not None
    ]
    text = "\n".join([f"transactional id {printable(name)}", *lines])
    if not found["partitions"]:
        show(text)
        return
    columns = ("topic", "partition", "marker", "last stable", "held back")
    rows = [
        (
            row["topic"],
            row["partition"],
            "written" if row["is_marked"] else None,
            row["last_stable_offset"],
            row["held_back"],
        )
        for row in found["partitions"]
    ]
    numbers = ("partition", "last stable", "held back")
    show(text, "", table(columns, rows, numbers))


def _open(row: dict[str, Any]) -> str | None:
    return None if row["open_ms"] is None else _duration(row["open_ms"])


def _duration(ms: int) -> str:
    from kohort.broker.events.findings.words import duration

    return duration(ms * 1_000_000)
