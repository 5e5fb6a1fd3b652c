"""The command ``kohort topics``: its options; `topic_calls` does the work."""

from __future__ import annotations

import click

from kohort.control.kafka.options import Access, client_options, run
from kohort.control.terminal import fail, json_option, parse_pairs

_configs_option = click.option(
    "--config",
    "configs",
    metavar="KEY=VALUE",
    multiple=True,
    help="Sets a key of the topic's configuration; can be given again.",
)
_names = click.argument("names", metavar="TOPIC...", nargs=-1, required=True)


def _settings(texts: tuple[str, ...]) -> dict[str, str]:
    """The values of ``--config`` by key; ends the command if a key is set twice."""
    found: dict[str, str] = {}
    for key, value in parse_pairs("--config", texts):
        if key in found:
            fail(f"--config {key}: is set twice", 2)
        found[key] = value
    return found


@click.group()
def topics() -> None:
    """Shows and changes the topics of a cluster."""


@topics.command("list")
@client_options
@click.option("--internal", is_flag=True, help="Lists internal topics, too.")
@json_option
def list_(access: Access, *, internal: bool, as_json: bool) -> None:
    """Lists topics."""
    from kohort.control.kafka import topic_calls

    run(topic_calls.list_topics(access, internal=internal, as_json=as_json))


@topics.command()
@_names
@client_options
@click.option(
    "--all-configs", is_flag=True, help="Shows also keys with default values."
)
@json_option
def describe(
    access: Access, *, names: tuple[str, ...], all_configs: bool, as_json: bool
) -> None:
    """Shows topics, their partitions, offsets and configuration."""
    from kohort.control.kafka import topic_calls

    run(topic_calls.describe(access, names, all_configs=all_configs, as_json=as_json))


@topics.command()
@_names
@client_options
@click.option(
    "--partitions",
    type=click.IntRange(min=1),
    help="Number of partitions; by default the broker's num.partitions.",
)
@click.option(
    "--replication-factor",
    type=click.IntRange(min=1),
    help="Replicas of each partition; by default the broker's.",
)
@_configs_option
@click.option("--if-not-exists", is_flag=True, help="An existing topic is no error.")
@click.option("--dry-run", is_flag=True, help="Only checks the request.")
def create(
    access: Access,
    *,
    names: tuple[str, ...],
    partitions: int | None,
    replication_factor: int | None,
    configs: tuple[str, ...],
    if_not_exists: bool,
    dry_run: bool,
) -> None:
    """Creates topics."""
    from kohort.control.kafka import topic_calls

    run(
        topic_calls.create(
            access,
            names,
            partitions=partitions,
            replication_factor=replication_factor,
            configs=_settings(configs),
            if_not_exists=if_not_exists,
            dry_run=dry_run,
        )
    )


@topics.command()
@_names
@client_options
@click.option("--if-exists", is_flag=True, help="A missing topic is no error.")
def delete(access: Access, *, names: tuple[str, ...], if_exists: bool) -> None:
    """Deletes topics and their records."""
    from kohort.control.kafka import topic_calls

    run(topic_calls.delete(access, names, if_exists=if_exists))


@topics.command()
@_names
@client_options
@click.option(
    "--partitions", type=click.IntRange(min=1), help="The new number of partitions."
)
@_configs_option
@click.option(
    "--delete-config",
    "deleted",
    metavar="KEY",
    multiple=True,
    help="Resets a key to its default; can be given again.",
)
def alter(
    access: Access,
    *,
    names: tuple[str, ...],
    partitions: int | None,
    configs: tuple[str, ...],
    deleted: tuple[str, ...],
) -> None:
    """Adds partitions to topics, and changes their configuration."""
    if partitions is None and not configs and not deleted:
        fail("say --partitions, --config or --delete-config", 2)
    changes: dict[str, str | None] = {**_settings(configs)}
    for key in deleted:
        if key in changes:
            fail(f"--delete-config {key}: --config sets it", 2)
        changes[key] = None
    from kohort.control.kafka import topic_calls

    run(topic_calls.alter(access, names, partitions=partitions, changes=changes))
