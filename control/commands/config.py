"""The command ``kohort config``, and the options that set the configuration."""

from __future__ import annotations

import os

import click

from kohort.broker.config import Config, ConfigError
from kohort.broker.config_values import to_text
from kohort.control.terminal import OWN_VARIABLES, examples, fail

CONFIG_OPTIONS = (
    click.option("--config", "file", metavar="FILE", help="A TOML file with settings."),
    click.option(
        "--set",
        "sets",
        metavar="KEY=VALUE",
        multiple=True,
        help="Sets one of Kafka's broker settings. Can be given more than once.",
    ),
)


def load_config(file: str | None, sets: tuple[str, ...]) -> Config:
    """The configuration of `CONFIG_OPTIONS`; ends the command if it is invalid."""
    environment = {n: v for n, v in os.environ.items() if n not in OWN_VARIABLES}
    try:
        return Config.load(sets, file, environment)
    except ConfigError as error:
        fail(str(error), 2)


@click.command()
@CONFIG_OPTIONS[0]
@CONFIG_OPTIONS[1]
@click.option(
    "--all", "everything", is_flag=True, help="Also lists settings without an effect."
)
@examples("kohort config", "kohort config --all --set group.max.size=5")
def config(file: str | None, sets: tuple[str, ...], everything: bool) -> None:
    """Lists the broker's settings that have an effect.

    The values are those that kohort serve would use, from the same options,
    environment variables and file.
    """
    found = load_config(file, sets)
    entries = [found.entry(name) for name in found]
    for entry in entries:
        if everything or entry.key.used:
            value = "" if entry.value is None else entry.value
            default = to_text(entry.key.default)
            changed = f"  # default: {default}" if value != (default or "") else ""
            click.echo(f"{entry.key.name}={value}{changed}")
