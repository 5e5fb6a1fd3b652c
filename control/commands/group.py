"""The command ``kohort group``: power over a group of a running broker, over HTTP."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from kohort.control.commands.of_verbs import add_verbs
from kohort.control.commands.over_http import command_of, timeout_option
from kohort.control.group_verbs import GroupVerbs
from kohort.control.terminal import examples, fail, json_option

if TYPE_CHECKING:
    from kohort.control.remote import Remote

_group = click.argument("name", metavar="GROUP")


@click.group()
@examples(
    "kohort group hold billing",
    "kohort group expire billing billing-1",
    "kohort group until billing --state Stable --members 3",
)
def group() -> None:
    """Holds, disturbs and watches a consumer group.

    Needs a broker with an HTTP port: kohort serve --http 9080. MEMBER is a member id, a
    group.instance.id or a client.id. For commands that work with any Kafka, see kohort
    groups.
    """


@command_of(group)
@_group
@json_option
@examples("kohort group show billing")
def show(remote: Remote, *, name: str, as_json: bool) -> None:
    """Shows a group and its members."""
    _show(remote.get("v1", "groups", name), as_json=as_json)


def _show(found: dict[str, Any], *, as_json: bool) -> None:
    from kohort.control.commands.group_printing import show_group
    from kohort.control.tables import show_json

    if as_json:
        show_json(found)
    else:
        show_group(found)


add_verbs(group, GroupVerbs, GROUP="billing")


@command_of(group)
@_group
@click.option("--peek", is_flag=True, help="Does not wait for new owners to fetch.")
@click.option(
    "--check", is_flag=True, help="Exits with 1 if a record was sent again or skipped."
)
@timeout_option
@json_option
@examples("kohort group delivery billing", "kohort group delivery billing --check")
def delivery(
    remote: Remote, *, name: str, peek: bool, check: bool, timeout: float, as_json: bool
) -> None:
    """Shows what became of the records that a group was sent.

    There is a line for each range of records that was sent again or skipped, and for
    each commit below the committed offset. "handled before" is certain: an offset above
    the record was committed before it was sent again. "perhaps handled before" is
    possible: a reader had received the record, and had not committed it.

    It waits until each partition that moved was fetched by its new owner.
    """
    from kohort.control.commands.group_printing import show_delivery
    from kohort.control.tables import show_json

    path = "v1", "groups", name, "delivery"
    found = remote.wait(*path, timeout_s=timeout, peek=str(peek).lower())
    if as_json:
        show_json(found)
    else:
        show_delivery(found)
    if check and (found["again"] or found["skipped"]):
        sys.exit(1)


@command_of(group)
@_group
@click.option(
    "--state", metavar="STATE", help="The group is in this state, for example Stable."
)
@click.option("--members", type=int, help="The group has this many members.")
@click.option(
    "--generation", type=int, help="The group is in this generation or a later one."
)
@click.option(
    "--rebalances",
    type=int,
    help="The group has had this many rebalances since the broker's start.",
)
@click.option("--assigned", is_flag=True, help="All members have partitions.")
@click.option(
    "--committed",
    metavar="TOPIC:PARTITION:OFFSET",
    help="The group has committed this offset or a later one.",
)
@click.option("--lag", type=int, help="The group's lag is at most this many records.")
@timeout_option
@json_option
@examples(
    "kohort group until billing --state Stable --members 3",
    "kohort group until billing --lag 0 --timeout 60",
)
def until(
    remote: Remote,
    *,
    name: str,
    timeout: float,
    committed: str | None,
    assigned: bool,
    as_json: bool,
    **conditions: str | int | None,
) -> None:
    """Waits until conditions are met, and shows the group.

    Without conditions it waits until the group exists. If the conditions are not met in
    time, the exit code is 1, and stderr has the recent history of the group.
    """
    query = {key: str(value) for key, value in conditions.items() if value is not None}
    if assigned:
        query["assigned"] = "true"
    if committed is not None:
        topic, _, rest = committed.partition(":")
        partition, colon, offset = rest.partition(":")
        if not colon:
            fail(f"--committed {committed!r}: must be TOPIC:PARTITION:OFFSET", 2)
        query |= {"topic": topic, "partition": partition, "offset": offset}
    found = remote.wait("v1", "groups", name, "until", timeout_s=timeout, **query)
    _show(found, as_json=as_json)
