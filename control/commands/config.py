"""The command ``kohort config``, and the options that set configuration keys."""

from __future__ import annotations

import os

import click

from kohort.broker.config import Config, ConfigError
from kohort.broker.config_values import to_text
from kohort.control.terminal import OWN_VARIABLES, fail

CONFIG_OPTIONS = (
    click.option(
        "--config", "file", metavar="FILE", help="A TOML file of configuration keys."
    ),
    click.option(
        "--set",
        "sets",
        metavar="KEY=VALUE",
        multiple=True,
        help="Sets one of Kafka's configuration keys; can be given again.",
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
    "--all", "everything", is_flag=True, help="Lists also keys that have no effect yet."
)
def config(file: str | None, sets: tuple[str, ...], everything: bool) -> None:
    """Lists the keys that have an effect, and the values they would have."""
    found = load_config(file, sets)
    entries = [found.entry(name) for name in found]
    for entry in entries:
        if everything or entry.key.used:
            value = "" if entry.value is None else entry.value
            default = to_text(entry.key.default)
            changed = f"  # default: {default}" if value != (default or "") else ""
            click.echo(f"{entry.key.name}={value}{changed}")
