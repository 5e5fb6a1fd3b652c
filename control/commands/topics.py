"""The command ``kohort topics``: its options. `topic_calls` does the work."""

from __future__ import annotations

import click

from kohort.control.kafka.options import Access, client_options, run
from kohort.control.terminal import examples, fail, json_option, parse_pairs

_configs_option = click.option(
    "--config",
    "configs",
    metavar="KEY=VALUE",
    multiple=True,
    help="Sets one of the topic's settings. Can be given more than once.",
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
@examples("kohort topics list", "kohort topics create orders --partitions 6")
def topics() -> None:
    """Lists, describes and changes topics of any Kafka."""


@topics.command("list")
@client_options
@click.option("--internal", is_flag=True, help="Also lists internal topics.")
@json_option
@examples("kohort topics list")
def list_(access: Access, *, internal: bool, as_json: bool) -> None:
    """Lists topics."""
    from kohort.control.kafka import topic_calls

    run(topic_calls.list_topics(access, internal=internal, as_json=as_json))


@topics.command()
@_names
@client_options
@click.option(
    "--all-configs", is_flag=True, help="Also shows settings with default values."
)
@json_option
@examples("kohort topics describe orders")
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
    help="Number of partitions. The default is the broker's num.partitions.",
)
@click.option(
    "--replication-factor",
    type=click.IntRange(min=1),
    help="Replicas of each partition. The default is the broker's.",
)
@_configs_option
@click.option("--if-not-exists", is_flag=True, help="Skips topics that exist.")
@click.option("--dry-run", is_flag=True, help="Only checks the request.")
@examples("kohort topics create orders --partitions 6 --config cleanup.policy=compact")
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
@click.option("--if-exists", is_flag=True, help="Skips topics that do not exist.")
@examples("kohort topics delete orders")
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
    help="Resets a setting to its default. Can be given more than once.",
)
@examples(
    "kohort topics alter orders --partitions 12",
    "kohort topics alter orders --config retention.ms=60000",
)
def alter(
    access: Access,
    *,
    names: tuple[str, ...],
    partitions: int | None,
    configs: tuple[str, ...],
    deleted: tuple[str, ...],
) -> None:
    """Adds partitions to topics and changes their settings."""
    if partitions is None and not configs and not deleted:
        fail("give --partitions, --config or --delete-config", 2)
    changes: dict[str, str | None] = {**_settings(configs)}
    for key in deleted:
        if key in changes:
            fail(f"--delete-config {key}: --config sets it", 2)
        changes[key] = None
    from kohort.control.kafka import topic_calls

    run(topic_calls.alter(access, names, partitions=partitions, changes=changes))
