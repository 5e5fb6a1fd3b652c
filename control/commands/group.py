"""The command ``kohort group``: power over a group of a running broker, over HTTP."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from kohort.control.commands.of_verbs import add_conditions, add_verbs
from kohort.control.commands.over_http import command_of, timeout_option
from kohort.control.group_verbs import GroupVerbs
from kohort.control.terminal import examples, json_option

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
    from kohort.control.tables import show_json

    found = remote.get("v1", "groups", name)
    (show_json if as_json else _show)(found)


def _show(found: dict[str, Any]) -> None:
    from kohort.control.commands.group_printing import show_group

    show_group(found)


add_verbs(group, GroupVerbs, GROUP="billing")
add_conditions(group, GroupVerbs, _show, GROUP="billing")


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
