"""The command ``kohort groups``. `group_calls` and `resetting` do the work."""

from __future__ import annotations

import click

from kohort.control.kafka.options import Access, client_options, run
from kohort.control.terminal import examples, fail, json_option

STATES = (
    "Empty",
    "PreparingRebalance",
    "CompletingRebalance",
    "Stable",
    "Dead",
    # Of the protocols of KIP-848 and KIP-1071.
    "Assigning",
    "Reconciling",
    "NotReady",
)
"""A broker lists no groups for an unknown state (KIP-518)."""

_names = click.argument("names", metavar="GROUP...", nargs=-1, required=True)
_topics_option = click.option(
    "--topic",
    "topics",
    metavar="TOPIC[:N,...]",
    multiple=True,
    help="All partitions of TOPIC, or only these. Can be given more than once.",
)


@click.group()
@examples("kohort groups list", "kohort groups describe billing")
def groups() -> None:
    """Lists, describes and changes consumer groups of any Kafka.

    For kohort's power over its groups, see kohort group.
    """


@groups.command("list")
@client_options
@click.option(
    "--state",
    "states",
    type=click.Choice(STATES, case_sensitive=False),
    metavar="STATE",
    multiple=True,
    help="Lists groups in this state, for example Stable. Can be given more than once.",
)
@json_option
@examples("kohort groups list", "kohort groups list --state Stable")
def list_(access: Access, *, states: tuple[str, ...], as_json: bool) -> None:
    """Lists groups and their states."""
    from kohort.control.kafka import group_calls

    run(group_calls.list_groups(access, states, as_json=as_json))


@groups.command()
@click.argument("names", metavar="[GROUP]...", nargs=-1)
@client_options
@click.option("--all", "everything", is_flag=True, help="Shows all groups.")
@json_option
@examples("kohort groups describe billing", "kohort groups describe --all")
def describe(
    access: Access, *, names: tuple[str, ...], everything: bool, as_json: bool
) -> None:
    """Shows groups, their members, committed offsets and lag."""
    if bool(names) == everything:
        fail("GROUP: give at least one, or --all", 2)
    from kohort.control.kafka import group_calls

    run(group_calls.describe(access, names, as_json=as_json))


@groups.command()
@_names
@client_options
@examples("kohort groups delete billing")
def delete(access: Access, *, names: tuple[str, ...]) -> None:
    """Deletes empty groups and their offsets."""
    from kohort.control.kafka import group_calls

    run(group_calls.delete(access, names))


@groups.command()
@click.argument("name", metavar="GROUP")
@_topics_option
@client_options
@examples("kohort groups delete-offsets billing --topic orders:0,1")
def delete_offsets(access: Access, *, name: str, topics: tuple[str, ...]) -> None:
    """Deletes committed offsets of topics.

    No member may be subscribed to the topics.
    """
    if not topics:
        fail("--topic: give at least one", 2)
    from kohort.control.kafka import group_calls

    run(group_calls.delete_offsets(access, name, topics))


@groups.command()
@click.argument("name", metavar="GROUP")
@click.option(
    "--member",
    "members",
    metavar="ID",
    multiple=True,
    help="Removes the member with this id.",
)
@click.option(
    "--instance",
    "instances",
    metavar="ID",
    multiple=True,
    help="Removes the static member with this group.instance.id.",
)
@click.option("--all", "everything", is_flag=True, help="Removes all members.")
@client_options
@examples(
    "kohort groups remove-members billing --instance billing-1",
    "kohort groups remove-members billing --all",
)
def remove_members(
    access: Access,
    *,
    name: str,
    members: tuple[str, ...],
    instances: tuple[str, ...],
    everything: bool,
) -> None:
    """Removes members from a group.

    A consumer that is still running joins the group again.
    """
    if bool(members or instances) == everything:
        fail("--member, --instance: give at least one, or --all", 2)
    from kohort.control.kafka import group_calls

    run(group_calls.remove_members(access, name, members, instances))


@groups.command()
@_names
@_topics_option
@click.option("--all-topics", is_flag=True, help="All topics with committed offsets.")
@click.option("--to-earliest", is_flag=True, help="To the first offset of the log.")
@click.option("--to-latest", is_flag=True, help="To the end of the log.")
@click.option(
    "--to-current",
    is_flag=True,
    help="To the committed offset, or to the end if there is none.",
)
@click.option(
    "--to-offset", metavar="N", type=click.IntRange(min=0), help="To this offset."
)
@click.option(
    "--shift-by",
    metavar="[-]N",
    type=int,
    help="By N from the committed offset; N may be negative.",
)
@click.option(
    "--to-datetime",
    metavar="TIME",
    help="To a time: 2026-01-31T12:00:00 (UTC), or milliseconds.",
)
@click.option(
    "--by-duration", metavar="TIME", help="To this long ago: 15m, 2d or P1DT2H."
)
@click.option(
    "--from-file",
    metavar="CSV",
    type=click.Path(exists=True, dir_okay=False, allow_dash=True),
    help="To the offsets of a file with lines of [GROUP,]TOPIC,PARTITION,OFFSET, as "
    "printed by --export.",
)
@click.option(
    "--dry-run", is_flag=True, help="Only shows the changes. This is the default."
)
@click.option("--execute", is_flag=True, help="Sets the offsets.")
@click.option("--export", is_flag=True, help="Prints the new offsets as CSV.")
@client_options
@json_option
@examples(
    "kohort groups reset-offsets billing --topic orders --to-earliest --execute",
    "kohort groups reset-offsets billing --all-topics --by-duration 15m",
)
def reset_offsets(
    access: Access,
    *,
    names: tuple[str, ...],
    topics: tuple[str, ...],
    all_topics: bool,
    dry_run: bool,
    execute: bool,
    export: bool,
    as_json: bool,
    **ways: object,
) -> None:
    """Sets the committed offsets of empty groups.

    An offset outside the log becomes the start or the end of the log.
    """
    said = {
        f"--{name.replace('_', '-')}": value
        for name, value in ways.items()
        if value is not None and value is not False
    }
    if len(said) != 1:
        every = ", ".join(f"--{name.replace('_', '-')}" for name in ways)
        fail(f"give one of {every}", 2)
    if dry_run and execute:
        fail("--dry-run: not with --execute", 2)
    if export and as_json:
        fail("--export: not with --json", 2)
    ((option, value),) = said.items()
    if option != "--from-file" and bool(topics) == all_topics:
        fail("--topic: give at least one, or --all-topics", 2)
    if option == "--from-file" and (topics or all_topics):
        fail("--from-file: not with --topic or --all-topics", 2)
    from kohort.control.kafka import resetting

    reset = resetting.reset_of(option, value, names)
    shape: resetting.Shape = "json" if as_json else "csv" if export else "table"
    run(resetting.reset_offsets(access, names, topics, reset, shape, executes=execute))
