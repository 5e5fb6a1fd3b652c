"""The command ``kohort group``: power over a group of a running broker, over HTTP."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from kohort.control.commands.over_http import NODE, command_of
from kohort.control.terminal import counted, examples, fail, json_option

if TYPE_CHECKING:
    from kohort.control.remote import Remote

MARGIN_S = 10.0
"""Time for the answer after the broker has stopped waiting."""

_group = click.argument("name", metavar="GROUP")
_member = click.argument("member")
_reason = click.option(
    "--reason", default="", help="Reason, as shown in events and by kohort why."
)


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


def _now(found: dict[str, Any]) -> str:
    state = found["state"]
    return "it does not exist yet" if state == "Dead" else f"it is {state} now"


def _show(found: dict[str, Any], *, as_json: bool) -> None:
    from kohort.control.commands.group_printing import show_group
    from kohort.control.tables import show_json

    if as_json:
        show_json(found)
    else:
        show_group(found)


@command_of(group)
@_group
@click.argument(
    "state",
    required=False,
    type=click.Choice(["PreparingRebalance", "CompletingRebalance"]),
)
@examples("kohort group hold billing", "kohort group hold billing CompletingRebalance")
def hold(remote: Remote, *, name: str, state: str | None) -> None:
    """Holds a group in a state, now or as soon as it enters it.

    STATE is PreparingRebalance (joins wait) or CompletingRebalance (syncs wait). The
    default is the current one of these two states, otherwise PreparingRebalance.
    """
    found = remote.post("v1", "groups", name, "hold", state=state)
    is_held = "is" if found["state"] == found["held"] else "will be"
    click.echo(f"group {name} {is_held} held in {found['held']}; {_now(found)}")


@command_of(group)
@_group
@examples("kohort group release billing")
def release(remote: Remote, *, name: str) -> None:
    """Lets a held group continue."""
    found = remote.post("v1", "groups", name, "release")
    click.echo(f"group {name} is released; {_now(found)}")


@command_of(group)
@_group
@_member
@_reason
@examples("kohort group kick billing billing-1")
def kick(remote: Remote, *, name: str, member: str, reason: str) -> None:
    """Removes a member; the group rebalances."""
    remote.post("v1", "groups", name, "kick", member=member, reason=reason)
    click.echo(f"{member} is removed from group {name}")


@command_of(group)
@_group
@_member
@examples("kohort group expire billing billing-1")
def expire(remote: Remote, *, name: str, member: str) -> None:
    """Ends a member's session now."""
    remote.post("v1", "groups", name, "expire", member=member)
    click.echo(f"the session of {member} in group {name} has ended")


@command_of(group)
@_group
@_member
@examples("kohort group mute billing billing-1")
def mute(remote: Remote, *, name: str, member: str) -> None:
    """Ignores a member's heartbeats, so that its session expires.

    The member's requests are still answered; none of them extends its session.
    """
    remote.post("v1", "groups", name, "mute", member=member)
    click.echo(f"{member} is muted in group {name}")


@command_of(group)
@_group
@_member
@examples("kohort group unmute billing billing-1")
def unmute(remote: Remote, *, name: str, member: str) -> None:
    """Accepts a muted member's heartbeats again."""
    remote.post("v1", "groups", name, "unmute", member=member)
    click.echo(f"{member} is no longer muted in group {name}")


@command_of(group)
@_group
@_reason
@examples("kohort group rebalance billing --reason test")
def rebalance(remote: Remote, *, name: str, reason: str) -> None:
    """Starts a rebalance."""
    found = remote.post("v1", "groups", name, "rebalance", reason=reason)
    click.echo(f"group {name} rebalances; {_now(found)}")


@command_of(group)
@_group
@click.argument("node", type=NODE, required=False)
@examples("kohort group move billing", "kohort group move billing 2")
def move(remote: Remote, *, name: str, node: int | None) -> None:
    """Moves a group to another coordinator.

    Without NODE, it is the next running node. All groups in the same partition of
    __consumer_offsets move with it.
    """
    found = remote.post("v1", "groups", name, "move", node=node)
    click.echo(f"node {found['coordinator']} coordinates group {name}")


@command_of(group)
@_group
@click.argument("max_size", metavar="MEMBERS")
@examples("kohort group limit billing 2", "kohort group limit billing none")
def limit(remote: Remote, *, name: str, max_size: str) -> None:
    """Limits the number of members of a group.

    "none" removes the limit, so that group.max.size applies again.
    """
    if max_size != "none" and not (max_size.isascii() and max_size.isdigit()):
        fail(f"{max_size!r}: must be a number of members, or none", 2)
    most = None if max_size == "none" else int(max_size)
    found = remote.post("v1", "groups", name, "limit", max_size=most)
    has = "no limit but group.max.size"
    if most is not None:
        has = f"a limit of {counted(most, 'member')}"
    click.echo(f"group {name} has {has}; {_now(found)}")


@command_of(group)
@_group
@click.option("--peek", is_flag=True, help="Does not wait for new owners to fetch.")
@click.option(
    "--check", is_flag=True, help="Exits with 1 if a record was sent again or skipped."
)
@click.option(
    "--timeout", type=click.FloatRange(min=0), default=10.0, help="Seconds to wait."
)
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

    query = {"peek": str(peek).lower(), "timeout": str(timeout)}
    path = "v1", "groups", name, "delivery"
    found = remote.get(*path, query=query, timeout_s=timeout + MARGIN_S)
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
@click.option(
    "--timeout",
    type=click.FloatRange(min=0),
    default=10.0,
    help="Seconds to wait.",
)
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
    query["timeout"] = str(timeout)
    found = remote.get(
        "v1", "groups", name, "until", query=query, timeout_s=timeout + MARGIN_S
    )
    _show(found, as_json=as_json)
